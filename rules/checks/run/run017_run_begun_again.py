"""A run was begun more than once.

## What it does
Counts the attempts at each run that have no end: those kept in `unfinished/`, and those that the log of the run counts
before itself (`attempt` in `tta_format`).

## Why it matters
A run that is killed when it goes badly, and made again, is a choice among runs. An attempt without an end may have been
a crash of the machine, too; a reader can tell from its log, which is why it stays with the result.

## Example
`unfinished/result_1.1763683200000000000.txt`, and `result_1.txt` says that it is attempt 2.

## Instead
Nothing, if the machine failed: `tta run --resume` keeps the attempt, `tta submit` submits it, and this finding stays.
Where the reason matters, state it with the result. Never delete an attempt.

## Source
docs/explanation/integrity.md, "What is fixed before the first run".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import is_whole
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import UNFINISHED, num_attempts
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "log":
        return
    kept = num_attempts(result.files)
    for log in result.runs:
        attempt = log.field(keys.TTA_FORMAT, keys.ATTEMPT_FIELD)
        num_before = attempt - 1 if is_whole(attempt) else 0
        number = result.run_number(log)
        num_kept = 0 if number is None else kept.pop(number, 0)
        if num_before > 0 or num_kept:
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_FORMAT),
                f"the run is attempt {num_before + 1}; of earlier ones without an end, {UNFINISHED}/ has {num_kept}",
                {"attempt": num_before + 1, "kept": num_kept},
            )
    for number, num_kept in sorted(kept.items()):
        yield Fault(
            str(result.path / UNFINISHED),
            None,
            f"run {number} was begun {num_kept} time{'' if num_kept == 1 else 's'} and has no log with an end",
            {"kept": num_kept},
        )
