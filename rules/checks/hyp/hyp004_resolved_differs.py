"""The worker ran with a different configuration from the one declared.

## What it does
Compares `tta_resolved`, the configuration that the worker reports after `prepare()`, with `tta_config`.

## Why it matters
The rules were applied to what was declared. What trained is what was resolved.

## Example
`tta_config` has global_batch_size 128, `tta_resolved` has 256.

## Instead
Do not change the configuration in `open()` or `prepare()`.

## Source
The run: harness/run/referee.py. Which configuration made a result is a standing complaint about MLPerf's logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    config, resolved = log.value(keys.TTA_CONFIG), log.value(keys.TTA_RESOLVED)
    if not isinstance(config, dict) or not isinstance(resolved, dict):
        return
    both = {**config, **resolved}
    differing = [name for name in both if config.get(name) != resolved.get(name)]
    if differing:
        shown = "; ".join(
            f"{printable(name, 40)}: {printable(resolved.get(name), 80)} instead of {printable(config.get(name), 80)}"
            for name in differing[:3]
        )
        line = log.line_of(keys.TTA_RESOLVED)
        yield Fault(str(log.path), line, f"the worker ran with a different configuration: {shown}")
