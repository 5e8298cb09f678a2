"""Two runs compared their reimplementation from the same seed.

## What it does
Compares the seeds in `tta_equivalent` of the runs of a result with each other.

## Why it matters
The seeds are drawn when the module is fixed, so that it cannot know them. Of 2,147,483,648 seeds, a few drawn ones are
not the same by chance; chosen ones are.

## Example
result_0.txt and result_2.txt were both compared from the seed 7.

## Instead
Nothing to do by hand: `tta run --equivalent FILE` draws them in each run.

## Source
docs/explanation/reproduction.md, "The same mathematics".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.equivalence import equivalence_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[int, RunLog] = {}
    for log in result.runs:
        if (found := equivalence_of(log)) is None:
            continue
        seed = next((seed for seed in found.seeds if seed in seen), None)
        if seed is not None:
            message = f"the module was compared from the seed {seed}, as in {seen[seed].path.name}; seeds are drawn"
            yield Fault(str(log.path), log.line_of(keys.TTA_EQUIVALENT), message, {"seed": seed})
        for own in found.seeds:
            seen.setdefault(own, log)
