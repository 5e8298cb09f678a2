"""How far chance may have moved the score of a result of an MLPerf round. Pure.

MLPerf publishes a score without an interval. Here it has the one that a result of `tta` with the same runs would have:
the scatter of the epochs or samples to target is pooled with that of the round's reference runs, and the seconds per
epoch or sample scatter as the runs do; without a reference, the times alone say how much they scatter. The factor of
the normalisation counts as exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.base.stats import Estimate
from harness.base.values import is_whole
from harness.mlperf.model import Round
from harness.mlperf.score import RoundScore, is_closed
from harness.scoring.convergence import judge_convergence
from harness.scoring.score import MIN_SECONDS, olympic_errors


class _ReferenceRuns(NamedTuple):
    """Epochs or samples to target of the round's reference runs at one batch size."""

    global_batch_size: int
    samples_to_target: tuple[float, ...]
    source: str | None = None


def round_estimate(score: RoundScore, round_: Round) -> Estimate | None:
    """Return the score with its errors; None where there is no score."""
    benchmark = round_.benchmark(score.benchmark)
    if score.seconds is None or benchmark is None:
        return None
    amounts = [run.amount if run.complies else None for run in score.runs]
    times = [math.inf if run.seconds is None or not run.complies else run.seconds for run in score.runs]
    paces = [
        time / amount if amount is not None and amount > 0 and math.isfinite(time) else None
        for time, amount in zip(times, amounts, strict=True)
    ]
    verdict, size = None, score.batch_size
    if is_closed(score.division) and is_whole(size):
        reference = [_ReferenceRuns(item.global_batch_size, item.points) for item in benchmark.convergence]
        verdict = judge_convergence(amounts, size, reference, benchmark.drop)
    errors = olympic_errors(times, paces, amounts, verdict, benchmark.drop, False)
    return Estimate(max(score.seconds, MIN_SECONDS), errors)
