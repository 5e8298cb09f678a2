"""Search by the beginnings of words: of organisation, system, accelerator and benchmark.

A word that few results have is looked up in an index of words, and one that many have is met soon in the newest rows:
either is a matter of milliseconds among 100,000 results, and neither alone is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, bindparam, func, select, tuple_

from harness.service import results, schema

_row, _submission, _word = schema.board_row, schema.submission, schema.word
_FEW = 1_000  # results that have a word: are looked up
_MAX_WORDS = 5
_LAST = "\U0010ffff"  # sorts after every character
_PLACE = (_row.c.submission, _row.c.verdict)


def found(connection: Connection, text: str, limit: int, *, whole: bool = False) -> Sequence[RowMapping]:
    """Return the ranked results in which each word of `text` begins a word, those that were announced last first.

    whole: with all that the interface gives of each.
    """
    words = text.lower().split()[:_MAX_WORDS]
    query = results.scored(connection.dialect.name) if whole else results.listed()
    values: dict[str, Any] = {"num": limit, "more_than_few": _FEW + 1}
    for number, word in enumerate(words):
        values |= {f"from_{number}": word, f"to_{number}": word + _LAST, f"has_{number}": _pattern(word)}
    counts = connection.execute(_counts(len(words)), values).one() if words else ()
    if few := tuple(number for number, count in enumerate(counts) if count <= _FEW):
        return connection.execute(_looked_up(query, len(words), few), values).mappings().all()
    # Without the joins of the query, so that the rows that do not have the words cost nothing but a look at an index.
    num = limit + limit // 4 + 1  # a few are not ranked
    rows: list[RowMapping] = []
    last: Sequence[str] = ("g", "")  # after every id
    while len(rows) < limit:
        place = {"last_submission": last[0], "last_verdict": last[1]}
        part = connection.execute(_newest(len(words)), {**values, **place, "num": num}).all()
        rows += connection.execute(_of_verdicts(query), {"verdicts": [row.verdict for row in part]}).mappings()
        if len(part) < num:
            break
        last = part[-1]
    return rows[:limit]


def _pattern(word: str) -> str:
    """Return what LIKE finds a word by that begins with `word`, with / before its signs."""
    for sign in "/%_":
        word = word.replace(sign, f"/{sign}")
    return f"% {word}%"


def _begins(number: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return (_word.c.word >= bindparam(f"from_{number}"), _word.c.word < bindparam(f"to_{number}"))


def _has_all(num_words: int) -> list[ColumnElement[bool]]:
    return [_row.c.words.like(bindparam(f"has_{number}"), escape="/") for number in range(num_words)]


# Statements are made once: SQLAlchemy makes one in the time in which a database answers another.


@functools.cache
def _counts(num_words: int) -> Select[Any]:
    """Return the query of how many results have each of so many words; `more_than_few` are not counted further."""
    having = [
        select(_word.c.submission).where(*_begins(number)).limit(bindparam("more_than_few"))
        for number in range(num_words)
    ]
    return select(*(select(func.count()).select_from(item.subquery()).scalar_subquery() for item in having))


@functools.cache
def _looked_up(query: Select[Any], num_words: int, few: tuple[int, ...]) -> Select[Any]:
    """Return the query of the results with so many words, of which `few` are looked up."""
    own = [_submission.c.id.in_(select(_word.c.submission).where(*_begins(number))) for number in few]
    # A submission has one row here. By its id, SQLite goes through the index in order, and ends with the last row.
    return query.where(*own, *_has_all(num_words)).order_by(_submission.c.id.desc()).limit(bindparam("num"))


@functools.cache
def _newest(num_words: int) -> Select[Any]:
    """Return the query of the places of rows with so many words, ranked or not, before the last place."""
    is_before = tuple_(*_PLACE) < tuple_(bindparam("last_submission"), bindparam("last_verdict"))
    query = select(*_PLACE).where(_row.c.seconds.is_not(None), *_has_all(num_words), is_before)
    return query.order_by(*(column.desc() for column in _PLACE)).limit(bindparam("num"))


@functools.cache
def _of_verdicts(query: Select[Any]) -> Select[Any]:
    is_one = _row.c.verdict.in_(bindparam("verdicts", expanding=True))
    return query.where(is_one).order_by(*(column.desc() for column in _PLACE))
