"""A claim made again: what is planned, what was made, and what the two say together. Pure but for reading the logs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from harness.cost.money import cost_usd
from harness.errors import UsageError
from harness.log import keys
from harness.log.run_log import RunLog
from harness.reproduction.claim import Claim
from harness.reproduction.identity import Identity
from harness.reproduction.replays import Comparison
from harness.scoring.convergence import Standing, standing_of
from harness.scoring.non_inferiority import LOOKS, Status, Verdict, judge, tolerance_of, too_alike
from harness.scoring.prospect import Prospect, prospect
from harness.scoring.repetition import judge_seconds
from harness.scoring.run_result import RunResult
from harness.submission.predictions import Recomputed, contradiction

MAX_GAP = 1.5  # a run that began later than so many lengths of the one before was not begun right after it
SUSPICIOUS = 0.05  # probability that honest runs are as alike as the claimed, below which the report says so


@dataclass(frozen=True, slots=True)
class Terms:
    """What a reproduction is judged by. looks: numbers of new runs after which it is judged; the last ends it."""

    tolerance: float
    looks: tuple[int, ...] = LOOKS


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can be expected of a reproduction before its first run.

    variation: coefficient of variation of the reference's samples to target. prospect: if the claim is exact. run_s:
    seconds that a whole run takes, from its first line to its last, as the claim's took; None on another system.
    usd_per_hour: of this system; None without a price. Without a reference only `run_s` and the price are known.
    """

    variation: float | None
    prospect: Prospect | None
    run_s: float | None
    usd_per_hour: Decimal | None

    @property
    def seconds(self) -> float | None:
        """Until the verdict, if the claim is exact."""
        return None if self.run_s is None or self.prospect is None else self.run_s * self.prospect.num_runs

    @property
    def usd(self) -> Decimal | None:
        if self.seconds is None or self.usd_per_hour is None:
            return None
        return cost_usd(self.seconds, self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The claim, the new runs so far, and the verdict on them.

    folder: of the new runs. new: their results, by number. verdict: on the samples to target. pace: on the seconds per
        sample, seconds: on those to the target; None on another system, and of fewer than `PACE_MIN_RUNS` runs.
    replay: of the first steps; None where the claim has none. recomputed: the qualities of the claim's kept
        predictions, by log. reevaluated: those of its kept weights.
    alike: the probability that honest runs are as alike as the claimed; None without a reference.
    """

    claim: Claim
    terms: Terms
    identity: Identity
    outlook: Outlook
    folder: Path
    new: tuple[RunResult, ...]
    verdict: Verdict
    pace: Verdict | None
    seconds: Verdict | None
    replay: Comparison | None
    recomputed: dict[str, Recomputed]
    reevaluated: dict[str, Recomputed]
    alike: float | None

    @property
    def is_over(self) -> bool:
        return self.verdict.status != "undecided"

    @property
    def claim_standing(self) -> Standing | None:
        """Of the claimed runs; None without a reference."""
        return standing_of(self.claim.reference, self.claim.samples)

    @property
    def new_standing(self) -> Standing | None:
        """Of the new runs that were judged; None without them, or without a reference."""
        return standing_of(self.claim.reference, [run.crossing_samples for run in self.new[: self.verdict.num_runs]])

    @property
    def status(self) -> Status:
        """The verdict on the claim, which is that on the samples."""
        return self.verdict.status


def terms_of(claim: Claim, tolerance: float | None, num_runs: int | None) -> Terms:
    """Return the terms that were asked for, else those of the rules, else those that the reference's scatter bears.

    num_runs: a single look after so many runs; None: the usual ones.

    Raises:
        UsageError: no run of the claim reached its target, or there is nothing from which a tolerance follows.
    """
    if all(samples is None for samples in claim.samples):
        raise UsageError(f"{claim.name}: no run of the claim reached the target: there is nothing to reproduce")
    if tolerance is None:
        tolerance = tolerance_of(claim.rules.reproduce_tolerance, claim.scatter)
    if tolerance is None:
        raise UsageError(f"{claim.name}: {claim.reference}; say with --tolerance how much worse it may be")
    return Terms(tolerance, LOOKS if num_runs is None else (num_runs,))


def outlook_of(claim: Claim, terms: Terms, is_same_system: bool, usd_per_hour: Decimal | None) -> Outlook:
    """Return what can be expected."""
    run_s = mean_length_s(claim.result.runs) if is_same_system else None
    scatter = claim.scatter
    if scatter is None:
        return Outlook(None, None, run_s, usd_per_hour)
    num_claimed = sum(samples is not None for samples in claim.samples)
    expected = prospect(num_claimed, scatter, terms.tolerance, terms.looks)
    return Outlook(scatter.variation, expected, run_s, usd_per_hour)


def mean_length_s(logs: Sequence[RunLog]) -> float | None:
    """Return the mean of `length_s`; None where no log has one.

    Up to the first line of the next log, if that was begun right after: what is done between two logs takes time, too.
    """
    lengths = [length for log in logs if (length := length_s(log)) is not None]
    begins = [event.time_ms / 1e3 for log in logs if (event := log.first(keys.TTA_FORMAT)) is not None]
    if len(lengths) == len(begins):
        gaps = [after - before for before, after in itertools.pairwise(begins)]
        own = zip(lengths, gaps, strict=False)
        lengths[: len(gaps)] = [gap if length <= gap <= MAX_GAP * length else length for length, gap in own]
    return math.fsum(lengths) / len(lengths) if lengths else None


def length_s(log: RunLog) -> float | None:
    """Return the seconds from the first line of a log to its last, start and end of the processes included."""
    first, last = log.first(keys.TTA_FORMAT), log.first(keys.TTA_END)
    if first is None or last is None:
        return None
    seconds = (last.time_ms - first.time_ms) / 1e3
    return seconds if 0 < seconds < math.inf else None


def judged(
    claim: Claim,
    terms: Terms,
    identity: Identity,
    outlook: Outlook,
    folder: Path,
    new: Sequence[RunResult],
    replay: Comparison | None,
    recomputed: dict[str, Recomputed],
    reevaluated: dict[str, Recomputed],
) -> Reproduction:
    """Return the reproduction with the verdicts on the new runs, which are in the order of their numbers."""
    verdict = judge(claim.samples, [run.crossing_samples for run in new], claim.scatter, terms.tolerance, terms.looks)
    if verdict.status == "reproduced" and (wrong := contradictions(claim, recomputed, reevaluated)):
        verdict = replace(verdict, status="not reproduced", why=wrong[0])
    seen = new[: verdict.num_runs]
    return Reproduction(
        claim=claim,
        terms=terms,
        identity=identity,
        outlook=outlook,
        folder=folder,
        new=tuple(new),
        verdict=verdict,
        pace=judge_seconds(_paces(claim.runs), _paces(seen), None) if identity.is_same_system else None,
        seconds=judge_seconds(_seconds(claim.runs), _seconds(seen), terms.tolerance)
        if identity.is_same_system
        else None,
        replay=replay,
        recomputed=recomputed,
        reevaluated=reevaluated,
        alike=None if claim.scatter is None else too_alike(claim.samples, claim.scatter),
    )


def contradictions(
    claim: Claim, recomputed: Mapping[str, Recomputed], reevaluated: Mapping[str, Recomputed]
) -> list[str]:
    """Return, of each log whose kept predictions or weights do not have the quality that it states, what they have."""
    kept = (("the kept predictions", recomputed), ("the kept weights", reevaluated))
    return [
        f"{log.path.name}: {why}"
        for log in claim.result.runs
        for what, found in kept
        if (why := contradiction(log, found.get(log.path.name), what))
    ]


def _paces(runs: Sequence[RunResult]) -> list[float]:
    return [run.pace_s for run in runs if run.pace_s is not None]


def _seconds(runs: Sequence[RunResult]) -> list[float]:
    return [run.seconds for run in runs if run.seconds is not None]
