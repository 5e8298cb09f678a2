"""MLPerf's own tools read `tta`'s logs: its parser, and its compliance checker with its own common rules."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml

from tests.fabricate import events, find, write_log

mlp_compliance = pytest.importorskip("mlperf_logging.compliance_checker.mlp_compliance")
mlp_parser = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser")

RULESET = "5.1.0"
REFERENCE = Path(__file__).parents[2] / "submissions"


@pytest.fixture
def common_rules(tmp_path: Path) -> Path:
    """MLPerf's common rules as installed, without the step to the rules of MLPerf's own benchmarks."""
    installed = Path(mlp_compliance.__file__).parent / f"training_{RULESET}" / "common.yaml"
    rules = yaml.load(installed.read_text(), Loader=yaml.BaseLoader)
    for rule in rules:
        if rule.get("KEY", {}).get("NAME") == "submission_division":
            rule["KEY"]["POST"] = " s['compile_time_mins'] = 30 "
    place = tmp_path / "common.yaml"
    place.write_text(yaml.safe_dump(rules))
    return place


def is_compliant(log: Path, rules: Path) -> bool:
    """Whether MLPerf's checker accepts the log, with no warning held back."""
    checker = mlp_compliance.make_checker("training", RULESET, quiet=False, werror=True)
    is_valid, *_ = mlp_compliance.main(str(log), str(rules), checker)
    mlp_compliance.enqueued_configs.clear()
    return bool(is_valid)


def logs() -> list[Path]:
    """Every finished run that is kept in the repository."""
    return sorted(path for path in REFERENCE.glob("*/results/*/*/result_*.txt"))


def test_parser_reads_every_line_of_a_run(tmp_path: Path) -> None:
    """MLPerf's parser gets each of `tta`'s events, with key, time and metadata, and objects to none."""
    steps = events()
    lines, errors = mlp_parser.parse_file(str(write_log(tmp_path / "result_0.txt", steps)), ruleset=RULESET)

    assert errors == []
    assert [line.key for line in lines] == [step.key for step in steps]
    assert lines[-1].value["metadata"]["seq"] == len(steps) - 1


def test_compliance_checker_accepts_a_run(tmp_path: Path, common_rules: Path) -> None:
    """MLPerf's common rules hold for what the referee writes."""
    assert is_compliant(write_log(tmp_path / "result_0.txt", events()), common_rules)


@pytest.mark.parametrize(
    "key", ["run_start", "run_stop", "init_stop", "cache_clear", "eval_accuracy", "submission_org"]
)
def test_compliance_checker_refuses_a_run_without_a_key(
    tmp_path: Path, common_rules: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The configuration of this test can fail: it refuses a log in which a key is missing."""
    caplog.set_level(logging.CRITICAL)
    steps = [step for step in events() if step.key != key]
    assert find(events(), key)

    assert not is_compliant(write_log(tmp_path / "result_0.txt", steps), common_rules)


@pytest.mark.parametrize("log", logs(), ids=lambda path: str(path.relative_to(REFERENCE)))
def test_compliance_checker_accepts_the_runs_in_the_repository(log: Path, common_rules: Path) -> None:
    """The real logs in the repository are read and accepted as well."""
    lines, errors = mlp_parser.parse_file(str(log), ruleset=RULESET)

    assert errors == []
    assert len(lines) > 30
    assert is_compliant(log, common_rules)
