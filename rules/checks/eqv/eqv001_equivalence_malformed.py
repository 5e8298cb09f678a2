"""A log does not state the equivalence of a reimplementation as others could read it.

## What it does
Reads `tta_equivalent`: the module's name and SHA-256, the drawn seeds, the number of steps, and the relative
difference, its tolerance and its place for each quantity that is compared.

## Why it matters
A closed run may use a reimplementation only if it computes what the reference computes. What was measured must be there
in numbers, not as a word.

## Example
`tta_equivalent` has no difference of the gradients' norm.

## Instead
Nothing to do by hand: `tta run --equivalent FILE` writes the line before the clock starts. Submit the log as it is.

## Source
docs/explanation/reproduction.md, "The same mathematics".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.equivalence import parse_equivalence
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.first(keys.TTA_EQUIVALENT) is None:
        return
    try:
        parse_equivalence(log.value(keys.TTA_EQUIVALENT))
    except ValueError as error:
        yield Fault(str(log.path), log.line_of(keys.TTA_EQUIVALENT), f"{keys.TTA_EQUIVALENT}: {error}")
