"""Parses `KEY=VALUE` arguments of a command line into names and typed values."""

from __future__ import annotations

import math
import re
from typing import Any

from harness.base.typed_yaml import YAML_ERRORS
from harness.base.values import is_whole
from harness.errors import UsageError, printable


def parse_overrides(arguments: list[str], what: str = "a hyperparameter") -> dict[str, Any]:
    """Return `KEY=VALUE` arguments as names and typed values (`1e-3` is a number, `true` a truth value).

    what: what they set, for messages.

    Raises:
        UsageError: an argument is not of that form, repeats a name, or has the form of Hydra's overrides or of a flag.
    """
    overrides: dict[str, Any] = {}
    for argument in arguments:
        shown = printable(argument)
        name, equals, text = argument.partition("=")
        if argument.startswith(("+", "~")):
            plain = printable(name.lstrip("+~"))
            raise UsageError(f"{shown!r}: keys cannot be added or removed; write {plain}=VALUE")
        if argument.startswith("-"):
            plain = printable(name.lstrip("-"))
            raise UsageError(f"{shown!r}: {what} is written without dashes: {plain}=VALUE")
        if not equals:
            raise UsageError(f"{shown!r}: {what} is written KEY=VALUE")
        if not name.isidentifier():
            raise UsageError(f"{shown!r}: {printable(name)!r} is not a valid name (letters, digits and _ only)")
        if name in overrides:
            raise UsageError(f"{shown!r}: {name} is given twice")
        overrides[name] = _scalar(name, text)
    return overrides


def _scalar(name: str, text: str) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if "${" in text:
        raise UsageError(f"{name}={printable(text)}: interpolations are not resolved; give the value itself")
    try:
        value = OmegaConf.to_container(OmegaConf.create(f"value: {text}"), resolve=False)
    except (*YAML_ERRORS, OmegaConfBaseException):
        value = None
    found = value.get("value") if isinstance(value, dict) and list(value) == ["value"] else None
    if not isinstance(found, int | float | str | bool) or (isinstance(found, float) and not math.isfinite(found)):
        raise UsageError(f"{name}={printable(text)}: the value must be one finite number, word, true or false")
    if is_whole(found) and not re.fullmatch(r"[+-]?(0|[1-9][0-9_]{0,17})", text):
        # YAML 1.1 reads 0100 as 64 and 1:30 as 90.
        raise UsageError(f"{name}={printable(text)}: write a whole number with decimal digits, at most 18 of them")
    return found
