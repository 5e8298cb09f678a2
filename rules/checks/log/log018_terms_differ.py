"""A run was made under different rules from those it is judged by.

## What it does
Compares the ruleset's name and the digest of the benchmark's terms in `tta_rules` with the rules in force.

## Why it matters
Target, cadence, budget or permitted values may have been different. The decision to stop was made by those rules, so
the time of the run is not the time to this target.

## Example
The log was made when the target was 0.90; the rules now say 0.92.

## Instead
Judge the log by the ruleset that it names (`--ruleset`), or run again.

## Source
rules/CHANGELOG.md says which results stay comparable.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    line = log.line_of(keys.TTA_RULES)
    name, digest = log.field(keys.TTA_RULES, "ruleset"), log.field(keys.TTA_RULES, "terms_digest")
    if isinstance(name, str) and name != ruleset.version:
        yield Fault(
            str(log.path),
            line,
            f"the run was made under ruleset {printable(name)!r} and is judged by {ruleset.version!r}",
        )
    elif rules is not None and isinstance(digest, str) and digest != rules.terms_digest:
        yield Fault(
            str(log.path),
            line,
            f"the run was made under different terms of {rules.name}: their digest is {printable(digest[:12])}…; "
            f"the digest of the terms in force is {rules.terms_digest[:12]}…",
        )
