"""Convergence was counted by `train_samples`, because the evaluations count epochs.

## What it does
Looks for runs whose reference counts samples but whose last evaluation is at less than one batch: for these the samples
to target are `train_samples`.

## Why it matters
One number, stated at the end of a log, decides whether the result converges too fast. No other line confirms it.

## Example
Twenty evaluations of BERT at epoch 1, and `train_samples` 3,000,256.

## Instead
Log the number of samples trained with every evaluation.

## Source
mlperf_logging, rcp_checker, `--bert_train_samples`. Three results of round 1.0 count this way.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    benchmark = ruleset.round.benchmark(result.benchmark)
    if benchmark is None:
        return
    places = [(log, score.last_evaluated_at(log, benchmark)) for log in result.runs]
    in_epochs = [(log, place) for log, place in places if score.counts_in_epochs(place, log, benchmark)]
    if in_epochs:
        log, place = in_epochs[0]
        stated = printable(score.last_value(log, keys.TRAIN_SAMPLES), 60)
        message = f"the last evaluation is at {place:g}, which is not a count of samples; train_samples, {stated}, "
        more = f"was used, in {len(in_epochs)} of {len(places)} runs"
        yield Fault(str(log.path), log.line_of(keys.TRAIN_SAMPLES), message + more)
