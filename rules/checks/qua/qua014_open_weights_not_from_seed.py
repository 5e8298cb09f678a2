"""The initial weights of an open run are not a function of its seed.

## What it does
The same as QUA013, in the open division: another digest at `run_start` than in `tta_initial`, or the same digest in
runs with different seeds.

## Why it matters
An own model may initialise as it likes, to constants, too; but weights that do not come from the seed may come from
training, and a reader should look at the module.

## Example
A module reads its weights from a table in its source, or seeds a generator with the time.

## Instead
Draw the weights with torch's generator, which the harness has seeded. If the constants are meant, say why in the
claim's notes.

## Source
docs/explanation/integrity.md, "What a run begins with".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.qua._initial import not_from_seed

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    yield from not_from_seed(result, is_open=True)
