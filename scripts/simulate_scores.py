#!/usr/bin/env python3
"""What luck and tuning can do to a score, and what its interval and its ranks are worth: simulated, from real runs.

    python scripts/simulate_scores.py                   # every table, about five minutes on one core
    python scripts/simulate_scores.py gains --draws 400

The runs of a simulated result are drawn from the reference runs in submissions/reference/convergence, with replacement:
their quality curves as they are, at one pace that scatters as stated. "before" is the score that MLPerf's rules give:
the olympic mean, multiplied by reference / result where a result needed fewer samples, and refused where it needed
significantly fewer.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.base.stats import Estimate, p_equal, rank_intervals, trimmed_error, trimmed_mean
from harness.base.text_table import aligned
from harness.log import run_log
from harness.mlperf.rcp import acceptable_mean, normalisation, reference_points
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.scoring import timeline
from harness.scoring.convergence import judge_convergence
from harness.scoring.run_result import RunResult
from harness.scoring.score import score_runs

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "submissions/reference/convergence"
PACE_S = 1e-3  # seconds per sample
FIXED_S = 0.2
SCATTER = 0.02  # standard deviation of ln(seconds per sample) between runs


@dataclass(frozen=True, slots=True)
class Draw:
    """One reference run: samples at the deciding evaluation, and interpolated."""

    samples: int
    crossing: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The reference runs of a benchmark at its default batch size."""

    rules: BenchmarkRules
    batch_size: int
    draws: tuple[Draw, ...]


def benchmarks() -> list[Benchmark]:
    """The `mini` benchmarks with the reference runs at their default batch size."""
    ruleset = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")
    found = []
    for rules in ruleset.benchmarks.values():
        folder = REFERENCE / rules.name
        if rules.suite != "mini" or not folder.is_dir():
            continue
        batch_size = rules.hyperparameters["global_batch_size"].default
        assert isinstance(batch_size, int)
        draws = []
        for path in sorted(folder.glob(f"gbs{batch_size}_*/result_*.txt")):
            curve = [(event.samples_count or 0, value) for event, value in timeline.qualities(run_log.read(path))]
            confirm = rules.confirm_evaluations
            index = timeline.first_reached([value for _, value in curve], rules.metric, rules.target, confirm)
            crossing = timeline.crossing(curve, rules.metric, rules.target, confirm)
            if index is not None and crossing is not None:
                draws.append(Draw(curve[index][0], crossing))
        found.append(Benchmark(rules, batch_size, tuple(draws)))
    return found


def runs_of(
    draws: Sequence[Draw], rng: random.Random, scatter: float = SCATTER, pace_s: float = PACE_S
) -> list[RunResult]:
    """Runs that needed the samples of `draws`, each at its own pace."""
    found = []
    for number, draw in enumerate(draws):
        seconds = FIXED_S + pace_s * math.exp(rng.gauss(0, scatter)) * draw.samples
        found.append(
            RunResult(
                path=f"result_{number}.txt",
                seed=number,
                status=timeline.SUCCESS,
                reason=None,
                seconds=seconds,
                samples=draw.samples,
                quality=None,
                evaluations=(),
                ledger={},
                run_s=seconds,
                energy=None,
                usd=None,
                crossing_samples=draw.crossing,
                fixed_s=FIXED_S,
            )
        )
    return found


def before(benchmark: Benchmark, runs: Sequence[RunResult]) -> float | None:
    """The score by MLPerf's rules; None where they refuse the result."""
    rules, samples = benchmark.rules, [float(run.samples or 0) for run in runs]
    reference = [(benchmark.batch_size, [float(draw.samples) for draw in benchmark.draws])]
    [point] = reference_points(reference, rules.drop, "code")
    mean = trimmed_mean(samples, rules.drop)
    if mean < acceptable_mean(point, len(runs) - 2 * rules.drop):
        return None
    return trimmed_mean([run.seconds or 0.0 for run in runs], rules.drop) * normalisation(point, mean)


def after(benchmark: Benchmark, runs: Sequence[RunResult]) -> float:
    """The score of the closed division."""
    score = score_runs(runs, benchmark.rules, "closed", benchmark.batch_size)
    assert score.seconds is not None
    return score.seconds


Choice = Callable[[Benchmark, random.Random], list[Draw]]


def honest(benchmark: Benchmark, rng: random.Random) -> list[Draw]:
    return rng.choices(benchmark.draws, k=benchmark.rules.num_runs)


def best_of(num_seeds: int) -> Choice:
    """The runs with the fewest samples of `num_seeds`."""
    return lambda benchmark, rng: sorted(rng.choices(benchmark.draws, k=num_seeds), key=lambda draw: draw.samples)[
        : benchmark.rules.num_runs
    ]


