"""What is left when a process is killed, or the database ends, in the middle: it goes on as if nothing had been."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError, ProgrammingError

from harness.errors import OutputError
from harness.service import (
    confined,
    jobs,
    leftovers,
    outward,
    people,
    ranking,
    reindexing,
    schema,
    serving,
    uploads,
    verifying,
    worker,
)
from harness.service.database import Database
from harness.service.people import Actor
from harness.service.uploads import Upload
from tests import service_kills
from tests.harness.service.test_submitting import create_upload
from tests.harness.service.world import DAY_MS, World


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_before_commit(database: Database, number: int) -> Iterator[None]:
    """Kill what is done inside right before its commit `number`, from 0."""
    count = itertools.count()

    def on_commit(connection: Connection) -> None:
        if next(count) == number:
            raise Killed

    event.listen(database.engine, "commit", on_commit)
    try:
        yield
    finally:
        event.remove(database.engine, "commit", on_commit)


def later(world: World) -> None:
    """Another worker comes when the lease of the one before is over; the job is soon due again."""
    world.time.now_ms += int(jobs.LEASE_S * 1000)
    worker.sweep(world.instance)
    world.time.now_ms += max(jobs.BACKOFF_MS)


def test_a_worker_may_be_killed_before_each_of_its_commits(small: World) -> None:
    """The result is published all the same, with one verdict, and nothing contradicts its events."""
    world, submissions = small, []
    for cut in itertools.count():
        submissions.append(world.submit(world.alice))
        try:
            with killed_before_commit(world.instance.database, cut):
                world.work()
            break
        except Killed:
            later(world)
            world.work()

    assert len(submissions) > 4
    assert {world.state(item) for item in submissions} == {"published"}
    with world.instance.database.read() as connection:
        verdicts = connection.execute(schema.verdict.select()).all()
    assert sorted(row.submission for row in verdicts) == sorted(submissions)
    assert list(verifying.faults(world.instance, with_files=False)) == []


def test_what_is_given_up_is_said_even_if_that_worker_is_killed(unreviewed: World) -> None:
    """A job without a further attempt, and a submission that waits for one, are never seen together."""
    world = unreviewed
    for cut in range(3):
        submission = world.submit(world.alice)
        for attempt in range(jobs.MAX_ATTEMPTS):
            if attempt:
                later(world)
            with world.instance.database.write() as connection:
                lease = jobs.claim(connection, "killed", world.instance.now_ms())
                assert lease is not None
                assert (lease.subject, lease.attempts) == (submission, attempt + 1)
        with pytest.raises(Killed), killed_before_commit(world.instance.database, cut):
            later(world)
        later(world)
        assert world.state(submission) == "check_failed"

    [last] = [item for item in world.alice.get(f"/submissions/{submission}").json()["history"]
              if item["kind"] == "submission.fail_check"]  # fmt: skip
    assert last["body"]["reason"] == "the worker ended, or gave no sign of life, 3 times"


def test_a_check_that_fails_is_made_three_times_and_then_on_request(
    small: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here a file is away meanwhile; its team is told why, and asks for another check when it is back."""
    submission = small.submit(small.alice)
    with small.instance.database.read() as connection:
        sha256 = connection.execute(schema.blob.select()).first().sha256
    path = small.instance.blobs.path(sha256)
    data = path.read_bytes()
    path.unlink()
    for _ in range(jobs.MAX_ATTEMPTS):
        assert small.state(submission) == "received"
        small.work()
        small.time.now_ms += 60_000
    assert small.state(submission) == "check_failed"
    assert capsys.readouterr().err.count("cannot be linked") == jobs.MAX_ATTEMPTS

    path.write_bytes(data)
    assert small.alice.post(f"/submissions/{submission}/check_again").json() == {"state": "received"}
    small.work()

    assert small.state(submission) == "published"


@pytest.mark.parametrize(("number", "said"), [("SIGKILL", "SIGKILL"), ("SIGXCPU", "SIGXCPU after 9 s of computing")])
def test_a_check_that_is_killed_says_by_what(number: str, said: str) -> None:
    """Only the signal of the limit on computing says that it was reached."""
    with pytest.raises(confined.ChildError) as error:
        confined.run(lambda: os.kill(os.getpid(), signal.Signals[number]), 9, 1 << 40, lambda: True)

    assert str(error.value) == f"the check was ended by {said}"


def test_an_upload_whose_end_was_killed_is_ended_when_asked_for(small: World) -> None:
    """Nothing is sent again: the service finds all bytes, and then has the file."""
    data = b"x" * 5000
    found, actor = begun(small, data)
    with uploads.appending(small.instance, found, 0, None) as piece:
        piece.write(data)
    with pytest.raises(Killed), killed_before_commit(small.instance.database, 0):
        uploads.complete_if_whole(small.instance, actor, found)
    place = f"/api/v1/uploads/{found.id}"

    answer = small.alice.client.head(place)

    assert (answer.status_code, answer.headers["upload-offset"]) == (200, "5000")
    assert small.alice.client.head(place).status_code == 404
    with small.instance.database.read() as connection:
        assert connection.execute(schema.blob_holder.select()).one().sha256 == found.sha256
    assert small.instance.blobs.path(found.sha256).read_bytes() == data
    assert [*small.instance.uploads.iterdir(), *small.instance.blobs.incoming.iterdir()] == []


