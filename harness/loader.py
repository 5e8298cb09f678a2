"""YAML -> the frozen dataclasses of the law. The only file that imports omegaconf.

Unknown keys are refused with a suggestion, wrong types with the place. Interpolations are refused, not
resolved: `${oc.env:SECRET}` in a file that somebody sends must not read the environment.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from omegaconf import DictConfig, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from harness.errors import RulesError, UsageError, printable, unknown_name
from harness.findings import Severity
from harness.pricefile import gather, read_book
from harness.prices import PriceBook, PriceBooks
from harness.ruleset import BenchmarkRules, ReferenceConvergence, ReferenceRecipe, RuleSet, Timing, Waiver

RULESET_FILE = "ruleset.yaml"
PRICES_FILE, PRICES_FOLDER = "prices.yaml", "prices"  # the first book, and those that came after it
# `!!bool x` is a KeyError of PyYAML's, `!!int x` and `0b_` a ValueError, `!!timestamp x` an AttributeError.
_YAML_ERRORS = (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError)
_CONSTRAINT_KINDS = ("fixed", "one_of", "range", "free")

T = TypeVar("T")


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file: duplicate keys, tags, interpolations and aliases without bound refused.

    Raises:
        RulesError: it cannot be read, or is not such a mapping.
    """
    try:
        if not path.is_file():
            raise RulesError(f"{path}: there is no such file")
        if path.stat().st_size > 4 << 20:
            raise RulesError(f"{path}: has more than 4 MiB; no rules file has as much")
        config = OmegaConf.load(path)
        content = OmegaConf.to_container(config, resolve=False)
    except OSError as error:
        # OmegaConf's own for a document that is one number has no strerror.
        raise RulesError(f"{path}: cannot be read: {error.strerror or printable(error)}") from None
    except _YAML_ERRORS as error:
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


def parse_overrides(arguments: list[str]) -> dict[str, Any]:
    """`KEY=VALUE` arguments as names and typed values (`1e-3` a number, `true` a truth value).

    Raises:
        UsageError: an argument is not of that form, names something twice, or is in Hydra's or a flag's form.
    """
    overrides: dict[str, Any] = {}
    for argument in arguments:
        shown = printable(argument)
        name, equals, text = argument.partition("=")
        if argument.startswith(("+", "~")):
            plain = printable(name.lstrip("+~"))
            raise UsageError(f"{shown!r}: keys are neither added nor removed here; write {plain}=VALUE")
        if argument.startswith("-"):
            plain = printable(name.lstrip("-"))
            raise UsageError(f"{shown!r}: a hyperparameter is written without dashes: {plain}=VALUE")
        if not equals:
            raise UsageError(f"{shown!r}: a hyperparameter is written KEY=VALUE")
        if not name.isidentifier():
            raise UsageError(f"{shown!r}: {printable(name)!r} is no hyperparameter's name (letters, digits and _ only)")
        if name in overrides:
            raise UsageError(f"{shown!r}: {name} is given twice")
        overrides[name] = _scalar(name, text)
    return overrides


def _scalar(name: str, text: str) -> Any:
    if "${" in text:
        raise UsageError(f"{name}={printable(text)}: interpolations are not resolved; give the value itself")
    try:
        value = OmegaConf.to_container(OmegaConf.create(f"value: {text}"), resolve=False)
    except (*_YAML_ERRORS, OmegaConfBaseException):
        value = None
    found = value.get("value") if isinstance(value, dict) and list(value) == ["value"] else None
    if not isinstance(found, int | float | str | bool) or (isinstance(found, float) and not math.isfinite(found)):
        raise UsageError(f"{name}={printable(text)}: the value must be one finite number, word, true or false")
    if isinstance(found, int) and not isinstance(found, bool) and not re.fullmatch(r"[+-]?(0|[1-9][0-9_]{0,17})", text):
        # YAML 1.1 reads 0100 as 64 and 1:30 as 90.
        raise UsageError(f"{name}={printable(text)}: write a whole number with decimal digits, at most 18 of them")
    return found


