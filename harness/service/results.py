"""Verdicts and rows: stored whole, many for a submission, of which one counts; and the one view of what is ranked."""

from __future__ import annotations

import functools
import zlib
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Select, Text, and_, cast, delete, func, insert, select

from harness.base.values import finite_number
from harness.log.events import canonical_json
from harness.service import schema
from harness.service.instance import Instance
from harness.service.judging import Judgement
from harness.service.states import RANKED
from harness.service.submissions import Submission
from harness.service.submitting import accelerator_of, files_of, places_of

_verdict, _row, _submission, _position = schema.verdict, schema.board_row, schema.submission, schema.position
_organisation, _word = schema.organisation, schema.word


def store(connection: Connection, instance: Instance, submission: Submission, judgement: Judgement, now_ms: int) -> str:
    """Store a verdict and its row, in place of those by the same rules and the same `tta`; return the verdict's id."""
    division = submission.division
    same = (
        (_verdict.c.submission == submission.id)
        & (_verdict.c.ruleset_digest == judgement.ruleset_digest)
        & (_verdict.c.checker == judgement.checker)
        & (_verdict.c.division == division)
    )
    known = connection.execute(select(_verdict.c.id).where(same)).scalar()
    values = {
        "ruleset": judgement.ruleset,
        "is_valid": judgement.is_valid,
        "num_errors": judgement.num_errors,
        "num_warnings": judgement.num_warnings,
        "document": canonical_json(list(judgement.findings)),
        "cpu_s": judgement.cpu_s,
        "at_ms": now_ms,
    }
    if known is not None:
        connection.execute(_verdict.update().where(same).values(**values))
        write_row(connection, instance, submission, known, judgement)
        return str(known)
    found = instance.new_id()
    connection.execute(
        insert(_verdict).values(
            id=found, submission=submission.id, ruleset_digest=judgement.ruleset_digest, checker=judgement.checker,
            division=division, **values,
        )
    )  # fmt: skip
    write_row(connection, instance, submission, found, judgement)
    return found


def write_row(
    connection: Connection, instance: Instance, submission: Submission, verdict: str, judgement: Judgement
) -> None:
    """Write the row of a verdict. It depends on the files and the rules alone, so that it can be made again."""
    connection.execute(delete(_row).where(_row.c.verdict == verdict))
    values = row_values(connection, instance, submission.id, verdict, judgement)
    if values is not None:
        connection.execute(insert(_row).values(**values))
    write_repeatable(connection, verdict, judgement)
    write_words(connection, submission.id, "" if values is None else values["words"])
    write_page(connection, verdict, judgement)


def words_of(*names: str) -> str:
    """Return the words of a result by which it is searched: in lower case, each once, each after a blank."""
    return "".join(f" {word[: schema.WORD_LENGTH]}" for word in dict.fromkeys(" ".join(names).lower().split()))


def write_words(connection: Connection, submission: str, words: str) -> None:
    """Write the words of a submission into the index of words, in place of those that it had."""
    connection.execute(delete(_word).where(_word.c.submission == submission))
    if words:
        connection.execute(insert(_word), [{"word": word, "submission": submission} for word in set(words.split())])


def indexed_words(connection: Connection, submission: str) -> set[str]:
    """Return the words of a submission in the index."""
    return set(connection.execute(select(_word.c.word).where(_word.c.submission == submission)).scalars())


def repeatable_text(judgement: Judgement) -> str:
    """Return what a result is compared by, as it is stored: nothing of no result."""
    return "" if judgement.repeatable is None else canonical_json(judgement.repeatable)


def write_repeatable(connection: Connection, verdict: str, judgement: Judgement) -> None:
    """Write what a result is compared by, in place of what was there."""
    table = schema.repeatable
    connection.execute(delete(table).where(table.c.verdict == verdict))
    if text := repeatable_text(judgement):
        connection.execute(insert(table).values(verdict=verdict, document=text))


def page_bytes(text: str) -> bytes:
    """Return a page as it is stored: nothing of no page."""
    return zlib.compress(text.encode(), 6) if text else b""


