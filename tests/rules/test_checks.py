"""Every check finds what its cases damage, and nothing in a valid submission."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from harness.base.files import line_of
from harness.checker import engine, registry
from harness.errors import RulesError
from harness.submission import result as results
from harness.submission.claim import Unreadable, read_claim, read_manifest
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
    rules = fabricate.benchmark_rules(metric=fabricate.Metric("wer", "fraction", "min"), target=0.1)
    folder = fabricate.write_log(tmp_path / "log.txt", fabricate.events(rules=rules, qualities=(0.5, 0.3, 0.05)))
    ruleset = fabricate.ruleset(codes(), rules)

    assert engine.judge(results.read_result(folder), ruleset, registry.checks().values(), TODAY) == []


def test_an_unknown_check_in_force_is_an_error(tmp_path: Path) -> None:
    """It would let everything pass."""
    result = results.read_result(fabricate.write_result(tmp_path / "result"))
    ruleset = fabricate.ruleset({**codes(), "LOG999": "error"})

    with pytest.raises(RulesError, match="codes: unknown check 'LOG999'"):
        engine.judge(result, ruleset, registry.checks().values(), TODAY)


def test_a_field_of_a_file_that_cannot_be_read_has_no_line(tmp_path: Path) -> None:
    """No file, a folder, bytes that are not text; and a field that is absent."""
    (tmp_path / "bytes.json").write_bytes(b'{"cooling": "\xff"}')
    (tmp_path / "valid.json").write_text('{\n"cooling": "air"}')

    assert [line_of(tmp_path / name, "cooling") for name in ("gone.json", ".", "bytes.json")] == [None] * 3
    assert [line_of(tmp_path / "valid.json", name) for name in ("cooling", "heating")] == [2, None]


def test_a_malformed_manifest_is_reported_briefly(tmp_path: Path) -> None:
    """The first faults by their lines, the rest by their number; a repeated line is a fault like others."""
    path = tmp_path / "MANIFEST.sha256"
    valid = f"{'a' * 64}  result_0.txt\n"
    path.write_text(valid + valid + "rubbish\n" * 5000)
    unreadable: list[Unreadable] = []

    assert read_manifest(path, unreadable) == ({"result_0.txt": "a" * 64}, {"result_0.txt": 1})
    assert unreadable[0].message == "line 2: 'result_0.txt' is listed twice"
    assert len(unreadable) < 1000
    assert unreadable[-1].message == f"and {5001 - (len(unreadable) - 1):,} more such lines"
    assert read_manifest(tmp_path / "gone", []) == (None, {})


def test_a_malformed_claim_is_reported_briefly(tmp_path: Path) -> None:
    """Ten faults, and the number of the others."""
    path = tmp_path / "submission.yaml"
    path.write_text("".join(f"key{number}: 1\n" for number in range(100)))
    unreadable: list[Unreadable] = []

    assert read_claim(path, unreadable) is None
    assert unreadable[0].message.count(";") == 10
    assert re.search(r"and [0-9]+ more problems$", unreadable[0].message)
