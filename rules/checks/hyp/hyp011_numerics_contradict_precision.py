"""A run computed in another arithmetic than its stated precision.

## What it does
Compares the flags that `tta_numerics` reports with those that `precision` in `tta_config` means, and looks in its
environment for a variable that overrides them. Older logs, which have no such line, have no such finding.

## Why it matters
On a GPU, torch's own defaults compute convolutions of fp32 in TF32, three digits instead of seven and several times
faster. Two results that both say fp32 would not have done the same work.

## Example
precision is fp32 and `cudnn_conv_fp32` is "tf32"; or `NVIDIA_TF32_OVERRIDE` is 1, which overrides every flag.

## Instead
State the precision that you use: `tta run --precision tf32`. Leave torch's flags as the worker sets them.

## Source
PyTorch, "Numerical accuracy" and "CUDA semantics", TensorFloat-32; harness/log/numerics.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import mapping_or_empty
from harness.findings import Fault
from harness.log import keys, numerics
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    precision = log.field(keys.TTA_CONFIG, "precision")
    if precision not in numerics.PRECISIONS or not isinstance(log.value(keys.TTA_NUMERICS), dict):
        return
    flags, environment = (mapping_or_empty(log.field(keys.TTA_NUMERICS, name)) for name in ("flags", "environment"))
    faults = list(numerics.contradictions(precision, flags, environment))
    if faults:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_NUMERICS),
            f"precision is {precision}, but {'; '.join(faults[:3])}",
            {"precision": precision, "contradictions": faults},
        )
