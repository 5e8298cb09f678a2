"""An event comes before or after its place in a run.

## What it does
Expects header, clock, world, initialisation, `run_start`, blocks and evaluations, `run_stop`, energy, ledger, end, in
this order; `tta_format` first of all, and nothing but a last power reading and the summary after `run_stop`. Reports
the first event that is out of order, and how many more there are.

## Why it matters
A target that is reached after the clock has stopped was not reached. Hyperparameters that are written down when the run
is over can be written to suit.

## Example
`run_stop` on line 40, `eval_accuracy` 0.95 on line 43.

## Instead
Hand in the log as it was written.

## Source
The order of a run: harness/referee.py. MLPerf training rules, "Run Results": MLPerf's checker passes a target reached
an hour after `run_stop`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness import course
from harness import events as key
from harness.errors import printable
from harness.events import Event
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"
_ORDER = (
    (key.TTA_FORMAT,),
    key.HEADER_KEYS[1:],
    (key.TTA_CLOCK,),
    *((name,) for name in key.OPENING_KEYS),
    key.BODY_KEYS,
    (key.RUN_STOP,),
    *((name,) for name in key.SUMMARY_KEYS),
)
_PLACES = {name: place for place, names in enumerate(_ORDER) for name in names}
_HEADER_PLACE = 1
_BODY_PLACE = _PLACES[key.EVAL_ACCURACY]
_STOP_PLACE = _PLACES[key.RUN_STOP]


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    places = {**dict.fromkeys(course.hyperparameters(log) or {}, _HEADER_PLACE), **_PLACES}
    latest: Event | None = None
    latest_place = -1
    misplaced: list[tuple[Event, Event]] = []
    seen: set[str] = set()
    for event in log.events:
        place = _place(event, places)
        if place is None or (event.key in seen and place != _BODY_PLACE):
            # Other keys have their place before run_stop; a second event of a single key is LOG012's.
            is_last_reading = event.key == key.POWER_READING and latest_place == _STOP_PLACE
            if place is None and latest is not None and latest_place >= _STOP_PLACE and not is_last_reading:
                misplaced.append((event, latest))
            continue
        seen.add(event.key)
        if latest is not None and place < latest_place:
            misplaced.append((event, latest))
        elif place > latest_place:
            latest, latest_place = event, place
    if misplaced:
        event, after = misplaced[0]
        more = f"; and {len(misplaced) - 1} more events out of order" if len(misplaced) > 1 else ""
        yield Fault(
            str(log.path),
            event.lineno,
            f"{printable(event.key)} comes after {after.key} (line {after.lineno}), and belongs before it{more}",
            {"key": event.key, "num_misplaced": len(misplaced)},
        )


def _place(event: Event, places: Mapping[str, int]) -> int | None:
    if event.key.startswith(key.HYPERPARAMETER_PREFIX):
        return _HEADER_PLACE
    return places.get(event.key)
