"""The verdict of a reproduction: shares of right and wrong ones, its looks, misses, and what is too little to say."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest

from harness.ruleset import catalog, load
from harness.scoring.non_inferiority import (
    LOOKS,
    Scatter,
    Verdict,
    at_any_time,
    common_bound,
    fisher,
    judge,
    permitted_misses,
    too_alike,
)
from harness.scoring.prospect import Prospect, prospect

# Claimed runs, cv in %: at a true ratio of 1, 1.05, 1.1, 1.15 and 1.2, the percentages of "reproduced" and "not
# reproduced" at a tolerance of 10 %, and the mean number of runs. From a simulation in numpy, ± 1 point.
TABLE = {
    (5, 4): [(100, 0, 5.3), (69, 4, 11), (5, 63, 11), (0, 99, 5.3), (0, 100, 5)],
    (5, 6): [(91, 1, 8.1), (41, 14, 14), (5, 63, 11), (0, 96, 6.3), (0, 100, 5)],
    (5, 9): [(62, 4, 12), (24, 21, 15), (5, 58, 13), (1, 88, 8.4), (0, 98, 6)],
    (5, 11): [(49, 5, 14), (19, 20, 16), (5, 47, 14), (1, 77, 11), (0, 92, 7.7)],
    (10, 4): [(100, 0, 5.1), (86, 2, 9.6), (5, 67, 11), (0, 100, 5.2), (0, 100, 5)],
    (10, 6): [(98, 0, 6.6), (56, 10, 13), (5, 66, 11), (0, 99, 5.7), (0, 100, 5)],
    (10, 9): [(81, 2, 11), (33, 21, 14), (5, 63, 12), (0, 93, 7.3), (0, 100, 5.4)],
    (10, 11): [(66, 4, 13), (26, 22, 15), (5, 58, 13), (1, 88, 9), (0, 99, 6.3)],
}
RATIOS = (1.0, 1.05, 1.1, 1.15, 1.2)
SIX = Scatter(math.log1p(0.06**2), 19)


def of(cell: tuple[int, int], ratio: float, num_draws: int) -> Prospect:
    num_claimed, cv = cell
    return prospect(num_claimed, Scatter(math.log1p((cv / 100) ** 2), 19), 0.1, LOOKS, ratio, num_draws)


def agrees(cell: tuple[int, int], num_draws: int, margin: float) -> None:
    for ratio, (reproduced, refused, num_runs) in zip(RATIOS, TABLE[cell], strict=True):
        found = of(cell, ratio, num_draws)
        assert 100 * found.shares["reproduced"] == pytest.approx(reproduced, abs=margin), ratio
        assert 100 * found.shares["not reproduced"] == pytest.approx(refused, abs=margin), ratio
        assert found.num_runs == pytest.approx(num_runs, abs=1.1), ratio  # the table rounds to whole runs
        assert math.isclose(sum(found.shares.values()), 1)


@pytest.mark.parametrize("cell", [(5, 6), (10, 9)])
def test_shares_of_verdicts_are_those_of_the_published_procedure(cell: tuple[int, int]) -> None:
    agrees(cell, 1000, 5.5)  # three standard deviations of a share of a half, and the table's point


@pytest.mark.slow
@pytest.mark.parametrize("cell", TABLE)
def test_every_cell_of_the_table(cell: tuple[int, int]) -> None:
    agrees(cell, 10_000, 3.5)  # the table was made with references that were drawn, too


REFERENCES = [
    point
    for rules in load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks.values()
    for point in rules.reference_convergence
    if rules.suite == "mini" and len(point.samples_to_target) >= 20
]


def quantised(samples: float, step: float) -> float:
    """The nearest multiple of a step: targets are seen at evaluations only, and taken to be crossed between two."""
    return step * round(samples / step)


def lognormal(chance: random.Random, ratio: float) -> float:
    return ratio * math.exp(chance.gauss(0.0, math.sqrt(SIX.variance)))


def stepped(chance: random.Random, ratio: float) -> float:
    return quantised(100 * lognormal(chance, ratio), 7)


def resampled(number: int) -> Callable[[random.Random, float], float]:
    samples = REFERENCES[number].samples_to_target
    return lambda chance, ratio: ratio * chance.choice(samples)


DRAWN: dict[str, tuple[Callable[[random.Random, float], float], Scatter]] = {
    "lognormal": (lognormal, SIX),
    "stepped": (stepped, SIX),
}


def scatter_of(samples: Sequence[float]) -> Scatter:
    logs = [math.log(value) for value in samples]
    mean = math.fsum(logs) / len(logs)
    return Scatter(math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1), len(logs) - 1)


for _number, _point in enumerate(REFERENCES):
    DRAWN[f"reference {_number}"] = resampled(_number), scatter_of(_point.samples_to_target)


@pytest.mark.slow
@pytest.mark.parametrize("num_claimed", [5, 10])
@pytest.mark.parametrize("tolerance", [0.1, 0.15, 0.2])
@pytest.mark.parametrize("name", DRAWN)
def test_wrong_verdicts_are_rare(name: str, tolerance: float, num_claimed: int) -> None:
    """An honest claim is refused, and one that is better by the tolerance confirmed, in 5 %, of any distribution."""
    draw, scatter = DRAWN[name]
    chance = random.Random(f"{name} {tolerance} {num_claimed}")
    wrong = {1.0: 0, 1 + tolerance: 0}
    for ratio in wrong:
        for _ in range(10_000):
            claimed = [draw(chance, 1.0) for _ in range(num_claimed)]
            verdict = judge(claimed, [draw(chance, ratio) for _ in range(20)], scatter, tolerance)
            wrong[ratio] += verdict.status == ("not reproduced" if ratio == 1.0 else "reproduced")

    assert max(wrong.values()) / 10_000 <= 0.06  # 5 %, and three standard deviations of what was simulated


@pytest.mark.parametrize("num_claimed", [1, 5, 10])
@pytest.mark.parametrize("looks", [(5,), (5, 10, 20), (3, 6, 9, 12)])
def test_bound_is_exceeded_at_any_look_in_5_per_cent(num_claimed: int, looks: tuple[int, ...]) -> None:
    """Simulated as what it is for: the statistics of a difference that is none, with a known scatter."""
    chance, bound = random.Random(7), common_bound(num_claimed, looks)
    steps = [now - before for before, now in itertools.pairwise((0, *looks))]
    exceeded, num_draws = 0, 20_000
    for _ in range(num_draws):
        claimed, total, seen = chance.gauss(0, 1 / math.sqrt(num_claimed)), 0.0, 0
        for step in steps:
            total, seen = total + chance.gauss(0, math.sqrt(step)), seen + step
            if (total / seen - claimed) / math.sqrt(1 / seen + 1 / num_claimed) > bound:
                exceeded += 1
                break

    assert exceeded / num_draws == pytest.approx(0.05, abs=0.0046)  # three standard deviations
    assert len(looks) > 1 or bound == pytest.approx(1.6449, abs=1e-3)


def test_bounds_for_the_usual_claims() -> None:
    assert (round(common_bound(5), 2), round(common_bound(10), 2)) == (1.91, 1.95)


@pytest.mark.parametrize("seed", range(20))
def test_interruption_changes_nothing(seed: int) -> None:
    """The verdict on the runs so far is final once there is one, and comes at a look only."""
    chance = random.Random(seed)
    claimed = [lognormal(chance, 1.0) for _ in range(5)]
    new = [None if chance.random() < 0.1 else lognormal(chance, chance.choice(RATIOS)) for _ in range(25)]
    found = [judge(claimed, new[:number], SIX, 0.1) for number in range(26)]

    for number, verdict in enumerate(found):
        assert verdict.num_runs in (0, *LOOKS)
        assert verdict.num_runs <= number
        assert (verdict.status == "undecided") == (number < found[-1].num_runs)
    assert {verdict for verdict in found if verdict.status != "undecided"} == {found[-1]}


def test_watched_interval_holds_after_each_run_at_once() -> None:
    """In at most 10 % does it ever leave out the true ratio, and it confirms less often than the planned looks."""
    chance = random.Random(11)
    left_out = confirmed = 0
    for _ in range(2000):
        claimed, new = ([lognormal(chance, 1.0) for _ in range(number)] for number in (5, 20))
        found = [at_any_time(claimed, new[:number], SIX) for number in range(1, 21)]
        left_out += not all(interval is not None and interval[0] <= 1 <= interval[1] for interval in found)
        confirmed += any(interval is not None and interval[1] < 1.1 for interval in found)

    assert left_out / 2000 <= 0.10
    assert confirmed / 2000 == pytest.approx(0.73, abs=0.03)
    assert at_any_time([100.0, None], [None], SIX) is None


def check(verdict: Verdict, status: str, why: str) -> None:
    assert verdict.status == status, verdict
    assert why in verdict.why


def test_limit_is_the_tolerance() -> None:
    """Without scatter, a claim that is too good by the tolerance is refused, by a little less confirmed."""
    none = Scatter(0.0, 19)

    check(judge([100.0] * 5, [110.001] * 5, none, 0.1), "not reproduced", "10.0 % worse than claimed")
    check(judge([100.0] * 5, [109.9] * 5, none, 0.1), "reproduced", "at most 9.9 % worse than claimed")


def test_what_is_said_besides_the_verdict() -> None:
    """Ratio, interval and the two significances describe the same logarithms; faster runs confirm."""
    faster = judge([100.0] * 5, [80.0] * 5, SIX, 0.1)
    same = judge([100.0] * 10, [101.0] * 20, Scatter(0.02**2, 19), 0.1)
    slower = judge([100.0] * 5, [130.0] * 5, SIX, 0.1)

    assert faster.ratio == pytest.approx(0.8)
    assert (faster.status, faster.is_faster, faster.is_slower, faster.is_equivalent) == (
        "reproduced",
        True,
        False,
        False,
    )
    assert (same.status, same.is_faster, same.is_slower, same.is_equivalent) == ("reproduced", False, False, True)
    assert (slower.status, slower.is_faster, slower.is_slower) == ("not reproduced", False, True)
    for verdict in (faster, same, slower):
        assert verdict.ratio is not None
        assert verdict.interval is not None
        low, high = verdict.interval
        assert low * high == pytest.approx(verdict.ratio**2)
        assert verdict.bound is not None
        assert high - 1 < verdict.bound  # looking several times costs something


def test_undecided_becomes_inconclusive_at_the_last_look() -> None:
    claimed, new = [100.0] * 5, [105.0] * 20
    wide = Scatter(0.11**2, 10_000)

    check(judge(claimed, [], wide, 0.1), "undecided", "the first look is at 5 runs")
    check(judge(claimed, new[:10], wide, 0.1), "undecided", "neither shown")
    check(judge(claimed, new, wide, 0.1), "inconclusive", "neither shown")


@pytest.mark.parametrize(("num_runs", "most"), [(1, 1), (5, 1), (10, 2), (20, 3)])
def test_more_misses_than_permitted_refuse_the_claim(num_runs: int, most: int) -> None:
    """Whatever the others reach; up to as many leave the verdict to the others."""
    assert permitted_misses(num_runs) == most
    for missed in range(num_runs):
        verdict = judge([100.0] * 5, [*[None] * missed, *[90.0] * (num_runs - missed)], SIX, 0.1, (num_runs,))
        assert verdict.missed_new == missed
        if missed > most:
            check(verdict, "not reproduced", f"{missed} of {num_runs} new runs missed the target; at most {most} may")
        else:
            assert verdict.status != "not reproduced"


def test_significantly_more_misses_are_never_reproduced() -> None:
    """Three of 20 are permitted, but not where none of 60 claimed runs missed."""
    new = [*[None] * 3, *[90.0] * 17]

    check(judge([100.0] * 10, new, SIX, 0.1, (20,)), "reproduced", "worse than claimed")
    check(judge([100.0] * 60, new, SIX, 0.1, (20,)), "inconclusive", "more runs miss the target than in the claim")


def test_fisher_is_the_share_of_all_ways_to_distribute_the_misses() -> None:
    for missed, claimed, new in itertools.product(range(5), range(1, 5), range(1, 5)):
        if missed > claimed + new:
            continue
        ways = [
            sum(place >= claimed for place in chosen) for chosen in itertools.combinations(range(claimed + new), missed)
        ]
        for here in range(max(0, missed - claimed), min(missed, new) + 1):
            share = sum(number >= here for number in ways) / len(ways)
            assert fisher(missed - here, claimed, here, new) == pytest.approx(share)


def test_too_little_is_said_to_be_too_little() -> None:
    """No scatter without a reference and with one new run; no claim of runs that reached the target."""
    for claimed, new, reference in (([100.0], [100.0], None), ([None, None], [100.0] * 5, SIX)):
        verdict = judge(claimed, new, reference, 0.1, (len(new),))
        check(verdict, "inconclusive", "too few runs reached the target")
        assert (verdict.ratio, verdict.interval, verdict.bound) == (None, None, None)


def test_claim_of_one_run_is_confirmed_with_its_own_uncertainty() -> None:
    """It counts as one observation of the reference's scatter, which only a wide tolerance bears."""
    new = [94.0, 106.4] * 10  # as scattered as the reference

    assert judge([100.0], new, SIX, 0.1).status == "inconclusive"
    assert judge([100.0], new, SIX, 0.2).status == "reproduced"


