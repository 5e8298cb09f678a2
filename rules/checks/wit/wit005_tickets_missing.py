"""Not every ticket of the campaign is accounted for.

## What it does
Reads `campaign.json`, the witness's statement of all tickets of a closed campaign. Every finished one must have its run
in the result, and every run its ticket. Those that were issued and not finished are runs that missed; the rules say how
many a result may have. Of a reproduction with more runs than are scored, those with the first tickets must be scored.

## Why it matters
Whoever may leave out a run chooses the best of many. A ticket is counted from the moment it is issued, whatever became
of its run.

## Example
Seven tickets were issued, five runs are submitted; two finished runs are missing.

## Instead
Submit all runs of the campaign. `tta run --resume` makes those that are missing, with new tickets; an organiser can
void a ticket whose run a broken machine has ended.

## Source
docs/explanation/witness.md, "Every start counts".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import InputError, SubmissionError
from harness.findings import Fault
from harness.log import keys
from harness.log.repeated import scored
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.receipts import FINISHED, VOID, CampaignEnd, campaign_end, witnessed_runs
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    runs = list(witnessed_runs(result))
    if not runs:
        return
    with_ticket = {run.ticket.ticket: run.log for run in runs}
    if rules is not None:
        yield from _order(result, {run.log.path: run.ticket.number for run in runs}, rules)
    for log in result.runs:
        if log not in with_ticket.values():
            yield Fault(str(log.path), None, "has no ticket of its own, which other runs of this result have")
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError):
        return  # which WIT003 says
    if end is None:
        return  # which WIT001 says
    yield from _tickets(result, set(with_ticket), end, rules)


def _order(result: Result, numbers: Mapping[Path, int], rules: BenchmarkRules) -> Iterator[Fault]:
    """Of a reproduction, the first runs are scored: which are the first, the tickets say, and not the names of logs."""
    division = result.claim.division if result.claim is not None else "closed"
    first = scored(result.runs, rules.required_runs(division))
    last = max((numbers.get(log.path, 0) for log in first), default=0)
    for log in result.runs[len(first) :]:
        if numbers.get(log.path, last) < last:
            ticket = numbers[log.path]
            yield Fault(str(log.path), None, f"is not scored, and has ticket {ticket}; a run that is scored has {last}")


def _tickets(result: Result, own: set[str], end: CampaignEnd, rules: BenchmarkRules | None) -> Iterator[Fault]:
    issued = {ticket["ticket"]: ticket for ticket in end.tickets}
    numbers = sorted(ticket["number"] for ticket in end.tickets)
    if numbers != list(range(1, len(numbers) + 1)):
        yield Fault(end.path, None, f"the tickets are numbered {numbers}; one is missing or doubled")
    for name in sorted(own - set(issued)):
        yield Fault(end.path, None, f"the campaign has no ticket {name}, which a run names")
    for name, ticket in issued.items():
        if name not in own and ticket["state"] == FINISHED:
            yield Fault(end.path, None, f"the run of ticket {ticket['number']} was finished and is not in the result")
        if name in own and ticket["state"] == VOID:
            yield Fault(end.path, None, f"ticket {ticket['number']} was voided; its run does not count")
    unfinished = [ticket["number"] for ticket in end.unfinished if ticket["ticket"] not in own]
    if rules is None or not unfinished:
        return
    missed = sum(not _is_reached(log) for log in scored(result.runs, rules.required_runs(end.body["division"])))
    if len(unfinished) + missed > rules.drop:
        yield Fault(
            end.path,
            None,
            f"{len(unfinished)} tickets have no finished run and {missed} runs missed; at most {rules.drop} may",
            {"unfinished": unfinished, "missed": missed},
        )


def _is_reached(log: RunLog) -> bool:
    stop = log.first(keys.RUN_STOP)
    return stop is not None and stop.metadata.get("status") == "success"
