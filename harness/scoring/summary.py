"""A result in one row, next to the rules' numbers for its benchmark. Pure: from logs and rules alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.base.stats import variance
from harness.base.text_table import aligned
from harness.energy.limits import EnergyLimits
from harness.energy.score import ScoreEnergy, score_energy
from harness.errors import LogError
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, Timing
from harness.scoring import timeline
from harness.scoring.run_result import RunResult, run_result
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result

NOTE = (
    "quality: lowest and highest of the runs, at the deciding evaluation. samples, seconds: to target, mean and median "
    "of the runs\nthat reached it. energy: mean of the same runs, with the class of the meters. waiting: share of the "
    "training time spent\nwaiting for data. variation: standard deviation / mean of the reference's samples to target "
    "at the reference batch size."
)
_HEADER = (
    "benchmark", "target", "reached", "quality", "samples", "seconds", "energy", "waiting", "best without training",
    "variation",
)  # fmt: skip
_LEFT = frozenset({0, 1, 8})


@dataclass(frozen=True, slots=True)
class Summary:
    """One row. None means "not known", never 0.

    num_runs: including logs that cannot be read, excluding reference runs over the full curve, which are not results.
    num_reached: runs that reached the target.
    num_resumed, away_s: runs that went on after an interruption, and for how long nothing of them was running.
    quality: lowest and highest of the runs, at the deciding evaluation; where none decided, the best of the run.
    mean_samples, median_s: to target, over the runs that reached it.
    energy: of the runs that reached it, see `harness.energy.score`; None: nothing was metered.
    data_wait_fraction: share of the timed training spent waiting for data, mean over the runs.
    baseline: name and value of the best solution without training. variation: see `reference_variation`.
    """

    benchmark: str
    division: str
    path: str
    metric: str
    direction: str
    target: float
    num_runs: int
    num_reached: int
    quality: tuple[float, float] | None
    mean_samples: float | None
    median_s: float | None
    energy: ScoreEnergy | None
    data_wait_fraction: float | None
    baseline: tuple[str, float] | None
    variation: float | None
    num_resumed: int = 0
    away_s: float = 0.0

    @property
    def is_reached(self) -> bool:
        """Whether there are runs, and each of them reached its target."""
        return 0 < self.num_runs == self.num_reached


def summarise(
    result: Result, rules: BenchmarkRules, timing: Timing | None = None, limits: EnergyLimits | None = None
) -> Summary:
    """The row of a result; a log that cannot be read, or contradicts itself, has not reached its target.

    timing: without it, evaluations count, as they do in MLPerf. limits: the rules' requirements for energy measurement.
    """
    num_unreadable = sum(RESULT_PATTERN.fullmatch(item.path.name) is not None for item in result.unreadable)
    own = [log for log in result.runs if not timeline.is_full_curve(log)]
    runs: list[RunResult] = []
    for log in own:
        try:
            runs.append(run_result(log, rules, timing=timing, limits=limits, num_nodes=result.num_nodes))
        except LogError:
            num_unreadable += 1
    reached = [run for run in runs if run.seconds is not None]
    qualities = [run.quality for run in runs if run.quality is not None]
    waits = [run.data_wait_fraction for run in runs if run.data_wait_fraction is not None]
    division = next((value for log in own if isinstance(value := log.value(keys.SUBMISSION_DIVISION), str)), "closed")
    return Summary(
        benchmark=rules.name,
        division=division,
        path=str(result.path),
        metric=rules.metric.name,
        direction=rules.metric.direction,
        target=rules.target,
        num_runs=len(runs) + num_unreadable,
        num_reached=len(reached),
        quality=(min(qualities), max(qualities)) if qualities else None,
        mean_samples=fmean(run.samples for run in reached if run.samples is not None) if reached else None,
        median_s=median(run.seconds for run in reached if run.seconds is not None) if reached else None,
        energy=score_energy([run.energy for run in reached], limits=limits),
        data_wait_fraction=fmean(waits) if waits else None,
        baseline=best_baseline(rules),
        variation=reference_variation(rules),
        num_resumed=sum(run.num_resumed > 0 for run in runs),
        away_s=math.fsum(run.away_s for run in runs),
    )


def best_baseline(rules: BenchmarkRules) -> tuple[str, float] | None:
    """Name and value of the best solution without training; None where the rules have none."""
    sign = 1.0 if rules.metric.direction == "max" else -1.0
    return max(rules.baselines.items(), key=lambda item: (sign * item[1], item[0]), default=None)


def reference_variation(rules: BenchmarkRules) -> float | None:
    """Standard deviation / mean of the reference's samples to target at the default batch size; None below two runs."""
    batch_size = rules.hyperparameters[keys.GLOBAL_BATCH_SIZE].default
    samples = [
        number
        for point in rules.reference_convergence
        if point.global_batch_size == batch_size
        for number in point.samples_to_target
    ]
    return math.sqrt(variance(samples)) / fmean(samples) if len(samples) > 1 and fmean(samples) > 0 else None


def as_text(rows: Sequence[Summary]) -> str:
    """The rows as aligned columns with a legend; with paths where a benchmark has several results."""
    names = [(row.benchmark, row.division) for row in rows]
    has_paths = len(set(names)) < len(names)
    header = (*_HEADER, "result") if has_paths else _HEADER
    lines = [(*_cells(row), row.path) if has_paths else _cells(row) for row in rows]
    resumed = [
        f"{row.benchmark}: {row.num_resumed} of {row.num_runs} runs went on after an interruption; the time away, "
        f"{row.away_s:,.1f} s, counts\n"
        for row in rows
        if row.num_resumed
    ]
    return f"{aligned(header, lines, _LEFT | {len(_HEADER)})}\n\n{''.join(resumed)}{NOTE}"


def _cells(row: Summary) -> tuple[str, ...]:
    sign = ">=" if row.direction == "max" else "<="
    return (
        row.benchmark if row.division == "closed" else f"{row.benchmark} ({row.division})",
        f"{row.metric} {sign} {row.target:g}",
        f"{row.num_reached}/{row.num_runs}" if row.num_runs else "-",
        "-" if row.quality is None else " to ".join(f"{value:.4g}" for value in dict.fromkeys(row.quality)),
        "-" if row.mean_samples is None else f"{row.mean_samples:,.0f}",
        "-" if row.median_s is None else f"{row.median_s:,.1f}",
        _energy_cell(row.energy),
        "-" if row.data_wait_fraction is None else f"{row.data_wait_fraction:.1%}",
        "not measured" if row.baseline is None else f"{row.baseline[1]:.4g} {row.baseline[0]}",
        "not measured" if row.variation is None else f"{row.variation:.1%}",
    )


def _energy_cell(energy: ScoreEnergy | None) -> str:
    if energy is None or energy.joules is None:
        return "not measured"
    mark = "estimated" if energy.source == "estimated" else "void" if energy.void else f"class {energy.meter_class}"
    return f"{energy.joules / 1e3:,.2f} kJ ({mark})"
