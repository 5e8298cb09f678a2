"""The runs of one result were made with different modules.

## What it does
Compares the module in `tta_config` of every run with that of the first: its name, its SHA-256 and what it replaces.
Having no module counts as a difference too.

## Why it matters
A result is the mean of runs of one training. Two modules are two trainings.

## Example
Four runs with one version of fast.py, the fifth with a version that was edited in between.

## Instead
Make all runs again if the module was changed; `tta run --resume` refuses to mix them.

## Source
MLPerf training rules, "Benchmark Results" and "System and framework must be consistent".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result, named_module

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    configured = [log for log in result.runs if isinstance(log.value(keys.TTA_CONFIG), dict)]
    for log in configured:
        first = configured[0]
        if log.field(keys.TTA_CONFIG, "module") != first.field(keys.TTA_CONFIG, "module"):
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_CONFIG),
                f"the module is {printable(named_module(log) or 'none')}; in {first.path.name} it is "
                f"{printable(named_module(first) or 'none')}",
            )