def tuned(share: float) -> Choice:
    """Learning rate and schedule that need `share` of the samples, evaluated at the same cadence."""

    def choose(benchmark: Benchmark, rng: random.Random) -> list[Draw]:
        every = benchmark.rules.eval_every_samples
        return [
            Draw(every * math.ceil(draw.crossing * share / every), draw.crossing * share)
            for draw in honest(benchmark, rng)
        ]

    return choose


def stopped_early(num_runs: int) -> Choice:
    """As many runs as stated are stopped one evaluation before the target, as if they had reached it."""

    def choose(benchmark: Benchmark, rng: random.Random) -> list[Draw]:
        every = benchmark.rules.eval_every_samples
        draws = honest(benchmark, rng)
        return [Draw(draw.samples - every, draw.crossing - every) for draw in draws[:num_runs]] + draws[num_runs:]

    return choose


CHEATS: dict[str, Choice] = {
    "honest": honest,
    "best 5 of 10 seeds": best_of(10),
    "best 5 of 50 seeds": best_of(50),
    "tuned to 95 % of the samples": tuned(0.95),
    "tuned to 90 %": tuned(0.90),
    "tuned to 78 %": tuned(0.78),
    "3 runs stopped early": stopped_early(3),
}


def gain(benchmark: Benchmark, choice: Choice, num_draws: int, seed: int) -> tuple[float | None, float, float]:
    """Mean of ln(honest score / score) before (None where everything is refused) and after; share refused before.

    The honest score is the mean of honest results by the same rules.
    """
    rng = random.Random(seed)
    levels: dict[str, list[float]] = {"honest before": [], "honest after": [], "before": [], "after": []}
    refused = 0
    for _ in range(num_draws):
        for name, how in (("honest ", honest), ("", choice)):
            runs = runs_of(how(benchmark, rng), rng)
            old = before(benchmark, runs)
            refused += old is None and name == ""
            levels[f"{name}before"] += [] if old is None else [math.log(old)]
            levels[f"{name}after"].append(math.log(after(benchmark, runs)))
    means = {name: statistics.fmean(values) for name, values in levels.items() if values}
    old_gain = means["honest before"] - means["before"] if "before" in means else None
    return old_gain, means["honest after"] - means["after"], refused / num_draws


def coverage(benchmark: Benchmark, num_draws: int, seed: int, num_runs: int | None = None) -> tuple[float, float]:
    """How often the 95 % interval contains the true value: of the pace score, and of the measured time.

    The true pace score is that of a result without scatter; the true measured time is the mean of all simulated ones.
    """
    rng = random.Random(seed)
    found = []
    for _ in range(num_draws):
        score = score_runs(runs_of(honest(benchmark, rng), rng), benchmark.rules, "closed", benchmark.batch_size)
        assert score.interval is not None
        assert score.measured_interval is not None
        assert score.measured_seconds is not None
        found.append(score)
    measured = statistics.fmean(score.measured_seconds or 0.0 for score in found)
    reference = judge_convergence(
        [draw.crossing for draw in benchmark.draws], benchmark.batch_size, benchmark.rules.reference_convergence, 0
    ).reference_samples
    assert reference is not None
    truth = FIXED_S + PACE_S * reference
    paced = [score for score in found if score.basis == "pace"]
    in_pace = sum(score.interval is not None and score.interval[0] <= truth <= score.interval[1] for score in paced)
    in_time = sum(
        score.measured_interval is not None and score.measured_interval[0] <= measured <= score.measured_interval[1]
        for score in found
    )
    return in_pace / len(paced), in_time / len(found)


def family_error(num_rows: int, num_tables: int, seed: int, num_runs: int = 5, scatter: float = SCATTER) -> float:
    """How often a table of equal systems tells any two of them apart."""
    rng = random.Random(seed)
    wrong = 0
    for _ in range(num_tables):
        rows = [row_estimate(rng, 1.0, num_runs, scatter) for _ in range(num_rows)]
        wrong += any(ranks != (1, num_rows) for ranks in rank_intervals(rows))
    return wrong / num_tables


def power(difference: float, num_rows: int, num_tables: int, seed: int, scatter: float, num_runs: int = 5) -> float:
    """How often the slowest of `num_rows`, slower than the equal others by `difference`, is known to be last."""
    rng = random.Random(seed)
    seen = 0
    for _ in range(num_tables):
        values = [1.0] * (num_rows - 1) + [1 + difference]
        seen += rank_intervals([row_estimate(rng, value, num_runs, scatter) for value in values])[-1][0] == num_rows
    return seen / num_tables


