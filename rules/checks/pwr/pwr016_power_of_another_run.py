"""A power log is from another run.

## What it does
Compares the run id in the first line of each power log with the run's log, and the host with those of `tta_world`.

## Why it matters
The power log of a frugal run next to the log of a fast one makes a result that no run achieved.

## Example
power/result_0 and power/result_1 have been swapped.

## Instead
Submit the power logs as they were written, each next to its run.

## Source
`tta`'s. MLPerf's power logs have no run id: its program scales a trace from another day to the length of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.from_logs import hosts_of, is_of_another_run
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import metered

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        hosts = hosts_of(run.log)
        for node in run.log.nodes:
            if is_of_another_run(node, run.log):
                own = run.log.field(keys.TTA_FORMAT, "run_id")
                yield Fault(
                    str(node.path),
                    1,
                    f"its run id is {printable(node.run_id or 'none', 40)}; the run's log has {printable(own, 40)}",
                )
            elif hosts is not None and node.host is not None and not node.is_switch and node.host not in hosts:
                named = printable(", ".join(sorted(hosts)))
                yield Fault(str(node.path), 1, f"it was written on {printable(node.host, 60)}; tta_world names {named}")
