"""Two runs of a result log the same seed from the same place.

## What it does
Compares the lines of the key `seed` over the runs: the value, and the source file and line that logged it. In the
closed division, from round 4.1 on. A seed that is not a whole number is reported as well.

## Why it matters
With the same seed a run repeats itself, and a lucky one counts twice.

## Example
result_1.txt and result_4.txt both log the seed 17 from train.py:310.

## Instead
Draw the seed of every run from the clock or from /dev/urandom.

## Source
MLPerf training rules, "Random Numbers" (from round 4.1 on); mlperf_logging, seed_checker, which requires it in all
rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    seen: dict[tuple[str, str, int], RunLog] = {}
    for log in result.runs:
        if not score.is_closed(log.value("submission_division")):
            continue
        for line in log.all(keys.SEED):
            if (seed := score.parse_seed(line.value)) is None:
                message = f"the seed is {printable(line.value, 60)}; it must be a whole number"
                yield Fault(str(log.path), line.lineno, message)
                continue
            place = (repr(line.metadata.get("file")), repr(line.metadata.get("lineno")), seed)
            first = seen.setdefault(place, log)
            if first is not log:
                where = f"{first.path.name}:{first.line_of(keys.SEED)}"
                yield Fault(str(log.path), line.lineno, f"seed {seed} was already used in {where}")
