"""The log of a run is not the one whose heads its witness received.

## What it does
Compares each head that was receipted with the digest of the event that it names, and the digest of the whole log with
the one that was sent at its end. Receipts that cannot be read are named.

## Why it matters
A head was sent before anybody knew how the run would end. A log that has another was changed afterwards.

## Example
The quality of the third evaluation is 0.912 in the log; the head after it belongs to a line that said 0.902.

## Instead
Submit the logs and receipts as `tta run` wrote them.

## Source
docs/explanation/witness.md, "Heads".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import InputError, SubmissionError
from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.receipts import CampaignEnd, RunReceipts, campaign_end, witnessed_runs
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    end: CampaignEnd | None = None
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError) as error:
        yield Fault(str(result.path), None, str(error))
    digests = {} if end is None else {item["ticket"]: item.get("log_sha256") for item in end.tickets}
    for run in witnessed_runs(result):
        if run.fault is not None:
            yield Fault(str(run.log.path), None, f"its receipts cannot be read: {run.fault}")
        if run.receipts is not None:
            yield from _heads(run.log, run.receipts)
        sent = digests.get(run.ticket.ticket)
        if sent is not None and sent != run.log.sha256:
            yield Fault(
                str(run.log.path),
                None,
                f"is not the log whose digest was sent at its end, {str(sent)[:12]}…",
                {"sent": sent, "own": run.log.sha256},
            )


def _heads(log: RunLog, receipts: RunReceipts) -> Iterator[Fault]:
    """Each event has the digest of the line before it, so that all but the last line's digests are known."""
    digests = {event.metadata.get("seq"): event.metadata.get("prev") for event in log.events}
    last = max((seq for seq in digests if isinstance(seq, int)), default=-1)
    for head in receipts.heads:
        known = digests.get(head.seq + 1)
        if head.seq > last or (known is not None and known != head.head):
            yield Fault(
                receipts.path,
                head.line,
                f"the head after event {head.seq} was {head.head[:12]}…; the log has "
                + (f"{str(known)[:12]}…" if head.seq <= last else f"only events up to {last}"),
                {"seq": head.seq, "sent": head.head},
            )
            return
