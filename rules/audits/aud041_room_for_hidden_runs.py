"""The pause between two runs leaves room for a run that is not shown.

## What it does
Orders the runs of a result by time, and compares the pause from one to the next with the usual pause and the length of
a run.

## Why it matters
The runs of a result are made one after another. A pause in which a whole run fits may hide one that failed.

## Example
Runs of 20 minutes with a minute between them, and one pause of 45 minutes.

## Instead
Make the runs of a result without a break, or say why not.

## Source
mlcommons/training issue 848: how to deal with cherry-picking has been open since 2026.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_runs", "min_usual_fraction", "max_pause_runs")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    spans = [(run, run.wall_ms) for run in subject.by_time if run.wall_ms is not None]
    if len(spans) < rule["min_runs"]:
        return
    lengths_s = statistics.median((last - first) / 1e3 for _, (first, last) in spans)
    pauses = [
        (after, (begin[0] - end[1]) / 1e3)
        for (_, end), (after, begin) in itertools.pairwise(spans)
        if begin[0] > end[1]
    ]
    usual = [pause_s for _, pause_s in pauses if pause_s < lengths_s]
    # If the runs do not follow one another at all, a pause says nothing.
    if lengths_s <= 0 or len(usual) < rule["min_usual_fraction"] * (len(spans) - 1):
        return
    ordinary_s = statistics.median(usual) if usual else 0.0
    # Room for a run includes a pause on both sides of it.
    wide = [(run, s) for run, s in pauses if s >= 2 * ordinary_s + rule["max_pause_runs"] * lengths_s]
    if wide:
        run, pause_s = max(wide, key=lambda pair: pair[1])
        rooms = sum(max(1, int((s - ordinary_s) / (lengths_s + ordinary_s))) for _, s in wide)
        yield evidence(
            run.path,
            run.log.events[0].lineno,
            f"this run began {pause_s:.0f} s after the previous one ended; a run takes {lengths_s:.0f} s and the usual "
            f"pause is {ordinary_s:.0f} s: {len(wide)} pauses have room for {rooms} runs that are not shown",
            len(wide) / len(pauses),
            pauses=len(wide),
            rooms=rooms,
        )
