"""Findings of MLPerf's rounds in words that say what is there and what must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.log.events import Event
from harness.mlperf import compliance
from harness.mlperf.formula import Line, parse
from tests import foreign
from tests.auditing import audit
from tests.mlperflog import find
from tests.rules.mlperfbox import MlperfBox
from tests.rules.roundbox import RoundBox


@pytest.mark.parametrize(
    ("demand", "value", "metadata", "words"),
    [
        ("has(metadata.status)", None, {}, "x has no status in its metadata; it is required"),
        (
            "has(metadata.epoch_num) or has(metadata.samples_count)",
            0.5,
            {"step_num": 3},
            "x has neither epoch_num nor samples_count in its metadata; one of them is required",
        ),
        (
            "not has(metadata.epoch_count) or metadata.epoch_count > 0",
            None,
            {"epoch_count": 0},
            "x has epoch_count 0 in its metadata; required: epoch_count > 0 if it has epoch_count",
        ),
        (
            "not has(metadata.epoch_count) or has(metadata.first_epoch_num)",
            None,
            {"epoch_count": 1},
            "x has epoch_count 1 and no first_epoch_num in its metadata; required: "
            "it has first_epoch_num if it has epoch_count",
        ),
        (
            "metadata.method in ['truncate', 'discard']",
            None,
            {"method": "pad"},
            "x has method 'pad' in its metadata; required: method in ['truncate', 'discard']",
        ),
        (
            "metadata.epoch_count > 0",
            None,
            {},
            "x has no epoch_count in its metadata; required: epoch_count > 0 "
            "(cannot be evaluated: epoch_count: it is absent)",
        ),
        ("has(value.BBOX)", {"SEGM": 1}, {}, "x is {'SEGM': 1}; required: it has value.BBOX"),
        ("value == 'adam'", "sgd", {}, "x is 'sgd'; required: value == 'adam'"),
        ("value > 8", "8", {}, "x is '8'; required: value > 8 (cannot be evaluated: '8' is not a number)"),
    ],
)
def test_a_demand_that_is_not_met(demand: str, value: Any, metadata: dict[str, Any], words: str) -> None:
    """MLP006: what the line has, and the rule's text without the language of its functions where it can be said so."""
    why = parse(demand).failure(Line(value, metadata))
    assert why is not None
    event = Event(0, "POINT_IN_TIME", "x", value, metadata, 1)

    assert compliance.constraint_message(event, demand, why, 1) == words
    assert compliance.constraint_message(event, demand, why, 2) == f"{words}, on 2 lines"
    assert compliance.constraint_message(event, demand, why, 1200) == f"{words}, on 1,200 lines"


def test_a_long_value_is_cut_at_sixty_characters() -> None:
    """Its quotes among them."""
    assert compliance.quoted("x" * 58) == f"'{'x' * 58}'"
    assert compliance.quoted("x" * 59) == f"'{'x' * 58}…"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("8", "the text '8'"),
        ("banana", "the text 'banana'"),
        ("", "the text ''"),
        (-8, "-8"),
        (0, "0"),
        (-0.5, "-0.5"),
        (None, "None"),
        (True, "True"),
        ([8], "[8]"),
    ],
)
def test_a_text_is_told_from_a_number(value: Any, words: str, tmp_path: Path) -> None:
    """MLP030: the text "8" is wrong since it is a text, -8 since it is below zero."""
    box = MlperfBox(tmp_path)
    find(box.entries, "global_batch_size").value = value
    box.write()

    assert [finding.message for finding in box.judge() if finding.code == "MLP030"] == [
        f"global_batch_size is {words}; it must be a number above zero"
    ]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (256.5, "global_batch_size is 256.5; it must be a whole number"),
        ("256", "global_batch_size is '256'; it must be a whole number"),
        (True, "global_batch_size is True; it must be a whole number"),
        (None, "the logs have no global_batch_size, or not all the same"),
        (256.0, None),
    ],
)
def test_what_is_wrong_with_a_batch_size_is_said(size: Any, words: str | None, tmp_path: Path) -> None:
    """MLR012: all logs agree on one, which is no whole number; 256.0 is one."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "global_batch_size").value = size
    found = [finding.message for finding in box.judge() if finding.code == "MLR012"]

    assert found == ([f"convergence cannot be compared: {words}"] if words else [])


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 1, 2, 3, 5), "5 runs are numbered 0 to 5; 1 number is missing (4)"),
        ((0, 1, 3, 4, 7), "5 runs are numbered 0 to 7; 3 numbers are missing (2, 5, 6)"),
    ],
)
def test_one_number_is_missing_and_two_are(numbers: tuple[int, ...], words: str, tmp_path: Path) -> None:
    """AUD040."""
    runs = [foreign.rows(index) for index in range(5)]
    folder = foreign.write(foreign.result(tmp_path), runs, names=lambda index: f"result_{numbers[index]}.txt")

    assert [item.finding.message for item in audit(folder) if item.finding.code == "AUD040"] == [words]
