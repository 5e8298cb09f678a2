"""The exception tree and the exit table.

TtaError                      exit 2
|-- UsageError                a wrong argument, an unknown name, a value that is not permitted
|-- InputError                something given to us cannot be read or understood
|   |-- LogError              a run log
|   |-- RulesError            a rules file or a price book
|   |-- SubmissionError       a submission, a system description, a manifest
|   `-- DataError             a data set
|-- OutputError               something cannot be written, or is there already
|-- MissingDependencyError    an optional part of the installation is absent
|-- WorkerError               the training process could not be started or broke the protocol
`-- Interrupted               exit 130: SIGINT or SIGTERM

Bad input raises one of these; a breach of the competition's rules is a Finding;
a broken invariant of ours is an `assert`. Only `cli.py` turns an exception into an exit status.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitStatus(IntEnum):
    """What the shell sees, for every verb."""

    OK = 0
    FINDINGS = 1  # findings of severity error, or the target was not reached
    USAGE = 2  # usage, configuration, unreadable input, unwritable output
    BUG = 3  # a fault of ours
    INTERRUPTED = 130


class TtaError(Exception):
    """Root of the tree: one clear sentence that names the place, the value and the choice."""

    exit_status = ExitStatus.USAGE


class UsageError(TtaError):
    """A wrong argument, an unknown name, a value that is not permitted."""


class InputError(TtaError):
    """Something given to us cannot be read or understood."""


class LogError(InputError):
    """A run log cannot be read."""


class RulesError(InputError):
    """A rules file or a price book cannot be read."""


class SubmissionError(InputError):
    """A submission, a system description or a manifest cannot be read."""


class DataError(InputError):
    """A data set is missing, damaged or of the wrong layout."""


class OutputError(TtaError):
    """Something cannot be written, or is there already."""


class MissingDependencyError(TtaError):
    """An optional part of the installation is absent."""


class WorkerError(TtaError):
    """The training process could not be started, or broke the protocol."""


class Interrupted(TtaError):  # noqa: N818  (a signal, not an error of anybody's)
    """SIGINT or SIGTERM."""

    exit_status = ExitStatus.INTERRUPTED


def printable(text: object, limit: int = 200) -> str:
    """`text` with control characters made visible, safe to print in a terminal, at most `limit` characters."""
    shown = str(text)[: limit + 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def unknown_name(what: str, name: str, known: Iterable[str], listing: str | None = None) -> str:
    """A sentence for a name nobody knows: the nearest names, or all of them, or what to call to see those."""
    import difflib  # for those alone who mistype

    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        nearest = f"did you mean {' or '.join(repr(n) for n in near)}?"
        return f"unknown {what} {printable(name)!r}; {nearest}{f' {listing}' if listing else ''}"
    if listing is not None:
        return f"unknown {what} {printable(name)!r}; {listing}"
    return f"unknown {what} {printable(name)!r}; there are: {', '.join(known) if known else 'none'}"
