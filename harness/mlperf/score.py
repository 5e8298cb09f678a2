"""The score of a result of an MLPerf round, from its logs alone: times, olympic mean, convergence, normalisation. Pure.

What a submission says about its own score in `scaling.json` is a claim; it is shown next to what is computed here.

Source: MLPerf training rules, "Benchmark Results"; mlperf_logging 4.1.68, result_summarizer and rcp_checker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.base.stats import trimmed_mean
from harness.base.values import finite_number
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import UNREAD, RunLog
from harness.mlperf import compliance
from harness.mlperf.compliance import Kind
from harness.mlperf.formula import Line
from harness.mlperf.model import Join, Round, RoundBenchmark
from harness.mlperf.rcp import RoundVerdict, judge

# The faults for which MLCommons' checker rejects a log: MLP001 to MLP010 but MLP005, which is a warning there, too.
_REJECTED: tuple[Kind, ...] = ("name", "missing", "differs", "value", "target", "order", "init", "list")
UNFINISHED = frozenset({"target", "missing", "cut_off"})  # faults of a run that did not converge or did not end
_EVALUATIONS = ("eval_accuracy", "eval_error")
_MAX_AMOUNT = 2.0**63  # anything larger is not a count, and has no mean


@dataclass(frozen=True, slots=True)
class RoundRun:
    """A run of a result. seconds: run_start to run_stop; None unless the log has one of each, in this order.

    complies: whether the round accepts the log by itself. amount: epochs or samples to target, as the reference counts
    them; None if the run did not converge or does not state it.
    """

    log: RunLog
    complies: bool
    seconds: float | None
    amount: float | None
    status: str | None


@dataclass(frozen=True, slots=True)
class RoundScore:
    """raw_seconds: the olympic mean; seconds: that times the factor. None where there is no mean; `why_not` says why.

    code, rules: convergence by each definition; None in the open division and for a benchmark without references.
    """

    benchmark: str | None
    division: str | None
    batch_size: object
    runs: tuple[RoundRun, ...]
    num_runs: int | None
    raw_seconds: float | None
    seconds: float | None
    why_not: str | None
    code: RoundVerdict | None
    rules: RoundVerdict | None

    @property
    def factor(self) -> float:
        return self.code.factor if self.code is not None else 1.0


def minutes(seconds: float) -> float:
    """Convert to the unit of MLPerf's tables."""
    return seconds / 60


def round_score(logs: Sequence[RunLog], round_: Round) -> RoundScore:
    """Return the score in `round_` of a result with these logs; it is computed once and cached on the first log."""
    return logs[0].cached(_score_from, tuple(logs[1:]), round_) if logs else _score((), round_)


def _score_from(first: RunLog, others: tuple[RunLog, ...], round_: Round) -> RoundScore:
    return _score((first, *others), round_)


def _score(logs: Sequence[RunLog], round_: Round) -> RoundScore:
    name = next((log.value("submission_benchmark") for log in logs if log.first("submission_benchmark")), None)
    division = next((log.value("submission_division") for log in logs if log.first("submission_division")), None)
    benchmark = round_.benchmark(name)
    runs = tuple(round_run(log, benchmark, round_) for log in logs)
    sizes = {repr(size): size for size in (last_value(log, keys.GLOBAL_BATCH_SIZE) for log in logs)}
    batch_size = next(iter(sizes.values())) if len(sizes) == 1 else None
    code = rules = None
    if benchmark is not None and is_closed(division) and benchmark.convergence:
        amounts = [run.amount for run in runs]
        code = judge(amounts, batch_size, benchmark, round_.version, "code")
        rules = judge(amounts, batch_size, benchmark, round_.version, "rules")
    raw, why_not = olympic([run.seconds if run.complies else None for run in runs], benchmark)
    return RoundScore(
        benchmark=name if isinstance(name, str) else None,
        division=division if isinstance(division, str) else None,
        batch_size=batch_size,
        runs=runs,
        num_runs=benchmark.num_runs if benchmark is not None else None,
        raw_seconds=raw,
        seconds=raw * (code.factor if code is not None else 1.0) if raw is not None else None,
        why_not=why_not,
        code=code,
        rules=rules,
    )


def is_closed(division: object) -> bool:
    """Whether the rules of the closed division apply: to everything but "open", so to a misspelt "close", too."""
    return division != "open"


def olympic(seconds: Sequence[float | None], benchmark: RoundBenchmark | None) -> tuple[float | None, str | None]:
    """Return the mean without the fastest and the slowest, or why there is none. A failed run, None, is the slowest."""
    if benchmark is None:
        return None, "the logs name no benchmark of the round"
    failed = sum(value is None for value in seconds)
    if failed > benchmark.drop:
        return None, f"{failed} of {len(seconds)} runs failed; at most {benchmark.drop} may"
    if len(seconds) <= 2 * benchmark.drop:
        return None, f"too few runs ({len(seconds)}) to leave out {benchmark.drop} at either end"
    return trimmed_mean([math.inf if value is None else value for value in seconds], benchmark.drop), None


