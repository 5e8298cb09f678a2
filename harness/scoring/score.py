"""The logs of a result and the rules -> its score. Pure.

A score is the olympic mean of the required runs, normalised for convergence that was faster than the reference's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from harness.base.stats import p_not_slower, trimmed_interval, trimmed_mean
from harness.cost.money import mean_cost_usd
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import EnergySource
from harness.energy.score import ScoreEnergy, score_energy
from harness.errors import InputError
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, Timing
from harness.scoring.convergence import Verdict, judge_convergence
from harness.scoring.run_result import RunResult, run_result

SIGNIFICANCE = 0.05  # one-sided: a row leaves its leader's band when it is slower at this level


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a result.

    seconds: olympic mean after normalisation; None where the result has no score, and `why_not` says why.
    interval: 95 % confidence interval of the trimmed mean, in seconds after normalisation (Tukey and McLaughlin
        1963); None where only one run is kept. It covers the spread of the runs, not that of the reference.
    raw_seconds: before normalisation. normalised_by: factor >= 1 that takes back convergence faster than the
        reference's. runs: all runs; dropped: indices into runs of those left out of the mean.
    samples: trimmed mean of the samples to target.
    energy: over the runs that are averaged, after normalisation; None where none of them was metered.
    usd: mean over the same runs, after normalisation; None without a price.
    convergence: the comparison with the reference; None where the rules have no reference or the division is open.
    """

    benchmark: str
    division: str
    seconds: float | None
    interval: tuple[float, float] | None
    raw_seconds: float | None
    normalised_by: float
    samples: float | None
    energy: ScoreEnergy | None
    usd: Decimal | None
    runs: tuple[RunResult, ...]
    dropped: tuple[int, ...]
    why_not: str | None = None
    convergence: Verdict | None = None

    @property
    def energy_j(self) -> float | None:
        """Joules; None means "not measured" or "cannot be known", never 0."""
        return None if self.energy is None else self.energy.joules

    @property
    def energy_source(self) -> EnergySource:
        """ "measured", "estimated" (modelled beyond what the rules permit) or "none"."""
        return "none" if self.energy is None else self.energy.source


def no_score(benchmark: str, division: str, runs: tuple[RunResult, ...] = (), why_not: str | None = None) -> Score:
    """A result without a number."""
    return Score(
        benchmark=benchmark,
        division=division,
        seconds=None,
        interval=None,
        raw_seconds=None,
        normalised_by=1.0,
        samples=None,
        energy=None,
        usd=None,
        runs=runs,
        dropped=(),
        why_not=why_not,
    )


def score(
    logs: Sequence[RunLog],
    rules: BenchmarkRules,
    timing: Timing,
    division: str,
    usd_per_hour: Decimal | None = None,
    limits: EnergyLimits | None = None,
    num_nodes: int | None = None,
) -> Score:
    """The score of the result whose runs are `logs`.

    There must be exactly `rules.num_runs` of them. The `rules.drop` fastest and slowest are left out; a run that
    missed the target counts as slowest, and at most `rules.drop` may do so. Outside the open division, time, interval,
    energy and cost are multiplied by the factor that takes back convergence faster than the reference's, even where it
    was too fast to be accepted (that is a finding; this is only the number).

    `why_not` says what prevents a score; a log that cannot be interpreted prevents it too.
    """
    runs, unreadable = [], []
    for log in logs:
        try:
            runs.append(run_result(log, rules, usd_per_hour, timing, limits, num_nodes))
        except InputError as error:
            unreadable.append(str(error))
    without = no_score(rules.name, division, tuple(runs))
    missed = [run for run in runs if run.seconds is None]
    if unreadable:
        return replace(without, why_not=unreadable[0])
    if len(runs) != rules.num_runs:
        return replace(without, why_not=f"{_runs(len(runs))} found; the rules require {rules.num_runs}")
    if len(missed) > rules.drop:
        return replace(
            without,
            why_not=f"{_runs(len(missed))} of {len(runs)} missed the target; at most {rules.drop} may. "
            f"{missed[0].path}: {missed[0].why_not}",
        )
    verdict = None
    if division != "open" and rules.reference_convergence:
        batch_size, *others = [log.value(keys.GLOBAL_BATCH_SIZE) for log in logs]
        if not isinstance(batch_size, int) or any(other != batch_size for other in others):
            why_not = "the runs do not name one global_batch_size, so no reference can be chosen"
            return replace(without, why_not=why_not)
        samples = [run.samples for run in runs]
        verdict = judge_convergence(samples, batch_size, rules.reference_convergence, rules.drop)
    return _mean(without, rules.drop, verdict, usd_per_hour, limits)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _mean(
    without: Score, drop: int, verdict: Verdict | None, usd_per_hour: Decimal | None, limits: EnergyLimits | None
) -> Score:
    """The score over the runs of `without`, of which at most `drop` missed the target."""
    runs = without.runs
    factor = 1.0 if verdict is None else verdict.factor
    order = sorted(range(len(runs)), key=lambda i: _order(runs[i]))
    averaged = [runs[i] for i in order[drop : len(order) - drop]]
    times = [_time(run) for run in runs]
    interval = trimmed_interval(times, drop)
    idle = next((run.idle_w for run in runs if run.idle_w is not None), None)
    raw_seconds = trimmed_mean(times, drop)
    # From the times: the runs' costs are rounded. Every averaged run reached the target.
    usd = None if usd_per_hour is None else mean_cost_usd([_time(run) for run in averaged], usd_per_hour, factor)
    return replace(
        without,
        seconds=raw_seconds * factor,
        interval=None if interval is None else (max(0.0, interval[0] * factor), interval[1] * factor),
        raw_seconds=raw_seconds,
        normalised_by=factor,
        samples=trimmed_mean([math.inf if run.samples is None else run.samples for run in runs], drop),
        energy=score_energy([run.energy for run in averaged], factor, limits, idle),
        usd=usd,
        dropped=tuple(sorted(order[:drop] + order[len(order) - drop :])),
        convergence=verdict,
    )


def _order(run: RunResult) -> tuple[float, float]:
    """By time, then by energy with unmetered runs first, so that the mean energy is independent of the runs' order."""
    return _time(run), -math.inf if run.energy_j is None else run.energy_j


def _time(run: RunResult) -> float:
    return math.inf if run.seconds is None else run.seconds


def is_slower(other: Score, leader: Score) -> bool:
    """Whether `other` is significantly slower than `leader`; both have a score."""
    assert other.seconds is not None
    assert leader.seconds is not None
    drop = len(leader.dropped) // 2
    times = [[_time(run) * one.normalised_by for run in one.runs] for one in (leader, other)]
    doubt = p_not_slower(times[0], times[1], drop) if len(other.dropped) == len(leader.dropped) else None
    return other.seconds > leader.seconds if doubt is None else doubt < SIGNIFICANCE
