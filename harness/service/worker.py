"""Does the jobs, one at a time; the only thread of its process, since what it reads is read in a forked child."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType

from sqlalchemy import Connection, update
from sqlalchemy.exc import SQLAlchemyError

from harness.base.ids import ID_PATTERN, new_id
from harness.base.processes import python_environment
from harness.errors import TtaError, printable
from harness.service import (
    checkpoints,
    confined,
    delivering,
    editions,
    events,
    hooks,
    jobs,
    leftovers,
    oidc,
    outward,
    people,
    ranking,
    reindexing,
    repetitions,
    results,
    rounds,
    schema,
    submissions,
    submitting,
    uploads,
    witnessing,
)
from harness.service.database import is_unreachable, reason
from harness.service.instance import Instance
from harness.service.jobs import Lease
from harness.service.judging import Judgement, claimed_in, has_receipts, judge, laid_out, prepared
from harness.service.ranking import TableKey
from harness.service.states import State
from harness.service.submissions import Submission
from harness.service.submitting import ListedFile, files_of

IDLE_S = 0.5
SWEEP_S = 5.0
RANK_DELAY_MS = 500  # what is published within it is ranked together
Beat = Callable[[], bool]
# States in which a verdict moves a submission; later, it is shown next to what was decided.
_MOVED = (State.RECEIVED, State.CHECK_FAILED, State.INVALID, State.CHECKED)


def check(instance: Instance, lease: Lease, beat: Beat) -> None:
    """Judge a submission, and store verdict, row and state in one transaction, if the job is still this worker's.

    Raises:
        ChildError: the check itself failed.
    """
    with instance.database.read() as connection:
        submission = submissions.find(connection, lease.subject, None)
        files = files_of(connection, submission.id)
        ruleset_name = (
            connection.execute(schema.round.select().where(schema.round.c.id == submission.round)).one().ruleset
        )
    ruleset, limits, now_ms = instance.ruleset(ruleset_name), instance.settings.limits, instance.now_ms()
    prepared(ruleset)
    with laid_out(instance, files, lease.id) as tree:
        faults = _receipt_faults(instance, submission, tree, files, beat)
        answer = confined.run(
            lambda: asdict(judge(tree, files, ruleset, now_ms, submission.division, submission.id, faults)),
            limits.check_cpu_s,
            limits.check_memory_bytes,
            beat,
        )
    judgement = Judgement(**{**answer, "findings": tuple(answer["findings"])})
    with instance.database.write() as connection:
        if not jobs.finish(connection, lease, instance.now_ms()):
            return
        found = submissions.locked(connection, submission.id, None)
        verdict = results.store(connection, instance, found, judgement, instance.now_ms())
        if repetitions.is_in_pair(connection, found.id, verdict):
            _compare_later(connection, instance, found)
        is_same = (found.state is State.CHECKED) is judgement.is_valid and found.state in (State.CHECKED, State.INVALID)
        body = {
            "verdict": verdict,
            "is_valid": judgement.is_valid,
            "errors": judgement.num_errors,
            "warnings": judgement.num_warnings,
            "ruleset_digest": judgement.ruleset_digest,
            "checker": judgement.checker,
        }
        if found.state in _MOVED and not is_same:
            action = "find_valid" if judgement.is_valid else "find_invalid"
            submissions.change(connection, action, found, None, instance.now_ms(), body, verdict=verdict)
            return
        table = schema.submission
        connection.execute(update(table).where(table.c.id == found.id).values(verdict=verdict))
        if found.is_public:
            editions.begin(connection)
            jobs.add(connection, new_id(instance.now_ms()), jobs.RANK, found.id, "", instance.now_ms())
        events.append(connection, instance.now_ms(), events.News("submission.judged", found.id, body))


def _receipt_faults(
    instance: Instance, submission: Submission, tree: Path, files: Sequence[ListedFile], beat: Beat
) -> list[tuple[str, str]]:
    """Return what is wrong with the receipts of a submission by this log. They are read in a child, too."""
    if not has_receipts(files):
        return []
    limits = instance.settings.limits
    leaves, tickets = confined.run(lambda: claimed_in(tree, files), limits.check_cpu_s, limits.check_memory_bytes, beat)
    with instance.database.read() as connection:
        return list(witnessing.receipt_faults(connection, submission, leaves, tickets))


def _check_given_up(connection: Connection, instance: Instance, lease: Lease, error: str) -> None:
    """Say of a submission that it could not be checked, and why."""
    found = submissions.locked(connection, lease.subject, None)
    if found.state is State.RECEIVED:
        body = {"reason": printable(error, 500)}
        submissions.change(connection, "fail_check", found, None, instance.now_ms(), body)


def _tick(instance: Instance, lease: Lease, beat: Beat) -> None:
    rounds.advance(instance, lease.subject)


def _rank(instance: Instance, lease: Lease, beat: Beat) -> None:
    """Rank a table. A job that names a submission asks for that of its table, so that many changes are ranked once.

    A table of 20,000 results takes seconds, in which others must be able to write.
    """
    key: TableKey | None
    if ID_PATTERN.fullmatch(lease.subject):
        with instance.database.write() as connection:
            if (key := ranking.table_of(connection, lease.subject)) is not None:
                _rank_later(connection, instance, key)
        return
    key = TableKey.of_subject(lease.subject)
    with instance.database.read() as connection:
        scores = ranking.scores(connection, key)
    positions = ranking.positions(scores)
    with instance.database.write() as connection:
        ranking.write_table(connection, key, positions)
        if ranking.scores(connection, key) != scores:
            _rank_later(connection, instance, key)


def _rank_later(connection: Connection, instance: Instance, key: TableKey) -> None:
    now_ms = instance.now_ms()
    jobs.add(connection, new_id(now_ms), jobs.RANK, key.subject, "", now_ms, now_ms + RANK_DELAY_MS)


def _compare(instance: Instance, lease: Lease, beat: Beat) -> None:
    """Compare a result with what it repeats, and with what repeats it.

    Raises:
        ChildError: it could not be compared.
    """
    limits = instance.settings.limits
    with instance.database.read() as connection:
        submission = submissions.find(connection, lease.subject, None)
        found = repetitions.pairs(connection, submission.id)
    documents: list[str] = []
    if found:
        work = partial(repetitions.compared, found)
        documents = confined.run(work, limits.check_cpu_s, limits.check_memory_bytes, beat)
    with instance.database.write() as connection:
        if not repetitions.write(connection, submission.id, found, documents):
            _compare_later(connection, instance, submission)


def _compare_later(connection: Connection, instance: Instance, submission: Submission) -> None:
    now_ms = instance.now_ms()
    jobs.add(connection, new_id(now_ms), jobs.COMPARE, submission.id, submission.organisation, now_ms)


# What each kind of job does. A handler may end its job itself, in its own last transaction.
HANDLERS: dict[str, Callable[[Instance, Lease, Beat], None]] = {
    jobs.CHECK: check,
    jobs.TICK: _tick,
    jobs.RANK: _rank,
    jobs.COMPARE: _compare,
}
# What follows when the last attempt at a job has failed.
GIVEN_UP: dict[str, Callable[[Connection, Instance, Lease, str], None]] = {jobs.CHECK: _check_given_up}


def work(instance: Instance, name: str) -> bool:
    """Do the next job; False if none is due."""
    with instance.database.write() as connection:
        lease = jobs.claim(connection, name, instance.now_ms())
    if lease is None:
        return False

    def beat() -> bool:
        with instance.database.write() as connection:
            return jobs.renew(connection, lease, instance.now_ms())

    try:
        HANDLERS[lease.kind](instance, lease, beat)
    except TtaError as error:
        _failed(instance, lease, str(error))
    except SQLAlchemyError as error:
        if is_unreachable(error):
            raise
        _failed(instance, lease, f"the database refused a statement: {reason(error)}")
    else:
        with instance.database.write() as connection:
            jobs.finish(connection, lease, instance.now_ms())
    return True


def _failed(instance: Instance, lease: Lease, error: str) -> None:
    print(f"tta: {lease.kind} {lease.subject}, attempt {lease.attempts}: {printable(error, 1000)}", file=sys.stderr)
    with instance.database.write() as connection:
        _fail(connection, instance, lease, error)


def _fail(connection: Connection, instance: Instance, lease: Lease, error: str) -> None:
    """Note why an attempt failed, and do what follows if it was the last.

    In one transaction: a worker that is killed between the two would leave a submission that waits for ever.
    """
    is_mine = jobs.fail(connection, lease, error, instance.now_ms())
    if is_mine and lease.is_last and lease.kind in GIVEN_UP:
        GIVEN_UP[lease.kind](connection, instance, lease, error)


def _take_back(instance: Instance) -> bool:
    """Make a job ready again whose worker has ended, or give it up; False if there is none."""
    with instance.database.write() as connection:
        lease = jobs.expired(connection, instance.now_ms())
        if lease is not None:
            times = f", {lease.attempts} times" if lease.is_last else ""
            _fail(connection, instance, lease, f"the worker ended, or gave no sign of life{times}")
    return lease is not None


def sweep(instance: Instance) -> None:
    """Take back the jobs of workers that have ended; see what time it is for rounds, uploads and drafts."""
    while _take_back(instance):
        pass
    with instance.database.write() as connection:
        rounds.tick_all(connection, instance)
    uploads.expire(instance)
    leftovers.remove(instance)
    submitting.expire_drafts(instance)
    witnessing.expire(instance)
    oidc.end_expired(instance)
    with instance.database.write() as connection:
        people.end_expired(connection, instance.now_ms())
        hooks.forget_old(connection, instance.now_ms())
    checkpoints.newest(instance)


class Exporter:
    """Has what is published written as files after each change, by a process of its own, one at a time."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._process: subprocess.Popen[bytes] | None = None
        self._written: tuple[int, int] | None = None

    def look(self) -> None:
        """Start the process if something has changed and none is running; say when one has failed."""
        target = self._instance.settings.export
        if not target or (self._process is not None and self._process.poll() is None):
            return
        if self._process is not None and self._process.returncode:
            print(f"tta: the export into {target} ended with status {self._process.returncode}", file=sys.stderr)
        self._process, found = None, outward.mark(self._instance)
        if found != self._written:
            self._written = found
            data = str(self._instance.folder)
            command = [sys.executable, "-m", "harness.cli", "board", "export", target, "--data", data]
            self._process = subprocess.Popen(command, env=python_environment(), stdout=subprocess.DEVNULL)


class Worker:
    """A worker that goes on until it is told to end, and then ends its job first."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._is_ending = False

    def end(self, number: int = 0, frame: FrameType | None = None) -> None:
        """End after the job that is being done; a handler of signals."""
        self._is_ending = True

    def run(self) -> None:
        """Work. A database that cannot be reached is waited for."""
        signal.signal(signal.SIGTERM, self.end)
        signal.signal(signal.SIGINT, self.end)
        swept_s, exporter, is_new = -SWEEP_S, Exporter(self.instance), True
        keeper = delivering.Keeper(self.instance)
        while not self._is_ending:
            try:
                if is_new:
                    reindexing.judge_again(self.instance)  # after the rules or `tta` have changed
                    is_new = False
                if time.monotonic() - swept_s > SWEEP_S:
                    swept_s = time.monotonic()
                    sweep(self.instance)
                    exporter.look()
                    keeper.look()
                if not work(self.instance, self.name):
                    time.sleep(IDLE_S)
            except SQLAlchemyError as error:
                if not is_unreachable(error):
                    raise
                print(f"tta: the database cannot be reached: {reason(error)}", file=sys.stderr, flush=True)
                time.sleep(2.0)
        keeper.end()
