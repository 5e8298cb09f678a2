"""Messages of checks that choose their words: each word where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.workload import Metric
from tests.fabricate import find
from tests.rules.box import Box, hyperparameters


def messages(box: Box, code: str) -> list[str]:
    """What `code` says of a box."""
    if not box.is_written:
        box.write()
    return [finding.message for finding in box.judge() if finding.code == code]


def test_what_is_permitted_is_that_of_the_division(tmp_path: Path) -> None:
    """A value in the closed division, a type in the open one."""
    said = []
    for division in ("closed", "open"):
        box = Box(tmp_path / division, options={"division": division})
        hyperparameters(box.runs[0], opt_name=3)
        said += messages(box, "HYP001")

    assert said == ["opt_name is 3; permitted: fixed at sgd", "opt_name is 3; permitted: any str"]


def test_of_many_differences_three_are_shown(tmp_path: Path) -> None:
    """A line may have a hundred thousand of them."""
    box = Box(tmp_path)
    for index, steps in enumerate(box.runs):
        hyperparameters(steps, **{f"opt_{letter}": index for letter in "abcd"})
    find(box.runs[0], "tta_resolved").value = dict.fromkeys("abcdefgh", 1)
    told, resolved = messages(box, "HYP008")[0], messages(box, "HYP004")[0]

    shown = "opt_a is 1 instead of 0; opt_b is 1 instead of 0; opt_c is 1 instead of 0"
    assert told == f"different from result_0.txt: {shown}"
    assert resolved.count(" instead of ") == 3


def test_a_claim_that_cannot_be_read_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    """Whatever else cannot be read."""
    unread, absent = Box(tmp_path / "unread"), Box(tmp_path / "absent")
    for box in (unread, absent):
        box.write()
        box.log(0).write_text("")
    unread.claim(score="1.0")
    (absent.folder / "submission.yaml").unlink()

    assert messages(unread, "PKG007") == ["unknown key 'score'"]
    assert messages(absent, "PKG007") == ["the submission has no claim"]


def missed(place: Path, rules: dict[str, Any], qualities: tuple[float, ...]) -> str:
    """What QUA001 says of a run with these qualities, as many as the rules ask for."""
    box = Box(place, rules={"reference_convergence": (), **rules}, options={"status": "aborted", "reason": "budget"})
    for nth, quality in enumerate(qualities):
        find(box.runs[0], "eval_accuracy", nth).value = quality
    return messages(box, "QUA001")[0]


def test_the_best_quality_of_a_miss_is_the_one_nearest_to_the_target(tmp_path: Path) -> None:
    """Neither the first nor the last; the largest of an accuracy, the smallest of an error rate."""
    error_rate: dict[str, Any] = {"metric": Metric("wer", "fraction", "min"), "target": 0.1}

    accuracy = missed(tmp_path / "max", {}, (0.5, 0.85, 0.8))
    assert accuracy == (
        "the run did not reach its target: the best top1_accuracy is 0.85; the target is 0.9 (ended: budget)"
    )
    assert "the best wer is 0.2; the target is 0.1 (" in missed(tmp_path / "min", error_rate, (0.5, 0.2, 0.3))


def test_how_often_the_target_must_be_reached_is_said_where_once_is_not_enough(tmp_path: Path) -> None:
    said = missed(tmp_path, {"confirm_evaluations": 1}, (0.5, 0.95, 0.8))

    assert "the best top1_accuracy is 0.95; the target is 0.9, 2 times in a row (" in said
