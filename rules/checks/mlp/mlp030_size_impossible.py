"""A sample count or batch size is impossible.

## What it does
Looks at `train_samples`, `eval_samples` and `global_batch_size`: they must be numbers above zero, or lists of one such
number, and the batch no larger than the data: than `train_samples` or, where that need not count samples, than the
training set of the benchmark.

## Why it matters
Convergence and throughput are checked with these numbers. MLCommons' checker only requires that they are not empty.

## Example
`train_samples` is "banana"; a batch of a billion samples from a million.

## Instead
Log the sizes as whole numbers.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import is_number
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf.compliance import quoted
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.mlp._keys import benchmark_of

SCOPE = "log"
COMPARABLE = ("data", "run")  # what train_samples may count to be comparable with a batch


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    sizes = {}
    for name in (keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES, keys.GLOBAL_BATCH_SIZE):
        line = log.first(name)
        if line is None:
            continue
        value = line.value[0] if isinstance(line.value, list) and len(line.value) == 1 else line.value
        if is_number(value) and value > 0:
            sizes[name] = value
        else:
            seen = f"the text {quoted(line.value)}" if isinstance(line.value, str) else quoted(line.value)
            yield Fault(str(log.path), line.lineno, f"{name} is {seen}; it must be a number above zero")
    benchmark = benchmark_of(log, ruleset)
    batch, samples, what = sizes.get(keys.GLOBAL_BATCH_SIZE), sizes.get(keys.TRAIN_SAMPLES), "train_samples is {:,}"
    if benchmark is not None and benchmark.train_samples not in COMPARABLE:
        samples, what = benchmark.training_set or None, "the training set has {:,} samples"
    if batch is not None and samples is not None and batch > samples:
        message = f"global_batch_size is {batch:,}; {what.format(samples)}"
        yield Fault(str(log.path), log.line_of(keys.GLOBAL_BATCH_SIZE), message)
