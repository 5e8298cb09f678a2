"""One log -> the result of its run: curve, time to target, ledger. Computed from events; totals in the log are ignored.

The time of a run is from `run_start` to `run_stop` (MLPerf training rules, "Run Results"). Only a run that stopped
with success has one: an evaluation no later than `run_stop` must have reached the target.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import Decimal

from harness.base.values import is_number, is_whole
from harness.cost.money import MAX_SECONDS, cost_usd
from harness.energy.from_logs import energy_of, idle_w
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import EnergySource, RunEnergy
from harness.errors import LogError
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, Timing
from harness.scoring.timeline import away_s, block_stats, crossing, finished, first_reached, interrupted, resumptions

MAX_SAMPLES = 10**15  # a thousand passes over a trillion tokens
_KEEPING = (
    (keys.TTA_CHECKPOINT_START, keys.TTA_CHECKPOINT_STOP),
    (keys.TTA_RESTORE_START, keys.TTA_RESTORE_STOP),
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One point of a quality curve, on monotonic time since `run_start`."""

    samples: int
    seconds: float
    quality: float
    num_examples: int | None
    line: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run, computed from the events of its log.

    seconds: from `run_start` to `run_stop` of a run that reached its target, less the evaluations where the rules
        do not count them; None if the target was not reached, and `why_not` says in a sentence what happened.
    samples: trained on at the deciding evaluation; None if the target was not reached.
    crossing_samples: where the quality, linear between evaluations, crossed the target, confirmations included.
    fixed_s: of the seconds, those that do not grow with the samples: opening the data, interruptions.
    status: "success", "aborted", or "started" where the log has no `run_stop`. reason: as logged.
    quality: at the deciding evaluation, else the best of the run. evaluations: after `run_start`, as in the log.
    ledger: see `derive_ledger`. run_s: from `run_start` to `run_stop`, evaluations included.
    data_wait_fraction: share of the timed blocks in which training waited for data; None where there was no block.
    energy: summed over the power logs next to the log, never the log's own total; None means "not measured".
    idle_w: mean watts while nothing ran; None: not metered. usd: None means "no price".
    num_resumed: how many times the run went on after an interruption. away_s: the time from the last line before one to
        the first after it, as the log has it.
    """

    path: str
    seed: int | None
    status: str
    reason: str | None
    seconds: float | None
    samples: int | None
    quality: float | None
    evaluations: tuple[Evaluation, ...]
    ledger: dict[str, float]
    run_s: float | None
    energy: RunEnergy | None
    usd: Decimal | None
    why_not: str | None = None
    data_wait_fraction: float | None = None
    idle_w: float | None = None
    crossing_samples: float | None = None
    fixed_s: float = 0.0
    num_resumed: int = 0
    away_s: float = 0.0

    @property
    def pace_s(self) -> float | None:
        """Seconds per sample, evaluations included; up to the last evaluation of a run that missed its target, so that
        a slow run does not count less if it is ended. None if nothing was trained or evaluated."""
        seconds, samples = self.seconds, self.samples
        if seconds is None and self.evaluations:
            seconds, samples = self.evaluations[-1].seconds, self.evaluations[-1].samples
        if seconds is None or not samples or seconds <= self.fixed_s:
            return None
        return (seconds - self.fixed_s) / samples

    @property
    def energy_j(self) -> float | None:
        return None if self.energy is None else self.energy.joules

    @property
    def energy_source(self) -> EnergySource:
        return "none" if self.energy is None else self.energy.source


def run_result(
    log: RunLog,
    rules: BenchmarkRules,
    usd_per_hour: Decimal | None = None,
    timing: Timing | None = None,
    limits: EnergyLimits | None = None,
    num_nodes: int | None = None,
) -> RunResult:
    """The result of one run.

    timing: without it, evaluations count, as they do in MLPerf. limits: the rules' requirements for energy measurement.
    num_nodes: from the system description; without it, the number of hosts in the log.

    Raises:
        LogError: a quality or a waiting time is not a finite number, an evaluation has no sample count, or a time
            stamp is out of range.
    """
    evaluations = _evaluations(log, rules)
    start, stop = _window(log)
    run_s = None if start is None or stop is None else _seconds(log, start, stop)
    in_time = [item for item in evaluations if run_s is not None and item.seconds <= run_s]
    decided = first_reached([item.quality for item in in_time], rules.metric, rules.target, rules.confirm_evaluations)
    ledger = derive_ledger(log)
    status, reason = _status(stop)
    why_not = _why_not(log, rules, status, reason, decided)
    seconds = decisive = crossed = None
    if why_not is None:
        assert run_s is not None
        assert decided is not None
        seconds = run_s if timing is None or timing.count_evaluation else max(0.0, run_s - ledger["eval"])
        decisive = in_time[decided]
        curve = [(item.samples, item.quality) for item in in_time]
        crossed = crossing(curve, rules.metric, rules.target, rules.confirm_evaluations)
    qualities = [item.quality for item in evaluations]
    best = (max if rules.metric.direction == "max" else min)(qualities, default=None)
    seed = log.value(keys.SEED)
    return RunResult(
        path=str(log.path),
        seed=seed if is_whole(seed) else None,
        status=status,
        reason=reason,
        seconds=seconds,
        samples=None if decisive is None else decisive.samples,
        quality=best if decisive is None else decisive.quality,
        evaluations=evaluations,
        ledger=ledger,
        run_s=run_s,
        energy=energy_of(log, limits or EnergyLimits(), num_nodes),
        usd=None if usd_per_hour is None or seconds is None else cost_usd(seconds, usd_per_hour),
        why_not=why_not,
        data_wait_fraction=_data_wait_fraction(log, run_s),
        idle_w=idle_w(log),
        crossing_samples=crossed,
        fixed_s=0.0 if not evaluations else _fixed_s(log, evaluations[-1].seconds if run_s is None else run_s),
        num_resumed=len(resumptions(log)),
        away_s=away_s(log),
    )


def derive_ledger(log: RunLog) -> dict[str, float]:
    """Seconds by phase, from the intervals in the log.

    init: from the first `init_start` to the last `init_stop`; absent if either is missing.
    Within `run_start` .. `run_stop`, all absent if either is missing:
    data: opening the data, and waiting for it inside the blocks (at most the length of the block).
    train: the blocks less that waiting. eval: the evaluations. checkpoint: writing them, and the way back to one.
    interrupted: only where a run went on after an interruption: what was lost after its checkpoint, and the time away.
    other: the time that none of these claims; negative where intervals overlap. An unfinished interval claims nothing.

    Raises:
        LogError: a waiting time is not a finite number, or a time stamp is out of range.
    """
    ledger: dict[str, float] = {}
    init_start, init_stops = log.first(keys.INIT_START), log.all(keys.INIT_STOP)
    if init_start is not None and init_stops:
        ledger["init"] = _seconds(log, init_start, init_stops[-1])
    start, stop = _window(log)
    if start is None or stop is None:
        return ledger
    run_s = _seconds(log, start, stop)

    block_s, waiting_s = _training(log, run_s)
    ledger["data"] = waiting_s + _opening_s(log, run_s)
    ledger["train"] = block_s - waiting_s
    evaluations = finished(log, keys.EVAL_START, keys.EVAL_STOP)
    ledger["eval"] = math.fsum(_inside(log, run_s, *evaluation) for evaluation in evaluations)
    kept = [interval for start_key, stop_key in _KEEPING for interval in finished(log, start_key, stop_key)]
    ledger["checkpoint"] = math.fsum(_inside(log, run_s, *interval) for interval in kept)
    claimed = ["data", "train", "eval", "checkpoint"]
    if interruptions := interrupted(log):
        ledger["interrupted"] = math.fsum(_inside(log, run_s, *item) for item in interruptions)
        claimed.append("interrupted")
    ledger["other"] = run_s - math.fsum(ledger[phase] for phase in claimed)
    return ledger


def _opening_s(log: RunLog, run_s: float) -> float:
    """Seconds of the timed region in which the data was opened."""
    openings = finished(log, keys.TTA_DATA_OPEN_START, keys.TTA_DATA_OPEN_STOP)
    return math.fsum(_inside(log, run_s, *opening) for opening in openings)


def _fixed_s(log: RunLog, run_s: float) -> float:
    """Seconds of the timed region that do not grow with the samples."""
    breaks = [*interrupted(log), *finished(log, keys.TTA_RESTORE_START, keys.TTA_RESTORE_STOP)]
    return _opening_s(log, run_s) + math.fsum(_inside(log, run_s, *interval) for interval in breaks)


def _inside(log: RunLog, run_s: float, begin: Event, end: Event) -> float:
    """Seconds of an interval that are within the timed region of `run_s` seconds."""
    start = log.first(keys.RUN_START)
    assert start is not None
    return max(0.0, min(_seconds(log, start, end), run_s) - max(_seconds(log, start, begin), 0.0))


def _training(log: RunLog, run_s: float) -> tuple[float, float]:
    """Seconds of the timed blocks, and those of them in which training waited for data."""
    waited_s: dict[int, float] = {}  # by the line of a block's end
    for event, _, end in block_stats(log):
        if isinstance(event.value, dict) and "data_wait_s" in event.value:
            wait_s = _number(log, event, event.value["data_wait_s"], "data_wait_s")
            waited_s[end.lineno] = waited_s.get(end.lineno, 0.0) + wait_s
    blocks = finished(log, keys.BLOCK_START, keys.BLOCK_STOP)
    lengths_s = [_inside(log, run_s, *block) for block in blocks]
    waits_s = [min(max(waited_s.get(end.lineno, 0.0), 0.0), s) for (_, end), s in zip(blocks, lengths_s, strict=True)]
    return math.fsum(lengths_s), math.fsum(waits_s)


def _data_wait_fraction(log: RunLog, run_s: float | None) -> float | None:
    if run_s is None:
        return None
    block_s, waiting_s = _training(log, run_s)
    return waiting_s / block_s if block_s > 0 else None


def _window(log: RunLog) -> tuple[Event | None, Event | None]:
    """First `run_start`, last `run_stop`: where a log has several, the longest possible run."""
    stops = log.all(keys.RUN_STOP)
    return log.first(keys.RUN_START), stops[-1] if stops else None


def _seconds(log: RunLog, start: Event, stop: Event) -> float:
    seconds = log.seconds(start, stop)
    if not abs(seconds) <= MAX_SECONDS:  # refuses NaN, too
        raise LogError(f"{log.path}:{stop.lineno}: the time stamp of {stop.key!r} is out of range")
    return seconds


def _number(log: RunLog, event: Event, value: object, what: str) -> float:
    if is_number(value) and abs(value) <= sys.float_info.max:
        return float(value)
    raise LogError(f"{log.path}:{event.lineno}: {what} is not a finite number")


def _evaluations(log: RunLog, rules: BenchmarkRules) -> tuple[Evaluation, ...]:
    start = log.first(keys.RUN_START)
    found = []
    for event in log.all(keys.EVAL_ACCURACY) if start is not None else ():
        assert start is not None
        seconds = _seconds(log, start, event)
        if seconds < 0:
            continue
        examples = event.metadata.get("num_examples")
        found.append(
            Evaluation(
                samples=_samples(log, event, rules),
                seconds=seconds,
                quality=_number(log, event, event.value, "the quality"),
                num_examples=examples if is_whole(examples) else None,
                line=event.lineno,
            )
        )
    return tuple(found)


def _samples(log: RunLog, event: Event, rules: BenchmarkRules) -> int:
    """`samples_count`; in published MLPerf logs that count in epochs, `epoch_num` times the training set."""
    count: float | None = event.samples_count
    if count is None and "epoch_num" in event.metadata:
        count = _number(log, event, event.metadata["epoch_num"], "epoch_num") * rules.train_examples
    if count is None or not 0 <= count <= MAX_SAMPLES:
        raise LogError(f"{log.path}:{event.lineno}: the evaluation has no valid samples_count")
    return round(count)


def _status(stop: Event | None) -> tuple[str, str | None]:
    if stop is None:
        return "started", None
    reason = stop.metadata.get("reason")
    status = "success" if stop.metadata.get("status") == "success" else "aborted"
    return status, reason if isinstance(reason, str) else None


def _why_not(log: RunLog, rules: BenchmarkRules, status: str, reason: str | None, decided: int | None) -> str | None:
    for name in (keys.RUN_START, keys.RUN_STOP):
        num_events = len(log.all(name))
        if num_events != 1:
            return f"the log has {num_events or 'no'} {name!r}; there must be one"
    if status != "success":
        return f"the run was aborted: {reason or 'no reason is logged'}"
    if decided is None:
        confirmed = f" and {rules.confirm_evaluations} more right after it" if rules.confirm_evaluations else ""
        return f"no evaluation up to 'run_stop' reached {rules.metric.name} {rules.target:g}{confirmed}"
    return None
