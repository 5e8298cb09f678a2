"""Results that repeat each other: what each pair says, derived by workers when either is checked, and read by pages.

A pair is stored whoever may see which of the two: it depends on their rows alone. A page shows those whose
reproduction is ranked, by one query for all its rows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, bindparam, delete, func, insert, or_, select

from harness.board.reproductions import Links, Reproduction, Tally, ordered, outcome_of, reproduction, tally
from harness.log.events import canonical_json
from harness.scoring.repetition import Outcome, Repeatable
from harness.service import editions, results, schema
from harness.service.states import PUBLIC, RANKED

_row, _verdict, _submission = schema.board_row, schema.verdict, schema.submission
_organisation, _repetition = schema.organisation, schema.repetition
_LOCK = 0x72657065  # "repe": of PostgreSQL's advisory locks with two numbers


@dataclass(frozen=True, slots=True)
class Pair:
    """Two results of which one repeats the other, by the verdicts that count.

    facts_original, facts_again: what they are compared by, as stored. num_errors: of the one that repeats.
    is_ranked: whether that one is in a state in which it is shown.
    """

    original: str
    again: str
    facts_original: str
    facts_again: str
    num_errors: int
    is_ranked: bool = field(compare=False)


def pairs(connection: Connection, submission: str) -> list[Pair]:
    """Return the pairs that a submission is one of, in order."""
    original, again = _row.alias("original"), _row.alias("again")
    of_original, of_again = schema.repeatable.alias("of_original"), schema.repeatable.alias("of_again")
    owner, repeater = _submission.alias("owner"), _submission.alias("repeater")
    query = (
        select(
            original.c.verdict,
            again.c.verdict,
            of_original.c.document,
            of_again.c.document,
            _verdict.c.num_errors,
            repeater.c.state,
        )
        .select_from(again)
        .join(original, original.c.digest == again.c.repeats)
        .join(repeater, and_(repeater.c.id == again.c.submission, repeater.c.verdict == again.c.verdict))
        .join(owner, and_(owner.c.id == original.c.submission, owner.c.verdict == original.c.verdict))
        .join(_verdict, _verdict.c.id == again.c.verdict)
        .join(of_original, of_original.c.verdict == original.c.verdict)
        .join(of_again, of_again.c.verdict == again.c.verdict)
    )
    rows = [row for side in (repeater, owner) for row in connection.execute(query.where(side.c.id == submission))]
    found = {Pair(*row[:-1], row.state in RANKED) for row in rows}
    return sorted(found, key=lambda pair: (pair.original, pair.again))


def is_in_pair(connection: Connection, submission: str, verdict: str) -> bool:
    """Whether a result repeats another one that is here, or the other way round; or did by an earlier verdict.

    Asked for in the transaction that writes its row: of two that are written at once, the later one sees the other.
    """
    _hold(connection)
    one, other = _row.alias("one"), _row.alias("other")
    own = select(one.c.verdict).where(one.c.verdict == verdict)
    queries = (
        own.join(other, other.c.digest == one.c.repeats),
        own.join(other, other.c.repeats == one.c.digest),
        select(_repetition.c.again).where(_is_of(submission)),
    )
    return any(connection.execute(query.limit(1)).scalar() is not None for query in queries)


def _is_of(submission: str) -> ColumnElement[bool]:
    """Return the condition on pairs that a submission is one of, by whichever of its verdicts."""
    own = select(_verdict.c.id).where(_verdict.c.submission == submission)
    return or_(_repetition.c.original.in_(own), _repetition.c.again.in_(own))


def _hold(connection: Connection) -> None:
    """Wait until no other transaction asks for pairs or writes them. In SQLite one transaction writes at a time."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK, 0)))


def compared(found: Sequence[Pair]) -> list[str]:
    """Return what is stored of each pair. For a confined child: what it compares is what strangers wrote."""
    known: dict[str, Repeatable] = {}

    def facts(text: str) -> Repeatable:
        if text not in known:
            known[text] = Repeatable.of_record(json.loads(text))
        return known[text]

    documents = []
    for pair in found:
        original, again = facts(pair.facts_original), facts(pair.facts_again)
        outcome = outcome_of(original, again, pair.num_errors)
        said = {"errors": pair.num_errors, "seeds": sorted(again.seeds), "outcome": outcome.record()}
        documents.append(canonical_json(said))
    return documents


