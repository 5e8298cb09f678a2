"""Work to be done later, in a table: added in the transaction that makes it necessary, leased to one worker at a time.

A lease has a number that grows. A worker that was thought dead and comes back has an older one, and can change nothing.
Jobs of one priority are done in turns by owner, so that a team with a thousand submissions does not keep one with a
single submission waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select, update

from harness.errors import printable
from harness.service import schema
from harness.service.blobs import unless_there

LEASE_S = 30.0  # without a sign of life; then another worker has the job
MAX_ATTEMPTS = 3
BACKOFF_MS = (2_000, 15_000)
CHECK, COMPARE, RANK, TICK = "check", "compare", "rank", "tick"
PRIORITIES = {TICK: 0, RANK: 1, COMPARE: 1, CHECK: 2}
_job, _turn = schema.job, schema.turn


@dataclass(frozen=True, slots=True)
class Lease:
    """A job that this worker has. attempts: with this one. fencing: the number of the lease."""

    id: str
    kind: str
    subject: str
    attempts: int
    fencing: int

    @property
    def is_last(self) -> bool:
        return self.attempts >= MAX_ATTEMPTS


def add(
    connection: Connection, new_id: str, kind: str, subject: str, owner: str, now_ms: int, after_ms: int | None = None
) -> None:
    """Add a job, unless one like it waits already. owner: whose turn it takes. after_ms: not before this time."""
    places = (owner, "")
    last = connection.execute(select(func.max(_turn.c.last)).where(_turn.c.owner.in_(places))).scalar() or 0
    statement = unless_there(connection.dialect, _job).values(
        id=new_id, kind=kind, subject=subject, owner=owner, state="ready", priority=PRIORITIES[kind], turn=last + 1,
        run_after_ms=now_ms if after_ms is None else after_ms, attempts=0, fencing=0, created_ms=now_ms,
    )  # fmt: skip
    if connection.execute(statement).rowcount > 0:
        _set_turn(connection, owner, last + 1)


def _set_turn(connection: Connection, owner: str, last: int) -> None:
    changed = connection.execute(update(_turn).where(_turn.c.owner == owner, _turn.c.last < last).values(last=last))
    if changed.rowcount == 0:
        connection.execute(unless_there(connection.dialect, _turn).values(owner=owner, last=last))


def claim(connection: Connection, worker: str, now_ms: int) -> Lease | None:
    """Take the next job; None if none is due."""
    due = (
        select(_job.c.id)
        .where(_job.c.state == "ready", _job.c.run_after_ms <= now_ms)
        .order_by(_job.c.priority, _job.c.turn, _job.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    taken = connection.execute(
        update(_job)
        .where(_job.c.id == due.scalar_subquery())
        .values(
            state="leased",
            lease_owner=worker,
            lease_until_ms=now_ms + int(LEASE_S * 1000),
            attempts=_job.c.attempts + 1,
            fencing=_job.c.fencing + 1,
        )
        .returning(_job.c.id, _job.c.kind, _job.c.subject, _job.c.attempts, _job.c.fencing, _job.c.turn)
    ).one_or_none()
    if taken is None:
        return None
    *lease, turn = taken
    _set_turn(connection, "", turn)
    return Lease(*lease)


def renew(connection: Connection, lease: Lease, now_ms: int) -> bool:
    """Give a sign of life; False if the job is no longer this worker's."""
    return _change(connection, lease, lease_until_ms=now_ms + int(LEASE_S * 1000))


def finish(connection: Connection, lease: Lease, now_ms: int) -> bool:
    """Note that the job is done; False if it is no longer this worker's, whose work must not be kept then."""
    return _change(connection, lease, state="done", ended_ms=now_ms, lease_owner=None, lease_until_ms=None)


def fail(connection: Connection, lease: Lease, error: str, now_ms: int) -> bool:
    """Note why an attempt failed: there is another, later, unless it was the last. False as in `finish`."""
    values: dict[str, object] = {"error": printable(error, 2000), "lease_owner": None, "lease_until_ms": None}
    if lease.is_last:
        return _change(connection, lease, state="failed", ended_ms=now_ms, **values)
    if _waits(connection, lease.kind, lease.subject):
        return _change(connection, lease, state="done", ended_ms=now_ms, **values)
    after_ms = now_ms + BACKOFF_MS[min(lease.attempts, len(BACKOFF_MS)) - 1]
    return _change(connection, lease, state="ready", run_after_ms=after_ms, **values)


def _change(connection: Connection, lease: Lease, **values: object) -> bool:
    is_mine = (_job.c.id == lease.id) & (_job.c.fencing == lease.fencing) & (_job.c.state == "leased")
    return connection.execute(update(_job).where(is_mine).values(**values)).rowcount == 1


def _waits(connection: Connection, kind: str, subject: str) -> bool:
    query = select(_job.c.id).where(_job.c.kind == kind, _job.c.subject == subject, _job.c.state == "ready")
    return connection.execute(query.limit(1)).scalar() is not None


def expired(connection: Connection, now_ms: int) -> Lease | None:
    """Return a job whose worker has given no sign of life, for the caller to `fail`; None if there is none."""
    query = (
        select(_job.c.id, _job.c.kind, _job.c.subject, _job.c.attempts, _job.c.fencing)
        .where(_job.c.state == "leased", _job.c.lease_until_ms < now_ms)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else Lease(*row)


def counts(connection: Connection) -> dict[str, int]:
    """Return how many jobs are in each state; those that are done are not counted."""
    query = select(_job.c.state, func.count()).where(_job.c.state != "done").group_by(_job.c.state)
    return {state: int(count) for state, count in connection.execute(query)}


def oldest_ready_ms(connection: Connection, now_ms: int) -> int:
    """Return how long the job has waited that is due for longest; 0 if none is."""
    oldest = func.min(case((_job.c.run_after_ms > _job.c.created_ms, _job.c.run_after_ms), else_=_job.c.created_ms))
    query = select(oldest).where(_job.c.state == "ready", _job.c.run_after_ms <= now_ms)
    return max(0, now_ms - (connection.execute(query).scalar() or now_ms))
