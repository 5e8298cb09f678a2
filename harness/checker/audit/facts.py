"""Facts about a run, a result and a tree, for signals to look at. Pure: nothing here judges."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from harness.base.values import finite_number, int_of_digits, is_whole
from harness.checker.audit import similarity
from harness.checker.audit.log_text import LogText
from harness.checker.audit.mlflow_db import MirrorRun
from harness.checker.audit.similarity import Fingerprint
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.mlperf.compliance import is_evaluated_afterwards
from harness.mlperf.formula import Formula
from harness.mlperf.model import RoundBenchmark
from harness.submission.preflight import CarriedPreflight, carried
from harness.submission.result import Result

# Events that a single process writes in sequence; headers and statistics come from several.
TIMELINE_KEYS = (
    keys.INIT_START, keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP, keys.BLOCK_START, keys.BLOCK_STOP,
    keys.EVAL_START, keys.EVAL_STOP, "epoch_start", "epoch_stop",
)  # fmt: skip
EVALUATION_KEYS = (keys.EVAL_ACCURACY, "eval_error")
_POSITIONS = (("samples_count", "samples"), ("epoch_num", "epochs"), ("step", "steps"))
_MAX_POSITION = 2.0**63  # anything larger is not a count, and has no variance
MIN_TIME_MS = 1_262_304_000_000  # 2010; an earlier time is that of a clock that was not set


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation. position: as the log counts, in `unit`; None if it does not say. at_s: since run_start."""

    value: float
    position: float | None
    unit: str
    at_s: float
    line: int


@dataclass(frozen=True, slots=True)
class Standard:
    """What the rules say about the benchmark of a result, as far as they do.

    target, direction: the quality to reach; "max" if more is better. confirm_evaluations: how many more must reach it.
    reference: samples or epochs to target of the reference at the result's batch size; none where its division need not
    converge alike. is_interpolated: they are where the target was crossed between evaluations. has_samples: the
    reference counts samples, at every batch size, so that `epoch_num` may hold samples (as in MLPerf's BERT). distance:
    what the distance from one evaluation to the next, its `value`, must meet, in reference_unit. max_init_s: the limit
    of initialisation. benchmark: the facts about it, in a round of MLPerf's.
    """

    target: float | None = None
    direction: Literal["min", "max"] = "max"
    confirm_evaluations: int = 0
    reference: tuple[float, ...] = ()
    is_interpolated: bool = False
    reference_unit: str = "samples"
    has_samples: bool = False
    distance: Formula | None = None
    max_init_s: float | None = None
    num_runs: int | None = None
    benchmark: RoundBenchmark | None = None
    today_ms: float = float("inf")


