"""The referee's logs are valid, however a run ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.checker import engine, registry
from harness.energy.from_logs import energy_of
from harness.energy.run_energy import energy_value
from harness.errors import DataError, Interrupted
from harness.run.plan import WorkerLost
from harness.submission import result as results
from tests import fabricate
from tests.fabricate import benchmark_rules
from tests.harness.run.test_referee import play
from tests.rules.box import TODAY, codes
from tests.scripted import FakeClock, ScriptedPower

NAN = float("nan")
BLOCK = {"ok": True, "num_samples": 1000, "data_wait_s": 0.1}


def found(path: Path, rules: Any = None) -> dict[str, str]:
    """Codes and messages of the findings on a single log."""
    ruleset = fabricate.ruleset(codes(), rules)
    findings = engine.judge(results.read_result(path), ruleset, registry.checks().values(), TODAY)
    return {finding.code: finding.message for finding in findings}


@pytest.mark.parametrize(
    ("script", "changes"),
    [
        ({"qualities": [0.5, 0.8, 0.95]}, {}),
        ({"qualities": [0.9]}, {}),
        ({"qualities": [0.5, 0.95], "batch_size": 100}, {"eval_every_samples": 950}),
        ({"qualities": [0.5, 0.95]}, {"eval_every_samples": 70}),
        ({"qualities": [0.5, 0.95, 0.7, 0.91, 0.92]}, {"confirm_evaluations": 1}),
        ({"qualities": [0.1, 0.1, 0.9]}, {"max_samples": 3000}),
        ({"qualities": [0.1, 0.95]}, {"max_seconds": 4.0}),
    ],
)
def test_a_success_has_no_findings(tmp_path: Path, script: dict[str, Any], changes: dict[str, Any]) -> None:
    """With odd cadences, with confirmation, at the last sample, past the last second."""
    rules = benchmark_rules(**changes)

    outcome, _, _ = play(tmp_path / "log", rules=rules, **script)

    assert outcome.is_reached
    assert found(tmp_path / "log", rules) == {}


def test_the_referee_and_the_judge_compute_the_same_energy(tmp_path: Path) -> None:
    """From the same power logs, over a minute: they agree, and nothing is void."""
    rules = benchmark_rules(max_seconds=1000.0)
    power, clock = ScriptedPower([100.0]), FakeClock()
    play(tmp_path / "log", [0.5] * 30 + [0.95], rules=rules, power=power, clock=clock)
    (log,) = results.read_result(tmp_path / "log").runs
    host, run_id = log.value("tta_world")[0]["host"], log.field("tta_format", "run_id")
    again = ScriptedPower([100.0])
    again.begin(clock, "")
    nodes = tuple(replace(node, host=host, run_id=run_id) for node in again.end())
    log = replace(log, nodes=nodes)
    result = replace(results.read_result(tmp_path / "log"), runs=(log,), num_nodes=1)

    findings = engine.judge(result, fabricate.ruleset(codes(), rules), registry.checks().values(), TODAY)
    energy = energy_of(log, fabricate.ruleset({}).energy, 1)

    assert energy is not None
    assert energy_value(energy) == log.value("tta_energy")
    assert {finding.code for finding in findings if finding.severity == "error"} == set()
    assert {finding.code for finding in findings if finding.code[:3] == "PWR"} <= {
        "PWR008",
        "PWR016",
        "PWR017",
        "PWR021",
    }


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"answers": {("train", 1): {**BLOCK, "mean_loss": NAN}}}, "diverged"),
        ({"answers": {("evaluate", 1): {"ok": True, "value": NAN, "num_examples": 500}}}, "diverged"),
        ({"answers": {("train", 1): {"ok": False, "kind": "oom", "message": "no memory"}}}, "oom"),
        ({"answers": {("train", 1): WorkerLost("gone")}}, "crashed"),
        ({"answers": {("evaluate", 0): WorkerLost("gone")}}, "crashed"),
        ({"answers": {("start", 0): WorkerLost("gone")}}, "crashed"),
        ({"answers": {("prepare", 0): WorkerLost("gone")}}, "crashed"),
        ({"answers": {("open", 0): WorkerLost("gone")}}, "crashed"),
        ({"seconds": {"prepare": 1801.0}}, "timeout"),
        ({"seconds": {"train": 700.0}}, "timeout"),
        ({"seconds": {"train": 2.0, "evaluate": 700.0}}, "timeout"),
        ({}, "budget"),
    ],
)
def test_a_miss_has_one_finding(tmp_path: Path, script: dict[str, Any], reason: str) -> None:
    """One finding, a warning: the run did not reach its target, and why."""
    outcome, _, _ = play(tmp_path / "log", [0.1], **script)

    assert (outcome.status, outcome.reason) == ("aborted", reason)
    messages = found(tmp_path / "log")
    assert list(messages) == ["QUA001"]
    assert f"(ended: {reason})" in messages["QUA001"]


@pytest.mark.parametrize("seconds", [0.0, 0.9, 1.1, 3.0, 4.0])
def test_an_interrupted_run_has_one_finding(tmp_path: Path, seconds: float) -> None:
    """Before, during and after initialisation; in a block and in an evaluation."""
    with pytest.raises(Interrupted):
        play(tmp_path / "log", [0.1], interrupt_after_s=seconds)

    assert list(found(tmp_path / "log")) == ["QUA001"]


def test_a_run_without_data_has_one_finding(tmp_path: Path) -> None:
    """The session does not find its files."""
    with pytest.raises(DataError):
        play(tmp_path / "log", [0.1], answers={("start", 0): {"ok": False, "kind": "data", "message": "no files"}})

    assert list(found(tmp_path / "log")) == ["QUA001"]


def test_a_reference_run_is_only_that(tmp_path: Path) -> None:
    """It continues past its target and is not a result."""
    rules = benchmark_rules(max_samples=3000)

    play(tmp_path / "log", [0.95], rules=rules, full_curve=True)

    assert list(found(tmp_path / "log", rules)) == ["RUN011"]
