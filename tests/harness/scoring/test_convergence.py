"""Reference convergence: which reference is chosen, and what is too fast, faster, slower or as expected."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.stats import trimming_cost, variance
from harness.ruleset.model import ReferenceConvergence
from harness.scoring.convergence import Verdict, judge_convergence, reference_at, standing_of

SPREAD = (9000, 10_000, 11_000, 9500, 10_500)
REFERENCE = (
    ReferenceConvergence(100, SPREAD[:2]),
    ReferenceConvergence(400, tuple(4 * samples for samples in SPREAD) * 2),
    ReferenceConvergence(100, SPREAD[2:]),
    ReferenceConvergence(1600, (90_000,)),
)
LOGS = [math.log(samples) for samples in SPREAD]


def of_equal(log: float, batch_size: int = 100, num: int = 5) -> Verdict:
    """The verdict on runs that all need as many samples."""
    return judge_convergence([math.exp(log)] * num, batch_size, REFERENCE)


def test_the_reference_at_a_batch_size_that_was_run() -> None:
    """Geometric mean and variance of its logarithms; two entries of one batch size are one."""
    found = reference_at(REFERENCE, 100)

    assert not isinstance(found, str)
    assert (found.samples, found.variance) == (pytest.approx(math.exp(fmean(LOGS))), pytest.approx(variance(LOGS)))
    assert (found.num_runs, found.leverage, found.how) == (5, 0.2, "reference at batch size 100")


def test_the_reference_between_two_batch_sizes() -> None:
    """200 is half way from 100 to 400 by its logarithm: twice the samples of 100; a quarter of 1/5 and of 1/10."""
    found, near = reference_at(REFERENCE, 200), reference_at(REFERENCE, 101)

    assert not isinstance(found, str)
    assert not isinstance(near, str)
    assert found.samples == pytest.approx(2 * math.exp(fmean(LOGS)))
    assert found.variance == pytest.approx((variance(LOGS) + variance(LOGS * 2)) / 2)
    assert (found.num_runs, found.leverage) == (5, pytest.approx(0.25 * (1 / 5 + 1 / 10)))
    assert found.how == "reference between the batch sizes 100 and 400"
    assert near.samples == pytest.approx(1.01 * math.exp(fmean(LOGS)))


def test_points_that_others_published_are_named() -> None:
    """Each source once, and none of another batch size."""
    sources = {100: "MLPerf v1.0", 400: "MLPerf v1.0", 1600: "a paper"}
    points = [ReferenceConvergence(size, SPREAD, source) for size, source in sources.items()]
    points.append(ReferenceConvergence(3200, SPREAD))

    found = [reference_at(points, size) for size in (100, 200, 800, 3200)]

    assert [item if isinstance(item, str) else item.how for item in found] == [
        "reference at batch size 100, published: MLPerf v1.0",
        "reference between the batch sizes 100 and 400, published: MLPerf v1.0",
        "reference between the batch sizes 400 and 1600, published: MLPerf v1.0; a paper",
        "reference at batch size 3200",
    ]


@pytest.mark.parametrize("batch_size", [0, 99, 401, 1600])
def test_beyond_the_references_batch_sizes_there_is_none(batch_size: int) -> None:
    """One run has no variance, so that 1,600 does not count; what the result needed is still known."""
    verdict = of_equal(math.log(5000), batch_size)

    assert verdict.how == f"batch size {batch_size} is outside the reference's, 100 to 400"
    assert (verdict.status, verdict.reference_samples, verdict.p_faster) == ("missing", None, None)
    assert verdict.own_samples == pytest.approx(5000)


@pytest.mark.parametrize(
    ("samples", "how"),
    [
        ([1.0, 1.0], "too few runs (2) to leave out 1 at either end"),
        ([], "too few runs (0) to leave out 1 at either end"),
        ([1.0, None, 1.0, None], "2 of 4 runs missed the target"),
        ([1.0, 1.0, 0.0], "a run reached the target without training"),
    ],
)
def test_a_result_that_cannot_be_compared(samples: Sequence[float | None], how: str) -> None:
    """Never as expected."""
    verdict = judge_convergence(samples, 100, REFERENCE)

    assert (verdict.status, verdict.how, verdict.own_samples) == ("missing", how, None)
    assert judge_convergence([1.0] * 5, 100, REFERENCE[3:]).how == "there are no reference convergence points"


def test_the_statuses_at_their_limits() -> None:
    """Of five equal runs against five: 4 of the 8 degrees of freedom have no scatter; t(0.95, 8) = 1.859548 and
    t(0.9999, 8) = 6.442."""
    error = math.sqrt(variance(LOGS) / 2 * (1 / 5 + trimming_cost(5, 1) / 5))
    limit = of_equal(9.0).limit_samples
    assert limit == pytest.approx(0.75 * math.exp(fmean(LOGS) - 6.442 * error), rel=1e-4)
    ends = (math.log(limit), fmean(LOGS) - 1.859548 * error, fmean(LOGS) + 1.859548 * error)

    for end, below, above in zip(
        ends, ("too fast", "faster", "as expected"), ("faster", "as expected", "slower"), strict=True
    ):
        assert (of_equal(end - 1e-6).status, of_equal(end + 1e-6).status) == (below, above)
    faster = of_equal(ends[1])
    assert faster.p_faster == pytest.approx(0.05, abs=1e-6)
    assert (faster.variance, faster.dof) == (pytest.approx(variance(LOGS) / 2), 8)


def test_a_missed_run_is_the_slowest_and_does_not_tell_of_the_scatter() -> None:
    """One is left out, as the slowest; the variance is then the reference's own."""
    verdict = judge_convergence([None, 8000, 10_000, 9000, 9500], 100, REFERENCE)

    assert verdict.own_samples == pytest.approx((9000 * 9500 * 10_000) ** (1 / 3))
    assert (verdict.variance, verdict.dof) == (pytest.approx(variance(LOGS)), 4)


