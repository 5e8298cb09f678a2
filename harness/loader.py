"""YAML -> the frozen dataclasses of the law. The only file that imports omegaconf.

Unknown keys are refused with a suggestion, wrong types with the place. Interpolations are refused, not
resolved: `${oc.env:SECRET}` in a file that somebody sends must not read the environment.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from omegaconf import DictConfig, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from harness.errors import RulesError, UsageError, printable, unknown_name
from harness.findings import Severity
from harness.prices import CONFIDENCES, PURCHASES, Price, PriceBook
from harness.ruleset import BenchmarkRules, RuleSet, Timing, Waiver

RULESET_FILE = "ruleset.yaml"
PRICES_FILE = "prices.yaml"
_CONSTRAINT_KINDS = ("fixed", "one_of", "range", "free")

T = TypeVar("T")


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file: duplicate keys, tags, interpolations and aliases without bound refused.

    Raises:
        RulesError: it cannot be read, or is not such a mapping.
    """
    try:
        if path.stat().st_size > 4 << 20:
            raise RulesError(f"{path}: has more than 4 MiB; no rules file has as much")
        config = OmegaConf.load(path)
        content = OmegaConf.to_container(config, resolve=False)
    except OSError as error:
        raise RulesError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise RulesError(f"{path}: not YAML: {' '.join(printable(error, 400).split())}") from None
    except OmegaConfBaseException as error:
        raise RulesError(f"{path}: {_first_line(error)}") from None
    if not isinstance(content, dict) or not isinstance(config, DictConfig):
        raise RulesError(f"{path}: must be a mapping of names to values")
    _refuse_interpolation(content, str(path))
    return {str(key): value for key, value in content.items()}


def _refuse_interpolation(value: object, place: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_interpolation(item, f"{place}: {printable(key)}")
    elif isinstance(value, list):
        for item in value:
            _refuse_interpolation(item, place)
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
    except (yaml.YAMLError, OmegaConfBaseException, RecursionError, UnicodeEncodeError):
        value = None
    found = value.get("value") if isinstance(value, dict) and list(value) == ["value"] else None
    if not isinstance(found, int | float | str | bool) or (isinstance(found, float) and not math.isfinite(found)):
        raise UsageError(f"{name}={printable(text)}: the value must be one finite number, word, true or false")
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
    if not isinstance(divisions, list) or not divisions:
        raise RulesError(f"{path}: 'divisions' must be a list of names")
    timing = build(Timing, top.get("timing"), f"{path}: timing")
    if set(timing.max_init_s) != set(divisions):
        raise RulesError(f"{path}: timing: max_init_s must name exactly the divisions: {', '.join(divisions)}")
    files = sorted(file for file in folder.glob("*.yaml") if file.name not in (RULESET_FILE, PRICES_FILE))
    digest = hashlib.sha256()
    for file in [path, *files]:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return RuleSet(
        version=version,
        digest=digest.hexdigest(),
        divisions=tuple(str(division) for division in divisions),
        timing=timing,
        codes={str(code): str(severity) for code, severity in codes.items()},
        benchmarks={rules.name: rules for file in files for rules in _load_workload(file)},
        waivers=_waivers(top.get("waivers") or [], f"{path}: waivers"),
    )


def _waivers(content: object, place: str) -> tuple[Waiver, ...]:
    if not isinstance(content, list):
        raise RulesError(f"{place}: must be a list")
    waivers = tuple(build(Waiver, item, f"{place}[{i}]") for i, item in enumerate(content))
    for waiver in waivers:
        try:
            date.fromisoformat(waiver.until)
        except ValueError:
            raise RulesError(f"{place}: until is {printable(waiver.until)!r}; it must be YYYY-MM-DD") from None
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
    for suite, rules in suites.items():
        place = f"{path}: suites: {suite}"
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
                },
                place,
            )
        )
        _refuse_contradictions(found[-1], place)
    return found


