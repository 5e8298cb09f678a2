"""The clock of a run and that of its witness do not agree.

## What it does
Compares, between each two receipts of a run's heads, the time that passed by the run's clock with the time that passed
by the witness's. They may differ by 2.5 s and 0.1 %. The event that a head names must be older than its sending, and
the next event not older by more than 2 s.

## Why it matters
The time in a log is the submitter's word. The witness has a clock of its own, and a run cannot have been shorter than
what passed between two of its heads.

## Example
A log says that 30 s passed between two evaluations; the witness received their heads 60 s apart.

## Instead
Nothing to do by hand: submit the log as it was written. If the machine's clock is broken, have it repaired.

## Source
docs/explanation/witness.md, "Times".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.receipts import Head, RunReceipts, witnessed_runs
from harness.submission.result import Result

SCOPE = "result"
SLACK_S = 2.5  # what a request may take, and the witness's clock may be set by
DRIFT = 1e-3  # of clocks; those of servers differ by less than a tenth of it
READ_S = 2.0  # from reading a log's end to sending its head, at most


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in witnessed_runs(result):
        if run.receipts is not None:
            yield from _clocks(run.receipts)
            yield from _events(run.log, run.receipts)


def _clocks(receipts: RunReceipts) -> Iterator[Fault]:
    """Compare neighbours, which finds where it is, and the first with the last, which finds a little everywhere."""
    heads = receipts.heads
    pairs = [*itertools.pairwise(heads), *([(heads[0], heads[-1])] if len(heads) > 2 else [])]
    for first, second in pairs:
        own_s = (second.elapsed_ns - first.elapsed_ns) / 1e9
        witness_s = (second.received_ms - first.received_ms) / 1e3
        if abs(own_s - witness_s) > SLACK_S + DRIFT * abs(witness_s):
            yield Fault(
                receipts.path,
                second.line,
                f"since head {first.number} the run's clock has {own_s:.1f} s, the witness's {witness_s:.1f} s",
                {"own_s": own_s, "witness_s": witness_s},
            )
            return


def _events(log: RunLog, receipts: RunReceipts) -> Iterator[Fault]:
    times = {event.metadata.get("seq"): event.elapsed_ns for event in log.events}
    for head in receipts.heads:
        own_ns, next_ns = times.get(head.seq), times.get(head.seq + 1)
        if own_ns is not None and own_ns > head.elapsed_ns:
            yield _misplaced(receipts, head, f"event {head.seq} is of {own_ns / 1e9:.3f} s")
            return
        if next_ns is not None and next_ns < head.elapsed_ns - READ_S * 1e9:
            yield _misplaced(receipts, head, f"event {head.seq + 1}, which it does not have, of {next_ns / 1e9:.3f} s")
            return


def _misplaced(receipts: RunReceipts, head: Head, what: str) -> Fault:
    return Fault(receipts.path, head.line, f"the head was sent at {head.elapsed_ns / 1e9:.3f} s of the run; {what}")