def power_before(difference: float, num_tables: int, seed: int, scatter: float) -> float:
    """How often the slower of two rows was recognised under the previous rule, by measured time.

    That includes the luck in samples. Yuen's one-sided test of the second row against the first, at 5 %; the mean over
    the benchmarks.
    """
    rng = random.Random(seed)
    seen = []
    for benchmark in benchmarks():
        drop = benchmark.rules.drop
        for _ in range(num_tables):
            rows = []
            for pace_s in (PACE_S, PACE_S * (1 + difference)):
                runs = runs_of(honest(benchmark, rng), rng, scatter, pace_s)
                logs = [math.log(run.seconds or 0.0) for run in runs]
                rows.append(Estimate(math.exp(trimmed_mean(logs, drop)), trimmed_error(logs, drop)))
            seen.append(rows[0].value < rows[1].value and p_equal(*rows) / 2 < 0.05)
    return sum(seen) / len(seen)


def row_estimate(rng: random.Random, value: float, num_runs: int, scatter: float) -> Estimate:
    """A pace score of `num_runs` runs."""
    logs = [math.log(value) + rng.gauss(0, scatter) for _ in range(num_runs)]
    return Estimate(math.exp(statistics.fmean(logs)), ((statistics.variance(logs) / num_runs, num_runs - 1),))


def false_alarms(benchmark: Benchmark, num_draws: int, seed: int) -> dict[str, float]:
    """Shares of honest results by the verdict on their convergence."""
    rng = random.Random(seed)
    counts: dict[str, int] = {}
    for _ in range(num_draws):
        samples = [draw.crossing for draw in honest(benchmark, rng)]
        rules = benchmark.rules
        status = judge_convergence(samples, benchmark.batch_size, rules.reference_convergence, rules.drop).status
        counts[status] = counts.get(status, 0) + 1
    return {status: count / num_draws for status, count in counts.items()}


def _gains(num_draws: int) -> str:
    lines = []
    for benchmark in benchmarks():
        for name, choice in CHEATS.items():
            old, new, refused = gain(benchmark, choice, num_draws, seed=1)
            shown = "all refused" if old is None else f"{math.expm1(old):+.1%}"
            lines.append((benchmark.rules.name, name, shown, f"{refused:.0%}", f"{math.expm1(new):+.1%}"))
    return aligned(("benchmark", "choice", "gain before", "refused before", "gain after"), lines, frozenset({0, 1}))


def _coverage(num_draws: int) -> str:
    lines = []
    for benchmark in benchmarks():
        pace, time = coverage(benchmark, num_draws, seed=2)
        lines.append((benchmark.rules.name, f"{pace:.1%}", f"{time:.1%}"))
    return aligned(("benchmark", "score", "measured time"), lines, frozenset({0}))


def _alarms(num_draws: int) -> str:
    names = ("too fast", "faster", "as expected", "slower")
    lines = []
    for benchmark in benchmarks():
        found = false_alarms(benchmark, num_draws, seed=3)
        lines.append((benchmark.rules.name, *(f"{found.get(name, 0.0):.2%}" for name in names)))
    return aligned(("benchmark", *names), lines, frozenset({0}))


def _ranks(num_draws: int) -> str:
    lines = [(f"{rows}", f"{family_error(rows, num_draws, 4):.1%}") for rows in (2, 3, 5, 10, 20, 50)]
    return aligned(("equal systems", "any told apart"), lines)


def _power(num_draws: int) -> str:
    lines = []
    for scatter in (0.002, 0.01, 0.02, 0.05):
        for difference in (0.03, 0.10):
            old = power_before(difference, num_draws, 5, scatter)
            new = [power(difference, rows, num_draws, 5, scatter) for rows in (2, 5, 10)]
            lines.append((f"{scatter:.1%}", f"{difference:.0%}", *(f"{share:.0%}" for share in (old, *new))))
    return aligned(("scatter of a run", "slower by", "of 2 rows before", "of 2 rows", "of 5", "of 10"), lines)


TABLES: dict[str, tuple[Callable[[int], str], int]] = {
    "gains": (_gains, 1000),
    "coverage": (_coverage, 10_000),
    "convergence": (_alarms, 20_000),
    "ranks": (_ranks, 400),
    "power": (_power, 1000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", nargs="*", choices=[*TABLES, []], help=f"of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--draws", type=int, help="simulated results per line (default: 400 to 20,000)")
    arguments = parser.parse_args()
    for name in arguments.table or TABLES:
        table, default = TABLES[name]
        print(f"{name}\n{table(arguments.draws or default)}\n", flush=True)


if __name__ == "__main__":
    main()
