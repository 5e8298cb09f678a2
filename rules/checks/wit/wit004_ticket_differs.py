"""A run does not belong to the ticket that it names.

## What it does
Makes the seed again from the ticket's nonces and compares it with the log's; compares the ticket in the log with its
receipt and with the end of the campaign, whose secret makes every nonce again; and compares code, system, configuration
and benchmark of the campaign with those of the log.

## Why it matters
A ticket shows that a run was counted before anybody knew its outcome, and that nobody chose its seed: of this run, with
this code on this system, and of no other.

## Example
The log's seed is 17; the ticket's nonces make 1,204,377,102.

## Instead
Make the runs with `tta run --witness`, which draws the tickets, and submit them as they are.

## Source
docs/explanation/witness.md, "Tickets".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import InputError, SubmissionError
from harness.findings import Fault
from harness.log import keys
from harness.log.ticket import commitment_of, config_digest, nonce_of, parse_ticket, seed_of
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.receipts import CampaignEnd, WitnessedRun, campaign_end, witnessed_runs
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        if log.first(keys.TTA_TICKET) is not None:
            try:
                parse_ticket(log.value(keys.TTA_TICKET))
            except ValueError as error:
                yield Fault(str(log.path), log.line_of(keys.TTA_TICKET), f"{keys.TTA_TICKET}: {error}")
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError):
        end = None  # which WIT003 says
    for run in witnessed_runs(result):
        place = str(run.log.path), run.log.line_of(keys.TTA_TICKET)
        yield from (Fault(*place, why) for why in _of_log(run))
        if end is not None:
            yield from (Fault(*place, why) for why in _of_campaign(run, end))


def _of_log(run: WitnessedRun) -> Iterator[str]:
    ticket, log = run.ticket, run.log
    made = seed_of(ticket.ticket, ticket.server_nonce, ticket.client_nonce)
    for what, seed in (("the log's seed", log.value(keys.SEED)), ("the ticket's seed", ticket.seed)):
        if seed != made:
            yield f"{what} is {seed}; the nonces make {made}"
    if run.receipts is not None:
        record = ticket.record()
        issued = {**run.receipts.issued, "ticket": run.receipts.ticket}
        for name in ("ticket", "campaign", "number", "server_nonce", "client_nonce", "seed"):
            if issued.get(name) != record[name]:
                yield f"{name} is {record[name]}; the receipt of the ticket says {issued.get(name)}"
                return


def _of_campaign(run: WitnessedRun, end: CampaignEnd) -> Iterator[str]:
    ticket, log, body = run.ticket, run.log, end.body
    secret = bytes.fromhex(body["secret"])
    if ticket.campaign != end.campaign:
        yield f"is of campaign {ticket.campaign}; the end is that of {end.campaign}"
    elif commitment_of(secret) != body["commitment"]:
        yield "the campaign's secret is not the one that was committed to when it was opened"
    elif nonce_of(secret, ticket.campaign, ticket.number) != ticket.server_nonce:
        yield "the server's nonce is not the one that the campaign's secret makes"
    config = log.value(keys.TTA_CONFIG)
    own = {
        "benchmark": log.value(keys.SUBMISSION_BENCHMARK),
        "division": log.value(keys.SUBMISSION_DIVISION),
        "system_sha256": log.field(keys.TTA_SYSTEM, "digest"),
        "code_sha256": log.field(keys.TTA_CODE, "digest"),
        "config_sha256": config_digest(config) if isinstance(config, dict) else None,
    }
    for name, value in own.items():
        if value != body[name]:
            yield f"the campaign was opened for {name} {body[name]:.12}…, the log has {str(value)[:12]}…"
