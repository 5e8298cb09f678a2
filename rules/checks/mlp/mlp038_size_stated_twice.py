"""A log states two batch sizes, or two sizes of the data.

## What it does
Compares the values of all lines of `global_batch_size`, `train_samples` and `eval_samples`, if the round permits the
key more than once; if it does not, MLP004 reports it. Where training plays its own data (MiniGo), only the batch size.

## Why it matters
The last batch size selects the reference that convergence is compared with; the lines before it, which formulas use,
determine the permitted learning rate.

## Example
`global_batch_size` 2304 on one line, 512 on the next: FLUX.1 may log it more than once.

## Instead
Log each size once, or always the same.

## Source
MLPerf training rules, "Reference Convergence Points". Not a rule of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
KEYS = (keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    once = {
        name for name, rule in compliance.rules_of(log, ruleset.round).keys.items() if rule.count.at_most is not None
    }
    _, benchmark = compliance.benchmark_of(log, ruleset.round)
    grows = benchmark is not None and benchmark.train_samples == "games"
    for name in KEYS[:1] if grows else KEYS:
        lines = log.all(name)
        other = next((line for line in lines if line.value != lines[0].value), None)
        if other is not None and name not in once:
            message = f"{name} is {printable(other.value, 60)} here and {printable(lines[0].value, 60)} before"
            yield Fault(str(log.path), other.lineno, message)