@dataclass(frozen=True)
class RunFacts:
    """A log, the text between its lines, and what the rules say about its benchmark."""

    log: RunLog
    text: LogText
    standard: Standard
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    flops: Mapping[str, float] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.log.path

    @property
    def is_ours(self) -> bool:
        return self.log.has_monotonic_time

    @cached_property
    def start(self) -> Event | None:
        return self.log.first(keys.RUN_START)

    @cached_property
    def stop(self) -> Event | None:
        return self.log.first(keys.RUN_STOP)

    @cached_property
    def run_s(self) -> float | None:
        """Seconds of the timed region; None if it lacks an end or has no length."""
        if self.start is None or self.stop is None:
            return None
        seconds = self.log.seconds(self.start, self.stop)
        return seconds if seconds > 0 else None

    @cached_property
    def batch(self) -> float | None:
        return finite_number(self.log.value(keys.GLOBAL_BATCH_SIZE))

    @cached_property
    def is_evaluated_afterwards(self) -> bool:
        """Whether the evaluations are of checkpoints, after training, by programs of their own."""
        return is_evaluated_afterwards(self.log, self.standard.benchmark)

    @cached_property
    def speed(self) -> tuple[float, str] | None:
        """Samples or epochs per second up to the last evaluation, evaluations included, and which of the two."""
        if self.final is None or self.start is None or self.is_evaluated_afterwards:
            return None
        position, seconds = self.final.position, self.final.at_s
        return (position / seconds, self.final.unit) if position and position > 0 and seconds > 0 else None

    @cached_property
    def course(self) -> tuple[Event, ...]:
        """The events by which one process reports the run's timeline; those without a time are left out."""
        return tuple(event for event in self.log.events if event.key in TIMELINE_KEYS and event.time_ms >= MIN_TIME_MS)

    @cached_property
    def evaluations(self) -> tuple[Point, ...]:
        """Every evaluation with a value, in the order of the file."""
        origin = self.start or (self.log.events[0] if self.log.events else None)
        found = []
        for event in self.log.events:
            value = _value(event) if event.key in EVALUATION_KEYS else None
            if value is not None and origin is not None:
                position, unit = _position(event)
                found.append(Point(value, position, unit, self.log.seconds(origin, event), event.lineno))
        if self.standard.has_samples and self.batch is not None:
            # Some of BERT's logs do count epochs; none of them trained more epochs than a batch has samples.
            furthest = max((point.position or 0.0 for point in found if point.unit == "epochs"), default=0.0)
            if furthest >= self.batch:
                found = [replace(point, unit="samples") if point.unit == "epochs" else point for point in found]
        return tuple(found)

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        """The evaluations, only the first of those at one position (each rank may report its own)."""
        seen: dict[object, Point] = {}
        for point in self.evaluations:
            seen.setdefault(point.position if point.position is not None else point.line, point)
        return tuple(seen.values())

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(int(event.value) for event in self.log.all(keys.SEED) if is_whole(event.value)))

    @cached_property
    def wall_ms(self) -> tuple[float, float] | None:
        """First and last wall time of the log."""
        times = [event.time_ms for event in self.log.events if event.time_ms >= MIN_TIME_MS]
        return (min(times), max(times)) if times else None

    @cached_property
    def final(self) -> Point | None:
        return self.curve[-1] if self.curve else None

    @cached_property
    def samples(self) -> float | None:
        """Samples trained on in total, if the log counts them."""
        counts = [event.samples_count for event in self.log.events if event.samples_count is not None]
        return float(max(counts)) if counts else None

    def trail_of_times(self) -> Fingerprint:
        """The timeline in milliseconds from one event to the next, by the better of the log's clocks."""
        pairs = zip(self.course, self.course[1:], strict=False)
        return similarity.of_intervals(((a.key, b.key), 1e3 * self.log.seconds(a, b)) for a, b in pairs)

    def fingerprint_of_times(self) -> str | None:
        """A digest of the milliseconds between the events of the timeline; None if there are too few to tell."""
        steps = [round(b.time_ms - a.time_ms) for a, b in zip(self.course, self.course[1:], strict=False)]
        return _digest(steps) if len(set(steps)) >= 6 else None

    def fingerprint_of_curve(self) -> str | None:
        """A digest of the values of the evaluations; None if there are too few to tell."""
        values = [point.value for point in self.curve]
        return _digest(values) if len(set(values)) >= 3 else None

    def fingerprint_of_values(self) -> str | None:
        """A digest of every key and value except seeds, without times and places."""
        pairs = [(event.key, repr(event.value)) for event in self.log.events if event.key != keys.SEED]
        return _digest(pairs) if len(self.curve) >= 3 else None


@dataclass(frozen=True)
class Subject:
    """A result with the facts about its runs."""

    result: Result
    runs: tuple[RunFacts, ...]
    standard: Standard
    mirror: tuple[MirrorRun, ...] = ()

    @property
    def path(self) -> Path:
        return self.result.path

    @cached_property
    def num_accelerators(self) -> int | None:
        """The accelerators of all nodes by the description; None if it has none or does not say."""
        each = int_of_digits((self.result.system or {}).get("accelerators_per_node"))
        nodes = self.result.num_nodes
        return each * nodes if each and nodes else None

    @cached_property
    def preflight(self) -> CarriedPreflight | None:
        """The description's preflight; None if it has none, or one that AUD082 does not believe."""
        try:
            return carried(self.result.system)
        except ValueError:
            return None

    @cached_property
    def by_time(self) -> tuple[RunFacts, ...]:
        """The runs that have a time, in order of their start."""
        timed = [run for run in self.runs if run.wall_ms is not None]
        return tuple(sorted(timed, key=lambda run: run.wall_ms or (0.0, 0.0)))


