"""The runs of a result are not of one result.

## What it does
Compares every run with the first: benchmark, division, submitter, system and its description, rules, number of devices,
precision and the result's number (`result_id`), which `tta run` draws once for all of its runs.

## Why it matters
Runs that were taken from several results were chosen. Runs of several systems are nobody's time.

## Example
result_4.txt comes from another folder, where it was faster.

## Instead
Hand in the runs of one `tta run`, completed by `tta run --resume`.

## Source
MLPerf training rules, "System and framework must be consistent" and "Benchmark Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import events as key
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    first: RunLog | None = None
    for log in result.runs:
        if first is None:
            first = log
            continue
        for what, (name, value), (_, expected) in zip(_FACTS, _facts(log), _facts(first), strict=True):
            if value is not None and expected is not None and value != expected:
                yield Fault(
                    str(log.path),
                    log.line_of(name),
                    f"the {what} is {printable(value, 60)}; in {first.path.name} it is {printable(expected, 60)}",
                )


_FACTS = (
    "benchmark",
    "division",
    "submitter",
    "system",
    "digest of the system description",
    "ruleset",
    "digest of the terms",
    "number of devices",
    "precision",
    "result_id",
)


def _facts(log: RunLog) -> tuple[tuple[str, object], ...]:
    return (
        (key.SUBMISSION_BENCHMARK, log.value(key.SUBMISSION_BENCHMARK)),
        (key.SUBMISSION_DIVISION, log.value(key.SUBMISSION_DIVISION)),
        (key.SUBMISSION_ORG, log.value(key.SUBMISSION_ORG)),
        (key.TTA_SYSTEM, log.field(key.TTA_SYSTEM, "name")),
        (key.TTA_SYSTEM, log.field(key.TTA_SYSTEM, "digest")),
        (key.TTA_RULES, log.field(key.TTA_RULES, "ruleset")),
        (key.TTA_RULES, log.field(key.TTA_RULES, "terms_digest")),
        (key.TTA_CONFIG, log.field(key.TTA_CONFIG, "num_devices")),
        (key.TTA_CONFIG, log.field(key.TTA_CONFIG, "precision")),
        (key.TTA_FORMAT, log.field(key.TTA_FORMAT, "result_id")),
    )
