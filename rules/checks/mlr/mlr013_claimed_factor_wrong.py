"""The factor in scaling.json is not the one that follows from the logs.

## What it does
Computes the factor by which the score is multiplied from the convergence of the reference and of the result, and
compares it with the one that scaling.json claims. A claimed factor is never used. Without the file nothing is claimed.

## Why it matters
MLCommons' summariser multiplies by whatever the file says, also in the open division: 0.01 divides all scores by 100.

## Example
scaling.json says 0.01, but the logs give 1.0188. Or it says 1.02, and the result needs no normalisation.

## Instead
Leave the file out: `tta` computes the factor.

## Source
mlperf_logging, rcp_checker and result_summarizer.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import claim, layout
from harness.submission.result import Result

SCOPE = "result"
_TOLERANCE = 1e-6  # relative; the file has all digits of a double


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or layout.SCALING_NAME not in result.files:
        return
    path = result.path / layout.SCALING_NAME
    claimed, why = claim.claimed_factor(path)
    factor = score.round_score(result.runs, ruleset.round).factor
    if claimed is None:
        message = f"no factor can be read from this file: {printable(why)}; the logs give {factor:.6f}"
        yield Fault(str(path), None, message)
    elif abs(claimed - factor) > _TOLERANCE * factor:
        yield Fault(
            str(path),
            line_of(path, claim.FACTOR_NAME),
            f"the claimed factor is {claimed:.6f}; the logs give {factor:.6f}",
            {"claimed": claimed, "computed": factor},
        )
