"""A run of the open division had loaded files of its own besides its module.

## What it does
Reads `tta_loaded` as IDN006 does. The module that the log names is not one of these files, by its digest.

## Why it matters
The open division may use other software. Whoever compares its results wants to know which.

## Example
the worker had loaded 1 file from elsewhere than the code, its packages and Python: /home/me/kernels/fused.so.

## Instead
Nothing has to be done. Code that is in the module is published with the result; describe the rest in the notes.

## Source
docs/explanation/integrity.md, "What ran".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.idn import _loaded

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.value(keys.SUBMISSION_DIVISION) == "open":
        yield from _loaded.faults(log)