@dataclass(frozen=True, slots=True)
class RunDigest:
    """What a tree keeps of each run."""

    path: Path
    result: Path
    place: str  # <submitter>/<system>: it cannot do two runs at once
    benchmark: str
    sha256: str
    span_ms: tuple[float, float] | None
    seeds: tuple[int, ...]
    times: str | None
    curve: str | None
    values: str | None
    qualities: Fingerprint
    intervals: Fingerprint
    eval_samples: float | None
    speed: float | None
    unit: str
    accelerator: str
    num_accelerators: int | None
    num_ranks: int
    preflight: CarriedPreflight | None = None

    @property
    def submitter(self) -> str:
        return self.place.partition("/")[0]

    @property
    def preflight_kind(self) -> tuple[object, ...] | None:
        """What machines whose preflights can be compared have in common; None where there is no preflight."""
        return None if self.preflight is None else self.preflight.kind

    @property
    def machine_class(self) -> tuple[str, str, str] | None:
        """Results that can be compared by their speed per accelerator; None if this one cannot."""
        if self.speed is None or self.num_accelerators is None or not self.accelerator:
            return None
        return (self.benchmark, self.unit, re.sub(r"\([^)]*\)|[^a-z0-9]", "", self.accelerator.lower()))


@dataclass(slots=True)
class Tree:
    """The digests of all runs of an audit, gathered result by result."""

    runs: list[RunDigest] = field(default_factory=list)

    def add(self, subject: Subject) -> None:
        system = subject.result.system or {}
        accelerator = system.get("accelerator_model_name")
        for run in subject.runs:
            speed, unit = run.speed or (None, "")
            self.runs.append(
                RunDigest(
                    path=run.path,
                    result=run.path.parent,
                    place=_place(run.log),
                    benchmark=str(run.log.value(keys.SUBMISSION_BENCHMARK)),
                    sha256=run.log.sha256,
                    span_ms=_span(run),
                    seeds=run.seeds,
                    times=run.fingerprint_of_times(),
                    curve=run.fingerprint_of_curve(),
                    values=run.fingerprint_of_values(),
                    qualities=similarity.of_values(point.value for point in run.curve),
                    intervals=run.trail_of_times(),
                    eval_samples=finite_number(run.log.value(keys.EVAL_SAMPLES)),
                    speed=speed,
                    unit=unit,
                    accelerator=accelerator if isinstance(accelerator, str) else "",
                    num_accelerators=subject.num_accelerators,
                    num_ranks=run.text.num_ranks,
                    preflight=subject.preflight,
                )
            )


def grouped(runs: Iterable[RunDigest], name: str) -> list[list[RunDigest]]:
    """The groups of two or more runs with the same value of the field `name`; an empty value is never shared."""
    groups: dict[object, list[RunDigest]] = {}
    for run in runs:
        if (value := getattr(run, name)) not in (None, ()):
            groups.setdefault(value, []).append(run)
    return [group for group in groups.values() if len(group) > 1]


def _span(run: RunFacts) -> tuple[float, float] | None:
    if run.start is None or run.stop is None or run.start.time_ms < MIN_TIME_MS:
        return None
    return (run.start.time_ms, run.stop.time_ms) if run.stop.time_ms > run.start.time_ms else None


def _place(log: RunLog) -> str:
    parts = log.path.absolute().parts
    if len(parts) > 4 and parts[-4] == "results":
        return f"{parts[-5]}/{parts[-3]}"
    return f"{log.value(keys.SUBMISSION_ORG)}/{log.value(keys.SUBMISSION_PLATFORM)}"


def _digest(values: Iterable[object]) -> str:
    return hashlib.sha256(repr(list(values)).encode("utf-8", "surrogatepass")).hexdigest()


def _value(event: Event) -> float | None:
    value = event.value
    if isinstance(value, dict):  # Mask R-CNN has two in one
        numbers = [
            found for _, item in sorted(value.items(), key=lambda pair: str(pair[0])) if (found := finite_number(item))
        ]
        return numbers[0] if numbers else None
    return finite_number(value)


def _position(event: Event) -> tuple[float | None, str]:
    for name, unit in _POSITIONS:
        found = finite_number(event.metadata.get(name))
        if found is not None and abs(found) <= _MAX_POSITION:
            return found, unit
    return None, ""
