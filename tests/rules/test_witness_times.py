"""WIT002 over simulated networks: honest runs are not accused, and times that were changed are found."""

from __future__ import annotations

import random

import pytest

from harness.submission.receipts import Head, RunReceipts
from rules.checks.wit import wit002_times_differ


def receipts(source: random.Random, scale: float = 1.0, shift_s: float = 0.0) -> RunReceipts:
    """A run of 5 minutes to 3 hours with a head about every ten seconds, of which each hundredth was lost.

    A request takes up to 2 s, the clocks differ by up to 100 ppm. scale: of the log's times against true time; shift_s:
    what the log leaves out in the middle.
    """
    length_s, drift = source.uniform(300, 10_800), 1 + source.uniform(-1e-4, 1e-4)
    heads, at_s, number = [], 0.0, 0
    while at_s < length_s:
        at_s += source.uniform(0.5, 10.0)
        number += 1
        if source.random() < 0.01:
            continue
        own_s = (at_s - (shift_s if at_s > length_s / 2 else 0.0)) * scale
        received_ms = int((at_s * drift + source.uniform(0, 2)) * 1000)
        heads.append(Head(number + 1, number, number, "a" * 64, int(own_s * 1e9), received_ms))
    return RunReceipts("receipts_0.jsonl", "t" * 32, {}, 0, tuple(heads), True, ())


def share_found(num: int, **options: float) -> float:
    source = random.Random(5)
    found = [any(True for _ in wit002_times_differ._clocks(receipts(source, **options))) for _ in range(num)]
    return sum(found) / num


def test_honest_runs_are_not_accused() -> None:
    """None of 300, over networks that take up to two seconds."""
    assert share_found(300) == 0.0


@pytest.mark.parametrize(
    "options", [{"scale": 0.98}, {"scale": 1.02}, {"scale": 0.1}, {"shift_s": 5.0}, {"shift_s": -5.0}], ids=str
)
def test_times_that_were_changed_are_found(options: dict[str, float]) -> None:
    """By two hundredths throughout, or by five seconds once; every time."""
    assert share_found(40, **options) == 1.0