def load_ruleset(folder: Path, version: str) -> RuleSet:
    """The ruleset in `folder`: `ruleset.yaml` and one `<workload>.yaml` a workload.

    Raises:
        RulesError: a file is missing, has an unknown key, a wrong type or values that contradict each other.
    """
    path = folder / RULESET_FILE
    top = load_yaml(path)
    only(top, {"divisions", "timing", "codes", "waivers"}, str(path))
    codes, divisions = top.get("codes"), top.get("divisions")
    if not isinstance(codes, dict) or not codes:
        raise RulesError(f"{path}: 'codes' must map check codes to severities")
    for code, severity in codes.items():
        if severity not in list(Severity):
            raise RulesError(f"{path}: codes: {code}: {unknown_name('severity', str(severity), list(Severity))}")
    if not isinstance(divisions, list) or not divisions or not all(isinstance(name, str) for name in divisions):
        raise RulesError(f"{path}: 'divisions' must be a list of names")
    timing = build(Timing, top.get("timing"), f"{path}: timing")
    if set(timing.max_init_s) != set(divisions):
        raise RulesError(f"{path}: timing: max_init_s must name exactly the divisions: {', '.join(divisions)}")
    files = sorted(file for file in folder.glob("*.yaml") if file.name not in (RULESET_FILE, PRICES_FILE))
    benchmarks = {rules.name: rules for file in files for rules in _load_workload(file)}
    digest = hashlib.sha256()
    for file in [path, *files]:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return RuleSet(
        version=version,
        digest=digest.hexdigest(),
        divisions=tuple(divisions),
        timing=timing,
        codes={str(code): str(severity) for code, severity in codes.items()},
        benchmarks=benchmarks,
        waivers=_waivers(top.get("waivers"), f"{path}: waivers"),
        prices=load_books(folder) if (folder / PRICES_FILE).exists() else None,
    )


def _waivers(content: object, place: str) -> tuple[Waiver, ...]:
    waivers = _list_of(Waiver, content, place)
    for waiver in waivers:
        try:
            is_date = date.fromisoformat(waiver.until).isoformat() == waiver.until  # 20261231 is ISO, too
        except ValueError:
            is_date = False
        if not is_date:
            raise RulesError(f"{place}: until is {printable(waiver.until)!r}; it must be YYYY-MM-DD")
    return waivers


def _load_workload(path: Path) -> list[BenchmarkRules]:
    content = load_yaml(path)
    only(content, {"workload", "metric", "suites"}, str(path))
    if content.get("workload") != path.stem:
        raise RulesError(f"{path}: 'workload' is {printable(content.get('workload'))!r}; it must be the file's name")
    suites = content.get("suites")
    if not isinstance(suites, dict) or not suites:
        raise RulesError(f"{path}: 'suites' must map suite names to rules")
    found = []
    own = {"workload", "suite", "metric"}
    for suite, rules in suites.items():
        place = f"{path}: suites: {suite}"
        if isinstance(rules, dict) and (misplaced := own & set(rules)):
            raise RulesError(f"{place}: {min(misplaced)!r} belongs to the whole file, not to a suite")
        hyperparameters = rules.get("hyperparameters") if isinstance(rules, dict) else None
        if not isinstance(hyperparameters, dict) or "global_batch_size" not in hyperparameters:
            raise RulesError(f"{place}: 'hyperparameters' must be a mapping with global_batch_size in it")
        constraints = {
            str(name): _constraint(item, f"{place}: hyperparameters: {name}") for name, item in hyperparameters.items()
        }
        found.append(
            build(
                BenchmarkRules,
                {
                    **rules,
                    "workload": path.stem,
                    "suite": str(suite),
                    "metric": content.get("metric"),
                    "hyperparameters": constraints,
                    "reference_recipes": [],
                    "reference_convergence": [],
                },
                place,
            )
        )
        found[-1] = replace(
            found[-1],
            reference_recipes=_list_of(ReferenceRecipe, rules.get("reference_recipes"), f"{place}: reference_recipes"),
            reference_convergence=_list_of(
                ReferenceConvergence, rules.get("reference_convergence"), f"{place}: reference_convergence"
            ),
        )
        for claim in found[-1].broken_claims():
            raise RulesError(f"{place}: {claim}")
    return found


