"""The logs of a result and the rules -> its score. Pure.

In the closed division everyone trains the same recipe, so that the number of samples that a run needs is luck, and the
seconds per sample are the system. The score is therefore

    fixed part + seconds per sample * samples of the reference at this batch size,

with the result's own samples where it needs significantly more than the reference (the *pace score*). In the open
division, and where the rules have no reference, the score is the measured time: the olympic mean of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from harness.base.stats import Estimate, trimmed_error, trimmed_mean, trimming_cost, variance
from harness.base.values import is_whole
from harness.cost.money import cost_usd, mean_cost_usd
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import EnergySource
from harness.energy.score import ScoreEnergy, score_energy
from harness.errors import InputError
from harness.log import keys
from harness.log.repeated import scored
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, Timing
from harness.scoring.convergence import Verdict, judge_convergence
from harness.scoring.run_result import RunResult, run_result

Basis = Literal["pace", "own samples", "measured"]
MIN_SECONDS = 1e-9  # the resolution of the clock; a damaged log may have a run of no time


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a result.

    seconds: the score; None where the result has none, and `why_not` says why. basis: how it is made: "pace" (seconds
        per sample times the reference's samples), "own samples" (times the result's own, which are significantly
        more), or "measured" (the measured time).
    interval: 95 % confidence interval of `seconds`; None where only one run is known. errors: of its logarithm, for
        each source the variance and its degrees of freedom.
    measured_seconds, measured_interval: olympic mean of the times of the runs, as they were measured.
    fixed_s: mean of the seconds that do not grow with the samples. pace_s: seconds per sample, geometric mean of the
        runs. scored_samples: what it is multiplied by. None where the score is the measured time.
    runs: all runs; dropped: indices into runs of those left out of the olympic mean. num_beyond: the last runs of a
        reproduction, as many as are more than the rules require: the score is that of the runs before them.
    samples: trimmed mean of the samples to target.
    energy: in proportion to the time: of the runs that reached the target, each scaled to `scored_samples`; of the
        averaged runs as measured where the score is the measured time. None where none of them was metered.
    measured_energy: of the averaged runs, as measured.
    usd: `seconds` at list price; measured_usd: `measured_seconds`. None without a price.
    convergence: the comparison with the reference; None where the rules have no reference or the division is open.
    """

    benchmark: str
    division: str
    seconds: float | None
    interval: tuple[float, float] | None
    samples: float | None
    energy: ScoreEnergy | None
    usd: Decimal | None
    runs: tuple[RunResult, ...]
    dropped: tuple[int, ...]
    why_not: str | None = None
    convergence: Verdict | None = None
    basis: Basis = "measured"
    errors: tuple[tuple[float, float], ...] = ()
    measured_seconds: float | None = None
    measured_interval: tuple[float, float] | None = None
    measured_usd: Decimal | None = None
    measured_energy: ScoreEnergy | None = None
    fixed_s: float | None = None
    pace_s: float | None = None
    scored_samples: float | None = None
    num_beyond: int = 0

    @property
    def energy_j(self) -> float | None:
        """Joules; None means "not measured" or "cannot be known", never 0."""
        return None if self.energy is None else self.energy.joules

    @property
    def energy_source(self) -> EnergySource:
        """ "measured", "estimated" (modelled beyond what the rules permit) or "none"."""
        return "none" if self.energy is None else self.energy.source

    @property
    def estimate(self) -> Estimate:
        """The score with its errors; there must be a score."""
        assert self.seconds is not None
        return Estimate(max(self.seconds, MIN_SECONDS), self.errors)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Indices into runs of those that do not count: the extremes of an olympic mean, runs without a pace, and those
        beyond the ones that are scored."""
        num_scored = len(self.runs) - self.num_beyond
        beyond = range(num_scored, len(self.runs))
        if self.scored_samples is None:
            return (*self.dropped, *beyond)
        return (*(index for index, run in enumerate(self.runs[:num_scored]) if run.pace_s is None), *beyond)

    def seconds_of(self, run: RunResult) -> float | None:
        """What one run contributes: its time as it would be with `scored_samples`; None if it missed the target."""
        if self.scored_samples is None or run.pace_s is None:
            return run.seconds
        return run.fixed_s + run.pace_s * self.scored_samples


def no_score(benchmark: str, division: str, runs: tuple[RunResult, ...] = (), why_not: str | None = None) -> Score:
    """A result without a number."""
    return Score(
        benchmark=benchmark,
        division=division,
        seconds=None,
        interval=None,
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
    num_unfinished: int = 0,
) -> Score:
    """The score of the result whose runs are `logs`; a log that cannot be interpreted prevents it, see `why_not`.

    logs: by number; of a reproduction that has more than the rules require, the first are scored.
    num_unfinished: tickets of a witness without a finished run. Each is one more run, which missed.
    """
    runs, unreadable = [], []
    for log in logs:
        try:
            runs.append(run_result(log, rules, usd_per_hour, timing, limits, num_nodes))
        except InputError as error:
            unreadable.append(str(error))
    if unreadable:
        return no_score(rules.name, division, tuple(runs), unreadable[0])
    sizes = [log.value(keys.GLOBAL_BATCH_SIZE) for log in logs]
    batch_size = sizes[0] if sizes and is_whole(sizes[0]) and all(size == sizes[0] for size in sizes) else None
    num_scored = len(scored(logs, rules.required_runs(division)))
    found = score_runs(runs[:num_scored], rules, division, batch_size, usd_per_hour, limits, num_unfinished)
    return replace(found, runs=tuple(runs), num_beyond=len(runs) - num_scored)


def score_runs(
    runs: Sequence[RunResult],
    rules: BenchmarkRules,
    division: str,
    batch_size: int | None,
    usd_per_hour: Decimal | None = None,
    limits: EnergyLimits | None = None,
    num_unfinished: int = 0,
) -> Score:
    """The score of the result that consists of `runs`; `why_not` says what prevents one.

    There must be exactly as many as the division requires, and at most `rules.drop` may miss the target, together with
    the `num_unfinished` that have no log. batch_size: the global batch size of all runs; None where they do not name
    one.
    """
    without = no_score(rules.name, division, tuple(runs))
    missed = [run for run in runs if run.seconds is None]
    required = rules.required_runs(division)
    if len(runs) != required:
        return replace(without, why_not=f"{_runs(len(runs))} found; the rules require {required}")
    if num_unfinished and len(missed) + num_unfinished > rules.drop:
        return replace(
            without,
            why_not=f"{_runs(num_unfinished)} had a ticket and no end, and {len(missed)} missed the target; at most "
            f"{rules.drop} may",
        )
    if len(missed) > rules.drop:
        return replace(
            without,
            why_not=f"{_runs(len(missed))} of {len(runs)} missed the target; at most {rules.drop} may. "
            f"{missed[0].path}: {missed[0].why_not}",
        )
    verdict = None
    if rules.reference_convergence and batch_size is None and division != "open":
        return replace(without, why_not="the runs do not name one global_batch_size, so no reference can be chosen")
    if rules.reference_convergence and batch_size is not None:
        samples = [*(run.crossing_samples for run in runs), *[None] * num_unfinished]
        verdict = judge_convergence(samples, batch_size, rules.reference_convergence, rules.drop)
    measured = _measured(without, verdict, rules.drop, usd_per_hour, limits, num_unfinished)
    if division == "open" or verdict is None:
        return measured
    measured = replace(measured, convergence=verdict)
    if verdict.reference_samples is None or any(run.pace_s is None for run in runs if run.seconds is not None):
        return measured
    return _paced(measured, verdict, rules.drop, usd_per_hour, limits)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _measured(
    without: Score,
    verdict: Verdict | None,
    drop: int,
    usd_per_hour: Decimal | None,
    limits: EnergyLimits | None,
    num_unfinished: int,
) -> Score:
    """The measured time of the runs of `without`, of which at most `drop` missed the target, as their score.

    Those without an end are the slowest.
    """
    runs, without_end = without.runs, [math.inf] * num_unfinished
    num_kept = len(runs) + num_unfinished - drop  # a slice that ends there has none of the slowest
    order = sorted(range(len(runs)), key=lambda i: _order(runs[i]))
    averaged = [runs[i] for i in order[drop:num_kept]]
    dropped = order[:drop] + order[num_kept:]
    left_out = [runs[i].energy for i in dropped if runs[i].seconds is not None]
    times, paces = [*map(_time, runs), *without_end], [run.pace_s for run in runs]
    seconds = trimmed_mean(times, drop)
    errors = olympic_errors(
        times, paces, [run.crossing_samples for run in runs], verdict, drop, without.division == "open"
    )
    interval = Estimate(seconds, errors).interval()
    usd = None if usd_per_hour is None else mean_cost_usd([_time(run) for run in averaged], usd_per_hour)
    energy = score_energy([run.energy for run in averaged], None, limits, _idle_w(runs), others=left_out)
    return replace(
        without,
        seconds=seconds,
        interval=interval,
        errors=errors,
        measured_seconds=seconds,
        measured_interval=interval,
        samples=trimmed_mean([*(math.inf if run.samples is None else run.samples for run in runs), *without_end], drop),
        energy=energy,
        usd=usd,
        measured_usd=usd,
        measured_energy=energy,
        dropped=tuple(sorted(dropped)),
    )


def olympic_errors(
    seconds: Sequence[float],
    paces: Sequence[float | None],
    samples: Sequence[float | None],
    verdict: Verdict | None,
    drop: int,
    is_open: bool,
) -> tuple[tuple[float, float], ...]:
    """The errors of the logarithm of the olympic mean of `seconds`, of which failed runs have infinite ones.

    Where the rules have a reference, they are those of the samples, whose scatter is pooled with the reference's, and
    of the seconds per sample. A recipe of the open division may scatter more than the reference: there the larger of
    the pooled scatter and its own counts. Without a reference, the scatter is that of the times (Tukey and McLaughlin).

    paces, samples: of each run, seconds per sample and samples to target; None where unknown.
    """
    known = [math.log(pace) for pace in paces if pace is not None]
    share = trimming_cost(len(seconds), drop) / len(seconds)
    if verdict is None or verdict.variance is None or verdict.dof is None or len(known) < 2:
        return trimmed_error([math.log(max(time, MIN_SECONDS)) for time in seconds], drop)
    spread: tuple[float, float] = (verdict.variance, verdict.dof)
    crossings = [math.log(crossing) for crossing in samples if crossing]
    if is_open and len(crossings) == len(seconds) and (own := variance(crossings)) > verdict.variance:
        spread = own, len(seconds) - 1
    return (spread[0] * share, spread[1]), (variance(known) * share, len(known) - 1)


def _paced(
    measured: Score, verdict: Verdict, drop: int, usd_per_hour: Decimal | None, limits: EnergyLimits | None
) -> Score:
    """The pace score of a result whose measured time is known."""
    assert verdict.reference_samples is not None
    assert verdict.own_samples is not None
    assert verdict.variance is not None
    assert verdict.dof is not None
    is_slower = verdict.status == "slower"
    samples = verdict.own_samples if is_slower else verdict.reference_samples
    paced = [run for run in measured.runs if run.pace_s is not None]
    fixed_s, pace_s = mean_pace(paced)
    seconds = fixed_s + pace_s * samples
    scored = replace(measured, basis="own samples" if is_slower else "pace", scored_samples=samples)
    times = [math.log(scored.seconds_of(run) or 0.0) for run in paced]
    errors: tuple[tuple[float, float], ...] = ()
    if len(times) > 1:
        errors = ((variance(times) / len(times), len(times) - 1),)
    num_runs = len(measured.runs)
    luck = ((verdict.variance * trimming_cost(num_runs, drop) / num_runs, verdict.dof),) if is_slower else ()
    errors = (*errors, *luck) if errors else ()
    reached = [run for run in paced if run.seconds is not None]
    factors = [(scored.seconds_of(run) or 0.0) / (run.seconds or 1.0) for run in reached]
    return replace(
        scored,
        seconds=seconds,
        interval=Estimate(seconds, errors).interval(),
        errors=errors,
        energy=score_energy([run.energy for run in reached], factors, limits, _idle_w(measured.runs), luck),
        usd=None if usd_per_hour is None else cost_usd(seconds, usd_per_hour),
        fixed_s=fixed_s,
        pace_s=pace_s,
    )


def mean_pace(paced: Sequence[RunResult]) -> tuple[float, float]:
    """Return the mean fixed seconds and the geometric mean of the seconds per sample of runs that have a pace."""
    fixed_s = math.fsum(run.fixed_s for run in paced) / len(paced)
    return fixed_s, math.exp(math.fsum(math.log(run.pace_s or 0.0) for run in paced) / len(paced))


def _idle_w(runs: Sequence[RunResult]) -> float | None:
    return next((run.idle_w for run in runs if run.idle_w is not None), None)


def _order(run: RunResult) -> tuple[float, float]:
    """By time, then by energy with unmetered runs first, so that the mean energy is independent of the runs' order."""
    return _time(run), -math.inf if run.energy_j is None else run.energy_j


def _time(run: RunResult) -> float:
    return math.inf if run.seconds is None else run.seconds
