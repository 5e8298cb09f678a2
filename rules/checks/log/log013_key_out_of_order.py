"""An event comes before or after its place in a run.

## What it does
Expects header, clock, world, initialisation, `run_start`, blocks and evaluations, `run_stop`, energy, ledger and end in
this order; `tta_format` first of all, and nothing but a last power reading and the summary after `run_stop`. Reports
the first event that is out of order, and how many there are in total.

## Why it matters
A target that is reached after the clock has stopped was not reached. Hyperparameters that are written when the run is
over can be chosen to suit.

## Example
`run_stop` on line 40, `eval_accuracy` 0.95 on line 43.

## Instead
Submit the log as it was written.

## Source
The order of a run: harness/run/referee.py. MLPerf training rules, "Run Results": MLPerf's checker passes a target
reached an hour after `run_stop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_ORDER = (
    (keys.TTA_FORMAT,),
    (*keys.HEADER_KEYS[1:], *keys.REPRODUCTION_KEYS, *keys.VARIANCE_KEYS, *keys.WITNESS_KEYS),
    (keys.TTA_CLOCK,),
    (keys.TTA_LAUNCH,),
    *((name,) for name in (*keys.REPLAY_KEYS, *keys.OPENING_KEYS)),
    (*keys.BODY_KEYS, *keys.RESUME_KEYS),
    (keys.RUN_STOP,),
    *((name,) for name in (*keys.SUMMARY_KEYS[:-1], *keys.WEIGHTS_KEYS, keys.TTA_NODES_CLEAN, keys.SUMMARY_KEYS[-1])),
)
_PLACES = {name: place for place, names in enumerate(_ORDER) for name in names}
_HEADER_PLACE = 1
_BODY_PLACE = _PLACES[keys.EVAL_ACCURACY]
_STOP_PLACE = _PLACES[keys.RUN_STOP]


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    hyperparameters = frozenset(timeline.hyperparameters(log) or {}) - {keys.POWER_READING}
    places = {**dict.fromkeys(hyperparameters, _HEADER_PLACE), **_PLACES}
    latest: Event | None = None
    latest_place = 0
    misplaced: list[tuple[Event, Event]] = []
    for event, place in _placed(log.events, places):
        if place is None:  # any other key: before run_stop, except the last reading
            is_late = latest_place >= _STOP_PLACE and (event.key != keys.POWER_READING or latest_place != _STOP_PLACE)
        else:
            is_late = place < latest_place
            if not is_late:
                latest, latest_place = event, place
        if is_late:
            assert latest is not None  # the event it should have come before
            misplaced.append((event, latest))
    if misplaced:
        event, after = misplaced[0]
        yield Fault(
            str(log.path),
            event.lineno,
            f"{printable(event.key)} comes after {printable(after.key)} (line {after.lineno}) and belongs before it; "
            f"events out of order in total: {len(misplaced)}",
            {"key": event.key, "num_misplaced": len(misplaced)},
        )


def _placed(events: Iterable[Event], places: Mapping[str, int]) -> Iterator[tuple[Event, int | None]]:
    """Each event with its place, if it has one; not the repeats of a key that a run writes once, which are LOG012's."""
    seen: set[str] = set()
    for event in events:
        is_hyperparameter = event.key.startswith(keys.HYPERPARAMETER_PREFIX)
        place = _HEADER_PLACE if is_hyperparameter else places.get(event.key)
        if event.key not in seen or place in (None, _BODY_PLACE):
            seen.add(event.key)
            yield event, place
