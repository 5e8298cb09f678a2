"""Rows that repeat each other: which reproductions a result has on the same board, and what they say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from harness.board.pages.words import plural
from harness.scoring.non_inferiority import Verdict
from harness.scoring.repetition import Outcome, Repeatable, compare

Status = Literal["reproduced", "not reproduced", "inconclusive", "not comparable", "not valid"]


class Repeated(Protocol):
    """A row, as far as it is repeated or repeats."""

    @property
    def path(self) -> str: ...
    @property
    def submitter(self) -> str: ...
    @property
    def system(self) -> str: ...
    @property
    def num_errors(self) -> int: ...
    @property
    def repeatable(self) -> Repeatable | None: ...


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A result and one that repeats it, as either of them shows it.

    path, submitter, system: of the other one. is_own: both have the same submitter. seeds: of the reproduction.
    status: "not valid" where the reproduction does not pass the check, and says nothing.
    """

    path: str
    submitter: str
    system: str
    is_own: bool
    status: Status
    outcome: Outcome
    seeds: frozenset[int]

    @property
    def ratio(self) -> str:
        """`1.02 [0.97, 1.07]`: of the samples to target, with its 90 % interval; empty where there is none."""
        return _ratio(self.outcome.verdict)

    @property
    def pace(self) -> str:
        """The same of the seconds a sample, on one system."""
        return _ratio(self.outcome.pace)

    @property
    def sentence(self) -> str:
        """`reproduced, ratio 1.02 [0.97, 1.07], 5 runs, tolerance 10 %, power 78 %`; without a verdict, why."""
        verdict, parts = self.outcome.verdict, [str(self.status)]
        if verdict is None:
            return f"{self.status}: {self.outcome.why}"
        parts += [f"ratio {self.ratio}"] if self.ratio else []
        parts += [plural(verdict.num_runs, "run")]
        parts += [f"{verdict.missed_new} missed the target"] if verdict.missed_new else []
        for name, share in (("tolerance", verdict.tolerance), ("power", self.outcome.power)):
            parts += [] if share is None else [f"{name} {100 * share:.0f} %"]
        parts += [f"seconds a sample on the same system {self.pace}"] if self.pace else []
        return ", ".join(parts)


def _ratio(verdict: Verdict | None) -> str:
    if verdict is None or verdict.ratio is None or verdict.interval is None:
        return ""
    return f"{verdict.ratio:.2f} [{verdict.interval[0]:.2f}, {verdict.interval[1]:.2f}]"


@dataclass(frozen=True, slots=True)
class Tally:
    """Independent submitters of reproductions, by what these say, and the number of the submitter's own ones."""

    reproduced: int = 0
    not_reproduced: int = 0
    inconclusive: int = 0
    own: int = 0

    @property
    def words(self) -> list[str]:
        """`by 2`, `not by 1`; none where nothing was reproduced."""
        parts = (
            (self.reproduced, "by {}"),
            (self.not_reproduced, "not by {}"),
            (self.inconclusive, "{} inconclusive"),
            (self.own, "{} own"),
        )
        return [text.format(number) for number, text in parts if number]

    def record(self) -> dict[str, int]:
        """The numbers by their names."""
        return {name: getattr(self, name) for name in ("reproduced", "not_reproduced", "inconclusive", "own")}


def tally(reproductions: Iterable[Reproduction]) -> Tally:
    """Count the reproductions that pass the check and can be compared.

    A submitter counts once for each thing that their reproductions say, and so do runs with a seed in common, which are
    copies of each other under two names.
    """
    found = [item for item in reproductions if item.outcome.verdict is not None]

    def independent(status: Status) -> int:
        names: set[str] = set()
        seeds: set[int] = set()
        for item in found:
            if item.status == status and not item.is_own and seeds.isdisjoint(item.seeds):
                names.add(item.submitter.casefold())
                seeds |= item.seeds
        return len(names)

    return Tally(
        independent("reproduced"),
        independent("not reproduced"),
        independent("inconclusive"),
        sum(item.is_own for item in found),
    )


