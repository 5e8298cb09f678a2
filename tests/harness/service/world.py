"""A service with three teams, for tests: over HTTP in this process, with a worker that is called by hand."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from harness.base.files import sha256_of
from harness.service import people, rounds, worker
from harness.service.beginning import First, begin
from harness.service.instance import Instance
from harness.service.rounds import Timetable
from harness.service.web import application
from tests import fabricate

START_MS = 1_763_800_000_000  # a day after the fabricated runs
DAY_MS = 86_400_000


class Time:
    """The service's clock, moved by hand; each look advances it by a millisecond."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms
        self._ticks = itertools.count()

    def __call__(self) -> int:
        return self.now_ms + next(self._ticks)

    def advance(self, days: float) -> None:
        self.now_ms += int(days * DAY_MS)


@dataclass
class Member:
    """A person with a client that has their token. tree: of their organisation's submissions."""

    name: str
    organisation: str
    token: str
    client: httpx2.Client
    tree: Path

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.client.get(f"/api/v1{path}", **options)

    def post(self, path: str, **options: Any) -> httpx2.Response:
        return self.client.post(f"/api/v1{path}", **options)


@dataclass
class World:
    """A service. acme and bits submit; carol audits and olga organises, both of host, which does not submit."""

    instance: Instance
    time: Time
    folder: Path
    client: TestClient
    members: dict[str, Member] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Member:
        try:
            return self.members[name]
        except KeyError:
            raise AttributeError(name) from None

    def join(self, name: str, organisation: str, **roles: bool) -> Member:
        """Add a person, and their organisation where it is new."""
        now_ms = self.instance.now_ms()
        with self.instance.database.write() as connection:
            found = people.organisation_named(connection, organisation)
            found = found or people.add_organisation(connection, organisation, now_ms)
            person = people.add_person(connection, name, found, now_ms, **roles)
            _, token = people.add_token(connection, person, "test", people.SCOPES, now_ms)
        return self.know(name, organisation, token)

    def know(self, name: str, organisation: str, token: str) -> Member:
        """Make the client of somebody who is in the database."""
        client = TestClient(self.client.app, headers={"authorization": f"Bearer {token}"})
        member = Member(name, organisation, token, client, self.folder / f"tree-{organisation}")
        self.members[name] = member
        return member

    def add_round(self, name: str, *, is_reviewed: bool = True, **times: int) -> str:
        with self.instance.database.write() as connection:
            timetable = Timetable(**{"opens_ms": self.time.now_ms, **times})
            return rounds.add_round(connection, self.instance, name, "v1", timetable, None, is_reviewed=is_reviewed)

    def work(self, most: int = 1000) -> int:
        """Do every job that is due; return how many there were."""
        done = 0
        while done < most and worker.work(self.instance, "test"):
            done += 1
        return done

    def submit(self, member: Member, *, round: str | None = None, finalise: bool = True, **options: Any) -> str:
        """Make a result of this member's organisation and send it; return the submission's id.

        options: of `fabricate.write_submission`; without any, each result is of another system.
        """
        folder = write_submission(member, **options)
        return send(member, folder, round=round, finalise=finalise)

    def state(self, submission: str) -> str:
        """The state of a submission, whoever may see it."""
        from harness.service import submissions

        with self.instance.database.read() as connection:
            return str(submissions.find(connection, submission, None).state)


_numbers = itertools.count()


def write_submission(member: Member, **options: Any) -> Path:
    """Write a valid result into the member's tree; return the tree."""
    shutil.rmtree(member.tree, ignore_errors=True)
    number = next(_numbers)
    system = {**fabricate.SYSTEM, "submitter": member.organisation, "system_name": f"box{number}"}
    fabricate.write_submission(member.tree, **{"system": system, **options})
    return member.tree


def listing(tree: Path) -> list[dict[str, Any]]:
    """The files of a tree as they are announced."""
    return [
        {"path": path.relative_to(tree).as_posix(), "sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    ]


def send(member: Member, tree: Path, *, round: str | None = None, finalise: bool = True, **more: Any) -> str:
    """Announce, send and finalise what is in a tree; return the submission's id."""
    files = listing(tree)
    body = {"files": files, **({"round": round} if round else {}), **more}
    answer = member.post("/submissions", json=body)
    assert answer.status_code in (200, 201), answer.text
    found = answer.json()
    if found["missing"]:
        sent = member.post(f"/submissions/{found['id']}/files", content=bundle(tree, found["missing"]))
        assert sent.status_code == 204, sent.text
    if finalise:
        ended = member.post(f"/submissions/{found['id']}/finalise")
        assert ended.status_code == 202, ended.text
    return str(found["id"])


def bundle(tree: Path, missing: list[dict[str, Any]]) -> bytes:
    """Missing files as one request sends them."""
    head = json.dumps([item["sha256"] for item in missing]).encode() + b"\n"
    return head + b"".join((tree / item["path"]).read_bytes() for item in missing)


@contextmanager
def world(folder: Path, database: str | None, *, is_reviewed: bool = False) -> Iterator[World]:
    """A service with its teams. database: the address of an empty one; None: SQLite."""
    first = First("board.test/log", "http://testserver/", "host", "olga", is_reviewed=is_reviewed)
    time = Time()
    token = begin(folder / "data", first, database, time)
    instance = Instance(folder / "data", now_ms=time)
    # A child has what this process has loaded: torch alone takes more addresses than a check may.
    object.__setattr__(instance.settings.limits, "check_memory_bytes", 1 << 40)
    client = TestClient(application(instance))
    found = World(instance, time, folder, client)
    found.know("olga", "host", token)
    found.join("carol", "host", is_auditor=True)
    found.join("alice", "acme")
    found.join("bob", "bits")
    try:
        yield found
    finally:
        instance.close()