def write(connection: Connection, submission: str, found: Sequence[Pair], documents: Sequence[str]) -> bool:
    """Write the pairs of a submission in place of those that it had; False if they are others by now than `found`."""
    _hold(connection)
    if pairs(connection, submission) != found:
        return False
    wanted = by_verdicts(found, documents)
    known = stored(connection, submission)
    for original, again in [key for key in known if known[key] != wanted.get(key)]:
        is_it = and_(_repetition.c.original == original, _repetition.c.again == again)
        connection.execute(delete(_repetition).where(is_it))
    news = [pair for pair in found if known.get((pair.original, pair.again)) != wanted[pair.original, pair.again]]
    if news:
        connection.execute(
            insert(_repetition),
            [
                {"original": pair.original, "again": pair.again, "document": wanted[pair.original, pair.again]}
                for pair in news
            ],
        )
    if any(pair.is_ranked for pair in news):
        editions.begin(connection)
    return True


def by_verdicts(found: Sequence[Pair], documents: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the documents of pairs by the verdicts of original and reproduction."""
    return {(pair.original, pair.again): document for pair, document in zip(found, documents, strict=True)}


def stored(connection: Connection, submission: str) -> dict[tuple[str, str], str]:
    """Return what is stored of the pairs of a submission, as `by_verdicts` has it."""
    rows = connection.execute(_repetition.select().where(_is_of(submission)))
    return {(row.original, row.again): row.document for row in rows}


# What pages show.


def reproductions(connection: Connection, originals: Mapping[str, str]) -> dict[str, tuple[Reproduction, ...]]:
    """Return the ranked reproductions of results that have some, by the verdicts of the results.

    originals: the organisation of each verdict.
    """
    found: dict[str, list[Reproduction]] = {}
    rows = connection.execute(_of_originals(), {"originals": list(originals)}).mappings() if originals else ()
    for row in rows:
        found.setdefault(row["original"], []).append(_shown(row, originals[row["original"]]))
    return {verdict: ordered(items) for verdict, items in found.items()}


@functools.cache
def _of_originals() -> Select[Any]:
    return (
        results.ranked()
        .with_only_columns(
            _repetition.c.original,
            _repetition.c.document,
            _row.c.submission,
            _organisation.c.name,
            _submission.c.system,
        )
        .join(_repetition, _repetition.c.again == _row.c.verdict)
        .where(_repetition.c.original.in_(bindparam("originals", expanding=True)))
    )


def links(connection: Connection, verdict: str, organisation: str) -> Links:
    """Return the links of the result with a verdict, which is of an organisation.

    Its reproductions are those that are ranked; what it repeats is there once it was published, whatever became of it:
    a result that was retracted because it was not reproduced keeps its page.
    """
    query = (
        select(_repetition.c.document, _row.c.submission, _organisation.c.name, _submission.c.system)
        .select_from(_repetition)
        .join(_row, _row.c.verdict == _repetition.c.original)
        .join(_submission, results.counts())
        .join(_organisation, _organisation.c.id == _submission.c.organisation)
        .where(_repetition.c.again == verdict, _submission.c.state.in_(PUBLIC))
    )
    originals = [_shown(row, organisation) for row in connection.execute(query).mappings()]
    return Links(reproductions(connection, {verdict: organisation}).get(verdict, ()), ordered(originals))


def _shown(row: RowMapping, other: str) -> Reproduction:
    """Return a pair as the side shows it that `other` has submitted. row: what is stored, and the other side."""
    said = json.loads(row["document"])
    outcome, seeds = Outcome.of_record(said["outcome"]), frozenset(said["seeds"])
    return reproduction(row["submission"], row["name"], row["system"], other, outcome, said["errors"], seeds)


def tallies(connection: Connection, rows: Iterable[RowMapping]) -> Mapping[str, Tally]:
    """Return what is counted of the reproductions of the rows of a page, by verdict."""
    originals = {row["verdict"]: row["organisation_name"] for row in rows}
    found = reproductions(connection, originals)
    return dict.fromkeys(originals, Tally()) | {verdict: tally(items) for verdict, items in found.items()}
