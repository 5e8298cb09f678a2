"""A witnessed run was registered, but its log was not streamed to the witness.

## What it does
Looks for the end of the campaign, and, for each run with a ticket, for receipts of the heads of its log: one within 5 s
after `run_start`, after `run_stop` and after 95 % of the evaluations, and none of more than 60 s apart in between.

## Why it matters
Heads that were sent while the run went on bound its times and bind its log. Without them the ticket still shows that
the run was counted before it began and that its seed was drawn: the result is of class W1 and not W2. Without the end
of the campaign nobody knows what other runs there were: it is of class W0, like any other.

## Example
The service could not be reached for ten minutes.

## Instead
Nothing, if class W1 is enough. Otherwise make the runs again where the service can be reached.

## Source
docs/explanation/witness.md, "Classes".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CAMPAIGN_NAME
from harness.submission.receipts import not_streamed, witnessed_runs
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "submission" and CAMPAIGN_NAME not in result.files:
        for run in witnessed_runs(result):
            line = run.log.line_of(keys.TTA_TICKET)
            yield Fault(str(run.log.path), line, f"counts as not witnessed: there is no {CAMPAIGN_NAME}")
        return
    for run in witnessed_runs(result):
        if run.fault is None and (why := not_streamed(run)) is not None:
            yield Fault(str(run.log.path), run.log.line_of(keys.TTA_TICKET), f"counts as registered only: {why}")
