"""Two results of which one repeats the other: whether they may be compared, and what the new runs say. Pure.

Compared are the samples to target, which code, data and recipe determine and no hardware, by `non_inferiority`: that is
the verdict. On the same system the seconds a sample are compared, too, and have one of their own: a machine's pace
changes more from day to day than between runs made in one go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.base.stats import variance
from harness.base.values import is_whole, mapping_or_empty
from harness.errors import printable
from harness.log import keys
from harness.log.repeated import repeated
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules
from harness.scoring.convergence import Reference, reference_at
from harness.scoring.non_inferiority import LOOKS, Scatter, Verdict, judge, tolerance_of
from harness.scoring.prospect import prospect
from harness.scoring.run_result import RunResult
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result
from harness.submission.system import digests_of

CLOSED = "closed"
PACE_TOLERANCE, PACE_MIN_RUNS = 0.03, 3
MAX_CLAIMED = 100  # runs of a claim for which a verdict's power is simulated; no result has as many
_CONFIG = ("hyperparameters", "precision", "module")

Status = Literal["reproduced", "not reproduced", "inconclusive", "not comparable"]


@dataclass(frozen=True, slots=True)
class Repeatable:
    """What a result is compared by with those that repeat it, and with the one that it repeats.

    digest: of its logs. repeats: the digest of the logs that its runs repeat; None: of none. malformed: why what they
        say of that is no such digest.
    recipe: what runs must have in common to need the same samples, by its name. samples: to target, of each run by
        number; None: it missed. paces: seconds a sample of each run; None: it trained nothing.
    tolerance, scatter: of the rules and their reference runs at its batch size; None where they have none.
    systems: the digests by which its system is recognised; none where the logs have none.
    fault: why it cannot be compared with any other; None if it can.
    """

    digest: str
    repeats: str | None
    malformed: str | None
    recipe: Mapping[str, Any]
    samples: tuple[float | None, ...]
    seeds: frozenset[int]
    tolerance: float | None
    scatter: Scatter | None
    paces: tuple[float | None, ...] = ()
    systems: frozenset[str] = frozenset()
    fault: str | None = None

    def record(self) -> dict[str, Any]:
        """The facts as JSON has them, from which `of_record` makes an equal `Repeatable`."""
        return {**asdict(self), "seeds": sorted(self.seeds), "systems": sorted(self.systems)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Repeatable:
        scatter = record["scatter"]
        known: dict[str, Any] = {
            **record,
            **{name: tuple(record[name]) for name in ("samples", "paces")},
            **{name: frozenset(record[name]) for name in ("seeds", "systems")},
            "scatter": None if scatter is None else Scatter(**scatter),
        }
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reproduction says of its original.

    why: in words. verdict: on the samples to target; None where the two are not comparable. pace: on the seconds a
        sample; None on another system. power: the probability that the samples of these runs, or fewer, would have
        reproduced a claim that is exact; None where it is not known how runs scatter.
    """

    status: Status
    why: str
    verdict: Verdict | None = None
    pace: Verdict | None = None
    power: float | None = None

    def record(self) -> dict[str, Any]:
        """What was said as JSON has it, from which `of_record` makes an equal `Outcome`."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Outcome:
        return cls(**{**record, **{name: _verdict_of(record[name]) for name in ("verdict", "pace")}})


def _verdict_of(record: Mapping[str, Any] | None) -> Verdict | None:
    if record is None:
        return None
    interval = record["interval"]
    return Verdict(**{**record, "interval": None if interval is None else tuple(interval)})


def recipe_of(log: RunLog) -> dict[str, Any]:
    """Return what the runs of a result, and of its reproductions, must have in common."""
    return {
        "benchmark": log.value(keys.SUBMISSION_BENCHMARK),
        "division": log.value(keys.SUBMISSION_DIVISION),
        **{name: log.field(keys.TTA_CONFIG, name) for name in _CONFIG},
        "digest of the terms": log.field(keys.TTA_RULES, "terms_digest"),
        "digest of the data": log.field(keys.TTA_DATA, "digest"),
    }


def difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first difference between two recipes in words; None where they are the same."""
    name = next((name for name in then if then[name] != now[name]), None)
    if name is None:
        return None
    old, new = then[name], now[name]
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        name = next(key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key])
        old, new = old.get(name, "absent"), new.get(name, "absent")
    return f"{printable(name, 60)} is {printable(new, 60)}, not {printable(old, 60)}"


def batch_size_of(recipe: Mapping[str, Any]) -> int | None:
    """Return the global batch size; None where it is not a positive integer."""
    size = mapping_or_empty(recipe["hyperparameters"]).get(keys.GLOBAL_BATCH_SIZE)
    return size if is_whole(size) and size > 0 else None


def reference_of(rules: BenchmarkRules, division: object, batch_size: int) -> Reference | str:
    """Return the reference runs from which it is known how runs scatter, or why there are none."""
    if division != CLOSED:
        return "the reference runs are of the closed division"
    return reference_at(rules.reference_convergence, batch_size)


