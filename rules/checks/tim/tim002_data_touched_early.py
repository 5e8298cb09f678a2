"""The data set was opened before the clock started.

## What it does
Reports the files in `tta_data_touched_early`: files of the data set that the training process opened or listed before
`run_start`.

## Why it matters
Reading and decoding are part of the time to accuracy. A process that already has the data in memory when the clock
starts has done the work of its first minutes off the clock.

## Example
`prepare()` loads `train.npz` to "find the image size".

## Instead
Open the data in `start(data_dir)`. What may be known earlier is in `metadata.json`, which the referee hands over.

## Source
MLPerf training rules, "Run Results": the clock starts before any part of the system touches the data.
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
    for event in log.all(keys.TTA_DATA_TOUCHED_EARLY):
        if isinstance(event.value, list) and event.value:
            names = printable(", ".join(map(str, event.value)))
            yield Fault(
                str(log.path),
                event.lineno,
                f"{len(event.value)} data files were opened before run_start; none may be: {names}",
                {"num_files": len(event.value)},
            )
