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
The order of a run: harness/run/referee.py. MLPerf training rules, "Run Results": MLPerf's checker passes a target
reached an hour after `run_stop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.errors import printable
from harness.findings import Fault
from harness.log import events as key
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

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
    hyperparameters = frozenset(timeline.hyperparameters(log) or {}) - {key.POWER_READING}
    places = {**dict.fromkeys(hyperparameters, _HEADER_PLACE), **_PLACES}
    latest: Event | None = None
    latest_place = 0
    misplaced: list[tuple[Event, Event]] = []
    for event, place in _placed(log.events, places):
        if place is None:  # any other key: before run_stop, but for the last reading
            is_late = latest_place >= _STOP_PLACE and (event.key != key.POWER_READING or latest_place != _STOP_PLACE)
        else:
            is_late = place < latest_place
            if not is_late:
                latest, latest_place = event, place
        if is_late:
            assert latest is not None  # what it is later than
            misplaced.append((event, latest))
    if misplaced:
        event, after = misplaced[0]
        yield Fault(
            str(log.path),
            event.lineno,
            f"{printable(event.key)} comes after {printable(after.key)} (line {after.lineno}), and belongs before it; "
            f"events out of order in all: {len(misplaced)}",
            {"key": event.key, "num_misplaced": len(misplaced)},
        )


def _placed(events: Iterable[Event], places: Mapping[str, int]) -> Iterator[tuple[Event, int | None]]:
    """The events, each with its place, if it has one; without a second one of a single key, which is LOG012's."""
    seen: set[str] = set()
    for event in events:
        is_hyperparameter = event.key.startswith(key.HYPERPARAMETER_PREFIX)
        place = _HEADER_PLACE if is_hyperparameter else places.get(event.key)
        if event.key not in seen or place in (None, _BODY_PLACE):
            seen.add(event.key)
            yield event, place
