"""Two runs have the same qualities throughout, or almost.

## What it does
Compares the values of all evaluations over the runs of a result that have at least three. Two runs are also reported if
two thirds of the later one's values equal the other's at the same places, or differ from them by less than a
ten-thousandth of the usual step in quality from one evaluation to the next, and at least three of them are different
values. Each run is compared with the first 50 curves. Runs whose times are equal as well are RUN005's, runs with equal
seeds RUN003's.

## Why it matters
Different seeds lead to different curves. The same curve twice means that the seed was not used, or that it is a copy
with other times. One value of a copy is easily changed, or the ninth digit of all of them.

## Example
Two runs with seeds 17 and 23, both 0.5120, 0.8030, 0.9310.

## Instead
Find out whether the workload uses its seed. With a coarse quality (few examples) it can be chance.

## Source
Forensics on published logs: distinct seeds with identical trajectories. Over two thirds of their evaluations, no two
published runs are closer than 0.007 steps, and no two `tta` runs closer than 0.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from harness.checker.audit import similarity
from harness.checker.audit.similarity import Fingerprint
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"
MIN_EVALUATIONS = 3
MAX_OFF_STEPS = 1e-4
MAX_CURVES = 50  # a result may have ten thousand runs
Curve = tuple[float, ...]


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    curves: dict[Curve, tuple[RunLog, Fingerprint]] = {}  # with the first run that has it
    for log in result.runs:
        curve = tuple(value for _, value in timeline.qualities(log))
        if len(curve) < MIN_EVALUATIONS or len(set(curve)) == 1:
            continue
        first, _ = curves.get(curve, (None, None))
        if first is None:
            fingerprint = similarity.of_values(curve)
            what = _alike(log, fingerprint, curves)
            curves[curve] = log, fingerprint
        elif _times(log) != _times(first) and log.value(keys.SEED) != first.value(keys.SEED):
            what = f"all {len(curve)} qualities are those of {first.path.name}"
        else:
            what = None
        if what is not None:
            yield Fault(str(log.path), log.line_of(keys.EVAL_ACCURACY), f"{what}, but the seed is different")


def _alike(log: RunLog, fingerprint: Fingerprint, curves: Mapping[Curve, tuple[RunLog, Fingerprint]]) -> str | None:
    """How many values equal those of the first similar earlier run with another seed; None if there is none."""
    for other, other_fingerprint in islice(curves.values(), MAX_CURVES):
        found = similarity.alike(fingerprint, other_fingerprint, MAX_OFF_STEPS)
        if found is not None and log.value(keys.SEED) != other.value(keys.SEED):
            off = f", to within {found.off_steps:.1g} of the usual step between two of them" if found.off_steps else ""
            return f"{found.num} of {len(fingerprint.numbers)} qualities are those of {other.path.name}{off}"
    return None


def _times(log: RunLog) -> list[float]:
    start = log.first(keys.RUN_START)
    return [] if start is None else [log.seconds(start, event) for event, _ in timeline.qualities(log)]