@dataclass(frozen=True, slots=True)
class Links:
    """reproductions: of a row, by those that repeat it. originals: those that the row repeats."""

    reproductions: tuple[Reproduction, ...] = ()
    originals: tuple[Reproduction, ...] = ()


def links(rows: Sequence[Repeated]) -> list[Links]:
    """Return the links of each row with the others; directly only, so that chains are as they are and circles end."""
    with_digest: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row.repeatable is not None:
            with_digest.setdefault(row.repeatable.digest, []).append(number)
    reproductions: list[list[Reproduction]] = [[] for _ in rows]
    originals: list[list[Reproduction]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        if row.repeatable is None or row.repeatable.repeats is None:
            continue
        outcome: Outcome | None = None
        for other in with_digest.get(row.repeatable.repeats, ()):
            original = rows[other]
            assert original.repeatable is not None
            if outcome is None:  # all with this digest have the same logs
                outcome = outcome_of(original.repeatable, row.repeatable, row.num_errors)
            reproductions[other].append(_seen(row, original, row, outcome))
            originals[number].append(_seen(original, original, row, outcome))
    return [Links(ordered(mine), ordered(theirs)) for mine, theirs in zip(reproductions, originals, strict=True)]


def outcome_of(original: Repeatable, again: Repeatable, num_errors: int) -> Outcome:
    """Return what a result says of the one that it repeats. num_errors: of the one that repeats."""
    if num_errors:
        return Outcome("not comparable", f"it does not pass the check: {plural(num_errors, 'error')}")
    return compare(original, again)


def reproduction(
    path: str, submitter: str, system: str, other: str, outcome: Outcome, num_errors: int, seeds: frozenset[int]
) -> Reproduction:
    """Return a pair as one side shows it. path, submitter, system: of the other side. other: the own submitter.

    num_errors, seeds: of the side that repeats.
    """
    status: Status = "not valid" if num_errors else outcome.status
    return Reproduction(path, submitter, system, submitter.casefold() == other.casefold(), status, outcome, seeds)


def _seen(shown: Repeated, original: Repeated, again: Repeated, outcome: Outcome) -> Reproduction:
    other = again if shown is original else original
    assert again.repeatable is not None
    seeds = again.repeatable.seeds
    return reproduction(shown.path, shown.submitter, shown.system, other.submitter, outcome, again.num_errors, seeds)


def ordered(found: Iterable[Reproduction]) -> tuple[Reproduction, ...]:
    """Return reproductions in the order in which they are shown."""
    return tuple(sorted(found, key=lambda item: (item.submitter, item.system, item.path)))


def notes(row: Repeated, found: Links) -> list[str]:
    """The links of a row in sentences."""
    own = " (the same submitter)"
    said = [
        f"repeated by {item.submitter}, on {item.system}{own if item.is_own else ''}: {item.sentence}"
        for item in found.reproductions
    ]
    said += [
        f"repeats the result of {item.submitter}, on {item.system}{own if item.is_own else ''}: {item.sentence}"
        for item in found.originals
    ]
    if row.repeatable is not None and row.repeatable.repeats is not None and not found.originals:
        said.append(f"repeats the result with the digest {row.repeatable.repeats}, which is not among these")
    return said


def document(found: Reproduction) -> dict[str, Any]:
    """A reproduction for machines; a missing value is null."""
    verdict, pace = found.outcome.verdict, found.outcome.pace
    names = ("ratio", "interval", "bound", "tolerance", "num_claimed", "missed_claimed", "num_new", "missed_new")
    return {
        "submitter": found.submitter,
        "system": found.system,
        "is_own": found.is_own,
        "status": found.status,
        "why": found.outcome.why,
        "power": found.outcome.power,
        **{name: getattr(verdict, name, None) for name in names},
        **{f"pace_{name}": getattr(pace, name, None) for name in ("ratio", "interval", "tolerance")},
    }