def _constraint(content: object, place: str) -> dict[str, Any]:
    """`{fixed: X}` and its three siblings in the shape of `Constraint`."""
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping with one of {', '.join(_CONSTRAINT_KINDS)}")
    only(content, {*_CONSTRAINT_KINDS, "default"}, place)
    kinds = [kind for kind in _CONSTRAINT_KINDS if kind in content]
    if len(kinds) != 1:
        raise RulesError(f"{place}: needs exactly one of {', '.join(_CONSTRAINT_KINDS)}; it has {len(kinds)}")
    if "fixed" in content:
        return {"default": content["fixed"], "fixed": True}
    if "default" not in content:
        raise RulesError(f"{place}: has no default")
    return content


def _refuse_contradictions(rules: BenchmarkRules, place: str) -> None:
    low, high = rules.quality_range
    for claim, holds in {
        "target must lie in quality_range": low <= rules.target <= high,
        "num_runs must be more than twice drop": rules.num_runs > 2 * rules.drop >= 0,
        "eval_every_samples must be from 1 to max_samples": 1 <= rules.eval_every_samples <= rules.max_samples,
        "max_seconds must be positive": rules.max_seconds > 0,
        "train_examples and eval_examples must be positive": min(rules.train_examples, rules.eval_examples) > 0,
        "confirm_evaluations must not be negative": rules.confirm_evaluations >= 0,
    }.items():
        if not holds:
            raise RulesError(f"{place}: {claim}")
    for name, constraint in rules.hyperparameters.items():
        if not constraint.permits(constraint.default):
            raise RulesError(
                f"{place}: hyperparameters: {name}: the default {printable(constraint.default)} is not permitted; "
                f"permitted: {constraint.allowed}"
            )


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


def _first_line(error: OmegaConfBaseException) -> str:
    """OmegaConf's messages have several lines; the first says what, `full_key` says where."""
    what = printable(str(error).splitlines()[0], 300).rstrip(".")
    return f"{error.full_key}: {what}" if error.full_key else what


def load_prices(path: Path) -> PriceBook:
    """The price book in a YAML file.

    Raises:
        RulesError: it cannot be read, has an unknown or missing key, a value that is not a text of the right
            form, or two prices of one id.
    """
    content = load_yaml(path)
    only(content, {"currency", "prices"}, str(path))
    rows = content.get("prices")
    if content.get("currency") != "USD" or not isinstance(rows, list):
        raise RulesError(f"{path}: 'currency' must be USD and 'prices' a list")
    prices = tuple(_price(row, f"{path}: prices[{i}]") for i, row in enumerate(rows))
    try:
        return PriceBook(prices, hashlib.sha256(path.read_bytes()).hexdigest())
    except RulesError as error:
        raise RulesError(f"{path}: {error}") from None


# What every value of a price must look like. An id has no slash inside a part and no stray white space.
_NAME = r"[^\s/]+( [^\s/]+)*"
_PRICE_FORMS = {
    **dict.fromkeys(("provider", "sku", "region"), _NAME),
    "purchase": "|".join(PURCHASES),
    "usd_per_hour": r"[0-9]{1,7}(\.[0-9]{1,9})?",
    **dict.fromkeys(("effective", "retrieved"), r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "source": r"\S.*",
    "confidence": "|".join(CONFIDENCES),
}


def _price(row: object, place: str) -> Price:
    if not isinstance(row, dict):
        raise RulesError(f"{place}: must be a mapping")
    only(row, set(_PRICE_FORMS), place)
    for name, form in _PRICE_FORMS.items():
        value = row.get(name)
        if name not in row or (value is None and name not in ("effective", "retrieved")):
            raise RulesError(f"{place}: {name!r} is missing")
        if value is not None and not (isinstance(value, str) and re.fullmatch(form, value)):
            hint = "; a price is a text in quotes, so that 0.1 is a tenth" if isinstance(value, float | int) else ""
            raise RulesError(f"{place}: {name} is {printable(value)!r}; it must match {form}{hint}")
    return Price(**{**row, "usd_per_hour": Decimal(row["usd_per_hour"])})
