"""A run of the closed division had loaded files that no list accounts for.

## What it does
Reads `tta_loaded`: files behind the modules of the referee, the worker and the evaluator, and shared libraries, that
are neither code of `tta`, nor of an installed distribution, nor Python's; files that differ from what the code's list
or the distribution's RECORD says; and files from a cache of compiled kernels in a run without `compile=true`.

## Why it matters
A sitecustomize.py, an edited optimizer or an edited metric can replace what is timed or measured. What is loaded is
looked at after the run, by the referee; a program that hides from `sys.modules` is not seen.

## Example
the worker had loaded 1 file not as the list of the code or of their package has them: …/torch/optim/sgd.py.

## Instead
Install the packages again, unset PYTHONPATH, and make the runs again.

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
    if log.value(keys.SUBMISSION_DIVISION) != "open":
        yield from _loaded.faults(log)
