"""Trimmed means, intervals on logarithms, Welch's test and rank intervals: against scipy, and by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.base.stats import (
    Estimate,
    binomial_interval,
    p_equal,
    rank_intervals,
    student_quantile,
    trimmed_error,
    trimmed_mean,
    trimming_cost,
    upper_tail,
    variance,
)

TIMES = st.lists(st.floats(0.1, 1e6), min_size=5, max_size=12)
KNOWN = ((0.5, 1000.0),)  # two such estimates differ by 1 standard error where their logarithms differ by 1


def at(log: float, errors: tuple[tuple[float, float], ...] = KNOWN) -> Estimate:
    return Estimate(math.exp(log), errors)


@given(TIMES, st.randoms(use_true_random=False))
def test_trimmed_mean_is_the_hand_computation(times: list[float], dice: random.Random) -> None:
    """Sort, cut one at either end, average; and the order is of no account."""
    by_hand = sum(sorted(times)[1:-1]) / (len(times) - 2)
    shuffled = dice.sample(times, len(times))

    assert trimmed_mean(times, 1) == pytest.approx(by_hand)
    assert trimmed_mean(shuffled, 1) == trimmed_mean(times, 1)
    assert min(times) * (1 - 1e-12) <= trimmed_mean(times, 1) <= max(times) * (1 + 1e-12)


@settings(deadline=None)  # the first example imports scipy.stats
@given(TIMES, st.integers(1, 2))
def test_error_of_a_trimmed_mean_is_the_reference_libraries(times: list[float], drop: int) -> None:
    """Against scipy's own Winsorising (Wilcox 2012, section 4.3)."""
    import numpy as np
    from scipy import stats

    num_kept = len(times) - 2 * drop
    if num_kept < 2:
        assert trimmed_error(times, drop) == ()
        return
    winsorised = stats.mstats.winsorize(np.array(times), limits=(drop / len(times),) * 2, inclusive=(False, False))
    error = float(winsorised.data.std(ddof=1)) / (num_kept / len(times) * math.sqrt(len(times)))

    [(found, dof)] = trimmed_error(times, drop)
    assert (found, dof) == (pytest.approx(error**2, rel=1e-6, abs=1e-6), num_kept - 1)


def test_error_of_a_trimmed_mean_by_hand() -> None:
    """Of 1, 2, 3, 4 two are kept; Winsorised 2, 2, 3, 3: 1/3 * 4 / 2^2. A missed run counts as the slowest kept, and of
    three runs one is kept."""
    assert trimmed_error([1, 2, 3, 4], 1) == ((pytest.approx(1 / 3), 1),)
    assert trimmed_error([1, 2, 3, 4, math.inf], 1) == trimmed_error([1, 2, 3, 4, 4], 1)
    assert trimmed_error([1, 2, 3], 1) == ()


@pytest.mark.parametrize(("num", "drop", "exact"), [(5, 0, 1.0), (5, 1, 1.136), (10, 1, 1.056)])
def test_what_trimming_costs(num: int, drop: int, exact: float) -> None:
    """Against the variance of order statistics of normal samples, simulated to a thousandth."""
    assert trimming_cost(num, drop) == pytest.approx(exact, rel=0.02)


def test_an_interval_by_hand() -> None:
    """10 times or over exp(2.776 * 0.1); variances of 0.01 and 0.03 with 4 and 9 degrees of freedom have 12.8 together,
    rounded down; without any, the fewest count."""
    joined = Estimate(1.0, ((0.01, 4), (0.03, 9))).interval()

    assert Estimate(10.0, ((0.01, 4),)).interval() == pytest.approx((10 / 1.32002, 10 * 1.32002), rel=1e-5)
    assert joined == pytest.approx((1 / math.exp(0.2 * 2.178813), math.exp(0.2 * 2.178813)), rel=1e-6)
    assert Estimate(10.0, ((0.0, 4), (0.0, 9))).interval() == (10.0, 10.0)
    assert Estimate(10.0, ()).interval() is None


LOGS = st.lists(st.integers(1000, 10**6).map(lambda ms: math.log(ms / 1000)), min_size=2, max_size=9)


def mean_of(logs: list[float]) -> Estimate:
    return at(math.fsum(logs) / len(logs), ((variance(logs) / len(logs), len(logs) - 1),))


@settings(deadline=None)  # the first example imports scipy.stats
@given(LOGS, LOGS)
def test_the_comparison_is_welchs(one: list[float], other: list[float]) -> None:
    """Against scipy's t-test on logarithms, with its degrees of freedom rounded down; and both ways round alike."""
    from scipy import stats
    from scipy.special import stdtr

    assume(len(set(one)) > 1 < len(set(other)))
    theirs = stats.ttest_ind(one, other, equal_var=False)
    assume(abs(theirs.df - round(theirs.df)) > 1e-9)
    found = p_equal(mean_of(one), mean_of(other))

    assert found == pytest.approx(2 * stdtr(math.floor(theirs.df), -abs(theirs.statistic)), rel=1e-6, abs=1e-12)
    assert found == p_equal(mean_of(other), mean_of(one))


