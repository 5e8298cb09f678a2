"""A run used a precision that the rules do not permit.

## What it does
Compares `precision` in `tta_config` with `precisions` of the benchmark. In the open division any may be used.

## Why it matters
A lower precision trains faster and converges differently; the rules say which precisions were found to be fair.

## Example
precision "fp8" where fp32 and bf16 are permitted.

## Instead
Use a permitted precision, or compete in the open division.

## Source
MLPerf training rules, "Numerical formats".
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
    precision = log.field(keys.TTA_CONFIG, "precision")
    if rules is None or not isinstance(precision, str) or log.value(keys.SUBMISSION_DIVISION) == "open":
        return
    if precision not in rules.precisions:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_CONFIG),
            f"precision is {printable(precision, 40)!r}; permitted: {', '.join(rules.precisions)}",
        )
