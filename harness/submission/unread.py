"""What of a result nobody could read, for verbs that go on without it and must say so. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import SubmissionError
from harness.submission.claim import Unreadable
from harness.submission.result import RESULT_PATTERN, Result

_KINDS = {"link": "is a symbolic link", "other": "is a pipe, socket or device", "folder": "cannot be listed"}


def parts(result: Result) -> Iterator[Unreadable]:
    """What could not be read, and what bears a log's name and is no file."""
    yield from result.unreadable
    for name, entry in result.files.items():
        if RESULT_PATTERN.fullmatch(name) and entry.kind in _KINDS:
            yield Unreadable(result.path / name, _KINDS[entry.kind])


def refuse_without_runs(result: Result) -> None:
    """Raises:
    SubmissionError: not one log of it could be read, so there is nothing to go on with.
    """
    if not result.runs:
        raise SubmissionError(f"{result.path}: no run log (result_<k>.txt) in it can be read")