def test_a_single_run_can_be_compared() -> None:
    """It has no scatter of its own."""
    verdict = judge_convergence([10_000], 100, REFERENCE, drop=0)

    assert (verdict.status, verdict.variance, verdict.dof) == ("as expected", pytest.approx(variance(LOGS)), 4)


@pytest.mark.parametrize(
    ("samples", "status"), [(74, "too fast"), (75, "faster"), (100, "as expected"), (101, "slower")]
)
def test_without_any_scatter_the_samples_decide(samples: int, status: str) -> None:
    """Of runs at three quarters of the reference it is not certain that tuning could not do it."""
    assert judge_convergence([samples] * 5, 1, (ReferenceConvergence(1, (100,) * 5),)).status == status


RUNS = st.lists(st.one_of(st.none(), st.floats(1.0, 1e9)), min_size=3, max_size=9)


@given(RUNS, st.sampled_from([99, 100, 200]), st.randoms(use_true_random=False))
def test_a_verdict_is_of_a_set_of_runs(runs: list[float | None], batch_size: int, dice: random.Random) -> None:
    """In any order; and a result that is too fast has significantly fewer samples, below the stated limit."""
    verdict = judge_convergence(runs, batch_size, REFERENCE)

    assert judge_convergence(dice.sample(runs, len(runs)), batch_size, REFERENCE) == verdict
    if verdict.status != "missing":
        assert verdict.own_samples is not None
        assert verdict.limit_samples is not None
        assert verdict.p_faster is not None
        assert 0 <= verdict.p_faster <= 1
        if verdict.status == "too fast":
            assert verdict.p_faster < 0.05
            assert verdict.own_samples < verdict.limit_samples * (1 + 1e-9)


def test_interval_of_a_comparison_with_the_reference_holds_in_90_per_cent() -> None:
    """Of runs that need as many samples as the reference's; runs that missed are not in it."""
    chance, held = random.Random(2), 0
    for _ in range(2000):
        reference, runs = (tuple(round(math.exp(chance.gauss(8, 0.06))) for _ in range(number)) for number in (20, 5))
        standing = standing_of(reference_at([ReferenceConvergence(64, reference)], 64), [None, *runs])
        assert standing is not None
        held += standing.interval[0] <= 1 <= standing.interval[1]

    assert held / 2000 == pytest.approx(0.9, abs=0.02)
    assert standing_of("there are none", [100.0]) is None
    assert standing_of(reference_at([ReferenceConvergence(64, (90, 100))], 64), [None]) is None
