"""The claim that a submitter makes about a result as `tta run` left it: from its logs and its system description."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from harness.errors import SubmissionError, UsageError, printable, unknown_name
from harness.log import keys
from harness.submission.claim import Claim
from harness.submission.layout import CLAIM_NAME, SYSTEM_NAME
from harness.submission.result import Result
from harness.submission.weights import are_apart, place_fault

CATEGORIES = ("available", "preview", "research")


def claim_of(
    result: Result,
    ruleset: str,
    today: date,
    *,
    submitter: str | None = None,
    category: str | None = None,
    notes: str = "",
    weights_at: str = "",
) -> Claim:
    """Return the claim for a result.

    submitter: None: the one that the system description has; no other is permitted. category: None: what the status in
    the system description says. weights_at: where weights are that are too large for a submission.

    Raises:
        SubmissionError: it has no log or no system description, or none that can be read.
        UsageError: what was chosen does not fit.
    """
    if not result.runs:
        why = f": {result.unreadable[0].path}: {result.unreadable[0].message}" if result.unreadable else ""
        raise SubmissionError(f"{result.path}: no run log (result_<k>.txt) in it can be read{why}")
    if result.system is None or result.system_path is None or result.system_sha256 is None:
        raise SubmissionError(_no_description(result))
    category = category or _category(result.system.get("status"))
    if category not in CATEGORIES:
        raise UsageError(unknown_name("category", category, CATEGORIES))
    first = result.runs[0]
    described, system = result.system.get("submitter"), result.system.get("system_name")
    for name in ("submitter", "system_name"):
        if not isinstance(result.system.get(name), str):
            raise SubmissionError(
                f"{result.system_path}: {name!r} is missing or not a string; `tta doctor --out` writes it"
            )
    if submitter is not None and submitter != described:
        raise UsageError(
            f"--submitter {printable(submitter)!r}: the runs were made under the name {printable(described)!r} "
            f"({result.system_path}); a log cannot be submitted under another name"
        )
    return Claim(
        submitter=str(described),
        system=str(system),
        benchmark=str(first.value(keys.SUBMISSION_BENCHMARK)),
        division=str(first.value(keys.SUBMISSION_DIVISION)),
        category=category,
        ruleset=ruleset,
        system_sha256=result.system_sha256,
        submitted=today.isoformat(),
        notes=notes,
        weights_at=_weights_at(result, weights_at),
    )


def _weights_at(result: Result, place: str) -> str:
    """The place of weights that are too large for a submission; empty if there are none.

    Raises:
        UsageError: there are some, and no place is named; or there are none; or it is no address.
    """
    apart = [log.path.name for log in result.runs if are_apart(log)]
    if apart and not place:
        raise UsageError(
            f"{result.path}: {', '.join(apart)}: the weights are too large for a submission; publish what `tta run "
            "--keep-weights` left next to the result, and name the folder with --weights-at ADDRESS"
        )
    if place and not apart:
        raise UsageError(f"--weights-at: no run of {result.path} has weights that are too large for a submission")
    if place and (fault := place_fault(place)):
        raise UsageError(f"--weights-at {printable(place)!r}: {fault}")
    return place


def _no_description(result: Result) -> str:
    """Why a result has no system description to be submitted with."""
    folder = result.path
    place: Path = result.system_path or folder / SYSTEM_NAME
    why = next((part.message for part in result.unreadable if part.path == result.system_path), None)
    if why is not None:
        return f"{place}: {why}"
    if CLAIM_NAME in result.files:
        return (
            f"{folder}: has a {CLAIM_NAME}, so it is a submission already, and the description of its system belongs "
            f"at {place}, which does not exist; without {CLAIM_NAME} it is taken from {SYSTEM_NAME} next to the logs"
        )
    return f"{folder}: has no {SYSTEM_NAME}; `tta run` writes one there"


def _category(status: object) -> str:
    """The category for an availability in MLPerf's words; research if the words are not known."""
    return {"Available on-premise": "available", "Available cloud": "available", "Preview": "preview"}.get(
        str(status), "research"
    )
