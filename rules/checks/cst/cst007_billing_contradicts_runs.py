"""The billing declaration does not cover a run.

## What it does
Compares `billing.yaml` with the logs: from the first to the last line of every run, by the wall clock, as many nodes
must have been held as the system description says. Clocks may differ by two seconds.

## Why it matters
No one trains on a machine that they do not hold. Leaving nodes or attempts out makes a bill smaller.

## Example
Two attempts of 20 minutes, and five runs of 10 minutes one after the other.

## Instead
List every node that was held for the result, including failed attempts, from provisioning to release.

## Source
Cost: docs/explanation/cost.md. The cost of a result is that of all attempts it needed, not only of those that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from harness.base.values import positive_int
from harness.errors import SubmissionError
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.billing import read_billing
from harness.submission.layout import BILLING_NAME
from harness.submission.result import Result

SCOPE = "result"
SLACK_S = 2


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    nodes = positive_int((result.system or {}).get("number_of_nodes"))
    if nodes is None:
        return
    path = result.path / BILLING_NAME
    try:
        attempts = read_billing(path).attempts
    except SubmissionError:
        return  # there is none, or CST006 reports what is wrong with it
    for log in result.runs:
        if not log.events:
            continue
        try:
            begin, end = (datetime.fromtimestamp(log.events[place].time_ms / 1e3, UTC) for place in (0, -1))
            earliest, latest = begin + timedelta(seconds=SLACK_S), end - timedelta(seconds=SLACK_S)
        except (OverflowError, ValueError, OSError):
            yield Fault(str(path), None, f"{log.path.name} has times outside the calendar; no node was held then")
            continue
        held = {item.node for item in attempts if item.provisioned <= earliest and item.released >= latest}
        if len(held) < nodes:
            yield Fault(
                str(path),
                None,
                f"{log.path.name} ran from {begin:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ} on {nodes} nodes; "
                f"{len(held)} were held throughout",
                {"nodes": nodes, "held": len(held)},
            )
