"""YAML files as plain mappings, and mappings as typed dataclasses.

Unknown keys are refused with a suggestion, wrong types with their place. Interpolations are refused, not resolved:
`${oc.env:SECRET}` in someone else's file must not read the environment.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import yaml

from harness.errors import RulesError, printable, unknown_name

if TYPE_CHECKING:  # imported where it is used: MLPerf's rounds do not need it
    from omegaconf.errors import OmegaConfBaseException

# `!!bool x` is a KeyError of PyYAML's, `!!int x` and `0b_` a ValueError, `!!timestamp x` an AttributeError.
YAML_ERRORS = (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError)

T = TypeVar("T")


def load_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Duplicate keys, tags, interpolations and unbounded aliases are refused.

    Raises:
        RulesError: it cannot be read, or is not such a mapping.
    """
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        if not path.is_file():
            raise RulesError(f"{path}: there is no such file")
        if path.stat().st_size > 4 << 20:
            raise RulesError(f"{path}: has more than 4 MiB; no rules file is as large")
        config = OmegaConf.load(path)
        content = OmegaConf.to_container(config, resolve=False)
    except OSError as error:
        # OmegaConf raises an OSError without strerror for a document that is one number.
        raise RulesError(f"{path}: cannot be read: {error.strerror or printable(error)}") from None
    except YAML_ERRORS as error:
        raise RulesError(f"{path}: not YAML: {' '.join(printable(error, 400).split())}") from None
    except OmegaConfBaseException as error:
        raise RulesError(f"{path}: {_first_line(error)}") from None
    if not isinstance(content, dict) or not isinstance(config, DictConfig):
        raise RulesError(f"{path}: must be a mapping of names to values")
    _refuse_not_plain(content, str(path))
    return {str(key): value for key, value in content.items()}


def _refuse_not_plain(value: object, place: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_not_plain(item, f"{place}: {printable(key)}")
    elif isinstance(value, list):
        for item in value:
            _refuse_not_plain(item, place)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RulesError(f"{place}: {value} is not a finite number")
    elif isinstance(value, str) and "${" in value:
        raise RulesError(f"{place}: {printable(value)!r} is an interpolation; rules are plain values")


def list_of(kind: type[T], content: object, place: str) -> tuple[T, ...]:
    """Return a list of mappings as dataclasses; None is an empty list."""
    # OmegaConf would leave the items of a tuple of dataclasses as unchecked dicts.
    if content is not None and not isinstance(content, list):
        raise RulesError(f"{place}: must be a list")
    return tuple(build(kind, item, f"{place}[{i}]") for i, item in enumerate(content or []))


def only(content: dict[str, Any], known: set[str], place: str) -> None:
    """Refuse a key that is not in `known`.

    Raises:
        RulesError: there is such a key; suggests the nearest known one.
    """
    for key in content:
        if key not in known:
            raise RulesError(f"{place}: {unknown_name('key', str(key), known)}")


def build(kind: type[T], content: object, place: str) -> T:
    """Return `content` as the dataclass `kind`, with its types checked.

    Raises:
        RulesError: a key is unknown or missing, or a value has the wrong type; names `place`.
    """
    from omegaconf import OmegaConf, read_write
    from omegaconf.errors import OmegaConfBaseException

    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping")
    try:
        schema = OmegaConf.structured(kind)
        with read_write(schema):  # a frozen dataclass makes a read-only schema
            merged = OmegaConf.merge(schema, OmegaConf.create(content))
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise RulesError(f"{place}: {missing[0]!r} is missing")
        return cast(T, OmegaConf.to_object(merged))
    except OmegaConfBaseException as error:
        raise RulesError(f"{place}: {_first_line(error)}") from None
    except TypeError as error:  # OmegaConf raises it for a mapping where a list should be
        raise RulesError(f"{place}: {printable(error)}") from None


def _first_line(error: OmegaConfBaseException) -> str:
    """Return the first line of OmegaConf's message, which says what is wrong, after `full_key`, which says where."""
    what = printable(str(error).splitlines()[0], 300).rstrip(".")
    return f"{error.full_key}: {what}" if error.full_key else what


def mapping_of(content: object, place: str) -> dict[str, Any]:
    """Return a copy of `content`.

    Raises:
        RulesError: it is not a mapping.
    """
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping of names to values")
    return dict(content)
