"""The verdict on a closed result's convergence, which the checks of this family share."""

from __future__ import annotations

from harness.log import keys
from harness.log.repeated import scored
from harness.ruleset.model import BenchmarkRules
from harness.scoring import timeline
from harness.scoring.convergence import Verdict, judge_convergence
from harness.submission.receipts import num_unfinished
from harness.submission.result import Result


def verdict_of(result: Result, rules: BenchmarkRules) -> Verdict | None:
    """The samples to target of a closed result against the reference.

    Of a reproduction, those of the runs by which it is scored. None for a single log, for the open division, and if the
    runs do not have one batch size (HYP008).
    """
    sizes = {timeline.batch_size(log) for log in result.runs}
    is_open = any(log.value(keys.SUBMISSION_DIVISION) == "open" for log in result.runs)
    if result.kind == "log" or is_open or len(sizes) != 1 or None in sizes:
        return None
    batch_size = sizes.pop()
    assert batch_size is not None
    runs = scored(result.runs, rules.required_runs("closed"))
    missed = [None] * num_unfinished(result)  # tickets of a witness without a run
    samples = [*(timeline.samples_to_target(log, rules) for log in runs), *missed]
    return judge_convergence(samples, batch_size, rules.reference_convergence, rules.drop)


def compared(verdict: Verdict) -> str:
    """What was seen, in a clause; the verdict has a reference."""
    assert verdict.own_samples is not None
    assert verdict.reference_samples is not None
    ratio = verdict.own_samples / verdict.reference_samples
    return (
        f"the runs need {verdict.own_samples:,.0f} samples on average, {ratio:.1%} of the reference's "
        f"{verdict.reference_samples:,.0f} ({verdict.how})"
    )
