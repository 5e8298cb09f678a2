"""The ranks of a whole table, and its records over time: derived from all its rows together, and written at once.

The ranks are those of `harness.base.stats.rank_intervals`, pair by pair, in blocks of arrays: a table of 10,000 results
has 50 million pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select

from harness.base.stats import Estimate
from harness.service import results, schema
from harness.service.states import State

LEVEL = 0.05
_BLOCK = 256
_LOCK = 0x72616E6B  # "rank": of PostgreSQL's advisory locks with two numbers
_MAX_DOF = 1000
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

    Holm's procedure over all pairs. A pair whose p-value is below the strictest bound is rejected whatever the others
    are; only those between that and 5 % have to be sorted.
    """
    count = len(estimates)
    num_pairs = max(1, count * (count - 1) // 2)
    first, last = np.ones(count, np.int64), np.full(count, count, np.int64)
    values = np.array([item.value for item in estimates])
    num_sure, open_ones = 0, []
    for i, j, p_values in _pairs(estimates, values):
        sure = p_values <= LEVEL / num_pairs
        num_sure += int(sure.sum())
        _reject(first, last, values, i[sure], j[sure])
        unsure = ~sure & (p_values <= LEVEL)
        open_ones.append((p_values[unsure], i[unsure], j[unsure]))
    if open_ones:
        p_values, i, j = (np.concatenate(parts) for parts in zip(*open_ones, strict=True))
        order = np.lexsort((j, i, p_values))
        bounds = p_values[order] * (num_pairs - num_sure - np.arange(len(order)))
        beyond = np.flatnonzero(bounds > LEVEL)
        order = order[: beyond[0]] if len(beyond) else order
        _reject(first, last, values, i[order], j[order])
    return [(int(low), int(high)) for low, high in zip(first, last, strict=True)]


def _pairs(
    estimates: Sequence[Estimate], values: Floats
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
    """Yield both numbers of each pair, and its p-value as `harness.base.stats.p_equal` has it, block by block."""
    logs = np.log(values)
    variance = np.array([sum(error for error, _ in item.errors) for item in estimates])
    weight = np.array([sum(error**2 / dof for error, dof in item.errors) for item in estimates])
    least = np.array([min((dof for _, dof in item.errors), default=1.0) for item in estimates])
    is_known = np.array([bool(item.errors) for item in estimates])
    for start in range(0, len(estimates), _BLOCK):
        i, j = np.meshgrid(
            np.arange(start, min(start + _BLOCK, len(estimates))), np.arange(start + 1, len(estimates)), indexing="ij"
        )
        is_pair = i < j
        i, j = i[is_pair], j[is_pair]
        total, weights = variance[i] + variance[j], weight[i] + weight[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            dof = np.where(weights > 0, total**2 / weights, np.minimum(least[i], least[j]))
            dof = np.clip(np.floor(dof * (1 + 1e-12)), 1, _MAX_DOF)
            difference = np.abs(logs[i] - logs[j])
            p_values = 2 * stdtr(dof, -difference / np.sqrt(total))
        p_values = np.where(total == 0, np.where(difference == 0, 1.0, 0.0), p_values)
        yield i, j, np.where(is_known[i] & is_known[j], p_values, 1.0)


def _reject(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    values: Floats,
    i: NDArray[np.int64],
    j: NDArray[np.int64],
) -> None:
    """Count the pairs that differ: the larger one of each cannot be before the smaller."""
    is_smaller = values[i] < values[j]
    smaller, larger = np.where(is_smaller, i, j), np.where(is_smaller, j, i)
    np.add.at(first, larger, 1)
    np.subtract.at(last, smaller, 1)


def tables(connection: Connection) -> list[TableKey]:
    """Return the tables that have a row that is ranked."""
    query = results.ranked().with_only_columns(_row.c.benchmark, _row.c.division, _row.c.ruleset_digest)
    return [TableKey(*row) for row in connection.execute(query.distinct().order_by(*query.selected_columns))]


def table_of(connection: Connection, submission: str) -> TableKey | None:
    """Return the table of a submission's row; None if it has none."""
    query = select(_row.c.benchmark, _row.c.division, _row.c.ruleset_digest).select_from(
        _row.join(_submission, _submission.c.verdict == _row.c.verdict)
    )
    found = connection.execute(query.where(_submission.c.id == submission)).one_or_none()
    return None if found is None else TableKey(*found)


def _within(key: TableKey) -> ColumnElement[bool]:
    return and_(
        _row.c.benchmark == key.benchmark, _row.c.division == key.division, _row.c.ruleset_digest == key.ruleset_digest
    )


def positions(connection: Connection, key: TableKey) -> list[dict[str, object]]:
    """Return the rows of `position` for a table, computed from its rows."""
    query = results.ranked().where(_within(key)).with_only_columns(_row.c.verdict, _row.c.seconds, _row.c.errors)
    rows = connection.execute(query.order_by(_row.c.verdict)).all()
    estimates = [
        Estimate(row.seconds, tuple((float(error), float(dof)) for error, dof in json.loads(row.errors)))
        for row in rows
    ]
    found = rank_intervals(estimates)
    return [
        {"verdict": row.verdict, "first": first, "last": last} for row, (first, last) in zip(rows, found, strict=True)
    ]


def records(connection: Connection, key: TableKey) -> list[dict[str, object]]:
    """Return the rows of `record` for a table: what was the best when it was published, in all and by accelerator.

    What was retracted, and what is disputed, is none. What was superseded later was the best in its time.
    """
    source = _row.join(_submission, _submission.c.verdict == _row.c.verdict)
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


def write_table(connection: Connection, key: TableKey) -> None:
    """Write the ranks and the records of a table; nothing else changes them."""
    hold(connection, key)
    connection.execute(delete(_position).where(_position.c.verdict.in_(select(_row.c.verdict).where(_within(key)))))
    found = positions(connection, key)
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
