"""Values of every kind in every place: a check may find something or nothing, but it never fails."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from harness import judging, registry, submission
from harness.errors import LogError
from tests import fabricate
from tests.fabricate import Step
from tests.rules.box import TODAY, Box, codes

VALUES: list[Any] = [None, True, -1, 10**400, 9e99, "", "\x1b[31m\ud800", [], [None, {}], {}, {"digest": [], "rank": 1}]
STEPS = fabricate.events()


CHECKS = list(registry.checks().values())


def judge(path: Path) -> list[str]:
    ruleset = fabricate.ruleset(codes())
    findings = judging.judge(submission.read_result(path), ruleset, CHECKS, TODAY)
    return [finding.code for finding in findings]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{str(value)[:8]!a}")
def test_any_value_of_any_event_can_be_judged(tmp_path: Path, value: Any) -> None:
    """Each event of a valid log in turn gets a value that it never has."""
    for place, step in enumerate(STEPS):
        steps: list[Step] = copy.deepcopy(STEPS)
        steps[place].value = value

        codes_found = judge(fabricate.write_log(tmp_path / "log.txt", steps))

        if step.event_type == "POINT_IN_TIME" and step.value is not None and value is None:
            assert codes_found, step.key


@pytest.mark.parametrize("value", [None, True, -1, 1e308, "", [None, {}]], ids=repr)
def test_any_field_of_any_event_can_be_judged(tmp_path: Path, value: Any) -> None:
    """Each field of each event, in its value and in its metadata, in turn gets a value that it never has."""
    for place, step in enumerate(STEPS):
        fields = [("value", name) for name in step.value] if isinstance(step.value, dict) else []
        for where, name in [*fields, *(("metadata", name) for name in step.metadata)]:
            steps = copy.deepcopy(STEPS)
            getattr(steps[place], where)[name] = value

            judge(fabricate.write_log(tmp_path / "log.txt", steps))


def test_any_event_can_be_missing(tmp_path: Path) -> None:
    """Whatever single event is taken out, the log is not valid any more."""
    for place, step in enumerate(STEPS):
        steps = copy.deepcopy(STEPS)
        del steps[place]

        assert judge(fabricate.write_log(tmp_path / "log.txt", steps)), step.key


def test_any_event_can_be_doubled(tmp_path: Path) -> None:
    """Whatever single event is there twice, the log is not valid any more."""
    for place, step in enumerate(STEPS):
        steps = copy.deepcopy(STEPS)
        steps.insert(place, copy.deepcopy(steps[place]))

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
