"""A reproduction as text and as a JSON document: the plan before the first run, and what was found. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.base.text_table import aligned
from harness.errors import printable
from harness.reproduction import replays
from harness.reproduction.claim import Claim
from harness.reproduction.identity import Identity
from harness.reproduction.replays import Comparison
from harness.reproduction.reproduction import SUSPICIOUS, Outlook, Reproduction, Terms, contradictions
from harness.reproduction.screening import Screening
from harness.run.forecast import duration
from harness.scoring.convergence import Standing
from harness.scoring.non_inferiority import Verdict, at_any_time
from harness.scoring.prospect import Prospect
from harness.scoring.run_result import RunResult
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, Recomputed

FORMAT_VERSION = 1
HEADER = ("", "claim", "new", "ratio", "90 % interval", "tolerance", "verdict")
_NOTHING = "-"


def plan_text(claim: Claim, terms: Terms, identity: Identity, outlook: Outlook) -> str:
    """What is compared, and what can be expected of it."""
    lines = [
        f"{claim.rules.name}, {claim.division}: {_count(len(claim.runs), 'run')} of {claim.who}",
        *identity_lines(identity),
        *outlook_lines(claim, terms, outlook),
    ]
    return "\n".join(lines)


def identity_lines(identity: Identity) -> Iterator[str]:
    """In what the claim and this installation differ."""
    if not identity.differences:
        yield "made with the same code, rules, data, recipe and packages as here"
    for difference in identity.differences:
        yield f"differs: {difference}"
    if not identity.is_same_system:
        yield "another system: samples are compared; seconds are not comparable"


def outlook_lines(claim: Claim, terms: Terms, outlook: Outlook) -> Iterator[str]:
    """What can be expected before the first run."""
    if outlook.prospect is None or outlook.variation is None:
        yield f"plan: looks at {_looks(terms)} runs; {claim.reference}, so what they can show is not known before"
        return
    expected = outlook.prospect
    first, *others = (f"{100 * share:.0f} % by {number}" for number, share in expected.reproduced_by.items())
    shares = ", ".join([f"{first} new run{'' if terms.looks[0] == 1 else 's'}", *others])
    reached = sum(samples is not None for samples in claim.samples)
    yield (
        f"plan: samples to target vary by {100 * outlook.variation:.1f} %; at a tolerance of "
        f"{100 * terms.tolerance:g} % an exact claim of {_count(reached, 'run')} is confirmed with a probability of "
        f"{shares}"
    )
    yield estimate_text(outlook)


def estimate_text(outlook: Outlook) -> str:
    """How long it will take, and what it costs; the time is not known where neither the claim nor a run tells it."""
    expected = outlook.prospect
    number = "" if expected is None else f"about {_count(round(expected.num_runs), 'run')} until the verdict: "
    if outlook.seconds is None:
        known = "" if outlook.run_s is None else f"{duration(outlook.run_s)} a run"
        return f"plan: {number}{known or 'the time is known after the first run'}"
    price = "" if outlook.usd is None else f", ${outlook.usd:,.2f}"
    return f"plan: {number}{duration(outlook.seconds)}{price}"


def watch_text(claim: Claim, new: Sequence[RunResult]) -> str:
    """What the runs so far say, whenever one looks."""
    samples = [run.crossing_samples for run in new]
    missed = sum(number is None for number in samples)
    head = f"watch: {_count(len(new), 'run')}, {missed} missed"
    interval = None if claim.scatter is None else at_any_time(claim.samples, samples, claim.scatter)
    if interval is None:
        return f"{head}; no interval is known"
    low, high = interval
    return f"{head}; ratio {math.sqrt(low * high):.3f}, {low:.3f} to {high:.3f} (90 %, at any time)"


def screening_text(num_samples: int, found: Screening | None, tolerance: float) -> str:
    """What the halves of runs say."""
    if found is None:
        return f"screening: too few evaluations within {num_samples:,} samples to compare curves"
    scope = f"up to {num_samples:,} samples, {found.num_new} new runs need {found.ratio:.3f} times the samples of "
    scope += f"{_count(found.num_claimed, 'claimed run')}"
    if found.interval is None:
        return f"screening: {scope}; how such runs scatter is not known"
    low, high = found.interval
    doubt = "that speaks against the claim" if is_doubtful(found, tolerance) else "nothing speaks against the claim"
    return f"screening: {scope} (90 % interval {low:.3f} to {high:.3f}): {doubt}; this is no verdict"


def screening_facts(num_samples: int, found: Screening | None) -> dict[str, Any]:
    """Return a screening for a JSON document."""
    if found is None:
        return {"samples": num_samples, "ratio": None, "interval_90": None, "num_claimed": 0, "num_new": 0}
    interval = None if found.interval is None else list(found.interval)
    numbers = {"num_claimed": found.num_claimed, "num_new": found.num_new}
    return {"samples": num_samples, "ratio": found.ratio, "interval_90": interval, **numbers}


def is_doubtful(found: Screening, tolerance: float) -> bool:
    """Whether halves of runs are slower than claimed, and by the tolerance or more."""
    return found.interval is not None and found.interval[0] > 1 and found.ratio >= 1 + tolerance


def _looks(terms: Terms) -> str:
    *others, last = map(str, terms.looks)
    return f"{', '.join(others)} and {last}" if others else last


def text(found: Reproduction) -> str:
    """What was found, with the verdict in its last line."""
    head = [replay_text(found.replay), *quality_lines(found)]
    table = aligned(HEADER, rows_of(found), frozenset({0}))
    return "\n".join([*head, "", table, "", *notes(found), conclusion(found)])


def rows_of(found: Reproduction) -> list[tuple[str, ...]]:
    """The table of what is compared, under `HEADER`."""
    rows = [_row("samples to target", found.verdict, found.terms.tolerance, _samples(found))]
    if found.pace is not None:
        rows.append(_row("seconds a sample", found.pace, found.pace.tolerance, _paces(found)))
    if found.seconds is not None:
        rows.append(_row("seconds to target", found.seconds, found.terms.tolerance, _seconds(found)))
    return rows


def conclusion(found: Reproduction) -> str:
    """The verdict and its reason."""
    slower = found.pace is not None and found.pace.status == "not reproduced"
    and_pace = f"; but a sample took longer here: {found.pace.why}" if found.pace is not None and slower else ""
    return f"{found.status}: {found.verdict.why}{_power(found)}{and_pace}"


def replay_text(comparison: Comparison | None) -> str:
    """What came of the first steps."""
    if comparison is None:
        return "first steps: the claim has none that could be made again"
    steps = _count(comparison.num_steps, "step")
    match comparison.status:
        case "equal":
            return f"first steps: {steps} made again, equal bit by bit"
        case "close":
            return (
                f"first steps: {steps} made again; losses differ by up to {comparison.largest:.2g}, as another order "
                "of summation explains"
            )
        case "different":
            where = "before the first step" if comparison.first == 0 else f"at step {comparison.first}"
            beyond = "" if comparison.excess is None else f", {comparison.excess:.2g} times what rounding explains"
            return f"first steps: the {comparison.what} differs {where}{beyond} (warning)"
        case "not available":
            return f"first steps: not available here: {printable(comparison.why, 200)}"


def quality_lines(found: Reproduction) -> Iterator[str]:
    """What came of the claim's kept predictions and weights."""
    if found.recomputed:
        same = sum(item.state == COMPUTED for item in found.recomputed.values())
        yield f"qualities: {same} of {len(found.claim.runs)} computed again from the claim's kept predictions"
    if found.reevaluated:
        done = [item for item in found.reevaluated.values() if item.state == COMPUTED]
        exact = sum(not item.margin for item in done)
        yield (
            f"weights: {len(done)} of {len(found.claim.runs)} evaluated again; "
            f"{exact} make the claim's predictions, bit by bit"
        )
        yield from dict.fromkeys(
            f"weights: {printable(item.why, 400)}" for item in found.reevaluated.values() if item.state == IMPOSSIBLE
        )
    wrong = contradictions(found.claim, found.recomputed, found.reevaluated)
    yield from (f"qualities: {why}" for why in wrong)