def _list_of(kind: type[T], content: object, place: str) -> tuple[T, ...]:
    # OmegaConf leaves what is in a tuple of dataclasses as it is: dicts, unchecked.
    if content is not None and not isinstance(content, list):
        raise RulesError(f"{place}: must be a list")
    return tuple(build(kind, item, f"{place}[{i}]") for i, item in enumerate(content or []))


def _constraint(content: object, place: str) -> dict[str, Any]:
    """`{fixed: X}` and its three siblings in the shape of `Constraint`."""
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping with one of {', '.join(_CONSTRAINT_KINDS)}")
    only(content, {*_CONSTRAINT_KINDS, "default"}, place)
    kinds = [kind for kind in _CONSTRAINT_KINDS if kind in content]
    if len(kinds) != 1:
        raise RulesError(f"{place}: needs exactly one of {', '.join(_CONSTRAINT_KINDS)}; it has {len(kinds)}")
    if "fixed" in content and "default" in content:
        raise RulesError(f"{place}: has a default beside 'fixed', which is the default")
    if "fixed" in content:
        return {"default": content["fixed"], "fixed": True}
    kind = kinds[0]
    if kind == "free" and content["free"] is not True:
        raise RulesError(f"{place}: free is {printable(content['free'])!r}; it can only be true")
    if kind == "one_of" and not (isinstance(content["one_of"], list) and content["one_of"]):
        raise RulesError(f"{place}: one_of must be a list with a value in it")
    if kind == "range" and not _is_pair(content["range"]):
        raise RulesError(f"{place}: range must be a list of two numbers")
    if "default" not in content:
        raise RulesError(f"{place}: has no default")
    return content


def _is_pair(value: object) -> bool:
    numbers = [item for item in value if isinstance(item, int | float)] if isinstance(value, list) else []
    return numbers == value and len(numbers) == 2 and not any(isinstance(item, bool) for item in numbers)


def only(content: dict[str, Any], known: set[str], place: str) -> None:
    """Refuses a key that is not in `known`, with a suggestion."""
    for key in content:
        if key not in known:
            raise RulesError(f"{place}: {unknown_name('key', str(key), known)}")


def build(kind: type[T], content: object, place: str) -> T:
    """`content` as the dataclass `kind`, its types checked.

    Raises:
        RulesError: an unknown or missing key, or a value of the wrong type; names `place`.
    """
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
    except TypeError as error:  # OmegaConf's own for a mapping where a list should be
        raise RulesError(f"{place}: {printable(error)}") from None


def _first_line(error: OmegaConfBaseException) -> str:
    """OmegaConf's messages have several lines; the first says what, `full_key` says where."""
    what = printable(str(error).splitlines()[0], 300).rstrip(".")
    return f"{error.full_key}: {what}" if error.full_key else what


def load_prices(path: Path) -> PriceBook:
    """The price book in a YAML file.

    Raises:
        RulesError: it cannot be read, or is not a price book; see `harness.pricefile.read_book`.
    """
    return read_book(load_yaml(path), hashlib.sha256(path.read_bytes()).hexdigest(), str(path))


def load_books(folder: Path) -> PriceBooks:
    """The price books of the ruleset in `folder`: `prices.yaml` and the later ones in `prices/`.

    Raises:
        RulesError: one cannot be read, or two are of one date.
    """
    paths = [folder / PRICES_FILE, *sorted((folder / PRICES_FOLDER).glob("*.yaml"))]
    return gather([load_prices(path) for path in paths], str(folder))
