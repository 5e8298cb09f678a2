"""One log held against an MLPerf round: one pass over its lines finds what is wrong, whichever check asks first. Pure.

The semantics are those of the MLPerf checker: a line is held against the lines before it, a constraint sees the last
value of a key, and a line that breaks a constraint still counts as a line. The messages are here too; what a
constraint says is put into words as far as it can be.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.base.values import is_number
from harness.errors import printable, unknown_name
from harness.findings import Fault
from harness.log.events import Event
from harness.log.keys import (
    BLOCK_START,
    BLOCK_STOP,
    EVAL_ACCURACY,
    EVAL_START,
    EVAL_STOP,
    INIT_START,
    INIT_STOP,
    RUN_START,
    TRACKED_STATS,
)
from harness.log.run_log import RunLog
from harness.mlperf.formula import NOT_MET, Formula, Line
from harness.mlperf.model import Join, KeyRule, LogRules, Round, RoundBenchmark

Kind = Literal["name", "missing", "differs", "doubled", "value", "target", "order", "init", "list"]
# Keys that a run writes repeatedly, each from one process.
TRAINING_KEYS = (BLOCK_START, BLOCK_STOP, "epoch_start", "epoch_stop")
EVALUATION_LINES = (EVAL_START, EVAL_STOP, EVAL_ACCURACY)
_SAME_TIME_MS = 1000.0
TRAINING_ENDS = (BLOCK_STOP, "epoch_stop")
_TEMPLATE = ("placeholder", "your_", "todo", "unknown", "reference_implementation")
_NO_NAMES = ("", "-", "?", "n/a", "na", "none", "null", "org", "platform", "test", "xxx")
# Fields of metadata that state a position in training; convergence is counted by one of them.
POSITION_FIELDS = ("samples_count", "epoch_num", "first_epoch_num", "step_num")
_NUMBERS = frozenset({int, float})
_STEPS = ("samples_count", "step", "epoch_num")  # of tracked_stats
_FIELD = re.compile(r"metadata\.(\w+)")
_IF_PRESENT = re.compile(r"not has\(([\w.]+)\) or (.+)")  # how the rounds write "if it is there"
_HAS = re.compile(r"has\(([\w.]+)\)")
_PRESENT = re.compile(r"has\(metadata\.\w+\)(?: or has\(metadata\.\w+\))*")


def faults(log: RunLog, round_: Round, kind: Kind) -> tuple[Fault, ...]:
    """Return the faults of one kind in `log`; the first call finds those of all kinds in one pass."""
    return tuple(log.cached(_read, round_).found.get(kind, ()))


def benchmark_of(log: RunLog, round_: Round) -> tuple[str | None, RoundBenchmark | None]:
    """Return the division and the benchmark that the log names; None for what the round does not have."""
    division, benchmark = log.value("submission_division"), round_.benchmark(log.value("submission_benchmark"))
    known = division if isinstance(division, str) and division in round_.divisions else None
    return known, benchmark


def rules_of(log: RunLog, round_: Round) -> LogRules:
    """Return the rules for the log: those of the division, benchmark and variant that its lines name."""
    division, benchmark = benchmark_of(log, round_)
    if division is None:
        return round_.rules
    if benchmark is None:
        return round_.divisions[division]
    named = log.all(benchmark.variant_key) if benchmark.variant_key is not None else ()
    return benchmark.rules_of(division, named[-1].value if named else None) or round_.divisions[division]


@dataclass(slots=True)
class _Broken:
    """A constraint that lines break: the first of them, and how many there are."""

    event: Event
    why: str
    num_lines: int = 1


@dataclass(slots=True)
class _Pass:
    """One pass over one log under one round."""

    log: RunLog
    round_: Round
    found: dict[Kind, list[Fault]] = field(default_factory=dict)
    broken: dict[tuple[str, str], _Broken] = field(default_factory=dict)
    disordered: dict[tuple[str, str], _Broken] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    listed: dict[str, list[Any]] = field(default_factory=dict)
    reached: dict[str, list[Event]] = field(default_factory=dict)  # lines that meet the target of their key

    def read(self) -> None:
        division, benchmark = benchmark_of(self.log, self.round_)
        rules = rules_of(self.log, self.round_)
        self._names(division, benchmark)
        join = benchmark.join if benchmark is not None else None
        for rule in rules.keys.values():
            self._lines(rule, self.log.all(rule.key), joined(self.log, join) if join and join.into == rule.key else ())
        for (_, constraint), broken in self.broken.items():
            message = constraint_message(broken.event, constraint, broken.why, broken.num_lines)
            self._add("value", broken.event.lineno, message)
        for (key, why), broken in self.disordered.items():
            self._add("order", broken.event.lineno, f"{key}: {why}{_on_lines(broken.num_lines)}")
        self._init(self.round_.max_init_s.get(division) if division is not None else None)
        for key, rule in rules.keys.items():
            self._count(rule)
            if rule.target is not None and key not in self.reached and self.values.get(key):
                self._add("target", self.log.line_of(key), _target_message(key, rule.target, self.values[key]))
            if rule.lists is not None:
                self._lists(rule, *rule.lists)
        for group in dict.fromkeys(rules.either):
            if not any(self.values.get(key) for key in group):
                message = f"there is neither {' nor '.join(group)}; one of them is required"
                self._add("missing", None, message, keys=group)

    def _add(self, kind: Kind, lineno: int | None, message: str, **evidence: object) -> None:
        self.found.setdefault(kind, []).append(Fault(str(self.log.path), lineno, message, evidence))

    def _names(self, division: str | None, benchmark: RoundBenchmark | None) -> None:
        for key, known, is_known in (
            ("submission_division", self.round_.divisions, division is not None),
            ("submission_benchmark", self.round_.benchmarks, benchmark is not None),
        ):
            first = self.log.first(key)
            if first is not None and not is_known:
                name = unknown_name(key.removeprefix("submission_"), printable(first.value, 60), known)
                self._add("name", first.lineno, f"{name} (round {self.round_.version})")
        if division is not None and benchmark is not None and division not in benchmark.divisions:
            where = f"round {self.round_.version} has {benchmark.name} in {', '.join(benchmark.divisions)} only"
            self._add("name", self.log.line_of("submission_benchmark"), f"{where}, not in {division}")

    def _lines(self, rule: KeyRule, events: Sequence[Event], combined: Iterable[Event]) -> None:
        """Check all lines of one key; those `combined` from other keys come after every line of the log."""
        places = [event.lineno for event in events]
        if combined := tuple(combined):
            events, places = (*events, *combined), [*places, *(sys.maxsize for _ in combined)]
        self.values[rule.key] = [event.value for event in events]
        if not events:
            return
        for key in rule.after:
            first = self.log.first(key)
            if (num := len(events) if first is None else bisect_right(places, first.lineno)) > 0:
                self.disordered[rule.key, f"there is no {key} before it"] = _Broken(events[0], "", num)
        for key in rule.before:
            first = self.log.first(key)
            if first is not None and (begin := bisect_right(places, first.lineno)) < len(events):
                why = f"comes after {key}; it must come before"
                self.disordered[rule.key, why] = _Broken(events[begin], "", len(events) - begin)
        if rule.lists is not None:
            self.listed[rule.key] = [event.metadata.get(rule.lists[0]) for event in events]
        for constraint in rule.each:
            # Half of the constraints only require a field, which can be checked without evaluating line by line.
            if constraint.present and (bare := [e for e in events if constraint.present.isdisjoint(e.metadata)]):
                self.broken[rule.key, constraint.text] = _Broken(bare[0], NOT_MET, len(bare))
        each = [constraint for constraint in rule.each if not constraint.present]
        if each or rule.first or rule.target is not None:
            self._constraints(rule, each, events, places)

    def _constraints(
        self, rule: KeyRule, each: Sequence[Formula], events: Sequence[Event], places: Sequence[int]
    ) -> None:
        target = rule.target
        names = frozenset[str]().union(*(formula.names for formula in (*each, *rule.first)))
        names |= target.names if target is not None else frozenset()
        constraints = (*each, *rule.first)
        previous: Mapping[str, Any] = {}
        for event, place in zip(events, places, strict=True):
            line = Line(event.value, event.metadata, self._earlier(names, place) if names else {}, previous)
            previous = event.metadata
            for constraint in constraints:
                if (why := constraint.failure(line)) is not None:
                    known = self.broken.setdefault((rule.key, constraint.text), _Broken(event, why, 0))
                    known.num_lines += 1
            if target is not None and target.holds(line):
                self.reached.setdefault(rule.key, []).append(event)
            if not each and target is None:
                return
            constraints = (*each,)  # the others hold for the first line only

    def _earlier(self, names: Iterable[str], place: int) -> dict[str, Any]:
        """Return the last value of each key before a line."""
        found = {}
        for name in names:
            lines = self.log.all(name)
            if num := bisect_left(lines, place, key=lambda event: event.lineno):
                found[name] = lines[num - 1].value
        return found

    def _count(self, rule: KeyRule) -> None:
        values, count = self.values.get(rule.key, []), rule.count
        if len(values) < count.at_least:
            seen = {0: "it does not occur", 1: "it occurs once"}.get(len(values), f"it occurs {len(values)} times")
            self._add("missing", None, f"{rule.key} must occur {count.words}; {seen}", keys=(rule.key,))
        elif count.at_most is not None and len(values) > count.at_most:
            second = self.log.all(rule.key)[1].lineno
            if all(value == values[0] for value in values):
                message = f"{rule.key} occurs {len(values)} times, always {quoted(values[0])}; it must occur once"
                self._add("doubled", second, message)
            else:
                different = list(dict.fromkeys(quoted(value) for value in values))
                message = f"{rule.key} has {len(different)} values, {', '.join(different[:4])}; it must occur once"
                self._add("differs", second, message)

    def _init(self, limit_s: float | None) -> None:
        """Compare each init_stop with the earliest init_start before it, which need not be the first."""
        if limit_s is None:
            return
        earliest_ms: float | None = None
        for event in sorted((*self.log.all(INIT_START), *self.log.all(INIT_STOP)), key=lambda event: event.lineno):
            if event.key == INIT_START:
                earliest_ms = event.time_ms if earliest_ms is None else min(earliest_ms, event.time_ms)
            elif earliest_ms is not None and event.time_ms - earliest_ms >= limit_s * 1e3:
                init_s = (event.time_ms - earliest_ms) / 1e3
                self._add("init", event.lineno, f"initialisation took {init_s:.1f} s; it must be below {limit_s:g} s")
                return  # one finding is enough

    def _lists(self, rule: KeyRule, name: str, required: tuple[str, ...]) -> None:
        seen = [item if isinstance(item, str) else quoted(item) for item in self.listed.get(rule.key, [])]
        if sorted(seen) == sorted(required):
            return
        missing, unknown = sorted(set(required) - set(seen)), sorted(set(seen) - set(required))
        repeated = sorted({item for item, times in Counter(seen).items() if times > 1} & set(required))
        parts = [
            f"{len(items)} {what}, {', '.join(printable(item, 60) for item in items[:3])}"
            for what, items in (("missing", missing), ("unknown", unknown), ("repeated", repeated))
            if items
        ]
        message = f"{rule.key} must name {len(required)} {name}s, each once: {'; '.join(parts)}"
        self._add("list", self.log.line_of(rule.key), message)


def _read(log: RunLog, round_: Round) -> _Pass:
    found = _Pass(log, round_)
    found.read()
    return found


def joined(log: RunLog, join: Join) -> Iterator[Event]:
    """Yield the lines that are combined from others, each in the place of the first line it is made of."""
    groups: dict[str, tuple[Event, dict[str, Any]]] = {}
    for event in log.all(join.key):
        part, by = event.metadata.get(join.part), event.metadata.get(join.by)
        if isinstance(part, str):
            first, value = groups.setdefault(repr(by), (event, {join.by: by} if by is not None else {}))
            value[part] = event.value
    for first, value in groups.values():
        yield Event(first.time_ms, first.event_type, join.into, value, {}, first.lineno)


def is_evaluated_afterwards(log: RunLog, benchmark: RoundBenchmark | None) -> bool:
    """Whether the run was evaluated after training, from checkpoints, where the benchmark permits that.

    Where it permits both, all evaluations of such a log come after all of its training; their times are those at which
    the checkpoints were written, or they are after training, too; and for each checkpoint, of which there are several,
    there is a line on which training until then ended: no other says how long that took.
    """
    if benchmark is None or benchmark.evaluated == "online":
        return False
    if benchmark.evaluated == "afterwards":
        return True
    training = [line for name in TRAINING_KEYS for line in log.all(name)]
    evaluations = log.all(EVAL_ACCURACY)
    num_checkpoints = len(set(progress_of_each(evaluations)))
    if not training or max(line.lineno for line in training) > _first_evaluation(log):
        return False
    if not 2 <= num_checkpoints <= len(_ends_of_training(log)):
        return False
    end_ms, times = max(line.time_ms for line in training), [line.time_ms for line in evaluations]
    return max(times) <= end_ms + _SAME_TIME_MS or min(times) >= end_ms - _SAME_TIME_MS


def sequences(log: RunLog, benchmark: RoundBenchmark | None) -> Iterator[tuple[str, Sequence[Event]]]:
    """Yield each key that a run writes repeatedly, from one process, with its lines.

    Of a run that was evaluated afterwards, these are the lines of training before any evaluation: checkpoints are
    evaluated in any order, by several programs at once.
    """
    if is_evaluated_afterwards(log, benchmark):
        yield from ((key, before_evaluation(log, key)) for key in TRAINING_KEYS)
    else:
        yield from ((key, log.all(key)) for key in (*TRAINING_KEYS, *EVALUATION_LINES))


def before_evaluation(log: RunLog, key: str) -> list[Event]:
    """Return the lines of `key` before any evaluation; programs that evaluate checkpoints log blocks of their own."""
    first = _first_evaluation(log)
    return [line for line in log.all(key) if line.lineno < first]


def _first_evaluation(log: RunLog) -> float:
    """The number of the first line of an evaluation; infinite if there is none."""
    return min((line.lineno for name in EVALUATION_LINES for line in log.all(name)[:1]), default=math.inf)


def position(line: Event, benchmark: RoundBenchmark) -> float | None:
    """Return how far training is by a line of the log or by one that is combined from several; None if not stated."""
    fields = line.value if benchmark.join is not None and line.key == benchmark.join.into else line.metadata
    stated = fields.get(benchmark.position)
    return stated if is_number(stated) else None


def trained_before(log: RunLog, benchmark: RoundBenchmark, place: float) -> Event | None:
    """Return the last line, by time, of training that ended before `place` in training, as evaluations count it.

    Of the lines that state a position, only those beyond half of `place` count: programs that evaluate checkpoints log
    later blocks of their own, which count from zero. If none states one (BERT counts its blocks in steps, its
    evaluations in samples), each checkpoint that was evaluated has a block of its own at least.
    """
    lines = [line for key in TRAINING_ENDS for line in log.all(key)]
    placed = [(line, stated) for line in lines if (stated := position(line, benchmark)) is not None]
    if placed:
        before = [line for line, stated in placed if place / 2 < stated < place]
        return max(before, key=lambda line: line.time_ms, default=None)
    stated_places = {stated for line in log.all(EVAL_ACCURACY) if (stated := position(line, benchmark)) is not None}
    num_checkpoints = sum(stated <= place for stated in stated_places)
    return next(iter(_ends_of_training(log)[num_checkpoints - 1 : num_checkpoints]), None)


def _ends_of_training(log: RunLog) -> list[Event]:
    """The lines on which blocks or epochs, whichever are more, ended before any evaluation."""
    return max((before_evaluation(log, key) for key in TRAINING_ENDS), key=len)


def is_placeholder(name: object) -> bool:
    """Whether the name of a submitter or a platform was left as the template has it."""
    text = str(name).strip().lower()
    return text in _NO_NAMES or any(word in text for word in _TEMPLATE)


def is_reprint(value: object, before: object, benchmark: RoundBenchmark | None) -> bool:
    """Whether two values are one, printed twice."""
    if is_number(value) and is_number(before):
        tolerance = benchmark.reprint_tolerance if benchmark is not None else 0.0
        return abs(value - before) <= tolerance * max(abs(value), abs(before))
    return value == before


def first_reached(log: RunLog, round_: Round) -> Event | None:
    """Return the earliest line, by time, that meets the target; None if none does or there is no target."""
    return min(reached(log, round_), key=lambda event: event.time_ms, default=None)


def reached(log: RunLog, round_: Round) -> list[Event]:
    """Return the lines that meet the target of the benchmark; those of one key in the order of the file."""
    return [event for lines in log.cached(_read, round_).reached.values() for event in lines]


def progress(event: Event) -> float | None:
    """Return the training progress that a line states in samples, else epochs, else steps; None if it states none."""
    for name in POSITION_FIELDS:
        stated = event.metadata.get(name)
        if is_number(stated):
            return stated
    return None


def progress_of_each(lines: Sequence[Event]) -> list[float | None]:
    """Return the `progress` of each line; faster where all lines state the same field."""
    for name in POSITION_FIELDS:
        stated = [line.metadata.get(name) for line in lines]
        if _NUMBERS.issuperset(map(type, stated)):
            return stated
        if stated.count(None) < len(stated):
            break
    return [progress(line) for line in lines]


def speed_ratios(log: RunLog) -> list[tuple[Event, float]]:
    """Return each `tracked_stats` line that states a throughput, with measured over stated throughput.

    Measured are the steps since the line before, or since `run_start`, over the time between the two lines. The lines
    do not say whether a step is a sample, a batch or an epoch.
    """
    ratios = []
    before = log.first(RUN_START)
    steps_before = 0.0
    for line in log.all(TRACKED_STATS):
        stated = line.value.get("throughput") if isinstance(line.value, dict) else None
        if before is None or not isinstance(stated, int | float):
            continue
        steps = next((line.metadata[name] for name in _STEPS if name in line.metadata), None)
        if not isinstance(steps, int | float):
            continue
        seconds = (line.time_ms - before.time_ms) / 1e3
        if seconds > 0 and steps > steps_before and stated > 0:
            ratios.append((line, (steps - steps_before) / seconds / stated))
        before, steps_before = line, steps
    return ratios


def constraint_message(line: Event, constraint: str, why: str, num_lines: int) -> str:
    """Say that `line` is the first of `num_lines` that break `constraint`; why: as `Formula.failure` has it."""
    fields = list(dict.fromkeys(_FIELD.findall(constraint)))
    reason = "" if why == NOT_MET else f" ({why.replace('metadata.', '')})"
    if _PRESENT.fullmatch(constraint):
        absent = f"has no {fields[0]}" if len(fields) == 1 else f"has neither {' nor '.join(fields)}"
        required = "it is required" if len(fields) == 1 else "one of them is required"
        return f"{line.key} {absent} in its metadata; {required}{_on_lines(num_lines)}"
    seen = f"is {quoted(line.value)}"
    if fields:
        metadata = line.metadata
        parts = [f"{name} {quoted(metadata[name])}" if name in metadata else f"no {name}" for name in fields]
        seen = f"has {' and '.join(parts)} in its metadata"
    return f"{line.key} {seen}; required: {_in_words(constraint)}{reason}{_on_lines(num_lines)}"


def _in_words(constraint: str) -> str:
    if match := _IF_PRESENT.fullmatch(constraint):
        constraint = f"{match[2]} if it has {match[1]}"
    return _HAS.sub(r"it has \1", constraint).replace("metadata.", "")


def _target_message(key: str, target: Formula, values: Sequence[Any]) -> str:
    numbers = [value for value in values if is_number(value)]
    span = f"they range from {min(numbers):g} to {max(numbers):g}" if numbers else f"the last is {quoted(values[-1])}"
    what = "evaluation" if key == EVAL_ACCURACY else key
    return f"none of {len(values)} {what}s reaches the target, {target.text}; {span}"


def _on_lines(num_lines: int) -> str:
    return f", on {num_lines:,} lines" if num_lines > 1 else ""


def quoted(value: object) -> str:
    """Return `value` for a message; a text is in quotes, so that it differs from a number."""
    return printable(repr(value) if isinstance(value, str) else value, 60)
