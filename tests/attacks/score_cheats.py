"""Cheats on the score: results of genuine logs that luck, tuning or omission make faster, and what comes of them.

The reference needs about 2,600 samples at a batch size of 100 and 3,600 at 400. Its seeds differ by 5 %, and a run is
evaluated every 200 samples, as coarsely as the `mini` benchmarks are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from harness.ruleset.model import Constraint, ReferenceConvergence
from harness.scoring.score import Score, score
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import Step
from tests.rules.box import Box

SCATTER = 0.05  # of the logarithm of the samples between seeds
CADENCE = 200
REFERENCE = {100: 2600, 400: 3600}  # samples to target by batch size
HONEST = (-0.8, -0.2, 0.0, 0.3, 0.7)  # the luck of five seeds, in standard deviations
SEEDS = (987_654, 12_345_678, 555_555, 77_000_001, 314_159_265)


def quantiles(number: int) -> list[float]:
    """`number` standard normal values of equal probability, in ascending order."""
    return [NormalDist().inv_cdf((place + 0.5) / number) for place in range(number)]


def drawn(luck: Sequence[float], mean: float) -> list[float]:
    """The samples to target of runs with this luck."""
    return [mean * math.exp(SCATTER * value) for value in luck]


RULES: dict[str, Any] = {
    "eval_every_samples": CADENCE,
    "reference_convergence": tuple(
        ReferenceConvergence(size, tuple(round(value) for value in drawn(quantiles(20), mean)))
        for size, mean in REFERENCE.items()
    ),
    "hyperparameters": {
        **fabricate.benchmark_rules().hyperparameters,
        "global_batch_size": Constraint(default=100, range=(20, 1000)),
    },
}


def expected_samples(batch_size: int) -> float:
    """What the reference needs, also beyond the batch sizes that were run."""
    (low, low_samples), (high, high_samples) = REFERENCE.items()
    share = math.log(batch_size / low) / math.log(high / low)
    return low_samples * math.exp(share * math.log(high_samples / low_samples))


def run(
    box: Box,
    index: int,
    samples: float,
    batch_size: int = 100,
    pace: float = 1.0,
    is_early: bool = False,
    is_stopped: bool = False,
) -> list[Step]:
    """A run that crosses its target after `samples`, at `pace` times the usual seconds per sample.

    is_early: it ends an evaluation early, whose quality is raised to the target. is_stopped: it is ended by hand there.
    """
    step = math.ceil(CADENCE / batch_size) * batch_size
    curve = [0.5 + 0.4 * step * number / samples for number in range(1, math.ceil(samples / step) + 1)]
    if is_early or is_stopped:
        del curve[-1]
    if is_early:
        curve[-1] = 0.902 + 0.001 * index
    return fabricate.events(
        index,
        SEEDS[index],
        box.rules,
        curve,
        batch_size,
        block_s=0.4 * pace * (1 + 0.002 * index),
        eval_s=0.04 * pace,
        status="aborted" if is_stopped else "success",
        reason="interrupted" if is_stopped else "target",
    )


def trained(box: Box, samples: Sequence[float], early: Sequence[int] = (), **options: Any) -> None:
    """Gives the box runs that need `samples`; those numbered `early` end an evaluation early."""
    box.runs = [run(box, index, need, is_early=index in early, **options) for index, need in enumerate(samples)]


@dataclass(frozen=True)
class Cheat:
    """A way to a better score.

    codes: all that is found. then: what becomes of the score, in words. honest: the runs without the cheat.
    """

    name: str
    act: Callable[[Box], None]
    codes: frozenset[str]
    then: str
    honest: Callable[[Box], None]


@dataclass(frozen=True)
class Outcome:
    """The measured time and the score relative to the honest result; what is found, and what the score is made of."""

    measured: float
    score: float
    codes: frozenset[str]
    is_valid: bool
    basis: str


CHEATS: list[Cheat] = []


def honest(box: Box, batch_size: int = 100) -> None:
    """Runs of the reference's recipe, with seeds as they come."""
    trained(box, drawn(HONEST, expected_samples(batch_size)), batch_size=batch_size)


