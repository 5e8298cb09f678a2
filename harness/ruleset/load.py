"""Reads rulesets: YAML files to the frozen types of `harness.ruleset.model`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.base.typed_yaml import build, list_of, load_yaml, only
from harness.base.values import is_number
from harness.energy.limits import EnergyLimits
from harness.errors import RulesError, printable, unknown_name
from harness.mlperf.load import (
    KIND,
    ROUNDS_FOLDER,
    RULESET_FILE,
    is_round,
    parse_round,
    publication_date,
    read_layers,
    read_round,
    severities,
)
from harness.ruleset.detect import Candidate
from harness.ruleset.model import BenchmarkRules, Constraint, ReferenceConvergence, ReferenceRecipe, RuleSet, Timing
from harness.ruleset.releases import read_releases
from harness.ruleset.signers import read_signers
from harness.ruleset.waivers import read_waivers
from harness.submission.provenance import RELEASES_FOLDER

if TYPE_CHECKING:
    from harness.cost.price_book import PriceBook, PriceBooks
    from harness.workload import HyperparameterValue

PRICES_FILE, PRICES_FOLDER = "prices.yaml", "prices"  # the first price book, and the later ones
SIGNERS_FILE, SIGNATURES = "allowed_signers", ("optional", "required")
ISOLATION = ("optional", "full")
CODE = ("any", "released")
RANKED_CLASSES = ("A", "B", "C", "D")  # an energy that was modelled or not measured is not ranked
_CONSTRAINT_KINDS = ("fixed", "one_of", "range", "free")


def load_ruleset(folder: Path, version: str) -> RuleSet:
    """Read the ruleset in `folder`: `ruleset.yaml` and one `<workload>.yaml` a workload; or an MLPerf round.

    Raises:
        RulesError: a file is missing, or has an unknown key, a value of the wrong type or values that contradict each
            other.
    """
    path = folder / RULESET_FILE
    if is_round(path):
        return load_round(folder, version)
    top = load_yaml(path)
    if top.get("kind") == KIND:  # not on a line of its own
        return load_round(folder, version)
    only(top, {"divisions", "timing", "energy", "codes", "waivers", "signatures", "isolation", "code"}, str(path))
    codes, divisions = severities(top.get("codes"), f"{path}: codes"), top.get("divisions")
    if not codes:
        raise RulesError(f"{path}: 'codes' must map check codes to severities")
    if not isinstance(divisions, list) or not divisions or not all(isinstance(name, str) for name in divisions):
        raise RulesError(f"{path}: 'divisions' must be a list of names")
    timing = build(Timing, top.get("timing"), f"{path}: timing")
    if set(timing.max_init_s) != set(divisions):
        raise RulesError(f"{path}: timing: max_init_s must name exactly the divisions: {', '.join(divisions)}")
    files = sorted(file for file in folder.glob("*.yaml") if file.name not in (RULESET_FILE, PRICES_FILE))
    benchmarks = {rules.name: rules for file in files for rules in _load_workload(file)}
    signatures = top.get("signatures", "optional")
    if signatures not in SIGNATURES:
        raise RulesError(f"{path}: signatures: {unknown_name('choice', printable(signatures), SIGNATURES)}")
    isolation = top.get("isolation", "optional")
    if isolation not in ISOLATION:
        raise RulesError(f"{path}: isolation: {unknown_name('choice', printable(isolation), ISOLATION)}")
    signers = read_signers(folder / SIGNERS_FILE)
    code, releases = top.get("code", "any"), read_releases(folder.parent / RELEASES_FOLDER)
    if code not in CODE:
        raise RulesError(f"{path}: code: {unknown_name('choice', printable(code), CODE)}")
    if code == "released" and not releases:
        raise RulesError(f"{path}: code: released, but {folder.parent / RELEASES_FOLDER} has no release")
    digest = hashlib.sha256()
    for file in [path, *files, *([folder / SIGNERS_FILE] if signers is not None else [])]:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return RuleSet(
        version=version,
        digest=digest.hexdigest(),
        divisions=tuple(divisions),
        timing=timing,
        codes=codes,
        benchmarks=benchmarks,
        waivers=read_waivers(top.get("waivers"), codes, f"{path}: waivers"),
        prices=load_books(folder) if (folder / PRICES_FILE).exists() else None,
        energy=_energy_limits(top.get("energy"), f"{path}: energy"),
        allowed_signers=signers,
        requires_signature=signatures == "required",
        requires_isolation=isolation == "full",
        releases=releases,
        requires_release=code == "released",
    )


def load_round(folder: Path, version: str) -> RuleSet:
    """Read an MLPerf round in `folder` as a ruleset: the round and the codes in force, without `tta`'s benchmarks.

    Raises:
        RulesError: a file is missing or malformed, or has values that contradict each other.
    """
    raw = read_round(folder)
    place = str(folder / RULESET_FILE)
    codes = severities(raw.top.get("codes"), f"{place}: codes")
    found = parse_round(raw, version, folder)
    for name, benchmark in found.benchmarks.items():
        if absent := sorted(set(benchmark.codes) - set(codes)):
            raise RulesError(f"{folder / name}.yaml: codes: {absent[0]} is not in force in the round")
    digest = hashlib.sha256(repr(sorted(raw.digests.items())).encode())
    return RuleSet(
        version=version,
        digest=digest.hexdigest(),
        divisions=tuple(found.divisions),
        timing=Timing(max_init_s=dict(found.max_init_s)),
        codes=codes,
        benchmarks={},
        waivers=read_waivers(raw.top.get("waivers"), codes, f"{place}: waivers"),
        round=found,
    )


def round_candidates(folders: Iterable[tuple[str, Path]]) -> list[Candidate]:
    """Return the MLPerf rounds among the rulesets in `folders`, given with their names.

    Raises:
        RulesError: a file of a round is missing or malformed.
    """
    rounds = [(name, folder) for name, folder in folders if folder.parent.name == ROUNDS_FOLDER]
    read = read_layers(folder for _, folder in rounds)
    return [
        Candidate(name, publication_date(layers.top, str(folder / RULESET_FILE)), frozenset(layers.files))
        for (name, folder), layers in zip(rounds, read, strict=True)
    ]


def _energy_limits(content: object, place: str) -> EnergyLimits:
    """Return the limits in the `energy` block; a limit that it lacks has the default of `EnergyLimits`."""
    limits = build(EnergyLimits, content or {}, place)
    for claim in _broken_limits(limits):
        raise RulesError(f"{place}: {claim}")
    return limits


def _broken_limits(limits: EnergyLimits) -> Iterator[str]:
    """Yield what is wrong with limits that no measurement can meet, or that would rank a modelled energy."""
    for name in ("min_coverage", "max_estimated_share", "max_uncertainty_share"):
        if not 0 <= getattr(limits, name) <= 1:
            yield f"{name} is {getattr(limits, name):g}; it must be from 0 to 1"
    for name in ("max_gap_s", "max_clock_error_s", "max_accuracy_pct", "told_clock_error_s", "told_step_s"):
        if getattr(limits, name) <= 0:
            yield f"{name} is {getattr(limits, name):g}; it must be above zero"
    if limits.min_samples < 2:
        yield f"min_samples is {limits.min_samples}; it must be at least 2"
    classes = [*limits.node_classes, *limits.component_classes]
    for name in classes:
        if name not in RANKED_CLASSES:
            yield f"the class {printable(name, 20)!r} cannot be ranked; it must be one of {', '.join(RANKED_CLASSES)}"
        elif classes.count(name) > 1:
            yield f"the class {name!r} is listed twice"


def _load_workload(path: Path) -> list[BenchmarkRules]:
    content = load_yaml(path)
    only(content, {"workload", "metric", "suites"}, str(path))
    if content.get("workload") != path.stem:
        raise RulesError(f"{path}: 'workload' is {printable(content.get('workload'))!r}; it must be the file's name")
    suites = content.get("suites")
    if not isinstance(suites, dict) or not suites:
        raise RulesError(f"{path}: 'suites' must map suite names to rules")
    found = []
    own = {"workload", "suite"}
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
                    "metric": rules.get("metric", content.get("metric")),
                    "hyperparameters": {},
                    "reference_recipes": [],
                    "reference_convergence": [],
                },
                place,
            )
        )
        found[-1] = replace(
            found[-1],
            hyperparameters=constraints,
            reference_recipes=list_of(ReferenceRecipe, rules.get("reference_recipes"), f"{place}: reference_recipes"),
            reference_convergence=list_of(
                ReferenceConvergence, rules.get("reference_convergence"), f"{place}: reference_convergence"
            ),
        )
        for claim in found[-1].broken_claims():
            raise RulesError(f"{place}: {claim}")
    return found


def _constraint(content: object, place: str) -> Constraint:
    """Return `{fixed: X}`, or one of the other three kinds, as a `Constraint`."""
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping with one of {', '.join(_CONSTRAINT_KINDS)}")
    only(content, {*_CONSTRAINT_KINDS, "default"}, place)
    kinds = [kind for kind in _CONSTRAINT_KINDS if kind in content]
    if len(kinds) != 1:
        raise RulesError(f"{place}: needs exactly one of {', '.join(_CONSTRAINT_KINDS)}; it has {len(kinds)}")
    if "fixed" in content and "default" in content:
        raise RulesError(f"{place}: has a default in addition to 'fixed', which is the default")
    if "fixed" in content:
        return Constraint(_value(content["fixed"], f"{place}: fixed"), fixed=True)
    kind = kinds[0]
    if kind == "free" and content["free"] is not True:
        raise RulesError(f"{place}: free is {printable(content['free'])!r}; it must be true")
    if kind == "one_of" and not (isinstance(content["one_of"], list) and content["one_of"]):
        raise RulesError(f"{place}: one_of must be a list with at least one value")
    if kind == "range" and not _is_pair(content["range"]):
        raise RulesError(f"{place}: range must be a list of two numbers")
    if "default" not in content:
        raise RulesError(f"{place}: has no default")
    default = _value(content["default"], f"{place}: default")
    if kind == "one_of":
        return Constraint(default, one_of=tuple(_value(item, f"{place}: one_of") for item in content["one_of"]))
    if kind == "range":
        low, high = map(float, content["range"])
        return Constraint(default, range=(low, high))
    return Constraint(default, free=True)


def _value(content: object, place: str) -> HyperparameterValue:
    if not isinstance(content, int | float | str):
        raise RulesError(f"{place}: {printable(content)!r} is not a number, a text, true or false")
    return content


def _is_pair(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(is_number(item) and abs(item) <= sys.float_info.max for item in value)


def load_prices(path: Path) -> PriceBook:
    """Read the price book in a YAML file.

    Raises:
        RulesError: it cannot be read or is not a price book; see `harness.cost.price_file.read_book`.
    """
    from harness.cost.price_file import read_book  # MLPerf rounds have no prices

    return read_book(load_yaml(path), hashlib.sha256(path.read_bytes()).hexdigest(), str(path))


def load_books(folder: Path) -> PriceBooks:
    """Read the price books of the ruleset in `folder`: `prices.yaml` and the later ones in `prices/`.

    Raises:
        RulesError: one cannot be read, or two have the same date.
    """
    from harness.cost.price_file import gather

    paths = [folder / PRICES_FILE, *sorted((folder / PRICES_FOLDER).glob("*.yaml"))]
    return gather([load_prices(path) for path in paths], str(folder))
