"""Values of every kind in every place: a check may find something or nothing, but it never raises."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import engine, registry
from harness.checker.report.text import judged
from harness.errors import LogError
from harness.submission import result as results
from harness.submission.layout import CLAIM_NAME
from tests import fabricate, mlperflog
from tests.fabricate import Step
from tests.rules.box import TODAY, Box, codes
from tests.rules.mlperfbox import MlperfBox
from tests.rules.roundbox import RoundBox

VALUES: list[Any] = [None, True, -1, 10**400, 9e99, "", "\x1b[31m\ud800", [], [None, {}], {}, {"digest": [], "rank": 1}]
STEPS = fabricate.events()


CHECKS = list(registry.checks().values())


def judge(path: Path) -> list[str]:
    ruleset = fabricate.ruleset(codes())
    findings = engine.judge(results.read_result(path), ruleset, CHECKS, TODAY)
    return [finding.code for finding in findings]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{str(value)[:8]!a}")
def test_any_value_of_any_event_can_be_judged(tmp_path: Path, value: Any) -> None:
    """Each event of a valid log in turn gets an impossible value."""
    for place, step in enumerate(STEPS):
        steps: list[Step] = copy.deepcopy(STEPS)
        steps[place].value = value

        codes_found = judge(fabricate.write_log(tmp_path / "log.txt", steps))

        if step.event_type == "POINT_IN_TIME" and step.value is not None and value is None:
            assert codes_found, step.key


@pytest.mark.parametrize("value", [None, True, -1, 1e308, "", [None, {}]], ids=repr)
def test_any_field_of_any_event_can_be_judged(tmp_path: Path, value: Any) -> None:
    """Each field of each event, in its value and in its metadata, in turn gets an impossible value."""
    for place, step in enumerate(STEPS):
        fields = [("value", name) for name in step.value] if isinstance(step.value, dict) else []
        for where, name in [*fields, *(("metadata", name) for name in step.metadata)]:
            steps = copy.deepcopy(STEPS)
            getattr(steps[place], where)[name] = value

            judge(fabricate.write_log(tmp_path / "log.txt", steps))


@pytest.mark.parametrize("times", [0, 2], ids=["missing", "doubled"])
def test_any_event_can_be_missing_or_doubled(tmp_path: Path, times: int) -> None:
    """Without any single event, or with it twice, the log is not valid."""
    for place, step in enumerate(STEPS):
        steps = copy.deepcopy(STEPS)
        steps[place : place + 1] = [copy.deepcopy(step) for _ in range(times)]

        assert judge(fabricate.write_log(tmp_path / "log.txt", steps)), step.key


def test_any_end_of_a_log_can_be_judged(tmp_path: Path) -> None:
    """Cut off after any line, or in the middle of any."""
    lines = fabricate.text_of(STEPS).splitlines(keepends=True)
    for num_lines in range(len(lines)):
        for text in ("".join(lines[:num_lines]), "".join(lines[:num_lines]) + lines[num_lines][:40]):
            path = tmp_path / "log.txt"
            path.write_text(text)
            if text:
                assert judge(path), text[-100:]
            else:
                with pytest.raises(LogError, match="is empty"):
                    judge(path)


def test_a_log_of_readings_alone_can_be_judged(tmp_path: Path) -> None:
    """No header, no run."""
    path = fabricate.write_log(tmp_path / "log.txt", [Step(0, "power_reading", 1.0)])

    assert {"LOG001", "LOG011"} <= set(judge(path))


def test_a_description_of_anything_can_be_judged(tmp_path: Path) -> None:
    """Lists, numbers and mappings where texts should be."""
    for number, value in enumerate(VALUES):
        box = Box(tmp_path / str(number))
        box.describe(system_name=value, submitter=value, number_of_nodes=value, accelerators_per_node=value)

        assert box.judge()


ROUND_VALUES: list[Any] = [None, True, -1, 0, 1e308, "", "x", [], [None, {}], {"throughput": -1}]
ROUND_KEYS = tuple(dict.fromkeys(entry.key for entry in mlperflog.retinanet() if entry.key))


def judge_round(place: Path, change: Callable[[list[mlperflog.Entry]], object]) -> list[str]:
    """The codes found in an MLPerf log, each on an existing line."""
    box = MlperfBox(place)
    change(box.entries)
    box.write()
    found = box.judge()
    num_lines = len(box.log().read_text().splitlines())
    assert all(finding.line is None or 1 <= finding.line <= num_lines for finding in found)
    return [finding.code for finding in found]


@pytest.mark.parametrize("value", ROUND_VALUES, ids=repr)
def test_any_value_of_an_mlperf_log_can_be_judged(tmp_path: Path, value: Any) -> None:
    """Each key in turn has it on every line, as its value and as its place in training."""
    for name in ROUND_KEYS:

        def change(entries: list[mlperflog.Entry], name: str = name) -> None:
            for entry in entries:
                if entry.key == name:
                    entry.value = value
                    entry.metadata = dict.fromkeys(("epoch_num", "first_epoch_num", "samples_count", "step"), value)

        judge_round(tmp_path, change)


@pytest.mark.parametrize("name", ROUND_KEYS)
def test_any_key_of_an_mlperf_log_can_be_missing(tmp_path: Path, name: str) -> None:
    """Only the keys that the round requires are missed."""
    found = judge_round(tmp_path, lambda entries: mlperflog.drop(entries, name))

    assert bool(found) == (name not in ("submission_status", "tracked_stats", "eval_start", "eval_stop"))


@pytest.mark.parametrize(
    "code", [code for code in registry.checks() if code.startswith("MLR") or "MLP002" <= code <= "MLP010"]
)
def test_checks_of_rounds_find_nothing_under_other_rules(tmp_path: Path, code: str) -> None:
    """Under `tta`'s own rules it finds nothing in an MLPerf result with hardly a line."""
    box = RoundBox(tmp_path, num_runs=2)
    for entries in box.logs:
        entries[:] = [entry for entry in entries if entry.key in ("submission_benchmark", "run_stop")]
    box.put("scaling.json", "{}")
    result = box.result()
    rule = registry.checks()[code]

    if rule.scope == "tree":
        assert list(rule.check(judged(result, (), box.ruleset).logs, fabricate.ruleset(codes()))) == []
        return
    for subject in result.runs if rule.scope == "log" else (result,):
        assert list(rule.check(subject, None, fabricate.ruleset(codes()))) == []


def test_a_claim_with_impossible_names_is_found(tmp_path: Path) -> None:
    """Submitter, system and benchmark each become a folder; a name must not lead out of it."""
    for name in ("submitter", "system", "benchmark"):
        for text in ("../acme", "", ".", "a b"):
            box = Box(tmp_path / name)
            box.write()
            box.claim(**{name: text})
            found = [finding.line for finding in box.judge() if finding.code == "PKG012"]

            assert found == [
                line
                for line, words in enumerate((box.folder / CLAIM_NAME).read_text().splitlines(), 1)
                if words.startswith(f"{name}:")
            ]
