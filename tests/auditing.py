"""An audit of a folder in a test, against a given standard."""

from __future__ import annotations

import dataclasses
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.facts import Standard, Subject, Tree
from harness.checker.audit.mlflow_db import MirrorRun
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import AuditRules, Signal, Suspicion
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from tests import foreign

TODAY = date(2025, 12, 1)
# Of `tests.foreign`: the reference needs 36,000 to 44,000 samples, half an evaluation's distance apart.
STANDARD = Standard(
    target=foreign.TARGET,
    reference=tuple(float(item) for item in (36_000, 38_000, 40_000, 40_000, 42_000, 44_000)),
    max_init_s=1800,
    num_runs=5,
    today_ms=1_764_547_200_000,
)
BANDS = {"toy": (0.1, 0.95)}
FLOPS = {"toy_mini": 1e6}


@cache
def rules() -> AuditRules:
    found = load_audit(registry.audit_file())
    return dataclasses.replace(found, bands={**found.bands, **BANDS}, flops={**found.flops, **FLOPS})


@cache
def signals() -> dict[str, Signal]:
    return registry.signals()


def audit(
    place: Path,
    standard: Standard | None = STANDARD,
    ruleset: RuleSet | None = None,
    mirror: tuple[MirrorRun, ...] = (),
) -> list[Suspicion]:
    """All suspicions about the results at or below `place`; `standard` None: that of the ruleset."""
    tree, found = Tree(), []
    for path, logs in read.find([place]):
        subject = read.subject(read.read(path, logs), ruleset, rules(), TODAY, mirror)
        if standard is not None:
            runs = tuple(dataclasses.replace(run, standard=standard) for run in subject.runs)
            subject = Subject(subject.result, runs, standard, mirror)
        tree.add(subject)
        found += engine.audit(subject, rules(), signals())
    found += [item for _, item in engine.audit_tree(tree, rules(), signals())]
    return sorted(found, key=engine.order)


def found(place: Path, code: str, standard: Standard | None = STANDARD, **changes: Any) -> list[Suspicion]:
    """What one signal finds in the results at or below `place`. changes: to the standard."""
    changed = None if standard is None else dataclasses.replace(standard, **changes)
    return [item for item in audit(place, changed) if item.finding.code == code]


def codes(found: list[Suspicion]) -> set[str]:
    return {item.finding.code for item in found}


def v1(**benchmarks: Any) -> RuleSet:
    """The ruleset v1, with `benchmarks` added."""
    found = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")
    return dataclasses.replace(found, benchmarks={**found.benchmarks, **benchmarks})
