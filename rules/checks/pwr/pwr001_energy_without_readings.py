"""An energy is stated, but there are no power logs.

## What it does
If `tta_energy` says measured or estimated, expects power logs in `power/result_<k>/` next to the run's log.

## Why it matters
Energy is the area under the power curve. Without readings it is only a claim.

## Example
energy_j = 1,200, source measured, and no folder `power/result_0`.

## Instead
Run with `--meter`, and submit the folder `power/` with the logs.

## Source
MLPerf power measurement rules: the logs of every node are part of the submission.
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
    source = log.field(keys.TTA_ENERGY, "source")
    if source in ("measured", "estimated") and not log.nodes:  # PWR002 reports a missing source
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_ENERGY),
            f"the energy is stated as {printable(source, 20)}, but there is no power log in power/{log.path.stem}/",
        )
