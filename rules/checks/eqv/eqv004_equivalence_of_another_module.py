"""The equivalence that a log states is that of another module than the run's.

## What it does
Compares name and SHA-256 in `tta_equivalent` with those of the module in `tta_config`.

## Why it matters
What was measured says nothing about another file.

## Example
`tta_equivalent` is about kernels.py (1f0c…), and the run used kernels.py (93ab…).

## Instead
Nothing to do by hand: make the run again with `tta run --equivalent FILE`.

## Source
docs/explanation/reproduction.md, "The same mathematics".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.equivalence import equivalence_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import named_module

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    found, module = equivalence_of(log), named_module(log)
    if found is None or (module is not None and (module.name, module.sha256) == (found.module, found.sha256)):
        return
    used = "no module" if module is None else f"{printable(module, 80)}"
    measured = f"{printable(found.module, 80)} ({found.sha256[:12]}…)"
    message = f"{measured} was compared with the reference, and the run used {used}"
    yield Fault(str(log.path), log.line_of(keys.TTA_EQUIVALENT), message)
