"""The ranks of a whole table, and its records over time: derived from all its rows together, and written at once.

The ranks are those of `harness.base.stats.rank_intervals`, pair by pair, in blocks of arrays: a table of 10,000 results
has 50 million pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select

from harness.base.stats import Estimate
from harness.service import editions, results, schema
from harness.service.states import State

LEVEL = 0.05
_BLOCK = 1 << 16  # pairs at a time: what the caches of a core hold
_LOCK = 0x72616E6B  # "rank": of PostgreSQL's advisory locks with two numbers
_MAX_DOF = 1000
_NEAR = 1e-3  # how far `stdtrit` is trusted
_MAX_SORTED = 1 << 20  # p-values
_row, _position, _record, _submission = schema.board_row, schema.position, schema.record, schema.submission
Floats = NDArray[np.float64]


class TableKey(NamedTuple):
    """What rows are compared within."""

    benchmark: str
    division: str
    ruleset_digest: str

    @property
    def subject(self) -> str:
        """The key as the subject of a job."""
        return json.dumps(self)

    @classmethod
    def of_subject(cls, subject: str) -> TableKey:
        return cls(*json.loads(subject))


def rank_intervals(estimates: Sequence[Estimate]) -> list[tuple[int, int]]:
    """Return the first and the last rank that each may have, all jointly with a probability of 95 %.

    Holm's procedure over all pairs: with m pairs of which k are rejected, those up to LEVEL / (m - k) are. That
    threshold is enclosed from both sides, by passes over the pairs that only count, until few lie between; only their
    p-values are kept and sorted.
    """
    count = len(estimates)
    num_pairs = max(1, count * (count - 1) // 2)
    order = np.argsort([item.value for item in estimates], kind="stable")
    ordered = [estimates[place] for place in order]
    least, most = _enclosed(ordered, num_pairs)
    rejected = [_critical(least), _critical(most)]
    before, after = np.zeros(count, np.int64), np.zeros(count, np.int64)  # how many differ from each on either side
    between: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []  # p-values, rows, columns
    for start, statistic, dof in _pairs(ordered):
        sure = _at_most(least, statistic, dof, rejected[0])
        before[start:] += sure.sum(axis=0)
        after[start : start + len(sure)] += sure.sum(axis=1)
        i, j = np.nonzero(_at_most(most, statistic, dof, rejected[1]) & ~sure)
        p_values: Floats = np.asarray(2 * stdtr(dof[i, j], -statistic[i, j]), np.float64)
        between.append((p_values, i + start, j + start))
    if between:
        found, i, j = (np.concatenate(parts) for parts in zip(*between, strict=True))
        rising = np.argsort(found, kind="stable")
        beyond = np.flatnonzero(found[rising] * (num_pairs - before.sum() - np.arange(len(rising))) > LEVEL)
        rising = rising[: beyond[0]] if len(beyond) else rising
        before += np.bincount(j[rising], minlength=count)
        after += np.bincount(i[rising], minlength=count)
    first, last = np.empty(count, np.int64), np.empty(count, np.int64)
    first[order], last[order] = 1 + before, count - after
    return [(int(low), int(high)) for low, high in zip(first, last, strict=True)]


def _enclosed(ordered: Sequence[Estimate], num_pairs: int) -> tuple[float, float]:
    """Return thresholds of p-values, between which is that up to which Holm's procedure rejects."""
    least, most, num_before = LEVEL / num_pairs, LEVEL, -1
    while True:
        levels = [(level, _critical(level)) for level in (least, most)]
        counts = [0, 0]
        for _, statistic, dof in _pairs(ordered):
            for place, (level, critical) in enumerate(levels):
                counts[place] += int(_at_most(level, statistic, dof, critical).sum())
        if counts[0] == num_before:
            return least, least  # it rejects as many as it assumes
        num_before = counts[0]
        least, most = (LEVEL / max(1, num_pairs - number) for number in counts)
        most = min(LEVEL, most)
        if counts[1] - counts[0] <= _MAX_SORTED:
            return least, most


