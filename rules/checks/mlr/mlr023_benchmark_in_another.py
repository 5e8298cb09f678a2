"""The folder of a benchmark is inside the result of another.

## What it does
Looks below the folder of the result for folders that are named after a benchmark of the round and have logs. Logs in
other folders are a matter of MLR002.

## Why it matters
MLCommons' programs do not open them and no score counts them, but a reader of the repository may. It is usually a copy
in the wrong place, or the only one.

## Example
`results/box/resnet/bert/result_0.txt` to `result_9.txt`.

## Instead
Put each result at `results/<system>/<benchmark>`.

## Source
MLPerf submission rules, "Submission directory structure". In round 1.0, one published result has another inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import LOG_PATTERN
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    parts = [name.rpartition("/") for name in result.files]
    folders = Counter(folder for folder, _, name in parts if LOG_PATTERN.fullmatch(name))
    for folder, number in folders.items():
        if ruleset.round.benchmark(folder.rpartition("/")[2]) is not None:
            logs = "a log" if number == 1 else f"{number:,} logs"
            message = f"{printable(folder, 100)}/ has {logs}; a benchmark's folder must be in that of its system"
            yield Fault(str(result.path / folder), None, message, {"num_logs": number})