def test_a_team_goes_on_with_its_upload_of_a_file(small: World) -> None:
    """Begun again, it is where it was; whole, it is kept at once; another team's is another."""
    data = b"x" * 5000
    found, _ = begun(small, data)
    with uploads.appending(small.instance, found, 0, None) as piece:
        piece.write(data[:2000])
    other = create_upload(small.bob, found.sha256, len(data)).rpartition("/")[2]
    again, _ = begun(small, data)
    with uploads.appending(small.instance, found, 2000, None) as piece:
        piece.write(data[2000:])
    whole, _ = begun(small, data)

    assert (again.id, again.offset) == (found.id, 2000)
    assert other != found.id
    assert (whole.id, whole.offset) == (found.id, 5000)
    assert small.instance.blobs.path(found.sha256).read_bytes() == data
    assert [path.name for path in small.instance.uploads.iterdir()] == [other]


def test_an_upload_is_ended_once(small: World) -> None:
    """Who comes while another request is at it waits for it, and has nothing to do then."""
    data = b"x" * 10
    found, actor = begun(small, data)
    path = small.instance.uploads / found.id

    with ThreadPoolExecutor(1) as pool:
        with uploads.appending(small.instance, found, 0, None) as piece:
            piece.write(data)
            second = pool.submit(uploads.complete_if_whole, small.instance, actor, found)
            with pytest.raises(TimeoutError):
                second.result(0.2)
            path.unlink()  # as the first request does at its end
        second.result(10)
    uploads.complete_if_whole(small.instance, actor, found)

    assert not small.instance.blobs.path(found.sha256).exists()


def begun(world: World, data: bytes) -> tuple[Upload, Actor]:
    """An upload of which nothing has arrived, and who sends it."""
    with world.instance.database.read() as connection:
        actor = people.by_token(connection, world.alice.token, world.instance.now_ms())
    assert actor is not None
    return uploads.create(world.instance, actor, hashlib.sha256(data).hexdigest(), len(data)), actor


def test_what_was_killed_leaves_nothing_for_good(small: World) -> None:
    """What is older than an upload may be goes; what is younger may belong to somebody who is at work."""
    instance = small.instance
    places = [instance.blobs.incoming / "a.1", instance.uploads / "b", instance.folder / "work" / "c.2"]
    for age_days, is_kept in ((6.9, True), (7.1, False)):
        for path in places:
            if path.parent.name == "work":
                (path / "acme").mkdir(parents=True)
            else:
                path.write_bytes(b"half")
            at_s = (small.time.now_ms - age_days * DAY_MS) / 1000
            os.utime(path, (at_s, at_s))
        worker.sweep(instance)
        assert [path.exists() for path in places] == [is_kept] * 3
        if is_kept:
            leftovers.remove(instance)
            places = [path.with_name(f"{path.name}0") for path in places]


def test_two_workers_may_rank_a_table_at_once(unreviewed: World) -> None:
    """The later one begins when the earlier one has ended, and ranks what that one has ranked again."""
    world = unreviewed
    world.submit(world.alice)
    world.work()
    with world.instance.database.read() as connection:
        [key] = ranking.tables(connection)

    def rank() -> None:
        with world.instance.database.write() as connection:
            ranking.write_table(connection, key)

    rank()
    with ThreadPoolExecutor(1) as pool:
        with world.instance.database.write() as connection:
            ranking.write_table(connection, key)
            second = pool.submit(rank)
            with pytest.raises(TimeoutError):
                second.result(0.2)
        second.result(10)

    assert list(reindexing.differences(world.instance, is_mended=True)) == []


def test_one_export_at_a_time_writes_a_folder(tmp_path: Path) -> None:
    """The second begins when the first has ended."""
    order = []

    def export(name: str) -> None:
        with outward.alone(tmp_path / "out"):
            order.append(name)

    with ThreadPoolExecutor(1) as pool:
        with outward.alone(tmp_path / "out"):
            second = pool.submit(export, "second")
            with pytest.raises(TimeoutError):
                second.result(0.2)
            order.append("first")
        second.result(10)

    assert order == ["first", "second"]
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file: cannot be written"), outward.alone(tmp_path / "file"):
        raise AssertionError("is a file")


def test_a_worker_that_ends_soon_is_started_later() -> None:
    """Twice the pause each time, up to half a minute; one that went on for a while begins a new series."""
    pauses_s = [0.0]
    for _ in range(2000):
        pauses_s.append(serving.next_pause_s(pauses_s[-1], 1.0))
    assert pauses_s[:8] == [0.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert pauses_s[-1] == 30.0
    assert serving.next_pause_s(30.0, 60.0) == 2.0


@pytest.fixture
def handlers() -> Iterator[None]:
    """The handlers of signals as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_worker_waits_for_a_database_that_is_away(
    small: World, handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in its first statement; a statement that the database refuses is a fault of the program's, and ends it."""
    submission, found = small.submit(small.alice), worker.Worker(small.instance)
    causes: list[type[OperationalError | ProgrammingError]] = [OperationalError]

    def on_statement(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        if causes:
            raise causes.pop()(statement, {}, Exception("gone"))
        if statement.startswith("INSERT INTO verdict"):
            found.end()  # after this job

    event.listen(small.instance.database.engine, "before_cursor_execute", on_statement)
    found.run()
    assert capsys.readouterr().err == "tta: the database cannot be reached: gone\n"
    assert small.state(submission) == "checked"
    causes.append(ProgrammingError)
    with pytest.raises(ProgrammingError):
        worker.Worker(small.instance).run()


@pytest.mark.slow
@pytest.mark.parametrize("clients", ["uploads", "runs"])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_nothing_acknowledged_is_lost_when_processes_are_killed(database: str, clients: str) -> None:
    """Of a real service, with six clients: `python -m tests.service_kills` does it at scale."""
    if database == "postgresql" and (why := service_kills.unavailable()) is not None:
        pytest.skip(why)

    line, faults = service_kills.attempt(4, database, clients, 6, 1)

    assert faults == [], line