def test_without_any_scatter_the_values_decide() -> None:
    """And where nothing is known of an error, nothing can be told apart."""
    exact = ((0.0, 4.0),)

    assert p_equal(at(0.0, exact), at(0.0, exact)) == 1.0
    assert p_equal(at(0.0, exact), at(1e-9, exact)) == 0.0
    assert p_equal(at(0.0, exact), at(9.0, ())) == p_equal(at(0.0, ()), at(9.0, exact)) == 1.0


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 7, 18, 60, 101, 1000])
def test_students_quantile_and_tail_are_scipys(dof: int) -> None:
    """To thirteen digits, where degrees of freedom are whole; a probability is never negative."""
    from scipy.special import stdtr, stdtrit

    for share in (0.6, 0.9, 0.95, 0.975, 0.9999):
        assert student_quantile(dof, share) == pytest.approx(float(stdtrit(dof, share)), rel=1e-12)
    for t in (-40.0, -2.0, 0.0, 0.5, 2.0, 8.0, 40.0):
        assert upper_tail(dof, t) == pytest.approx(float(stdtr(dof, -t)), abs=1e-14)
        assert 0 <= upper_tail(dof, t) <= 1


@pytest.mark.parametrize(
    ("logs", "ranks"),
    [
        ((), []),
        ((0.0,), [(1, 1)]),
        ((0.0, 1.95), [(1, 2), (1, 2)]),
        ((0.0, 1.97), [(1, 1), (2, 2)]),
        ((4.6, 0.0, 2.3), [(3, 3), (1, 1), (2, 2)]),
        ((0.0, 2.1, 4.2), [(1, 2), (1, 3), (2, 3)]),
        ((0.0, 2.1, 4.5), [(1, 1), (2, 2), (3, 3)]),
        ((0.0, 0.0, 2.3), [(1, 3)] * 3),
        ((0.0, 0.0, 2.5), [(1, 2), (1, 2), (3, 3)]),
    ],
)
def test_ranks_by_hand(logs: tuple[float, ...], ranks: list[tuple[int, int]]) -> None:
    """Differences in standard errors. For three pairs Holm asks of the largest for 2.398 (p = .05 / 3), then for 2.245
    (.05 / 2), then for 1.962; the first that is too small ends it."""
    assert rank_intervals([at(log) for log in logs]) == ranks


def test_ranks_without_errors_and_without_scatter() -> None:
    """What nothing is known of may have any rank, and the others are still compared; exact values are as they are."""
    unknown = [at(float(log), ()) for log in range(4)]
    exact = [at(log, ((0.0, 4.0),)) for log in (1.0, 0.0, 0.0)]

    assert rank_intervals(unknown) == [(1, 4)] * 4
    assert rank_intervals([*unknown[:1], at(0.0), at(9.0)]) == [(1, 3), (1, 2), (2, 3)]
    assert rank_intervals(exact) == [(3, 3), (1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("num_hits", "num_trials", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (3, 10, 0.0667, 0.6525),
        (10, 10, 0.6915, 1.0),
        (2, 173, 0.0014, 0.0411),
        (600, 2000, 0.2800, 0.3206),
        (0, 0, 0.0, 1.0),
    ],
)
def test_a_share_has_an_exact_interval(num_hits: int, num_trials: int, low: float, high: float) -> None:
    """Of 95 %, as tables of Clopper and Pearson's have it. The ways to hit 600 times of 2,000 overflow a float."""
    assert binomial_interval(num_hits, num_trials) == pytest.approx((low, high), abs=1e-4)


ROWS = st.lists(
    st.builds(at, st.integers(0, 12).map(float), st.sampled_from(((), KNOWN, ((0.1, 4),), ((2.0, 3), (0.1, 9))))),
    min_size=1,
    max_size=7,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_ranks_are_holms_in_any_order(rows: list[Estimate], dice: random.Random) -> None:
    """By the definition: a pair differs if the largest of the adjusted p-values up to its own is at most 0.05."""
    pairs = sorted((p_equal(rows[i], rows[j]), i, j) for i, j in itertools.combinations(range(len(rows)), 2))
    adjusted = itertools.accumulate((p * (len(pairs) - k) for k, (p, _, _) in enumerate(pairs)), max)
    differ = {(i, j) for (_, i, j), p in zip(pairs, adjusted, strict=True) if p <= 0.05}

    def beaten_by(row: int, sign: int) -> int:
        others = [i + j - row for i, j in differ if row in (i, j)]
        return sum(sign * rows[other].value < sign * rows[row].value for other in others)

    found = rank_intervals(rows)
    assert found == [(1 + beaten_by(i, 1), len(rows) - beaten_by(i, -1)) for i in range(len(rows))]
    order = dice.sample(range(len(rows)), len(rows))
    assert rank_intervals([rows[i] for i in order]) == [found[i] for i in order]