def _pairs(ordered: Sequence[Estimate]) -> Iterator[tuple[int, Floats, NDArray[np.int64]]]:
    """Yield blocks of pairs as Welch's statistic and its degrees of freedom: from row and column `start` on.

    Those of a pair are as `harness.base.stats.p_equal` has them; where a row is not before its column, or nothing is
    known of an error, the statistic is 0, which differs from nothing.
    """
    logs = np.log([item.value for item in ordered])
    variance = np.array([sum(error for error, _ in item.errors) for item in ordered])
    weight = np.array([sum(error**2 / dof for error, dof in item.errors) for item in ordered])
    least = np.array([min((dof for _, dof in item.errors), default=1.0) for item in ordered])
    is_known = np.array([bool(item.errors) for item in ordered])
    start = 0
    while start < len(ordered):
        end = min(len(ordered), start + max(1, _BLOCK // (len(ordered) - start)))
        rows, columns = np.s_[start:end, None], np.s_[None, start:]
        total, weights = variance[rows] + variance[columns], weight[rows] + weight[columns]
        with np.errstate(divide="ignore", invalid="ignore"):
            dof = np.where(weights > 0, total**2 / weights, np.minimum(least[rows], least[columns]))
            difference = np.abs(logs[rows] - logs[columns])
            statistic = difference / np.sqrt(total)
        is_pair = np.triu(is_known[rows] & is_known[columns], 1) & (difference > 0)
        dof = np.clip(np.floor(dof * (1 + 1e-12)), 1, _MAX_DOF).astype(np.int64)
        yield start, np.where(is_pair, statistic, 0.0), dof
        start = end


def _critical(p_value: float) -> Floats:
    """Return, by degrees of freedom, about which statistic has this p-value."""
    return np.concatenate([[np.inf], -stdtrit(np.arange(1, _MAX_DOF + 1), p_value / 2)])


def _at_most(p_value: float, statistic: Floats, dof: NDArray[np.int64], critical: Floats) -> NDArray[np.bool_]:
    """Return which pairs have at most this p-value; it is computed only where the statistic is near to `critical`."""
    ratio = statistic / critical[dof]
    found = ratio > 1 + _NEAR
    near = ~found & (ratio > 1 - _NEAR)
    found[near] = 2 * stdtr(dof[near], -statistic[near]) <= p_value
    return found


def tables(connection: Connection) -> list[TableKey]:
    """Return the tables that have a row that is ranked."""
    query = results.ranked().with_only_columns(_row.c.benchmark, _row.c.division, _row.c.ruleset_digest)
    return [TableKey(*row) for row in connection.execute(query.distinct().order_by(*query.selected_columns))]


def table_of(connection: Connection, submission: str) -> TableKey | None:
    """Return the table of a submission's row; None if it has none."""
    query = select(_row.c.benchmark, _row.c.division, _row.c.ruleset_digest).select_from(
        _row.join(_submission, results.counts())
    )
    found = connection.execute(query.where(_submission.c.id == submission)).one_or_none()
    return None if found is None else TableKey(*found)


def _within(key: TableKey) -> ColumnElement[bool]:
    return and_(
        _row.c.benchmark == key.benchmark, _row.c.division == key.division, _row.c.ruleset_digest == key.ruleset_digest
    )


Scores = dict[str, tuple[float, str]]  # seconds and errors, by verdict


def scores(connection: Connection, key: TableKey) -> Scores:
    """Return what the ranks of a table are made of."""
    query = results.ranked().where(_within(key)).with_only_columns(_row.c.verdict, _row.c.seconds, _row.c.errors)
    return {row.verdict: (row.seconds, row.errors) for row in connection.execute(query.order_by(_row.c.verdict))}


def positions(found: Scores) -> list[dict[str, object]]:
    """Return the rows of `position` for a table."""
    estimates = [
        Estimate(seconds, tuple((float(error), float(dof)) for error, dof in json.loads(errors)))
        for seconds, errors in found.values()
    ]
    return [
        {"verdict": verdict, "first": first, "last": last}
        for verdict, (first, last) in zip(found, rank_intervals(estimates), strict=True)
    ]


def records(connection: Connection, key: TableKey) -> list[dict[str, object]]:
    """Return the rows of `record` for a table: what was the best when it was published, in all and by accelerator.

    What was retracted, and what is disputed, is none. What was superseded later was the best in its time.
    """
    source = _row.join(_submission, results.counts())
    query = (
        select(_submission.c.id, _submission.c.published_ms, _row.c.accelerator, _row.c.seconds)
        .select_from(source)
        .where(
            _within(key), _submission.c.state.in_((State.PUBLISHED, State.MOVED_TO_OPEN)), _row.c.seconds.is_not(None)
        )
        .order_by(_submission.c.published_ms, _row.c.seconds, _submission.c.id)
    )
    best: dict[str, float] = {}
    found = []
    for submission, at_ms, accelerator, seconds in connection.execute(query):
        for of in ("", accelerator):
            if seconds < best.get(of, float("inf")):
                best[of] = seconds
                values = {"accelerator": of, "submission": submission, "at_ms": at_ms, "seconds": seconds}
                found.append({**key._asdict(), **values})
    return found


def hold(connection: Connection, key: TableKey) -> None:
    """Wait until no other transaction ranks a table, and keep it so until this one ends.

    Two workers may have jobs for one table, of which the later one must see what the earlier one has written. In SQLite
    one transaction writes at a time.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK, func.hashtext(key.subject))))


def write_table(connection: Connection, key: TableKey, known: list[dict[str, object]] | None = None) -> None:
    """Write the ranks and the records of a table; nothing else changes them. known: its `positions`."""
    hold(connection, key)
    found = positions(scores(connection, key)) if known is None else known
    connection.execute(delete(_position).where(_position.c.verdict.in_(select(_row.c.verdict).where(_within(key)))))
    if found:
        connection.execute(insert(_position), found)
    is_of_table = and_(
        _record.c.benchmark == key.benchmark,
        _record.c.division == key.division,
        _record.c.ruleset_digest == key.ruleset_digest,
    )
    connection.execute(delete(_record).where(is_of_table))
    best = records(connection, key)
    if best:
        connection.execute(insert(_record), best)
    editions.begin(connection)
