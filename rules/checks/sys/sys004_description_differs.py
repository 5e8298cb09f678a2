"""The log was made on a different system from the one described.

## What it does
Compares name and digest in `tta_system` with the system description.

## Why it matters
A description that is improved after the runs describes a different machine. The digest is over its content, not its
layout.

## Example
The log says digest 3f2a…; the description with 8 accelerators has 91bc…, the one with 16 has 3f2a….

## Instead
Submit the description that `tta run` put next to the logs. If it is wrong, correct it and run again.

## Source
MLPerf submission rules. MLPerf's checkers compare neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.events import digest_of
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    digest, name = digest_of(dict(result.system)), result.system.get("system_name")
    for log in result.runs:
        line = log.line_of(keys.TTA_SYSTEM)
        logged_name, logged_digest = log.field(keys.TTA_SYSTEM, "name"), log.field(keys.TTA_SYSTEM, "digest")
        if isinstance(logged_name, str) and logged_name != name:
            yield Fault(
                str(log.path),
                line,
                f"the run was made on {printable(logged_name, 60)!r}; the description is of {printable(name, 60)!r}",
            )
        elif isinstance(logged_digest, str) and logged_digest != digest:
            yield Fault(
                str(log.path),
                line,
                f"the system was described differently when it ran: digest {printable(logged_digest[:12])}…; "
                f"the description has {digest[:12]}…",
            )
