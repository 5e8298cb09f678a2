"""The exceptions, as a tree, and the exit statuses.

TtaError                      exit 2
|-- UsageError                a wrong argument, an unknown name, a value that is not permitted
|-- InputError                an input cannot be read or understood
|   |-- LogError              a run log
|   |-- RulesError            a rules file or a price book
|   |-- SubmissionError       a submission, a system description, a manifest
|   `-- DataError             a data set
|-- OutputError               an output cannot be written, or is there already
|-- MissingDependencyError    an optional part of the installation is missing
|-- WorkerError               the training process could not be started, or broke the protocol
`-- Interrupted               exit 130: SIGINT or SIGTERM

Bad input raises one of these; a breach of the competition's rules is a Finding; a broken invariant of `tta` itself is
an `assert`. Only `cli.py` turns an exception into an exit status.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit status of every verb."""

    OK = 0  # success
    FINDINGS = 1  # findings of severity error, or target not reached
    USAGE = 2  # usage error, unreadable input, or unwritable output
    INTERNAL = 3  # internal error: a bug in `tta`
    INTERRUPTED = 130  # SIGINT or SIGTERM


class TtaError(Exception):
    """Root of the tree. The message is one clear sentence that names the place, the value and the permitted values."""

    exit_status = ExitStatus.USAGE


class UsageError(TtaError):
    """A wrong argument, an unknown name, a value that is not permitted."""


class InputError(TtaError):
    """An input cannot be read or understood."""


class LogError(InputError):
    """A run log cannot be read."""


class RulesError(InputError):
    """A rules file or a price book cannot be read."""


class SubmissionError(InputError):
    """A submission, a system description or a manifest cannot be read."""


class DataError(InputError):
    """A data set is missing, damaged or has the wrong layout."""


class OutputError(TtaError):
    """An output cannot be written, or is there already."""


class MissingDependencyError(TtaError):
    """An optional part of the installation is missing."""


class WorkerError(TtaError):
    """The training process could not be started, or broke the protocol."""


class Interrupted(TtaError):  # noqa: N818  (an event, not an error)
    """SIGINT or SIGTERM."""

    exit_status = ExitStatus.INTERRUPTED


def printable(text: object, limit: int = 200) -> str:
    """Return `text` with its control characters made visible, safe for a terminal, in at most `limit` characters."""
    shown = str(text)[: limit + 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def one_line(text: str | bytes) -> str:
    """Return a text from a driver or the kernel, which may be bytes, as one printable line."""
    return " ".join(printable(text.decode("utf-8", "replace") if isinstance(text, bytes) else text).split())


def unknown_name(what: str, name: str, known: Iterable[str], listing: str | None = None) -> str:
    """Return a sentence about an unknown name, with the nearest known ones, else all of them, else `listing`.

    listing: a sentence that says where the known names are listed, for where they are too many.
    """
    import difflib  # needed for typing errors only

    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        nearest = f"did you mean {' or '.join(repr(n) for n in near)}?"
        return f"unknown {what} {printable(name)!r}; {nearest}{f' {listing}' if listing else ''}"
    if listing is not None:
        return f"unknown {what} {printable(name)!r}; {listing}"
    return f"unknown {what} {printable(name)!r}; there are: {', '.join(known) if known else 'none'}"