def scatter_of(reference: Reference | str) -> Scatter | None:
    """Return how the logarithms of the reference's samples to target scatter; None where there is no reference."""
    return None if isinstance(reference, str) else Scatter(reference.variance, reference.num_runs - 1)


def repeatable(result: Result, runs: Sequence[RunResult], rules: BenchmarkRules | None) -> Repeatable:
    """Return what a result is compared by. runs: those of its logs that could be interpreted, by number."""
    recipe = recipe_of(result.runs[0]) if result.runs else {}
    logged = result.runs[0].field(keys.TTA_SYSTEM, "digest") if result.runs else None
    repeats = malformed = scatter = None
    try:
        repeats = repeated(result.runs)
    except ValueError as error:
        malformed = str(error)
    if recipe and rules is not None and (size := batch_size_of(recipe)) is not None:
        scatter = scatter_of(reference_of(rules, recipe["division"], size))
    return Repeatable(
        digest=result.runs_digest,
        repeats=repeats,
        malformed=malformed,
        recipe=recipe,
        samples=tuple(run.crossing_samples for run in runs),
        paces=tuple(run.pace_s for run in runs),
        systems=digests_of(result.system, logged),
        seeds=frozenset(run.seed for run in runs if run.seed is not None),
        tolerance=None if rules is None else tolerance_of(rules.reproduce_tolerance, scatter),
        scatter=scatter,
        fault=_fault(result, runs, recipe, rules),
    )


def _fault(
    result: Result, runs: Sequence[RunResult], recipe: Mapping[str, Any], rules: BenchmarkRules | None
) -> str | None:
    if rules is None:
        return "is of no benchmark of these rules"
    if (
        not runs
        or len(runs) < len(result.runs)
        or any(RESULT_PATTERN.fullmatch(part.path.name) for part in result.unreadable)
    ):
        return "has a log that cannot be read"
    for log in result.runs:
        if (unlike := difference(recipe, recipe_of(log))) is not None:
            return f"has runs that do not belong together: in {printable(log.path.name, 60)}, {unlike}"
    if any(run.crossing_samples is not None and run.crossing_samples <= 0 for run in runs):
        return "has a run that reached the target without training"
    return None


def compare(original: Repeatable, again: Repeatable) -> Outcome:
    """Return what the runs of `again` say of those of `original`, as `tta reproduce` would say it.

    Looked at are the first 5, 10 and 20 runs, as far as there are as many; the first look that decides is the verdict.
    """
    if original.digest == again.digest:
        return Outcome("not comparable", "it says that it repeats itself")
    for which, item in (("the original", original), ("the reproduction", again)):
        if item.fault is not None:
            return Outcome("not comparable", f"{which} {item.fault}")
    if (unlike := difference(original.recipe, again.recipe)) is not None:
        return Outcome("not comparable", f"its {unlike}")
    if shared := sorted(original.seeds & again.seeds):
        why = f"its runs are not independent of the original's: both have the seed {shared[0]}"
        return Outcome("not comparable", why)
    if original.tolerance is None:
        return Outcome("not comparable", "neither the rules nor reference runs say how much worse it may be")
    num_claimed = sum(samples is not None for samples in original.samples)
    if not num_claimed:
        return Outcome("not comparable", "no run of the original reached the target")
    verdict = judge(original.samples, again.samples, original.scatter, original.tolerance)
    pace = None
    if original.systems & again.systems:
        pace = judge_seconds(original.paces, again.paces[: verdict.num_runs])
    status: Status = "inconclusive" if verdict.status == "undecided" else verdict.status
    return Outcome(status, verdict.why, verdict, pace, _power(original, verdict))


def judge_seconds(
    claimed: Sequence[float | None], new: Sequence[float | None], tolerance: float | None = None
) -> Verdict | None:
    """Return the verdict on seconds on one system, whose scatter only the new runs tell, at a single look.

    None entries are left out; None: of fewer than `PACE_MIN_RUNS` runs. tolerance: None: three times the scatter of the
    new runs, and `PACE_TOLERANCE` at least.
    """
    then, now = ([value for value in values if value is not None] for values in (claimed, new))
    if len(now) < PACE_MIN_RUNS or not then:
        return None
    if tolerance is None:
        tolerance = max(PACE_TOLERANCE, 3 * math.sqrt(variance([math.log(value) for value in now])))
    return judge(then, now, None, tolerance, (len(now),))


def _power(original: Repeatable, verdict: Verdict) -> float | None:
    if original.scatter is None or original.tolerance is None:
        return None
    if verdict.num_claimed > MAX_CLAIMED or verdict.num_runs not in LOOKS:
        return None
    return prospect(verdict.num_claimed, original.scatter, original.tolerance).reproduced_by[verdict.num_runs]
