"""Search by the beginnings of words: of organisation, system, accelerator and benchmark.

A word that few results have is looked up in an index of words, and one that many have is met soon in the newest rows:
either is a matter of milliseconds among 100,000 results, and neither alone is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping, select, tuple_

from harness.service import results, schema

_row, _word = schema.board_row, schema.word
_FEW = 1_000  # results that have a word: are looked up
_MAX_WORDS = 5
_LAST = "\U0010ffff"  # sorts after every character


def found(connection: Connection, text: str, limit: int, *, whole: bool = False) -> list[RowMapping]:
    """Return the ranked results in which each word of `text` begins a word, those that were announced last first.

    whole: with the document of each, which only the interface gives.
    """
    words = text.lower().split()[:_MAX_WORDS]
    known = [few for word in words if (few := _having(connection, word)) is not None]
    query = results.ranked() if whole else results.listed()
    query = query.order_by(_row.c.submission.desc(), _row.c.verdict.desc()).limit(limit)
    has_all = [_row.c.words.contains(f" {word}", autoescape=True) for word in words]
    if known:
        candidates = set.intersection(*known)
        return list(connection.execute(query.where(_row.c.submission.in_(candidates), *has_all)).mappings())
    # Without the joins of the query, so that the rows that do not have the words cost nothing but a look at an index.
    place = (_row.c.submission, _row.c.verdict)
    narrow = select(*place).where(_row.c.seconds.is_not(None), *has_all)
    narrow = narrow.order_by(*(column.desc() for column in place)).limit(2 * limit)
    rows: list[RowMapping] = []
    last: Sequence[str] = ("g", "")  # after every id
    while len(rows) < limit:
        part = connection.execute(narrow.where(tuple_(*place) < tuple_(*last))).all()
        rows += connection.execute(query.where(_row.c.verdict.in_([row.verdict for row in part]))).mappings()
        if len(part) < 2 * limit:
            break
        last = part[-1]
    return rows[:limit]


def _having(connection: Connection, word: str) -> set[str] | None:
    """Return the submissions in which something begins with a word; None if these are many."""
    begins = (_word.c.word >= word, _word.c.word < word + _LAST)
    ids = connection.execute(select(_word.c.submission).where(*begins).limit(_FEW + 1)).scalars().all()
    return None if len(ids) > _FEW else set(ids)
