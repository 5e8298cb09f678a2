"""Where the scatter comes from: components of a simulated variance are found, and intervals hold as they say."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from scipy.stats import chi2, f

from harness.log.seeds import NOISE, ORDER, SOURCES, WEIGHTS
from harness.scoring.components import ALL, INTERACTION, REPEATS, Group, Part, borne, components

E = math.e


def found(groups: Sequence[Group], inert: Sequence[str] = ()) -> dict[str, Part]:
    return {part.name: part for part in components(groups, inert)}


def spread(varied: tuple[str, ...], deviation: float, num_runs: int = 5) -> Group:
    """Runs the logarithms of which have this standard deviation exactly."""
    half = deviation * math.sqrt((num_runs - 1) / num_runs) if num_runs % 2 == 0 else deviation
    signs = [1.0, -1.0] * (num_runs // 2) + [0.0] * (num_runs % 2)
    return Group(varied, tuple(1000 * math.exp(half * sign) for sign in signs))


def test_component_is_what_the_repeats_do_not_explain() -> None:
    """0.05^2 - 0.03^2 = 0.04^2, of a whole of 0.08^2: a quarter of the variance."""
    parts = found([spread((WEIGHTS,), 0.05), spread((), 0.03), spread(SOURCES, 0.08)])

    assert list(parts) == [WEIGHTS, REPEATS, ALL]
    assert [part.deviation for part in parts.values()] == [pytest.approx(value) for value in (0.04, 0.03, 0.08)]
    assert [part.share for part in parts.values()] == [pytest.approx(value) for value in (0.25, 0.140625, 1)]
    assert parts[WEIGHTS].p == pytest.approx(f.sf(0.05**2 / 0.03**2, 4, 4))
    assert parts[ALL].p == pytest.approx(f.sf(0.08**2 / 0.03**2, 4, 4))
    assert parts[REPEATS].p is None
    assert [(part.num_runs, part.num_missed, part.dof) for part in parts.values()] == [(5, 0, 4)] * 3


def test_interval_of_a_mean_square_is_that_of_chi_square() -> None:
    part = found([spread((), 0.03)])[REPEATS]

    assert part.interval is not None
    limits = [0.03 * math.sqrt(4 / chi2.ppf(share, 4)) for share in (0.95, 0.05)]
    assert part.interval == (pytest.approx(limits[0], rel=0.01), pytest.approx(limits[1], rel=0.01))
    assert (part.share, part.share_interval) == (None, None)


def test_points_are_pooled_each_with_its_own_mean() -> None:
    """What differs between the points at which the other seeds are held is no scatter of the source."""
    one, other = Group((ORDER,), (E, E**2)), Group((ORDER,), (E**7, E**7, None, E**10))

    part = found([one, other, spread((), 0.1, 2)])[ORDER]

    assert (part.num_runs, part.num_missed, part.dof) == (6, 1, 3)
    assert part.deviation == pytest.approx(math.sqrt((0.5 + 6) / 3 - 0.1**2))


def test_scatter_below_the_repeats_is_none() -> None:
    parts = found([spread((NOISE,), 0.01), spread((), 0.03), spread(SOURCES, 0.04)])

    part = parts[NOISE]
    assert (part.deviation, part.share) == (0, 0)
    assert part.interval is not None
    assert part.interval[0] == 0
    assert part.p is not None
    assert part.p > 0.9


def test_without_repeats_a_source_cannot_be_told_from_them() -> None:
    parts = found([spread((WEIGHTS,), 0.05), spread(SOURCES, 0.05)])

    assert parts[WEIGHTS] == Part(WEIGHTS, 5, 0, 4)
    assert parts[ALL].deviation == pytest.approx(0.05)
    assert parts[ALL].p is None


def test_repeats_that_are_equal_leave_the_sources_as_they_are() -> None:
    """On deterministic hardware; what varies at all then varies more, and what does not, does not."""
    same = Group((), (1000.0,) * 5)

    parts = found([spread((WEIGHTS,), 0.05), Group((NOISE,), (1000.0,) * 5), same, spread(SOURCES, 0.05)])

    assert parts[WEIGHTS].deviation == pytest.approx(0.05)
    assert (parts[WEIGHTS].p, parts[NOISE].p) == (0.0, 1.0)
    assert (parts[REPEATS].deviation, parts[REPEATS].interval) == (0.0, (0.0, 0.0))


def test_interaction_is_the_excess_of_the_components() -> None:
    """3 x (0.05^2 - 0.03^2) = 0.0048, of a whole of 0.06^2 - 0.03^2 = 0.0027."""
    groups = [*(spread((source,), 0.05) for source in SOURCES), spread((), 0.03), spread(SOURCES, 0.06)]

    part = found(groups)[INTERACTION]

    assert part.deviation == pytest.approx(math.sqrt(0.0021))
    assert part.share == pytest.approx(0.0021 / 0.0036)
    assert (part.num_runs, part.p) == (0, None)


def test_interaction_needs_runs_of_every_source_that_is_drawn_from() -> None:
    groups = [spread((WEIGHTS,), 0.05), spread((ORDER,), 0.05), spread((), 0.03), spread(SOURCES, 0.06)]

    assert INTERACTION not in found(groups)
    assert found(groups, (NOISE,))[INTERACTION].deviation == pytest.approx(math.sqrt(0.0032 - 0.0027))
    assert INTERACTION not in found(groups[:3], (NOISE,))


def test_runs_that_miss_are_counted() -> None:
    """One that reached has no variance; none at all, neither."""
    parts = found([Group((WEIGHTS,), (None, 1000.0)), Group((), (None, None)), spread(SOURCES, 0.06)])

    assert parts[WEIGHTS] == Part(WEIGHTS, 2, 1, 0)
    assert parts[REPEATS] == Part(REPEATS, 2, 2, 0)
    assert parts[ALL].num_missed == 0


def test_runs_without_any_scatter_have_no_shares() -> None:
    part = found([Group((), (1000.0,) * 3), Group(SOURCES, (1000.0,) * 3)])[ALL]

    assert (part.deviation, part.share, part.p) == (0.0, None, 1.0)


@pytest.mark.parametrize(
    ("deviation", "num_runs", "follows", "ends"),
    [(0.03, 41, 0.10, (0.10, 0.10)), (0.07, 5, 0.15, (0.10, 0.20)), (0.2, 41, 0.20, (0.20, 0.20))],
)
def test_tolerance_follows_from_the_scatter_of_all_seeds(
    deviation: float, num_runs: int, follows: float, ends: tuple[float, float]
) -> None:
    """The limits of the rules: 10 % to a coefficient of variation of 6 %, 15 % to 9 %, 20 % beyond."""
    tolerance = borne([Group(SOURCES, tuple(drawn(random.Random(5), num_runs, deviation)))])

    assert tolerance is not None
    assert tolerance.follows == follows
    assert (tolerance.at_least, tolerance.at_most) == ends
    assert tolerance.interval[0] < tolerance.scatter.variation < tolerance.interval[1]
    assert borne([spread((WEIGHTS,), 0.05)]) is None


def drawn(chance: random.Random, number: int, deviation: float) -> list[float]:
    """Samples with this standard deviation exactly, of a normal shape."""
    logs = [chance.gauss(0, 1) for _ in range(number)]
    mean = math.fsum(logs) / number
    own = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (number - 1))
    return [1000 * math.exp((value - mean) / own * deviation) for value in logs]


def simulated(chance: random.Random, deviations: Sequence[float], interaction: float, noise: float) -> list[Group]:
    """A design of two points and five runs each, of sources with these deviations.

    interaction: of weights and order, a product of their draws. noise: between repeats.
    """

    def run(seeds: Sequence[float]) -> float:
        effects = math.fsum(deviation * seed for deviation, seed in zip(deviations, seeds, strict=True))
        return math.exp(effects + interaction * seeds[0] * seeds[1] + chance.gauss(0, noise))

    def seeds() -> list[float]:
        return [chance.gauss(0, 1) for _ in SOURCES]

    groups = [Group(SOURCES, tuple(run(seeds()) for _ in range(10)))]
    for _ in range(2):
        point = seeds()
        for place, source in enumerate(SOURCES):
            varied = [[*point[:place], chance.gauss(0, 1), *point[place + 1 :]] for _ in range(5)]
            groups.append(Group((source,), tuple(map(run, varied))))
        groups.append(Group((), tuple(run(point) for _ in range(5))))
    return groups


def test_components_are_found_within_their_intervals_at_the_nominal_rate() -> None:
    """Of 300 simulated designs, nine in ten hold each true component and share; three standard deviations are 5 %."""
    chance, deviations, noise = random.Random(1), (0.06, 0.03, 0.0), 0.03
    whole = math.fsum(deviation**2 for deviation in deviations) + noise**2
    true = {**dict(zip(SOURCES, deviations, strict=True)), REPEATS: noise, ALL: math.sqrt(whole), INTERACTION: 0.0}
    held, share_held, significant = dict.fromkeys(true, 0), dict.fromkeys(true, 0), dict.fromkeys(true, 0)
    for _ in range(300):
        for name, part in found(simulated(chance, deviations, 0.0, noise)).items():
            assert part.interval is not None
            assert part.share_interval is not None
            held[name] += part.interval[0] <= true[name] <= part.interval[1]
            share_held[name] += part.share_interval[0] <= true[name] ** 2 / whole <= part.share_interval[1]
            significant[name] += part.p is not None and part.p < 0.05

    for name in true:
        is_nothing = true[name] == 0  # the lower limit is then never above it
        assert 0.85 <= held[name] / 300 <= (1.0 if is_nothing else 0.95), name
        assert name == ALL or share_held[name] / 300 >= 0.85, name
    assert significant[NOISE] / 300 <= 0.09
    assert 0.62 <= significant[WEIGHTS] / 300 <= 0.78  # 0.70: F of 8 and 8 above 3.44 at a ratio of 5


def test_interaction_is_in_each_of_its_sources() -> None:
    """The mean over designs: 0.04^2 of weights and order each and 0.03^2 of both together, which is in either."""
    chance, wholes = random.Random(2), dict.fromkeys((WEIGHTS, ORDER, NOISE, INTERACTION), 0.0)
    number = 200
    for _ in range(number):
        parts = found(simulated(chance, (0.04, 0.04, 0.0), 0.03, 0.01))
        for name in wholes:
            deviation = parts[name].deviation
            assert deviation is not None
            wholes[name] += deviation**2 / number

    assert wholes[WEIGHTS] == pytest.approx(0.04**2 + 0.03**2, rel=0.2)
    assert wholes[ORDER] == pytest.approx(0.04**2 + 0.03**2, rel=0.2)
    assert wholes[NOISE] < 0.02**2
    assert wholes[INTERACTION] > 0.5 * 0.03**2  # negative estimates count as 0, so the mean is biased upwards
