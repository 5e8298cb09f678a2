"""Trimmed statistics, Yuen's test and rank bands: against scipy, and by hand."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.base.stats import p_not_slower, rank_bands, student_quantile, trimmed_interval, trimmed_mean

TIMES = st.lists(st.floats(0.1, 1e6), min_size=5, max_size=12)


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
def test_interval_is_the_reference_libraries(times: list[float], drop: int) -> None:
    """Against scipy's own Winsorising, variance and t quantile (Wilcox 2012, section 4.3)."""
    import numpy as np
    from scipy import stats

    found = trimmed_interval(times, drop)
    num_kept = len(times) - 2 * drop
    if num_kept < 2:
        assert found is None
        return
    winsorised = stats.mstats.winsorize(np.array(times), limits=(drop / len(times),) * 2, inclusive=(False, False))
    error = float(winsorised.data.std(ddof=1)) / (num_kept / len(times) * math.sqrt(len(times)))
    half = stats.t.ppf(0.975, num_kept - 1) * error
    mean = sum(sorted(times)[drop:-drop]) / num_kept

    assert found == pytest.approx((mean - half, mean + half), rel=1e-6, abs=1e-6)


def test_interval_without_drop_is_students() -> None:
    """Mean 2, standard deviation 1, n 3: 2 +- 4.3027 / sqrt(3)."""
    assert trimmed_interval([1.0, 2.0, 3.0], 0) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)


def test_a_missed_run_enters_the_interval_as_the_slowest_kept() -> None:
    """How late it would have been does not matter."""
    assert trimmed_interval([1, 2, 3, 4, math.inf], 1) == trimmed_interval([1, 2, 3, 4, 4], 1)


def test_two_kept_runs_have_an_interval() -> None:
    """Of 1, 2, 3, 4 two are kept; Winsorised 2, 2, 3, 3: 2.5 +- 12.7062 * sqrt(1/3 * 4) / 2; of three runs one is."""
    assert trimmed_interval([1, 2, 3, 4], 1) == pytest.approx((2.5 - 7.3359, 2.5 + 7.3359), abs=1e-4)
    assert trimmed_interval([1, 2, 3], 1) is None


SECONDS = st.integers(1000, 10**6).map(lambda ms: ms / 1000)


PAIRS = st.integers(5, 9).flatmap(lambda n: st.tuples(*[st.lists(SECONDS, min_size=n, max_size=n)] * 2))


@settings(deadline=None)  # the first example imports scipy.stats
@given(PAIRS)
def test_the_test_is_yuens(pair: tuple[list[float], list[float]]) -> None:
    """Against scipy's trimmed Welch test, where both samples have a spread after Winsorising."""
    from scipy import stats

    assume(all(len(set(sorted(times)[1:-1])) > 1 for times in pair))
    trim = 1 / len(pair[0]) + 1e-9  # scipy cuts int(trim * n) at either end
    expected = stats.ttest_ind(*pair, equal_var=False, trim=trim, alternative="less").pvalue

    assert p_not_slower(*pair, 1) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_two_kept_runs_can_be_compared() -> None:
    """Ten seconds apart: errors 1/2 and 1/2, t = -10 with 2 degrees of freedom. Of one kept run nothing is known."""
    assert p_not_slower([1, 2, 3, 4], [11, 12, 13, 14], 1) == pytest.approx(0.5 - 10 / (2 * math.sqrt(102)))
    assert p_not_slower([1, 2, 3], [11, 12, 13], 1) is None


def test_without_any_spread_the_means_decide() -> None:
    """A probability, not a None and not a number beyond 0 and 1; equal is not slower."""
    assert p_not_slower([1] * 4, [2] * 4, 1) == 0.0
    assert p_not_slower([2] * 4, [1] * 4, 1) == 1.0
    assert p_not_slower([1] * 4, [1] * 4, 1) == 1.0


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 7, 18, 60, 101, 1000])
@pytest.mark.parametrize("share", [0.6, 0.9, 0.95, 0.975])
def test_students_quantile_is_scipys(dof: int, share: float) -> None:
    """To thirteen digits, where degrees of freedom are whole."""
    from scipy.special import stdtrit

    assert student_quantile(dof, share) == pytest.approx(float(stdtrit(dof, share)), rel=1e-13)


def test_ranks_share_and_skip() -> None:
    """As on the board of times: 1, 1, 3."""
    assert rank_bands([1.0, 1.4, 3.0], lambda item, leader: item - leader > 1) == [1, 1, 3]
    assert rank_bands([], lambda item, leader: True) == []
