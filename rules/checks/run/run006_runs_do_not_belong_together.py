"""The runs of a result do not belong to one result.

## What it does
Compares every run with the first: benchmark, division, submitter, system and its description, rules, number of devices,
precision, execution options and the identity of the result (`result_id`), which `tta run` draws once for all its runs.

## Why it matters
Runs that were taken from several results were chosen. A mean over runs of several systems is the time of none.

## Example
`result_4.txt` comes from another folder, where it was faster.

## Instead
Submit the runs of one `tta run`, completed by `tta run --resume`.

## Source
MLPerf training rules, "System and framework must be consistent" and "Benchmark Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_FACTS = (  # its name in messages, the event it is in, and the field of it (None: the whole value)
    ("benchmark", keys.SUBMISSION_BENCHMARK, None),
    ("division", keys.SUBMISSION_DIVISION, None),
    ("submitter", keys.SUBMISSION_ORG, None),
    ("system", keys.TTA_SYSTEM, "name"),
    ("digest of the system description", keys.TTA_SYSTEM, "digest"),
    ("ruleset", keys.TTA_RULES, "ruleset"),
    ("digest of the terms", keys.TTA_RULES, "terms_digest"),
    ("number of devices", keys.TTA_CONFIG, "num_devices"),
    ("precision", keys.TTA_CONFIG, "precision"),
    ("execution", keys.TTA_CONFIG, keys.EXECUTION_FIELD),
    ("result_id", keys.TTA_FORMAT, "result_id"),
)


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        first = result.runs[0]
        for what, name, field in _FACTS:
            value, expected = _fact(log, name, field), _fact(first, name, field)
            if value is not None and expected is not None and value != expected:
                yield Fault(
                    str(log.path),
                    log.line_of(name),
                    f"the {what} is {printable(value, 60)}; in {first.path.name} it is {printable(expected, 60)}",
                )


def _fact(log: RunLog, name: str, field: str | None) -> object:
    return log.value(name) if field is None else log.field(name, field)