def _samples(found: Reproduction) -> tuple[str, str]:
    return _mean(found.claim.samples), _mean([run.crossing_samples for run in found.new[: found.verdict.num_runs]])


def _paces(found: Reproduction) -> tuple[str, str]:
    then, now = ([run.pace_s for run in runs] for runs in (found.claim.runs, found.new[: found.verdict.num_runs]))
    return _mean(then, 1e3, " ms"), _mean(now, 1e3, " ms")


def _seconds(found: Reproduction) -> tuple[str, str]:
    then, now = ([run.seconds for run in runs] for runs in (found.claim.runs, found.new[: found.verdict.num_runs]))
    return _mean(then, 1, " s"), _mean(now, 1, " s")


def _mean(values: Sequence[float | None], factor: float = 1.0, unit: str = "") -> str:
    """The geometric mean of those that are known."""
    logs = [math.log(value) for value in values if value]
    if not logs:
        return _NOTHING
    mean = factor * math.exp(math.fsum(logs) / len(logs))
    return f"{mean:,.0f}{unit}" if mean >= 1000 else f"{mean:.4g}{unit}"


def _row(name: str, verdict: Verdict, tolerance: float | None, means: tuple[str, str]) -> tuple[str, ...]:
    interval = _NOTHING if verdict.interval is None else "{:.3f} to {:.3f}".format(*verdict.interval)
    return (
        name,
        *means,
        _NOTHING if verdict.ratio is None else f"{verdict.ratio:.3f}",
        interval,
        _NOTHING if tolerance is None else f"{100 * tolerance:.3g} %",
        verdict.status,
    )


