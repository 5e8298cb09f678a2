"""Every check finds what its cases damage, and nothing in a valid submission."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

from harness.checker import engine, registry
from harness.submission import result as results
from harness.workload import Metric
from tests import fabricate
from tests.rules import fixtures
from tests.rules.box import TODAY, Box, Case, codes, findings_of

CASES: list[Case] = [
    case
    for name in sorted(module.name for module in pkgutil.iter_modules(fixtures.__path__))
    for case in importlib.import_module(f"tests.rules.fixtures.{name}").CASES
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_case_is_found_as_expected(case: Case, tmp_path: Path) -> None:
    """Exactly the expected findings, each with its file and line, and no others."""
    expected, found = findings_of(case, tmp_path)

    assert found == expected


@pytest.mark.parametrize("code", registry.checks())
def test_a_check_fires_on_a_case(code: str) -> None:
    """Every check has a case in which it finds something."""
    assert [case for case in CASES if case.code == code and code in {item.code for item in case.expected}]


def test_version_1_has_every_check_in_force() -> None:
    """A check that is not in force checks nothing."""
    assert set(codes()) == {code for code in registry.checks() if code[:3] not in ("MLP", "MLR")}  # of the rounds


def test_a_valid_submission_has_no_findings(tmp_path: Path) -> None:
    """Under all checks: a submission, a result without a claim, and a single log."""
    ruleset = fabricate.ruleset(codes())
    places = [
        fabricate.write_submission(tmp_path / "tree"),
        fabricate.write_result(tmp_path / "result"),
        fabricate.write_log(tmp_path / "log.txt", fabricate.events()),
    ]

    for place in places:
        result = results.read_result(place)
        assert engine.judge(result, ruleset, registry.checks().values(), TODAY) == []


@pytest.mark.parametrize("batch_size", [50, 100, 200])
def test_a_valid_submission_of_the_open_division_has_no_findings(tmp_path: Path, batch_size: int) -> None:
    """With any permitted batch size; the cadence of 1,000 samples is a multiple of each."""
    box = Box(tmp_path, options={"division": "open", "batch_size": batch_size})

    assert box.judge() == []


def test_a_metric_that_is_minimised_has_no_findings(tmp_path: Path) -> None:
    """Word error rates fall: 0.5, 0.3, 0.05 reach a target of 0.1."""
    rules = fabricate.benchmark_rules(metric=Metric("wer", "fraction", "min"), target=0.1)
    folder = fabricate.write_log(tmp_path / "log.txt", fabricate.events(rules=rules, qualities=(0.5, 0.3, 0.05)))
    ruleset = fabricate.ruleset(codes(), rules)

    assert engine.judge(results.read_result(folder), ruleset, registry.checks().values(), TODAY) == []
