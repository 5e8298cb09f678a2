"""What a round of MLPerf's finds wrong with one log: one pass over its lines, whatever checks ask. Pure.

The order of things is the MLPerf checker's: a line is held against the lines before it, the last value of a key
is the one that a formula sees, a line that breaks a demand counts as a line all the same.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.base.values import is_number
from harness.errors import printable, unknown_name
from harness.findings import Fault
from harness.log.events import Event
from harness.log.keys import EVAL_ACCURACY, INIT_START, INIT_STOP, RUN_START, TRACKED_STATS
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.formula import Formula, Line
from harness.mlperf.model import Join, KeyRule, Page, Round, RoundBenchmark

_FIELD = re.compile(r"metadata\.(\w+)")
_IF_THERE = re.compile(r"not has\(([\w.]+)\) or (.+)")  # the rounds' way to say "where it is there"
_HAS = re.compile(r"has\(([\w.]+)\)")
_PRESENT = re.compile(r"has\(metadata\.\w+\)(?: or has\(metadata\.\w+\))*")
_NOT_MET = "is not met"


def of_line(line: Event, demand: str, why: str, num_lines: int) -> str:
    """That `line` is the first of `num_lines` that do not meet `demand`; why: as the formula says it."""
    fields = list(dict.fromkeys(_FIELD.findall(demand)))
    reason = "" if why == _NOT_MET else f" ({why.replace('metadata.', '')})"
    if _PRESENT.fullmatch(demand):
        absent = f"has no {fields[0]}" if len(fields) == 1 else f"has neither {' nor '.join(fields)}"
        asked = "it must be there" if len(fields) == 1 else "one of them must be there"
        return f"{line.key} {absent} in its metadata; {asked}{on(num_lines)}"
    seen = f"is {shown(line.value)}"
    if fields:
        metadata = line.metadata
        parts = [f"{name} {shown(metadata[name])}" if name in metadata else f"no {name}" for name in fields]
        seen = f"has {' and '.join(parts)} in its metadata"
    return f"{line.key} {seen}; it must be so that {_in_words(demand)}{reason}{on(num_lines)}"


def _in_words(demand: str) -> str:
    if match := _IF_THERE.fullmatch(demand):
        demand = f"{match[2]}, where it has {match[1]}"
    return _HAS.sub(r"it has \1", demand).replace("metadata.", "")


def of_target(key: str, target: Formula, values: Sequence[Any]) -> str:
    """That none of `values` reaches `target`."""
    numbers = [value for value in values if is_number(value)]
    span = f"they lie from {min(numbers):g} to {max(numbers):g}" if numbers else f"the last is {shown(values[-1])}"
    what = "evaluation" if key == EVAL_ACCURACY else key
    return f"none of {len(values)} {what}s reaches the target, {target.text}; {span}"


def on(num_lines: int) -> str:
    """On how many lines, where it is more than one."""
    return f", on {num_lines:,} lines" if num_lines > 1 else ""


def shown(value: object) -> str:
    """`value` so that a text can be told from a number."""
    return printable(repr(value) if isinstance(value, str) else value, 60)


Kind = Literal["name", "missing", "differs", "doubled", "value", "target", "order", "init", "list"]
_PLACES = ("samples_count", "epoch_num", "first_epoch_num", "step_num")
_NUMBERS = frozenset({int, float})
_STEPS = ("samples_count", "step", "epoch_num")  # of tracked_stats


def faults(log: RunLog, round_: Round, kind: Kind) -> tuple[Fault, ...]:
    """What is wrong with `log` of one kind; all kinds are found in one pass, the first time that one is asked for."""
    return tuple(log.cached(_read, round_).found.get(kind, ()))


def benchmark_of(log: RunLog, round_: Round) -> tuple[str | None, RoundBenchmark | None]:
    """Division and benchmark that the log names, as far as the round has them."""
    division, benchmark = log.value("submission_division"), round_.benchmark(log.value("submission_benchmark"))
    known = division if isinstance(division, str) and division in round_.divisions else None
    return known, benchmark


def page_of(log: RunLog, round_: Round) -> Page:
    """The rules that the log is held against, by what its lines say of division, benchmark and variant."""
    division, benchmark = benchmark_of(log, round_)
    if division is None:
        return round_.page
    if benchmark is None:
        return round_.divisions[division]
    named = log.all(benchmark.variant_key) if benchmark.variant_key is not None else ()
    return benchmark.page(division, named[-1].value if named else None) or round_.divisions[division]


@dataclass(slots=True)
class _Broken:
    """A demand that lines break: the first of them, and how many."""

    event: Event
    why: str
    num_lines: int = 1


@dataclass(slots=True)
class _Reading:
    """One pass of one log under one round."""

    log: RunLog
    round_: Round
    found: dict[Kind, list[Fault]] = field(default_factory=dict)
    broken: dict[tuple[str, str], _Broken] = field(default_factory=dict)
    disordered: dict[tuple[str, str], _Broken] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    listed: dict[str, list[Any]] = field(default_factory=dict)
    reached: dict[str, list[Event]] = field(default_factory=dict)  # the lines of a key that meet its target

    def read(self) -> None:
        division, benchmark = benchmark_of(self.log, self.round_)
        page = page_of(self.log, self.round_)
        self._names(division, benchmark)
        join = benchmark.join if benchmark is not None else None
        for rule in page.keys.values():
            self._lines(rule, self.log.all(rule.key), joined(self.log, join) if join and join.into == rule.key else ())
        for (_, demand), broken in self.broken.items():
            message = compliance.of_line(broken.event, demand, broken.why, broken.num_lines)
            self._add("value", broken.event.lineno, message)
        for (key, why), broken in self.disordered.items():
            self._add("order", broken.event.lineno, f"{key}: {why}{compliance.on(broken.num_lines)}")
        self._init(self.round_.max_init_s.get(division) if division is not None else None)
        for key, rule in page.keys.items():
            self._count(rule)
            if rule.target is not None and key not in self.reached and self.values.get(key):
                self._add("target", self.log.line_of(key), compliance.of_target(key, rule.target, self.values[key]))
            if rule.lists is not None:
                self._lists(rule, *rule.lists)
        for group in dict.fromkeys(page.either):
            if not any(self.values.get(key) for key in group):
                message = f"there is neither {' nor '.join(group)}; one of them must be there"
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
        if division is not None and benchmark is not None and division not in benchmark.pages:
            where = f"round {self.round_.version} has {benchmark.name} in {', '.join(benchmark.pages)} only"
            self._add("name", self.log.line_of("submission_benchmark"), f"{where}, not in {division}")

    def _lines(self, rule: KeyRule, events: Sequence[Event], made: Iterable[Event]) -> None:
        """All lines of one key; those `made` of others stand after every line of the log."""
        places = [event.lineno for event in events]
        if made := tuple(made):
            events, places = (*events, *made), [*places, *(sys.maxsize for _ in made)]
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
                why = f"stands after {key}; it must stand before"
                self.disordered[rule.key, why] = _Broken(events[begin], "", len(events) - begin)
        if rule.lists is not None:
            self.listed[rule.key] = [event.metadata.get(rule.lists[0]) for event in events]
        for demand in rule.each:
            # Half of what is asked of a log: whether a field is there, which needs no line to be looked at alone.
            if demand.present and (bare := [line for line in events if demand.present.isdisjoint(line.metadata)]):
                self.broken[rule.key, demand.text] = _Broken(bare[0], "is not met", len(bare))
        each = [demand for demand in rule.each if not demand.present]
        if each or rule.first or rule.target is not None:
            self._demands(rule, each, events, places)

    def _demands(self, rule: KeyRule, each: Sequence[Formula], events: Sequence[Event], places: Sequence[int]) -> None:
        target = rule.target
        asked = (*each, *rule.first, *([target] if target is not None else []))
        names = frozenset[str]().union(*(demand.names for demand in asked))
        demands = (*each, *rule.first)
        for event, place in zip(events, places, strict=True):
            line = Line(event.value, event.metadata, self._earlier(names, place) if names else {})
            for demand in demands:
                if (why := demand.failure(line)) is not None:
                    known = self.broken.setdefault((rule.key, demand.text), _Broken(event, why, 0))
                    known.num_lines += 1
            if target is not None and target.holds(line):
                self.reached.setdefault(rule.key, []).append(event)
            if not each and target is None:
                return
            demands = (*each,)  # the others are asked of the first line

    def _earlier(self, names: Iterable[str], place: int) -> dict[str, Any]:
        """Of each of the keys, the last value before a line."""
        found = {}
        for name in names:
            lines = self.log.all(name)
            if num := bisect_left(lines, place, key=lambda event: event.lineno):
                found[name] = lines[num - 1].value
        return found

    def _count(self, rule: KeyRule) -> None:
        values, count = self.values.get(rule.key, []), rule.count
        if len(values) < count.at_least:
            there = "it is not there" if not values else f"it is there {len(values)} times"
            self._add("missing", None, f"{rule.key} must be there {count.words}; {there}", keys=(rule.key,))
        elif count.at_most is not None and len(values) > count.at_most:
            second = self.log.all(rule.key)[1].lineno
            if all(value == values[0] for value in values):
                always = compliance.shown(values[0])
                message = f"{rule.key} stands {len(values)} times, always {always}; it must be there once"
                self._add("doubled", second, message)
            else:
                different = list(dict.fromkeys(compliance.shown(value) for value in values))
                message = f"{rule.key} has {len(different)} values, {', '.join(different[:4])}; it must be there once"
                self._add("differs", second, message)

    def _init(self, limit_s: float | None) -> None:
        """By what stands before each init_stop; the first init_start need not be the earliest."""
        if limit_s is None:
            return
        earliest_ms: float | None = None
        for event in sorted((*self.log.all(INIT_START), *self.log.all(INIT_STOP)), key=lambda event: event.lineno):
            if event.key == INIT_START:
                earliest_ms = event.time_ms if earliest_ms is None else min(earliest_ms, event.time_ms)
            elif earliest_ms is not None and event.time_ms - earliest_ms >= limit_s * 1e3:
                init_s = (event.time_ms - earliest_ms) / 1e3
                self._add("init", event.lineno, f"initialisation took {init_s:.1f} s; it must be below {limit_s:g} s")
                return  # the first is enough

    def _lists(self, rule: KeyRule, name: str, asked: tuple[str, ...]) -> None:
        seen = [item if isinstance(item, str) else compliance.shown(item) for item in self.listed.get(rule.key, [])]
        if sorted(seen) == sorted(asked):
            return
        absent, strange = sorted(set(asked) - set(seen)), sorted(set(seen) - set(asked))
        doubled = sorted({item for item, times in Counter(seen).items() if times > 1} & set(asked))
        parts = [
            f"{len(items)} {what}, {', '.join(printable(item, 60) for item in items[:3])}"
            for what, items in (("missing", absent), ("of no such name", strange), ("more than once", doubled))
            if items
        ]
        message = f"{rule.key} must name {len(asked)} {name}s, each once: {'; '.join(parts)}"
        self._add("list", self.log.line_of(rule.key), message)


def _read(log: RunLog, round_: Round) -> _Reading:
    reading = _Reading(log, round_)
    reading.read()
    return reading


def joined(log: RunLog, join: Join) -> Iterator[Event]:
    """The lines that count as one, each at the place of the first line it is made of."""
    groups: dict[str, tuple[Event, dict[str, Any]]] = {}
    for event in log.all(join.key):
        part, by = event.metadata.get(join.part), event.metadata.get(join.by)
        if isinstance(part, str):
            first, value = groups.setdefault(repr(by), (event, {join.by: by} if by is not None else {}))
            value[part] = event.value
    for first, value in groups.values():
        yield Event(first.time_ms, first.event_type, join.into, value, {}, first.lineno)


def first_reached(log: RunLog, round_: Round) -> Event | None:
    """The earliest line, by time, that meets the target of the benchmark; None: none does, or there is no target."""
    return min(reached(log, round_), key=lambda event: event.time_ms, default=None)


def reached(log: RunLog, round_: Round) -> list[Event]:
    """The lines that meet the target of the benchmark; those of one key in the order of the file."""
    return [event for lines in log.cached(_read, round_).reached.values() for event in lines]


def place_of(event: Event) -> float | None:
    """Where in training a line says that it is: samples, else epochs, else steps; None: it does not say."""
    for name in _PLACES:
        place = event.metadata.get(name)
        if is_number(place):
            return place
    return None


def places_of(lines: Sequence[Event]) -> list[float | None]:
    """`place_of` each of the lines."""
    for name in _PLACES:
        places = [line.metadata.get(name) for line in lines]
        if _NUMBERS.issuperset(map(type, places)):
            return places
        if places.count(None) < len(places):
            break
    return [place_of(line) for line in lines]


def speed_ratios(log: RunLog) -> list[tuple[Event, float]]:
    """Of each `tracked_stats` that states a throughput: steps by the lines' times since the last, divided by it.

    What a step is, a sample, a batch or an epoch, the lines do not say. The first is measured from `run_start`.
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
