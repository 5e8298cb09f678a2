"""When a run will end: the reference's samples, what is left of their distribution, and the evaluation that ends it."""

from __future__ import annotations

import math
import random

import pytest

from harness.ruleset.model import BenchmarkRules, ReferenceConvergence
from harness.run.forecast import Samples, duration, end_of, reference_of
from harness.run.plan import Evaluated, Plan
from harness.scoring.convergence import Reference
from tests.fabricate import benchmark_rules
from tests.scripted import plan


def planned(rules: BenchmarkRules) -> tuple[Plan, Reference]:
    made = plan(rules)
    reference = reference_of(made)
    assert isinstance(reference, Reference)
    return made, reference


def rules(samples: tuple[int, ...], **changes: object) -> BenchmarkRules:
    points = (ReferenceConvergence(100, samples),)
    return benchmark_rules(reference_convergence=points, eval_every_samples=500, max_samples=10_000, **changes)


def evaluated(samples: int, quality: float = 0.1) -> Evaluated:
    return Evaluated(samples, samples, quality)


def test_a_run_ends_at_an_evaluation_and_after_those_that_confirm() -> None:
    """2,100 samples are noticed at 2,500, and confirmed twice."""
    made, reference = planned(rules((2100,) * 4, confirm_evaluations=2))

    assert end_of(made, reference, []) == Samples(3500, 3500, 3500)
    assert end_of(made, reference, [evaluated(2000)]) == Samples(3500, 3500, 3500)
    assert end_of(made, reference, [evaluated(2500, 0.95)]) == Samples(3500, 3500, 3500)
    assert end_of(made, reference, [evaluated(2500, 0.95), evaluated(3000, 0.95)]) == Samples(3500, 3500, 3500)


def test_the_end_is_never_past_the_budget_nor_known_past_the_reference() -> None:
    """More samples than the budget has are not announced; a run later than every reference has no forecast."""
    made, reference = planned(rules((20_000,) * 4))
    assert end_of(made, reference, []) == Samples(10_000, 10_000, 10_000)

    made, reference = planned(rules((2000, 2100, 2200)))
    assert end_of(made, reference, [evaluated(9000)]) is None


def test_eight_of_ten_runs_end_within_the_limits() -> None:
    """New seeds of the same reference, at the start and for those that are left after the median: 80 %, within 3 %."""
    draws = random.Random(1)
    seen: dict[int, list[bool]] = {0: [], 300_000: []}
    for _ in range(3000):
        seeds = [round(math.exp(draws.gauss(math.log(300_000), 0.1))) for _ in range(11)]
        points = (ReferenceConvergence(100, tuple(seeds[:10])),)
        fine = benchmark_rules(reference_convergence=points, eval_every_samples=100, max_samples=1_000_000)
        made, reference = planned(fine)
        for start, hits in seen.items():
            end = end_of(made, reference, [evaluated(start)] if start else [])
            if seeds[10] > start and end is not None:
                hits.append(end.low <= seeds[10] + 50 <= end.high + 100)

    assert all(len(hits) > 1000 for hits in seen.values())
    assert 0.77 < sum(seen[0]) / len(seen[0]) < 0.83
    assert 0.70 < sum(seen[300_000]) / len(seen[300_000]) < 0.90  # the median of few seeds is itself uncertain


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"division": "open"}, "the reference runs are of the closed division"),
        ({"hyperparameters": {}}, "the recipe has no global batch size"),
    ],
)
def test_why_there_is_no_reference(changes: dict[str, object], why: str) -> None:
    """Other recipes than the reference's say nothing about this one."""
    assert reference_of(plan(rules((2000, 2100)), **changes)) == why


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (90000, "25 h 00 min"),
    ],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    """Two units at most, no sixtieth second, nothing below zero."""
    assert duration(seconds) == text
