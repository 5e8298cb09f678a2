"""Repeats the run that a witness has drawn, up to the evaluation that it has drawn, and compares the predictions.

The submitter could not know which it would be: see `harness.submission.receipts.drawn`. The digests of the predictions
were received while the run went on, so that they were answered before the question was known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from harness.errors import UsageError
from harness.launch.runs import make_runs
from harness.reproduction.making import Prepared, made
from harness.submission.receipts import Drawn, drawn, evaluations

Status = Literal["equal", "different", "not available"]


@dataclass(frozen=True, slots=True)
class Repeated:
    """What came of it. first: the samples of the first evaluation whose predictions differ; None: none does.

    largest: the largest difference of the quality of an evaluation. why: where nothing can be concluded.
    """

    drawn: Drawn
    status: Status
    num_equal: int
    first: int | None
    largest: float
    why: str = ""


def repeat(prepared: Prepared, folder: Path) -> Repeated:
    """Repeat what was drawn, in `folder`; where the predictions differ on the same system, repeat it once more.

    A run is not made in a deterministic mode. Only if two repetitions agree with each other does it say something that
    they do not agree with the claim.

    Raises:
        UsageError: nothing was drawn. OutputError, WorkerError, Interrupted: as `reproduce`.
    """
    found = drawn(prepared.claim.result)
    if found is None:
        raise UsageError(f"{prepared.claim.name}: no witness has drawn anything: it has no end of a campaign with runs")
    first = _made(prepared, folder, found)
    repeated = compared(found, first)
    if repeated.status == "equal":
        return repeated
    if not prepared.identity.may_be_equal:
        return replace(repeated, status="not available", why="the system or the packages are others than the claim's")
    if _made(prepared, folder.with_name(f"{folder.name}-2"), found) != first:
        return replace(repeated, status="not available", why="two repetitions differ from each other, too")
    return repeated


def _made(prepared: Prepared, folder: Path, found: Drawn) -> list[tuple[int, str, float]]:
    request = replace(
        prepared.request, runs=1, seed=found.seed, out=folder, is_resumed=True, screened_samples=found.samples
    )
    make_runs(request)
    return evaluations(made(prepared, folder, 1).runs[0])


def compared(found: Drawn, again: list[tuple[int, str, float]]) -> Repeated:
    """Compare the evaluations up to the drawn one with those that were made again."""
    known = {samples: (digest, quality) for samples, digest, quality in again}
    num_equal, first, largest = 0, None, 0.0
    for samples, digest, quality in found.evaluations:
        if samples not in known:
            return Repeated(found, "different", num_equal, samples if first is None else first, largest,
                            "the repetition ended before")  # fmt: skip
        largest = max(largest, abs(quality - known[samples][1]))
        if digest == known[samples][0]:
            num_equal += 1
        elif first is None:
            first = samples
    return Repeated(found, "equal" if first is None else "different", num_equal, first, largest)


def text(repeated: Repeated) -> str:
    """What came of it, in a sentence."""
    found = repeated.drawn
    total = len(found.evaluations)
    head = f"drawn: {found.log.path.name}, evaluation {found.number} ({found.samples:,} samples)"
    if repeated.status == "equal":
        return f"{head}: repeated; the predictions of all {total} evaluations up to it are equal byte by byte"
    what = f"the predictions of {repeated.num_equal} of {total} evaluations are equal"
    parts = f"{what}, qualities differ by up to {repeated.largest:.3g}"
    if repeated.status == "not available":
        return f"{head}: {parts}; that says nothing here: {repeated.why}"
    why = f" ({repeated.why})" if repeated.why else ""
    return f"{head}: {parts}, from {repeated.first:,} samples on{why}: this is not the run that was witnessed"


def facts(repeated: Repeated) -> dict[str, Any]:
    """Return what came of it for a JSON document."""
    found = repeated.drawn
    return {
        "run": found.log.path.name,
        "evaluation": found.number,
        "samples": found.samples,
        "status": repeated.status,
        "num_evaluations": len(found.evaluations),
        "num_equal": repeated.num_equal,
        "first_different_samples": repeated.first,
        "largest_quality_difference": repeated.largest,
        "why": repeated.why or None,
    }