def page_text(stored: bytes) -> str:
    """Return a page from what is stored of it."""
    return zlib.decompress(stored).decode() if stored else ""


def write_page(connection: Connection, verdict: str, judgement: Judgement) -> None:
    """Write what the page of a result shows, in place of what was there."""
    connection.execute(delete(schema.page).where(schema.page.c.verdict == verdict))
    if data := page_bytes(judgement.page):
        connection.execute(insert(schema.page).values(verdict=verdict, html=data))


def row_values(
    connection: Connection, instance: Instance, submission: str, verdict: str, judgement: Judgement
) -> dict[str, Any] | None:
    """Return the row of a verdict; None where there was no result to read."""
    if judgement.row is None:
        return None
    score: dict[str, Any] = judgement.row["score"]
    low, high = score.get("interval") or (None, None)
    facts = judgement.repeatable or {}
    files = files_of(connection, submission)
    places, (accelerator, count) = places_of(files), accelerator_of(instance, files)
    return {
        "verdict": verdict,
        "submission": submission,
        "benchmark": score["benchmark"],
        "division": score["division"],
        "ruleset": judgement.ruleset,
        "ruleset_digest": judgement.ruleset_digest,
        "accelerator": accelerator,
        "num_accelerators": count,
        "seconds": finite_number(score.get("seconds")) if judgement.is_valid else None,
        "low": low,
        "high": high,
        "errors": canonical_json(judgement.errors),
        "measured_seconds": score.get("measured_seconds"),
        "samples": score.get("samples"),
        "joules": score.get("energy_j"),
        "usd": None if score.get("usd") is None else float(score["usd"]),
        "words": words_of(places.organisation, places.system, accelerator, places.benchmark),
        "witness": judgement.row["witness"],
        "document": canonical_json(judgement.row),
        "digest": facts.get("digest"),
        "repeats": facts.get("repeats"),
    }


def counts() -> ColumnElement[bool]:
    """Return the condition under which a row is of the verdict of its submission that counts.

    The id is said, too, for the plans of both databases: by it a submission is found from a row.
    """
    return and_(_submission.c.id == _row.c.submission, _submission.c.verdict == _row.c.verdict)


@functools.cache
def ranked() -> Select[Any]:
    """Return the query of what is ranked: what is published, not superseded, valid and scored. Nothing else decides it.

    Every table, page, export and count begins with this query and adds conditions and an order.
    """
    source = _row.join(_submission, counts())
    source = source.join(_organisation, _organisation.c.id == _submission.c.organisation)
    source = source.outerjoin(_position, _position.c.verdict == _row.c.verdict)
    return (
        select(
            _row,
            _organisation.c.name.label("organisation_name"),
            *(_submission.c[name] for name in ("round", "category", "system", "state", "received_ms", "published_ms")),
            _position.c.first,
            _position.c.last,
        )
        .select_from(source)
        .where(_submission.c.state.in_(RANKED), _submission.c.superseded_by.is_(None), _row.c.seconds.is_not(None))
    )


# What a row on a page shows, and what its order is by.
_SHOWN = frozenset(
    {
        "verdict", "submission", "accelerator", "num_accelerators", "seconds", "low", "high", "measured_seconds",
        "joules", "usd", "witness", "repeats", "organisation_name", "system", "published_ms", "first", "last",
    }
)  # fmt: skip
_LONG = frozenset({"errors", "words", "document"})


@functools.cache
def listed() -> Select[Any]:
    """Return the query of what is ranked, with what a row on a page shows."""
    query = ranked()
    return query.with_only_columns(*(item for item in query.selected_columns if item.name in _SHOWN))


@functools.cache
def scored(dialect: str) -> Select[Any]:
    """Return the query of what is ranked, as the interface gives it: without the long texts, and with the score.

    The score is JSON, cut out of the document by the database: to read 50 documents here takes 10 ms.
    """
    document = _row.c.document
    is_sqlite = dialect == "sqlite"
    score = func.json_extract(document, "$.score") if is_sqlite else cast(cast(document, JSON)["score"], Text)
    query = ranked()
    return query.with_only_columns(
        *(item for item in query.selected_columns if item.name not in _LONG), score.label("score")
    )