def cheat(
    name: str, *codes: str, then: str, without: Callable[[Box], None] = honest
) -> Callable[[Callable[[Box], None]], None]:
    def add(act: Callable[[Box], None]) -> None:
        CHEATS.append(Cheat(name, act, frozenset(codes), then, without))

    return add


def with_a_slow_run(box: Box) -> None:
    honest(box)
    box.runs[3] = run(box, 3, drawn(HONEST, 2600)[3], pace=1.2)


GAINS_NOTHING = "scored with the reference's samples"


@cheat("the best five of fifty seeds are submitted", "CNV003", then=GAINS_NOTHING)
def _(box: Box) -> None:
    trained(box, drawn(quantiles(50)[:5], 2600))


@cheat("learning rate and schedule are tuned until a fifth fewer samples are enough", "CNV003", then=GAINS_NOTHING)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, 2600 * 0.8))


@cheat("three runs are stopped one evaluation early, its quality raised", then=GAINS_NOTHING)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, 2600), early=(0, 2, 4))


@cheat("all runs are stopped one evaluation early, its quality raised", "CNV003", then=GAINS_NOTHING)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, 2600), early=range(5))


@cheat("another recipe is trained, which needs half the samples", "CNV001", then="not valid")
def _(box: Box) -> None:
    trained(box, drawn(HONEST, 2600 * 0.5))


@cheat(
    "the batch is smaller than any of the reference, with a shorter schedule",
    "CNV002",
    then="not valid",
    without=lambda box: honest(box, 50),
)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, expected_samples(50) * 0.8), batch_size=50)


@cheat(
    "the batch is larger than any of the reference, with a shorter schedule",
    "CNV002",
    then="not valid",
    without=lambda box: honest(box, 800),
)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, expected_samples(800) * 0.8), batch_size=800)


@cheat(
    "the batch is between two of the reference, with a shorter schedule",
    "CNV003",
    then="scored with samples interpolated from the reference's",
    without=lambda box: honest(box, 200),
)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, expected_samples(200) * 0.8), batch_size=200)


@cheat(
    "a cheaper arithmetic takes 20 % less time per sample and needs 15 % more of them",
    "CNV003",
    then="scored with its own samples: what it gains is real",
)
def _(box: Box) -> None:
    trained(box, drawn(HONEST, 2600 * 1.15), pace=0.8)


@cheat(
    "the one run that something slowed down by a fifth is ended by hand",
    "QUA001",
    then="it counts up to its last evaluation",
    without=with_a_slow_run,
)
def _(box: Box) -> None:
    honest(box)
    box.runs[3] = run(box, 3, drawn(HONEST, 2600)[3], pace=1.2, is_stopped=True)


def scored(box: Box) -> Score:
    """The score of what is in a box, whether valid or not."""
    box.write()
    return score(read_result(box.folder).runs, box.rules, box.ruleset.timing, "closed")


def outcome(item: Cheat, place: Path) -> Outcome:
    """What comes of a cheat."""
    without, box = Box(place / "without", rules=RULES), Box(place / "with", rules=RULES)
    item.honest(without)
    item.act(box)
    before, after = scored(without), scored(box)
    assert {finding.code for finding in without.judge()} <= item.codes & {"CNV002"}
    findings = box.judge()
    assert before.seconds is not None
    assert before.measured_seconds is not None
    assert after.seconds is not None
    assert after.measured_seconds is not None
    return Outcome(
        measured=after.measured_seconds / before.measured_seconds,
        score=after.seconds / before.seconds,
        codes=frozenset(finding.code for finding in findings),
        is_valid=not any(finding.severity == "error" for finding in findings),
        basis=after.basis,
    )