def notes(found: Reproduction) -> Iterator[str]:
    """What is said besides the verdict."""
    verdict = found.verdict
    yield (
        f"runs: {verdict.num_runs} new, {verdict.missed_new} of which missed the target; {len(found.claim.runs)} "
        f"claimed, {verdict.missed_claimed} of which missed it"
    )
    if not found.identity.is_same_system:
        yield "seconds are not comparable: this is another system"
    if verdict.is_slower:
        yield "the new runs need significantly more samples than claimed"
    if verdict.is_faster:
        yield "the new runs need significantly fewer samples than claimed"
    if verdict.is_equivalent:
        yield "the two agree within the tolerance on either side"
    then, now = found.claim_standing, found.new_standing
    if then is not None and now is not None:
        yield (
            f"compared with the reference's {_count(then.num_reference, 'run')}, the claim needs "
            f"{then.ratio:.3f} times the samples (90 % interval {_interval(then)}), the new runs {now.ratio:.3f} times "
            f"({_interval(now)})"
        )
    if found.alike is not None and found.alike < SUSPICIOUS:
        yield f"the claimed runs are more alike than {100 * (1 - found.alike):.1f} % of honest ones: were they picked?"


def _interval(standing: Standing) -> str:
    return "{:.3f} to {:.3f}".format(*standing.interval)


def _power(found: Reproduction) -> str:
    expected = found.outlook.prospect
    if expected is None or found.verdict.status != "inconclusive":
        return ""
    share = max(expected.reproduced_by.values())
    return f"; an exact claim would have been reproduced with a probability of {100 * share:.0f} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def document(found: Reproduction) -> dict[str, Any]:
    """The reproduction for machines; a missing value is null."""
    claim = found.claim
    return {
        "format": FORMAT_VERSION,
        "benchmark": claim.rules.name,
        "division": claim.division,
        "claim": {"name": claim.name, "digest": claim.digest, "runs": [_run(run) for run in claim.runs]},
        "reproduction": {"folder": str(found.folder), "runs": [_run(run) for run in found.new]},
        **plan_facts(found.terms, found.identity, found.outlook),
        "replay": None if found.replay is None else replays.facts(found.replay),
        "qualities": _again(found.recomputed),
        "weights": _again(found.reevaluated),
        "samples": _verdict(found.verdict),
        "seconds_per_sample": None if found.pace is None else _verdict(found.pace),
        "seconds": None if found.seconds is None else _verdict(found.seconds),
        "against_reference": {"claim": _facts(found.claim_standing), "new": _facts(found.new_standing)},
        "probability_as_alike": found.alike,
        "verdict": found.status,
    }


def plan_facts(terms: Terms, identity: Identity, outlook: Outlook) -> dict[str, Any]:
    """Return what is known before the first run for a JSON document."""
    differences = [{"what": item.what, "claim": item.then, "here": item.now} for item in identity.differences]
    return {
        "identity": {"is_same_system": identity.is_same_system, "differences": differences},
        "terms": {"tolerance": terms.tolerance, "looks": list(terms.looks)},
        "outlook": _expected(outlook),
    }


def _facts(standing: Standing | None) -> dict[str, Any] | None:
    return None if standing is None else {"ratio": standing.ratio, "interval_90": list(standing.interval)}


def _again(found: Mapping[str, Recomputed]) -> dict[str, Any]:
    return {
        name: {"state": item.state, "why": item.why, "value": item.value if item.state == COMPUTED else None}
        for name, item in found.items()
    }


def _run(run: RunResult) -> dict[str, Any]:
    return {
        "log": run.path.rpartition("/")[2],
        "seed": run.seed,
        "samples": run.crossing_samples,
        "seconds": run.seconds,
        "seconds_per_sample": run.pace_s,
        "why_not": run.why_not,
    }


def _expected(outlook: Outlook) -> dict[str, Any]:
    return {
        "variation": outlook.variation,
        "if_exact": None if outlook.prospect is None else _prospect(outlook.prospect),
        "run_s": outlook.run_s,
        "seconds": outlook.seconds,
        "usd": None if outlook.usd is None else f"{outlook.usd:f}",
    }


def _prospect(expected: Prospect) -> dict[str, Any]:
    return {
        "shares": dict(expected.shares),
        "reproduced_by": {str(number): share for number, share in expected.reproduced_by.items()},
        "num_runs": expected.num_runs,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "why": verdict.why,
        "ratio": verdict.ratio,
        "interval_90": None if verdict.interval is None else list(verdict.interval),
        "bound": verdict.bound,
        "num_claimed": verdict.num_claimed,
        "num_new": verdict.num_new,
        "missed_claimed": verdict.missed_claimed,
        "missed_new": verdict.missed_new,
        "p_misses": verdict.p_misses,
        "is_equivalent": verdict.is_equivalent,
        "is_slower": verdict.is_slower,
        "is_faster": verdict.is_faster,
    }
