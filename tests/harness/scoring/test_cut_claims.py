"""A claim whose samples were cut by an editor of logs, against new runs: both resampled from the reference runs."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter

import pytest

from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.scoring.convergence import reference_at
from harness.scoring.non_inferiority import LOOKS, Scatter, judge, tolerance_of
from harness.scoring.prospect import NUM_DRAWS, prospect

MINI = {
    rules.workload: rules
    for rules in load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks.values()
    if rules.suite == "mini"
}
TEN = 0.1  # the tolerance at which the bars are stated


def reference(rules: BenchmarkRules) -> tuple[list[float], Scatter]:
    """The samples of the reference at its own batch size, and how they scatter."""
    size = int(rules.defaults()["global_batch_size"])
    found = reference_at(rules.reference_convergence, size)
    assert not isinstance(found, str)
    points = [point for point in rules.reference_convergence if point.global_batch_size == size]
    return [s for point in points for s in point.samples_to_target], Scatter(found.variance, found.num_runs - 1)


@functools.cache
def verdicts(name: str, cut: float, tolerance: float, num_draws: int, num_claimed: int = 5) -> Counter[str]:
    """The verdicts on claims whose samples are less by `cut` than those of the runs that they were made of."""
    samples, scatter = reference(MINI[name])
    chance = random.Random(f"{name} {cut}")
    found: Counter[str] = Counter()
    for _ in range(num_draws):
        claimed = [(1 - cut) * run for run in chance.choices(samples, k=num_claimed)]
        new = chance.choices(samples, k=LOOKS[-1])
        found[judge(claimed, new, scatter, tolerance, LOOKS).status] += 1
    return found


def share(name: str, status: str, cut: float, tolerance: float, num_draws: int = 1000) -> float:
    return verdicts(name, cut, tolerance, num_draws)[status] / num_draws


@pytest.mark.parametrize("name", MINI)
def test_claim_cut_by_a_fifth_is_not_reproduced(name: str) -> None:
    """In at least 92 of 100 cases at a tolerance of 10 %; here the scatter is up to 12 %."""
    assert share(name, "not reproduced", 0.2, TEN) >= 0.92
    assert share(name, "reproduced", 0.2, TEN) == 0


@pytest.mark.parametrize("name", [name for name, rules in MINI.items() if reference(rules)[1].variation < 0.065])
def test_claim_cut_by_15_percent_is_not_reproduced_where_runs_scatter_little(name: str) -> None:
    assert share(name, "not reproduced", 0.15, TEN) >= 0.95


@pytest.mark.parametrize("name", MINI)
def test_tolerance_of_the_rules_confirms_no_claim_cut_by_a_fifth(name: str) -> None:
    """A tolerance of 20 % leaves little between itself and the 25 % that such a claim is too good.

    Fewer are refused; the others are inconclusive.
    """
    tolerance = tolerance_of(MINI[name].reproduce_tolerance, reference(MINI[name])[1])
    assert tolerance is not None

    assert share(name, "reproduced", 0.2, tolerance) <= 0.03
    assert share(name, "not reproduced", 0.2, tolerance) >= (0.8 if tolerance == 0.2 else 0.98)


@pytest.mark.parametrize("name", MINI)
def test_honest_claim_is_hardly_ever_refused(name: str) -> None:
    """The same procedure with nothing cut: resampled, not log-normal."""
    tolerance = tolerance_of(MINI[name].reproduce_tolerance, reference(MINI[name])[1])
    assert tolerance is not None

    assert share(name, "not reproduced", 0.0, tolerance) <= 0.05


def simulated(num_claimed: int, scatter: Scatter, tolerance: float, num_draws: int) -> tuple[dict[int, float], float]:
    """The share reproduced by each look, and the mean number of runs, by other draws than the plan's."""
    chance = random.Random(f"other draws {num_claimed} {tolerance}")
    deviation = math.sqrt(scatter.variance)
    by, num_runs = Counter[int](), 0
    for _ in range(num_draws):
        claimed, new = (
            [math.exp(chance.normalvariate(0.0, deviation)) for _ in range(count)] for count in (num_claimed, LOOKS[-1])
        )
        verdict = judge(claimed, new, scatter, tolerance, LOOKS)
        num_runs += verdict.num_runs
        if verdict.status == "reproduced":
            by.update(look for look in LOOKS if look >= verdict.num_runs)
    return {look: by[look] / num_draws for look in LOOKS}, num_runs / num_draws


@pytest.mark.slow
@pytest.mark.parametrize("num_claimed", [1, 5, 10])
@pytest.mark.parametrize("name", MINI)
def test_power_in_the_plan_is_that_of_10_000_repetitions(name: str, num_claimed: int) -> None:
    """Within 3 points at each look, and the number of runs, which the cost follows, within 5 %."""
    _, scatter = reference(MINI[name])
    tolerance = tolerance_of(MINI[name].reproduce_tolerance, scatter)
    assert tolerance is not None

    planned = prospect(num_claimed, scatter, tolerance, LOOKS, num_draws=NUM_DRAWS)
    shares, num_runs = simulated(num_claimed, scatter, tolerance, 10_000)

    for look in LOOKS:
        assert planned.reproduced_by[look] == pytest.approx(shares[look], abs=0.03)
    assert planned.num_runs == pytest.approx(num_runs, rel=0.05)