def test_own_scatter_counts_without_a_reference() -> None:
    """A recipe of the open division has no reference: 4 degrees of freedom from 5 new runs."""
    new = [98.0, 99.0, 100.0, 101.0, 102.0]
    alone, known = judge([100.0] * 5, new, None, 0.1), judge([100.0] * 5, new, scatter_of(new), 0.1)

    assert alone.interval is not None
    assert known.interval is not None
    assert alone.interval[1] > known.interval[1] > 1


def test_honest_claims_are_too_alike_as_often_as_the_probability_says() -> None:
    chance = random.Random(3)
    found = [too_alike([lognormal(chance, 1.0) for _ in range(5)], SIX) for _ in range(4000)]

    for level in (0.05, 0.25, 0.75):
        share = sum(value is not None and value < level for value in found) / len(found)
        assert share == pytest.approx(level, abs=0.021)
    assert too_alike([100.0] * 5, SIX) == 0.0
    assert too_alike([100.0, None], SIX) is None
    assert too_alike([100.0] * 5, Scatter(0.0, 19)) is None


@pytest.mark.parametrize(("ratio", "least"), [(1.2, 0.92), (1.15, 0.95)])
def test_claim_that_was_cut_is_refused(ratio: float, least: float) -> None:
    """By 20 % with a scatter up to 11 %, by 15 % with up to 6 %."""
    cv = 11 if ratio == 1.2 else 6

    assert of((5, cv), ratio, 2000).shares["not reproduced"] >= least - 0.02
