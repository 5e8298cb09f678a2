"""What a log says of a reimplementation, in words. Its malformed forms are cases of EQV001."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.equivalence import equivalence_of, parse_equivalence, reimplementation_words
from harness.log.run_log import RunLog
from tests.fabricate import MODULE, equivalence_record, events, find, write_log

FAR: dict[str, Any] = {"difference": 0.0123, "tolerance": 0.00045, "seed": 7, "step": 3}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "equivalent over 100 steps"),
        (
            {"loss": FAR},
            "not equivalent: at step 3 of the seed 7 the loss differs by 0.012 of its size; 0.00045 is what other "
            "orders of summation explain",
        ),
        (
            {"tensor_update": {**FAR, "tensor": "head.bias"}, "gradient_norm": {**FAR, "difference": 0.00046}},
            "not equivalent: at step 3 of the seed 7 the norm of the gradients differs by 0.00046 of its size; 0.00045 "
            "is what other orders of summation explain",
        ),
        (
            {"tensor_update": {**FAR, "tensor": "head.bias\x1b"}},
            r"not equivalent: at step 3 of the seed 7 the update of head.bias\x1b differs by 0.012 of its size; "
            "0.00045 is what other orders of summation explain",
        ),
        (
            {"update": {**FAR, "difference": 1e9}},
            "not equivalent: at step 3 of the seed 7 the update of all weights is not a number or far too large; "
            "differences up to 0.00045 of its size are what other orders of summation explain",
        ),
        (
            {"batches": {**FAR, "difference": 1.0, "tolerance": 0.0}, "loss": FAR},
            "not equivalent: at step 3 of the seed 7 the batch is another than the reference's",
        ),
    ],
)
def test_the_first_quantity_that_differs_too_much_is_named(changes: dict[str, Any], words: str) -> None:
    """With the place, the amount, and what would be permitted; equal to the tolerance is within it."""
    record = equivalence_record(MODULE, 7)
    record["quantities"] |= changes

    assert parse_equivalence(record).words() == words


def test_equal_to_the_tolerance_is_within_it() -> None:
    """Only more is too much."""
    record = equivalence_record(MODULE, 7)
    record["quantities"]["loss"] = {**FAR, "difference": 0.00045}

    assert parse_equivalence(record).broken is None


def test_words_for_a_result_are_those_of_its_worst_run(tmp_path: Path) -> None:
    """The fewest steps; one run that is not equivalent or says nothing readable makes the result so."""

    def log(name: str, **changes: Any) -> RunLog:
        steps = events(module=MODULE, is_equivalent=True)
        find(steps, "tta_equivalent").value.update(changes)
        return run_log.read(write_log(tmp_path / name, steps))

    plain = run_log.read(write_log(tmp_path / "plain", events()))
    good, short, unreadable = log("good"), log("short", steps=40), log("unreadable", seeds="7")
    far = log("far", quantities={**equivalence_record(MODULE, 7)["quantities"], "loss": FAR})

    assert reimplementation_words([plain]) is None
    assert equivalence_of(plain) is equivalence_of(unreadable) is None
    assert reimplementation_words([good, short]) == "reimplemented, equivalent over 40 steps"
    assert reimplementation_words([good, far]) == "reimplemented, not equivalent"
    assert reimplementation_words([good, unreadable]) == "reimplemented, not equivalent"