def round_run(log: RunLog, benchmark: RoundBenchmark | None, round_: Round) -> RoundRun:
    """Return one run of a result; without a benchmark of the round it has no amount."""
    stop = log.all(keys.RUN_STOP)[-1] if log.all(keys.RUN_STOP) else None
    status = stop.metadata.get("status") if stop is not None else None
    amount = amount_to_target(log, benchmark) if status == "success" else None
    return RoundRun(
        log=log,
        complies=not rejections(log, round_),
        seconds=run_seconds(log),
        amount=amount if amount is not None and abs(amount) <= _MAX_AMOUNT else None,
        status=status if isinstance(status, str) else None,
    )


def excused(logs: Sequence[RunLog], round_: Round) -> list[RunLog]:
    """The logs of failed runs that do not invalidate the result.

    There are at most as many as the mean leaves out at either end, and each failed only by not converging or not
    ending.
    """
    score = round_score(logs, round_)
    benchmark = round_.benchmark(score.benchmark)
    failed = [run.log for run in score.runs if not run.complies]
    if benchmark is None or len(failed) > benchmark.drop:
        return []
    return [log for log in failed if UNFINISHED.issuperset(rejections(log, round_))]


def rejections(log: RunLog, round_: Round) -> tuple[str, ...]:
    """Return the kinds of faults for which the round rejects the log; `UNFINISHED`, if it did not converge or end."""
    unread = [kind for kind in UNREAD if kind in log.defect_counts]
    return (*unread, *(kind for kind in _REJECTED if compliance.faults(log, round_, kind)))


def run_window(log: RunLog) -> tuple[Event, Event] | None:
    """Return the last run_start before the first run_stop, and that; None if there is no time above zero between."""
    stop = log.first(keys.RUN_STOP)
    if stop is None:
        return None
    starts = [start for start in log.all(keys.RUN_START) if start.lineno < stop.lineno]
    return (starts[-1], stop) if starts and stop.time_ms > starts[-1].time_ms else None


def run_seconds(log: RunLog) -> float | None:
    """Return the time of `run_window`, by the clock that MLPerf's programs use."""
    window = run_window(log)
    return None if window is None else (window[1].time_ms - window[0].time_ms) / 1e3


def amount_to_target(log: RunLog, benchmark: RoundBenchmark | None) -> float | None:
    """Return the epochs or samples at the last evaluation before run_stop; for Stable Diffusion, the first to pass."""
    stop = log.all(keys.RUN_STOP)[-1] if log.all(keys.RUN_STOP) else None
    if benchmark is None or stop is None:
        return None
    if benchmark.join is not None:
        return _first_passing(log, benchmark, benchmark.join, stop)
    amount = last_evaluated_at(log, benchmark)
    if counts_in_epochs(amount, log, benchmark):
        amount = finite_number(last_value(log, keys.TRAIN_SAMPLES))
    return round(amount, 3) if amount is not None and benchmark.position == "epoch_num" else amount


def last_evaluated_at(log: RunLog, benchmark: RoundBenchmark) -> float | None:
    """Return the epochs or samples that the last evaluation before the last run_stop states."""
    stops = log.all(keys.RUN_STOP)
    lines = [line for name in _EVALUATIONS for line in log.all(name) if stops and line.lineno < stops[-1].lineno]
    last = max(lines, key=lambda line: line.lineno, default=None)
    return finite_number(last.metadata.get(benchmark.position)) if last is not None else None


def counts_in_epochs(amount: float | None, log: RunLog, benchmark: RoundBenchmark) -> bool:
    """Whether evaluations count epochs although the reference counts samples: the amount is smaller than one batch.

    Some BERT logs do, and state the samples in train_samples; rcp_checker has --bert_train_samples for them.
    """
    batch_size = finite_number(last_value(log, keys.GLOBAL_BATCH_SIZE))
    in_samples = any(item.unit == "samples" for item in benchmark.convergence)
    return in_samples and amount is not None and batch_size is not None and amount < batch_size


def _first_passing(log: RunLog, benchmark: RoundBenchmark, join: Join, stop: Event) -> float | None:
    target = benchmark.target()
    passing = []
    for line in compliance.joined(log, join):
        where = finite_number(line.value.get(join.by))
        if line.lineno < stop.lineno and where is not None and target is not None and target.holds(Line(line.value)):
            passing.append(where)
    return min(passing, default=None)


def parse_seed(value: object) -> int | None:
    """Return the seed that a log states as a number or a text, as MLCommons' program does; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def last_value(log: RunLog, name: str) -> Any:
    """Return the value of the last line of `name`, the one that MLCommons' programs use."""
    lines = log.all(name)
    return lines[-1].value if lines else None


def differing_values(logs: Iterable[RunLog], names: Iterable[str]) -> dict[str, Mapping[str, RunLog]]:
    """Return those of `names` whose last value differs between logs: each value as text, with a log that has it."""
    found: dict[str, Mapping[str, RunLog]] = {}
    logs = list(logs)
    for name in names:
        values: dict[str, RunLog] = {}
        for log in logs:
            values.setdefault(repr(last_value(log, name)), log)
        if len(values) > 1:
            found[name] = values
    return found
