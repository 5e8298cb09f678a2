#!/usr/bin/env python3
"""The leaderboard's service under load: pages, submissions, uploads, heads of logs, hostile clients, and its keeping.

    python scripts/bench_board.py [--only pages,submissions,upload,reindex,backup,hostile,heads] [--results 100000]
    python scripts/bench_board.py --small              # every part in minutes, to see that it works

A service of its own is made for each part and each database, with a fabricated ruleset of six benchmarks. Some results
are announced, sent, checked and published over HTTP; the others are rows of the same shape, and events of the same log.
For `pages` they are spread over organisations, accelerators, scores and days, and one in ten repeats another; elsewhere
they differ from the first ones in nothing but their ids and organisation, so that what is derived can be made of the
same files again.

Clients are a process of their own, without threads, which reads no more of an answer than its length. It competes with
the server for the same cores: on two, one is the client's. Prints Markdown; times are milliseconds over HTTP on the
loopback. A request is measured from its first byte to the last one of its answer, and its connection, where each has
its own, is part of it.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import math
import multiprocessing
import os
import platform
import random
import re
import secrets
import selectors
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

import psutil  # noqa: E402
from sqlalchemy import insert, select, text  # noqa: E402

import rules  # noqa: E402
from harness.base.files import sha256_of  # noqa: E402
from harness.base.http import HttpClient  # noqa: E402
from harness.base.ids import new_id  # noqa: E402
from harness.base.processes import python_environment  # noqa: E402
from harness.board.pages.render import benchmark_slug  # noqa: E402
from harness.handin import sending  # noqa: E402
from harness.service import events, people, ranking, repetitions, schema  # noqa: E402
from harness.service.beginning import First, begin  # noqa: E402
from harness.service.blobs import unless_there  # noqa: E402
from harness.service.database import Database  # noqa: E402
from harness.service.events import News  # noqa: E402
from harness.service.instance import DATABASE_VARIABLE, Instance, wall_ms  # noqa: E402
from harness.service.repetitions import Pair  # noqa: E402
from harness.service.results import page_bytes, page_text, words_of  # noqa: E402
from tests import fabricate, postgres  # noqa: E402
from tests.rules_folder import write_ruleset  # noqa: E402

PARTS = ("pages", "submissions", "heads", "upload", "hostile", "reindex", "backup")
DATABASES = ("sqlite", "postgresql")
WORKLOADS = ("vision", "language", "speech", "detection", "games", "ranking")
BENCHMARKS = tuple(fabricate.benchmark_rules(workload=name) for name in WORKLOADS)
DIVISIONS = ("closed", "open")
ACCELERATORS = [f"{maker} {kind}{size}" for maker in ("Acme", "Borealis", "Cirrus", "Dyne") for kind in "AHX"
                for size in (100, 200, 300)]  # fmt: skip
TEAMS = ("acme", "bits", "cogs", "dots")
YEAR_MS = 365 * 86_400_000
# The command line with the fabricated rules in the place of those that are installed.
TTA = "import sys, rules; rules.__path__.insert(0, sys.argv.pop(1)); from harness.cli import main; sys.exit(main())"
MIB = 1 << 20


# What is asked for.


@dataclass(frozen=True)
class Size:
    """How much of everything. seconds: of each measurement."""

    results: int = 100_000
    real: int = 240
    tree: int = 1_000
    clients: int = 50
    seconds: float = 20.0
    runs: int = 500
    upload_mib: int = 2048
    cut_mib: int = 100


SMALL = Size(results=600, real=24, tree=24, clients=10, seconds=2.0, runs=50, upload_mib=48, cut_mib=10)


# A service.


@dataclass
class Service:
    """Processes of a service. tokens: of a member of each team. url: of the database; None: SQLite in the folder."""

    folder: Path
    rules: Path
    url: str | None
    organiser: str
    tokens: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    address: str = ""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def instance(self) -> Instance:
        return Instance(self.data, database=self.url)

    def command(self, *words: str) -> list[str]:
        data = [] if words[:1] == ("serve",) else ["--data", str(self.data)]
        return [sys.executable, "-c", TTA, str(self.rules), "board", *words, *data]

    def environment(self) -> dict[str, str]:
        chosen = {DATABASE_VARIABLE: self.url} if self.url else {}
        return {**python_environment(), "OMP_NUM_THREADS": "1", **chosen}

    def start(self, *words: str) -> subprocess.Popen[str]:
        command, environment = self.command(*words), self.environment()
        with (self.folder / "stderr").open("ab") as stderr:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.processes.append(process)
        return process

    def start_web(self, *words: str) -> subprocess.Popen[str]:
        process = self.start(*(words or ("web",)), "--port", "0")
        assert process.stdout is not None
        found = re.search(r"http://[^/ ]+/", process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the service did not start: {(self.folder / 'stderr').read_text()[-2000:]}")
        self.address = found[0]
        return process

    @property
    def web(self) -> psutil.Process:
        """The process that answers."""
        return psutil.Process(self.processes[0].pid)

    def run(self, *words: str) -> tuple[float, str]:
        """Run a command to its end; return its seconds and what it said."""
        started_s = time.monotonic()
        done = subprocess.run(
            self.command(*words), env=self.environment(), capture_output=True, text=True, check=False
        )  # fmt: skip
        said = (done.stdout + done.stderr).strip()
        if done.returncode != 0:
            raise RuntimeError(f"tta board {' '.join(words)} ended with status {done.returncode}: {said[-2000:]}")
        return time.monotonic() - started_s, said

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()

    def connect(self, timeout_s: float = 60.0) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout_s)


@contextmanager
def service(place: Path, kind: str, cluster: postgres.Cluster | None) -> Iterator[Service]:
    """A service without results, whose round publishes what passes the check."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=place))
    url = cluster.database() if kind == "postgresql" and cluster is not None else None
    first = First("bench.test/log", "http://127.0.0.1/", "host", "olga", is_reviewed=False)
    token = begin(folder / "data", first, url)
    found = Service(folder, place / "rules", url, token)
    instance = found.instance()
    with instance.database.write() as connection:
        for team in TEAMS:
            organisation = people.add_organisation(connection, team, wall_ms())
            person = people.add_person(connection, f"{team}'s", organisation, wall_ms())
            _, found.tokens[team] = people.add_token(connection, person, "bench", people.SCOPES, wall_ms())
    instance.close()
    try:
        yield found
    finally:
        found.stop()
        if url is not None and cluster is not None:
            cluster.drop(url)
        shutil.rmtree(folder, ignore_errors=True)


# Results.


@dataclass(frozen=True)
class Parcel:
    """A submission as it is sent: its list of files, and their contents by digest."""

    team: str
    listing: bytes
    contents: dict[str, bytes]


def parcels(folder: Path, num: int, start: int = 0, **options: Any) -> list[Parcel]:
    """Make results of five runs each, every one of another system: benchmarks, divisions and teams take turns."""
    num_processes = os.cpu_count() or 1
    with ProcessPoolExecutor(num_processes, multiprocessing.get_context("spawn")) as pool:
        numbers = range(start, start + num)
        return list(pool.map(parcel, [folder] * num, numbers, [options] * num, chunksize=8))


def parcel(folder: Path, number: int, options: dict[str, Any]) -> Parcel:
    """Make result `number`."""
    tree = folder / f"made-{number}"
    written = write(tree, number, options)
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    listing = [
        {"path": path.relative_to(tree).as_posix(), "sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in files
    ]
    contents = {str(item["sha256"]): path.read_bytes() for item, path in zip(listing, files, strict=True)}
    found = Parcel(written, json.dumps({"files": listing}).encode(), contents)
    shutil.rmtree(tree)
    return found


def write(tree: Path, number: int, options: dict[str, Any]) -> str:
    """Write result `number` into a tree; return its team."""
    team = TEAMS[number // 12 % len(TEAMS)]
    draw = random.Random(number)
    system = {
        **fabricate.SYSTEM, "submitter": team, "system_name": f"box{number}",
        "accelerators_per_node": str(draw.choice((1, 4, 8))), "accelerator_model_name": draw.choice(ACCELERATORS),
    }  # fmt: skip
    fabricate.write_submission(
        tree, system=system, rules=BENCHMARKS[number % 6], division=DIVISIONS[number // 6 % 2],
        eval_s=draw.uniform(0.3, 0.9), **options,
    )  # fmt: skip
    return team


def send(connection: http.client.HTTPConnection, token: str, what: Parcel) -> str:
    """Announce, send and finalise; return the submission's id."""

    def asked(method: str, path: str, body: bytes, kind: str) -> bytes:
        connection.request(method, path, body, {"authorization": f"Bearer {token}", "content-type": kind})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status}: {data[:300]!r}")
        return data

    announced = json.loads(asked("POST", "/api/v1/submissions", what.listing, "application/json"))
    place = f"/api/v1/submissions/{announced['id']}"
    wanted = [item["sha256"] for item in announced["missing"]]
    bundle = json.dumps(wanted).encode() + b"\n" + b"".join(what.contents[digest] for digest in wanted)
    asked("POST", f"{place}/files", bundle, "application/octet-stream")
    asked("POST", f"{place}/finalise", b"", "application/json")
    return str(announced["id"])


def publish(found: Service, made: Sequence[Parcel]) -> float:
    """Send results, and have them checked and published by a worker; return the seconds."""
    started_s = time.monotonic()
    found.start_web()
    found.start("worker")
    connection = found.connect()
    for item in made:
        send(connection, found.tokens[item.team], item)
    connection.close()
    instance = found.instance()
    table = schema.submission
    query = select(text("count(*)")).select_from(table).where(table.c.state == "published")
    unranked = select(text("count(*)")).select_from(schema.job).where(schema.job.c.state.in_(("ready", "leased")))
    while True:
        with instance.database.read() as reader:
            if reader.execute(query).scalar_one() == len(made) and reader.execute(unranked).scalar_one() == 0:
                break
        time.sleep(0.2)
    instance.close()
    found.stop()
    return time.monotonic() - started_s


def multiply(found: Service, wanted: int, *, is_spread: bool) -> None:
    """Add copies of the published results until there are `wanted`: the same rows, and events of the same log.

    is_spread: their scores, systems, accelerators and days differ; their rows are then not what their files make.
    """
    instance = found.instance()
    with instance.database.read() as connection:
        originals = [_Original(connection, row) for row in connection.execute(schema.submission.select()).mappings()]
    source = random.Random(0)
    popularity = [1.0 / (1 + BENCHMARK_NAMES.index(item.row["benchmark"])) for item in originals]
    num = wanted - len(originals)
    teams = _teams(instance, math.ceil(num / len(originals)))
    repeated = _Repeated(originals[0].repeatable["document"])
    for start in range(0, num, 1000):
        copies = [
            (source.choices(originals, popularity)[0] if is_spread else originals[number % len(originals)], number)
            for number in range(start, min(start + 1000, num))
        ]
        with instance.database.write() as connection:
            rows: dict[Any, list[dict[str, Any]]] = {table: [] for table in _TABLES}
            news: list[News] = []
            now_ms = wall_ms()
            for original, number in copies:
                who = teams[number // len(originals)]
                original.copy(rows, news, who, number, now_ms, source if is_spread else None)
                if is_spread:
                    repeated.mark(rows, number, source)
            for table, values in rows.items():
                if not values:
                    continue
                statement = unless_there(connection.dialect, table) if table is schema.blob_holder else insert(table)
                connection.execute(statement, values)
            events.append_all(connection, now_ms, news)
    for key in _tables(instance):
        with instance.database.write() as connection:
            ranking.write_table(connection, key)
    if not instance.database.is_sqlite:
        with instance.database.write() as connection:
            connection.execute(text("ANALYZE"))
    instance.close()


BENCHMARK_NAMES = [item.name for item in BENCHMARKS]
_TABLES = (
    schema.submission, schema.submission_file, schema.blob_holder, schema.verdict, schema.board_row, schema.word,
    schema.page, schema.job, schema.repeatable, schema.repetition,
)  # fmt: skip
ONE_IN = 10  # results repeats another


def _tables(instance: Instance) -> list[ranking.TableKey]:
    with instance.database.read() as connection:
        return ranking.tables(connection)


@dataclass(frozen=True)
class _Team:
    """An organisation with somebody. organisation, person: ids."""

    name: str
    organisation: str
    person: str


def _teams(instance: Instance, num: int) -> list[_Team]:
    with instance.database.write() as connection:
        found = []
        for number in range(num):
            name = f"{random.Random(number).choice(('lab', 'works', 'group', 'team'))}-{number:03}"
            organisation = people.add_organisation(connection, name, wall_ms())
            person = people.add_person(connection, f"{name}'s", organisation, wall_ms())
            found.append(_Team(name, organisation, person))
    return found


class _Repeated:
    """Makes copies repeat others. document: what is said of each pair."""

    def __init__(self, facts: str) -> None:
        known = json.loads(facts)
        again = {**known, "digest": "", "repeats": known["digest"], "seeds": [seed + 1000 for seed in known["seeds"]]}
        [self.document] = repetitions.compared([Pair("", "", facts, json.dumps(again), 0, is_ranked=True)])
        self.verdicts: list[str] = []

    def mark(self, rows: dict[Any, list[dict[str, Any]]], number: int, source: random.Random) -> None:
        """Give the newest copy a digest of its own, and have one in `ONE_IN` repeat an earlier one."""
        row = rows[schema.board_row][-1]
        row["digest"], row["repeats"] = _digest(number), None
        if number % ONE_IN == ONE_IN - 1:
            other = source.randrange(len(self.verdicts))
            row["repeats"] = _digest(other)
            pair = {"original": self.verdicts[other], "again": row["verdict"], "document": self.document}
            rows[schema.repetition].append(pair)
        self.verdicts.append(row["verdict"])


def _digest(number: int) -> str:
    return hashlib.sha256(f"logs {number}".encode()).hexdigest()


class _Original:
    """A published submission with all that hangs on it."""

    def __init__(self, connection: Any, row: Any) -> None:
        self.row = dict(row)

        def of(table: Any, column: str, value: str) -> list[dict[str, Any]]:
            return [
                dict(item) for item in connection.execute(table.select().where(table.c[column] == value)).mappings()
            ]

        verdict = self.row["verdict"]
        self.files = of(schema.submission_file, "submission", self.row["id"])
        [self.verdict], [self.board_row] = of(schema.verdict, "id", verdict), of(schema.board_row, "verdict", verdict)
        [self.repeatable] = of(schema.repeatable, "verdict", verdict)
        [self.page], [self.job] = of(schema.page, "verdict", verdict), of(schema.job, "subject", self.row["id"])[:1]
        self.events = [item.event for item in events.of_subject(connection, self.row["id"])]

    def copy(
        self, rows: dict[Any, list[dict[str, Any]]], news: list[News], who: _Team, number: int, now_ms: int,
        source: random.Random | None,
    ) -> None:  # fmt: skip
        at_ms = self.row["published_ms"] - source.randrange(3 * YEAR_MS) if source else now_ms
        submission, verdict = new_id(at_ms), new_id(at_ms)
        row = {**self.row, "id": submission, "verdict": verdict, "organisation": who.organisation, "person": who.person,
               "published_ms": at_ms, "changed_ms": at_ms, "idempotency_key": None}  # fmt: skip
        if source is None:  # as its events say, which `verify` compares
            row |= {"created_ms": now_ms, "received_ms": now_ms}
        board_row = {**self.board_row, "verdict": verdict, "submission": submission}
        if source is not None:
            self._spread(row, board_row, who, number, source)
        rows[schema.submission].append(row)
        rows[schema.submission_file].extend({**item, "submission": submission} for item in self.files)
        rows[schema.blob_holder].extend(
            {"sha256": digest, "organisation": who.organisation} for digest in {item["sha256"] for item in self.files}
        )
        rows[schema.verdict].append({**self.verdict, "id": verdict, "submission": submission})
        rows[schema.board_row].append(board_row)
        html = self.page["html"]
        if source is None:  # it names the submission
            html = page_bytes(page_text(html).replace(self.row["id"], submission))
        rows[schema.repeatable].append({**self.repeatable, "verdict": verdict})
        rows[schema.page].append({"verdict": verdict, "html": html})
        rows[schema.word].extend({"word": word, "submission": submission} for word in board_row["words"].split())
        rows[schema.job].append({**self.job, "id": new_id(at_ms), "subject": submission, "owner": who.organisation})
        for event in self.events:
            body = {**event["body"], **({"verdict": verdict} if "verdict" in event["body"] else {})}
            news.append(News(event["kind"], submission, body, who.person if event["actor"] else None))

    def _spread(
        self, row: dict[str, Any], board_row: dict[str, Any], who: _Team, number: int, source: random.Random
    ) -> None:
        factor = source.lognormvariate(0.0, 0.7)
        name = source.choice(("atlas", "birch", "comet", "delta", "ember", "fjord"))
        row["manifest_sha256"] = hashlib.sha256(str(number).encode()).hexdigest()
        row["system"] = f"{name}-{source.randrange(2_000)}"
        row["accelerator"] = board_row["accelerator"] = source.choice(ACCELERATORS)
        board_row["num_accelerators"] = 2 ** source.randrange(11)
        document = json.loads(board_row["document"])
        for column, key in (("seconds", "seconds"), ("measured_seconds", "measured_seconds")):
            board_row[column] = document["score"][key] = board_row[column] * factor
        document["score"]["interval"] = [value * factor for value in document["score"]["interval"]]
        board_row["low"], board_row["high"] = document["score"]["interval"]
        board_row["joules"] = source.choice((None, board_row["seconds"] * 300.0))
        board_row["words"] = words_of(who.name, row["system"], row["accelerator"], row["benchmark"])
        board_row["document"] = json.dumps(document, sort_keys=True, separators=(",", ":"))


# Clients.


@dataclass(frozen=True)
class Load:
    """What clients of one kind do.

    requests: of which each is drawn; with a rate, they are sent in this order.
    rate: requests a second of all clients, whatever the answers take, each on a connection of its own; None: each
    client asks again as soon as it has its answer.
    source: the address that they come from.
    """

    requests: Sequence[bytes]
    clients: int
    seconds: float
    rate: float | None = None
    source: str = "127.0.0.1"


@dataclass(frozen=True)
class Times:
    """Milliseconds of answers, and how many there were a second. statuses: how often each was answered.

    num_asked: also before they were measured. cpu_ms: of the server, for each.
    """

    ms: list[float]
    per_s: float
    statuses: dict[int, int] = field(default_factory=dict)
    num_asked: int = 0
    cpu_ms: float = math.nan

    def at(self, fraction: float) -> float:
        """The time within which this fraction was answered."""
        ordered = sorted(self.ms)
        return ordered[min(len(ordered) - 1, math.ceil(fraction * len(ordered)) - 1)] if ordered else math.nan

    @property
    def cells(self) -> str:
        wrong = {status: num for status, num in self.statuses.items() if not 200 <= status < 300}
        said = f" ({wrong})" if wrong else ""
        ms = " | ".join(f"{self.at(fraction):.1f}" for fraction in (0.5, 0.95, 0.99))
        return f"{self.per_s:,.0f}{said} | {ms} | {self.cpu_ms:.2f}"


class _Client:
    """One connection. due_s: when its request was to be sent; status: of the last answer; 0: there was none."""

    def __init__(self, address: tuple[str, int], source: str, selector: selectors.BaseSelector) -> None:
        self._address, self._source, self._selector = address, source, selector
        self._socket: socket.socket | None = None
        self._unsent, self._received, self._wanted = b"", bytearray(), -1
        self.due_s, self.status = 0.0, 0

    def ask(self, request: bytes, due_s: float) -> None:
        self._unsent, self._wanted, self.due_s, self.status = request, -1, due_s, 0
        self._received.clear()
        if self._socket is None:
            self._socket = socket.socket()
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.bind((self._source, 0))
            self._socket.connect_ex(self._address)
            self._selector.register(self._socket, selectors.EVENT_WRITE, self)
        else:
            self._selector.modify(self._socket, selectors.EVENT_WRITE, self)

    def go_on(self) -> bool:
        """Send and read what can be; True if that was the end of the answer, or of the connection."""
        assert self._socket is not None
        try:
            if self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
                if not self._unsent:
                    self._selector.modify(self._socket, selectors.EVENT_READ, self)
                return False
            data = self._socket.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            self.close()
            return True
        self._received += data
        if self._wanted < 0 and (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", self._received[: end + 2])
            assert found is not None, bytes(self._received[:500])
            self._wanted = end + 4 + int(found[1])
        if not 0 <= self._wanted <= len(self._received):
            return False
        self.status = int(self._received[9:12])
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None


def loaded(address: tuple[str, int], load: Load, warm_s: float = 1.0) -> Times:
    """Ask a server for `load.seconds`, after a second that is not measured; in a process of its own."""
    source, selector = random.Random(0), selectors.DefaultSelector()
    idle = [_Client(address, load.source, selector) for _ in range(load.clients)]
    ms: list[float] = []
    statuses: Counter[int] = Counter()
    begun_s = time.monotonic()
    measured_s, ends_s = begun_s + warm_s, begun_s + warm_s + load.seconds
    num_asked = 0
    while (now_s := time.monotonic()) < ends_s or len(idle) < load.clients:
        if now_s > ends_s + 60:
            raise RuntimeError(f"{load.clients - len(idle)} requests were not answered within a minute")
        wait_s = 0.5
        while idle and now_s < ends_s:
            due_s = now_s if load.rate is None else begun_s + num_asked / load.rate
            if due_s > now_s:
                wait_s = due_s - now_s
                break
            number = source.randrange(len(load.requests)) if load.rate is None else num_asked % len(load.requests)
            num_asked += 1
            idle.pop().ask(load.requests[number], due_s)
        for key, _ in selector.select(wait_s):
            client = key.data
            if not client.go_on():
                continue
            if client.due_s >= measured_s:
                ms.append((time.monotonic() - client.due_s) * 1e3)
                statuses[client.status] += 1
            if load.rate is not None:
                client.close()
            idle.append(client)
    for client in idle:
        client.close()
    return Times(ms, len(ms) / load.seconds, dict(statuses), num_asked)


def measured(found: Service, load: Load) -> Times:
    """Return what `loaded` does, in a process of its own, and what it costs the server."""
    parts = urlsplit(found.address)
    before = found.web.cpu_times()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        times = pool.submit(loaded, (str(parts.hostname), parts.port or 80), load).result()
    after = found.web.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return replace(times, cpu_ms=cpu_s * 1e3 / times.num_asked)


def get(path: str, *, is_kept: bool = True) -> bytes:
    """A request for a page. is_kept: its connection, for the next one."""
    said = "" if is_kept else "connection: close\r\n"
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{said}\r\n".encode()


def post(path: str, body: dict[str, Any], token: str) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\nconnection: close\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def memory_mib(process: subprocess.Popen[str]) -> float:
    """The most memory that a process has had."""
    said = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", said)
    assert found is not None
    return int(found[1]) / 1024


# The parts.


@dataclass
class Bench:
    """What a part needs. place: a folder of the whole run, with the rules."""

    place: Path
    size: Size
    databases: Sequence[str]
    cluster: postgres.Cluster | None

    def services(self) -> Iterator[tuple[str, Service]]:
        for kind in self.databases:
            with service(self.place, kind, self.cluster) as found:
                yield kind, found

    def filled(self, *, is_spread: bool) -> Iterator[tuple[str, Service]]:
        """Yield services with `size.results` results."""
        made = parcels(self.place, self.size.real)
        for kind, found in self.services():
            started_s = time.monotonic()
            publish(found, made)
            multiply(found, self.size.results, is_spread=is_spread)
            say(f"{kind}: {self.size.results:,} results, of which {self.size.real} over HTTP, made in "
                f"{time.monotonic() - started_s:.0f} s")  # fmt: skip
            yield kind, found


def say(text_: str = "") -> None:
    print(text_, flush=True)


def bench_pages(bench: Bench) -> None:
    """Pages and the interface, against `tta board serve TREE` on as many results as it can be given."""
    size = bench.size
    shown = {"TREE": _of_tree(bench)}
    for kind, found in bench.filled(is_spread=True):
        process = found.start_web()
        shown[kind] = {}
        for name, paths in _asked(found).items():
            load = Load([get(path) for path in paths], size.clients, size.seconds)
            shown[kind][name] = measured(found, load)
        say(f"{kind}: the server had at most {memory_mib(process):.0f} MiB")
        found.stop()
    say(f"\n{size.clients} clients that ask again at once, {size.seconds:.0f} s each\n")
    say("| page | served from | requests/s | p50 | p95 | p99 | CPU of the server |\n|---|---|---:|---:|---:|---:|---:|")
    for name in next(reversed(shown.values())):
        for kind, times in shown.items():
            if name in times:
                where = f"a folder of {size.tree:,}" if kind == "TREE" else f"{kind}, {size.results:,}"
                say(f"| {name} | {where} | {times[name].cells} |")


def _of_tree(bench: Bench) -> dict[str, Times]:
    """Measure today's static pages, of a folder of `size.tree` results."""
    tree, size = bench.place / "tree", bench.size
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        list(pool.map(write, [tree] * size.tree, range(size.tree), [{}] * size.tree, chunksize=8))
    found, started_s = Service(bench.place, bench.place / "rules", None, ""), time.monotonic()
    try:
        found.start_web("serve", str(tree))
        say(f"a folder of {size.tree:,} results: {time.monotonic() - started_s:.0f} s until it was served")
        connection = found.connect()
        tables, pages = [f"/benchmarks/{benchmark_slug(name)}.html" for name in BENCHMARK_NAMES], set[str]()
        for table in tables:
            connection.request("GET", table)
            pages.update(re.findall(r"results/[^\"#]+\.html", connection.getresponse().read().decode()))
        connection.close()
        asked = {"board": ["/index.html"], "benchmark": tables, "result": [f"/{page}" for page in sorted(pages)]}
        return {
            name: measured(found, Load([get(path) for path in paths], size.clients, size.seconds))
            for name, paths in asked.items()
        }
    finally:
        found.stop()
        shutil.rmtree(tree)


def _asked(found: Service) -> dict[str, list[str]]:
    """What is asked for, by the kind of page."""
    source, row = random.Random(1), schema.board_row
    instance = found.instance()
    with instance.database.read() as connection:
        query = select(row.c.submission, row.c.verdict, row.c.benchmark, row.c.division, row.c.seconds)
        rows = connection.execute(query.order_by(row.c.verdict)).all()
        teams = [item for item in people.organisations(connection) if "-" in item]
    instance.close()
    rows = source.sample(rows, min(2_000, len(rows)))
    tables = [(name, division) for name in BENCHMARK_NAMES for division in DIVISIONS]
    words = [
        *teams, *(team[:-1] for team in teams), *ACCELERATORS,
        *(f"{name}-{source.randrange(2_000)}" for name in ("atlas", "birch", "comet") for _ in range(200)),
        *(f"{source.choice(teams)} {source.choice(ACCELERATORS).split()[1]}" for _ in range(400)),
        *(f"{source.choice(ACCELERATORS)} {source.choice(WORKLOADS)}" for _ in range(200)),
    ]  # fmt: skip
    further = [
        f"/benchmarks/{benchmark_slug(item.benchmark)}.html?division={item.division}"
        f"&after={item.seconds!r}.{item.verdict}"
        for item in rows
    ]
    return {
        "board": ["/"],
        "benchmark": [f"/benchmarks/{benchmark_slug(name)}.html?division={division}" for name, division in tables],
        "benchmark, a further page": further,
        "record": [
            f"/api/v1/boards/{name}/records?division={division}{more}"
            for name, division in tables
            for more in ("", *(f"&accelerator={quote(item)}" for item in ACCELERATORS[::6]))
        ],
        "search": [f"/search?q={quote(item)}" for item in words],
        "result": [f"/results/{item.submission}.html" for item in rows],
        "submission": [f"/submissions/{item.submission}" for item in rows],
        "interface: board": [f"/api/v1/boards/{name}?division={division}" for name, division in tables],
        "interface: search": [f"/api/v1/search?q={quote(item)}" for item in words],
        "interface: submission": [f"/api/v1/submissions/{item.submission}" for item in rows],
    }


def bench_submissions(bench: Bench) -> None:
    """How many are accepted a minute without a worker, and how long a verdict takes with two at 100 a minute."""
    num = max(20, int(bench.size.seconds * 60))
    made = parcels(bench.place, num)
    rated = made[: max(10, int(bench.size.seconds * 6))]
    mean = statistics.mean(sum(map(len, item.contents.values())) for item in made) / 1e3
    say(f"submissions of five logs, {mean:.0f} kB each on average\n")
    say("| database | accepted a minute, 8 senders | to a verdict at 100 a minute, 2 workers: median s | 95 % | most |")
    say("|---|---:|---:|---:|---:|")
    for kind, found in bench.services():
        per_minute = _accepted(found, made, bench.size.seconds)
        with service(bench.place, kind, bench.cluster) as other:
            waits = _waited(other, rated)
        cells = " | ".join(f"{value:.1f}" for value in (waits.at(0.5), waits.at(0.95), max(waits.ms)))
        say(f"| {kind} | {per_minute:,.0f} | {cells} |")


def _accepted(found: Service, made: Sequence[Parcel], seconds: float) -> float:
    """Send for `seconds`; return how many were accepted a minute."""
    found.start_web()
    left, done = iter(made), [0]
    ends_s = time.monotonic() + seconds
    lock = threading.Lock()

    def sender(_: int) -> None:
        connection = found.connect()
        while time.monotonic() < ends_s:
            with lock:
                item = next(left, None)
            if item is None:
                break
            send(connection, found.tokens[item.team], item)
            with lock:
                done[0] += 1
        connection.close()

    started_s = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sender, range(8)))
    taken_s = time.monotonic() - started_s
    found.stop()
    return done[0] / taken_s * 60


def _waited(found: Service, made: Sequence[Parcel]) -> Times:
    """Send 100 a minute to a service with two workers; return the seconds from each receipt to the verdict."""
    found.start_web()
    for _ in range(2):
        found.start("worker")
    connection, begun_s = found.connect(), time.monotonic()
    for number, item in enumerate(made):
        time.sleep(max(0.0, begun_s + number * 0.6 - time.monotonic()))
        send(connection, found.tokens[item.team], item)
        connection.close()  # the server does not wait for the next one
    instance, table, verdict = found.instance(), schema.submission, schema.verdict
    waited = (
        select(table.c.received_ms, verdict.c.at_ms, verdict.c.is_valid)
        .select_from(table.join(verdict, verdict.c.id == table.c.verdict))
    )  # fmt: skip
    deadline_s = time.monotonic() + 120
    while True:
        with instance.database.read() as reader:
            rows = reader.execute(waited).all()
        if len(rows) == len(made):
            break
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{len(made) - len(rows)} submissions have no verdict after two minutes")
        time.sleep(0.5)
    instance.close()
    found.stop()
    assert all(row.is_valid for row in rows)
    return Times([(row.at_ms - row.received_ms) / 1e3 for row in rows], len(rows))


def bench_heads(bench: Bench) -> None:
    """Runs that send a head every ten seconds, each on a connection of its own, as `tta run --witness` does."""
    size = bench.size
    seconds = max(size.seconds, 60.0) if size.runs >= 500 else size.seconds
    say(f"heads of {size.runs} runs, {size.runs / 10:.0f} a second for {seconds:.0f} s\n")
    say("| database | heads/s | p50 | p95 | p99 | CPU of the server |\n|---|---:|---:|---:|---:|---:|")
    for kind, found in bench.services():
        found.start_web()
        requests = _head_requests(found, size.runs, math.ceil(seconds / 10) + 2)
        times = measured(found, Load(requests, 200, seconds, size.runs / 10))
        say(f"| {kind} | {times.cells} |")


def _head_requests(found: Service, num_runs: int, num_heads: int) -> list[bytes]:
    """Open a campaign and take a ticket for each run; return the heads in the order in which they are sent."""
    connection = found.connect()

    def asked(path: str, body: dict[str, Any], token: str) -> str:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 201, said
        return str(said["id"])

    tickets = []
    for number in range(num_runs):
        token = found.tokens[TEAMS[number % len(TEAMS)]]
        digests = dict.fromkeys(("system_sha256", "code_sha256", "config_sha256"), f"{number:064x}")
        campaign = {"benchmark": BENCHMARK_NAMES[0], "division": "closed", "num_runs": 5, **digests}
        opened = asked("/api/v1/campaigns", campaign, token)
        nonces = {"client_nonce": secrets.token_hex(32), "host_sha256": "0" * 64}
        tickets.append((asked(f"/api/v1/campaigns/{opened}/tickets", nonces, token), token))
    connection.close()
    return [
        post(
            f"/api/v1/tickets/{ticket}/heads",
            {"number": number + 1, "seq": number, "head": "a" * 64, "elapsed_ns": 10**10 * number}, token,
        )
        for number in range(num_heads)
        for ticket, token in tickets
    ]  # fmt: skip


def bench_upload(bench: Bench) -> None:
    """One large file by `tta submit`'s own client, over a link that is cut again and again."""
    size = bench.size
    path = bench.place / "large"
    with path.open("wb") as stream:
        for _ in range(size.upload_mib):
            stream.write(secrets.token_bytes(MIB))
    num_bytes, sha256 = path.stat().st_size, sha256_of(path)
    say(f"a file of {size.upload_mib:,} MiB over a link that is cut every {size.cut_mib} MiB\n")
    say("| database | s | cuts | sent twice | digest |\n|---|---:|---:|---:|---|")
    for kind, found in bench.services():
        found.start_web()
        with Link(found.address, size.cut_mib * MIB) as link:
            client = HttpClient(link.address, found.tokens[TEAMS[0]])
            started_s = time.monotonic()
            sending.upload(client, path, sha256, num_bytes, lambda said: None)
            taken_s = time.monotonic() - started_s
        instance = found.instance()
        fault = instance.blobs.matches(instance.blobs.path(sha256), sha256, num_bytes)
        instance.close()
        twice = link.num_bytes / num_bytes - 1
        say(f"| {kind} | {taken_s:.0f} | {link.num_cuts} | {twice:.2%} | {fault or 'right'} |")
    path.unlink()


class Link:
    """A proxy on the loopback that passes everything on, and closes all connections each time so much was sent."""

    def __init__(self, target: str, cut_bytes: int) -> None:
        parts = urlsplit(target)
        self._target, self._cut_bytes = (str(parts.hostname), parts.port), cut_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.num_bytes = self.num_cuts = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Link:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        """One connection after the other: the client has no more than one."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, socket.create_connection(self._target) as server:
                self._pass(client, server)

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            for one, other in ((client, server), (server, client)):
                selector.register(one, selectors.EVENT_READ, other)
            while True:
                for key, _ in selector.select():
                    try:
                        data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    except ConnectionResetError:
                        return
                    if not data:
                        return
                    if key.data is server:
                        self.num_bytes += len(data)
                        if self.num_bytes // self._cut_bytes > self.num_cuts:
                            self.num_cuts += 1
                            return
                    key.data.sendall(data)


def bench_hostile(bench: Bench) -> None:
    """Clients that send without end, or hardly at all, from one address; and what others at another see of it."""
    size = bench.size
    say("| database | hostile clients | memory, MiB | others/s | p50 | p95 | p99 | CPU of the server |")
    say("|---|---|---:|---:|---:|---:|---:|---:|")
    for kind, found in bench.services():
        asked = [get(path, is_kept=False) for path in ("/", "/rounds", "/api/v1/boards")]
        requests = asked * math.ceil(size.seconds * 20)
        for name, attack in {"none": None, **ATTACKS}.items():
            process = found.start_web()
            with _attacked(found, attack):
                times = measured(found, Load(requests, 100, size.seconds, rate=50.0))
            say(f"| {kind} | {name} | {memory_mib(process):.0f} | {times.cells} |")
            found.stop()


@contextmanager
def _attacked(found: Service, attack: Callable[..., None] | None) -> Iterator[None]:
    """Have a process attack a service meanwhile."""
    if attack is None:
        yield
        return
    parts = urlsplit(found.address)
    process = multiprocessing.get_context("spawn").Process(
        target=attack, args=((str(parts.hostname), parts.port), found.tokens[TEAMS[0]]), daemon=True
    )
    process.start()
    time.sleep(1.0)
    try:
        yield
        assert process.is_alive(), "the hostile clients gave up"
    finally:
        process.kill()
        process.join()


HOSTILE = "127.0.0.2"


def _hostile(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, 10, (HOSTILE, 0))


def _endlessly(address: tuple[str, int], head: bytes, pieces: Callable[[], bytes], num: int = 20) -> None:
    """Keep so many connections on which pieces are sent as fast as they are taken; what is closed is replaced."""

    def one(_: int) -> None:
        while True:
            try:
                with _hostile(address) as connection:
                    connection.sendall(head)
                    while True:
                        connection.sendall(pieces())
            except OSError:
                time.sleep(0.05)

    with ThreadPoolExecutor(num) as pool:
        list(pool.map(one, range(num)))


def attack_bodies(address: tuple[str, int], token: str) -> None:
    """Chunked bodies without an end, to a route that takes JSON."""
    data = b"x" * 65536
    chunk = b"%x\r\n" % len(data) + data + b"\r\n"
    head = f"POST /api/v1/submissions HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\n"
    head += "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    _endlessly(address, head.encode(), lambda: chunk)


def attack_by_holding(address: tuple[str, int], token: str) -> None:
    """200 bodies of 4 MiB, as much as a list of files may have, that stop before their end."""
    head = "POST /api/v1/submissions HTTP/1.1\r\nhost: b\r\ncontent-type: application/json\r\n"
    _hold(address, f"{head}content-length: {4 * MIB}\r\n\r\n".encode() + b" " * (4 * MIB - 1), 200)


def attack_bundles(address: tuple[str, int], token: str) -> None:
    """20 bundles of files of 60 MiB that stop before their end."""
    team, digest, num_bytes = TEAMS[0], "0" * 64, 60 * MIB
    result = f"{team}/results/box/{BENCHMARK_NAMES[0]}"
    files = [{"path": f"{result}/{name}", "sha256": digest, "bytes": num_bytes} for name in ("submission.yaml",)]
    client = http.client.HTTPConnection(*address)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    client.request("POST", "/api/v1/submissions", json.dumps({"files": files}), headers)
    found = json.loads(client.getresponse().read())["id"]
    client.close()
    body = json.dumps([digest]).encode() + b"\n" + b"x" * num_bytes
    head = f"POST /api/v1/submissions/{found}/files HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\n"
    head += f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    _hold(address, head.encode() + body[:-1], 20)


def _hold(address: tuple[str, int], request: bytes, num: int) -> None:
    """Keep so many connections on which all of a request but its end was sent."""

    def one(_: int) -> None:
        while True:
            with contextlib.suppress(OSError), _hostile(address) as connection:
                connection.settimeout(60)
                connection.sendall(request)
                connection.recv(1)  # an answer, or that the connection was closed
            time.sleep(0.05)

    with ThreadPoolExecutor(num) as pool:
        list(pool.map(one, range(num)))


def attack_uploads(address: tuple[str, int], token: str) -> None:
    """Chunked pieces of uploads without an end, each of an upload that was announced with 1 MiB."""
    data = b"x" * 65536
    chunk = b"%x\r\n" % len(data) + data + b"\r\n"
    metadata = base64.b64encode(b"0" * 64).decode()
    heads = []
    client = http.client.HTTPConnection(*address)
    for _ in range(20):
        headers = {"authorization": f"Bearer {token}", "tus-resumable": "1.0.0", "upload-length": str(MIB),
                   "upload-metadata": f"sha256 {metadata}"}  # fmt: skip
        client.request("POST", "/api/v1/uploads", headers=headers)
        answer = client.getresponse()
        answer.read()
        place = urlsplit(str(answer.getheader("location"))).path
        heads.append(
            f"PATCH {place} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\ntus-resumable: 1.0.0\r\n"
            "upload-offset: 0\r\ncontent-type: application/offset+octet-stream\r\n"
            "transfer-encoding: chunked\r\n\r\n"
        )
    client.close()
    _endlessly(address, random.choice(heads).encode(), lambda: chunk)


def attack_headers(address: tuple[str, int], token: str) -> None:
    """A million headers in one request."""
    _endlessly(address, b"GET / HTTP/1.1\r\nhost: b\r\n", lambda: b"x-a: b\r\n" * 1000)


def attack_slowly(address: tuple[str, int], token: str) -> None:
    """Connections on which a byte of a request comes each second; more than the server has descriptors for."""
    head = b"GET / HTTP/1.1\r\nhost: b\r\nx-a: " + b"b" * 100_000
    open_ones: list[tuple[socket.socket, int]] = []
    while True:
        kept = []
        for connection, at in open_ones:
            with contextlib.suppress(OSError):
                connection.sendall(head[at : at + 1])
                kept.append((connection, at + 1))
        for _ in range(max(0, 600 - len(kept))):
            with contextlib.suppress(OSError):
                kept.append((_hostile(address), 0))
        open_ones = kept
        time.sleep(1.0)


ATTACKS: dict[str, Callable[..., None]] = {
    "20 bodies without an end": attack_bodies,
    "200 bodies of 4 MiB that stop before their end": attack_by_holding,
    "20 bundles of 60 MiB that stop before their end": attack_bundles,
    "20 uploads without an end": attack_uploads,
    "20 times headers without an end": attack_headers,
    "600 slow writers": attack_slowly,
}


def bench_reindex(bench: Bench) -> None:
    """Everything that is derived, made of the files again, and compared byte by byte."""
    say("| database | results | `reindex --verify`, s | results/s | differences |\n|---|---:|---:|---:|---:|")
    for kind, found in bench.filled(is_spread=False):
        taken_s, said = found.run("reindex", "--verify")
        num = bench.size.results
        say(f"| {kind} | {num:,} | {taken_s:.0f} | {num / taken_s:.0f} | {said} |")


def bench_backup(bench: Bench) -> None:
    """A backup, what is made of it, and whether that is what it was."""
    say("| database | results | backup, s | restore and verify, s | size, MB |\n|---|---:|---:|---:|---:|")
    for kind, found in bench.filled(is_spread=False):
        backup_s, _ = found.run("backup", str(found.folder / "backup"))
        num_bytes = sum(path.stat().st_size for path in (found.folder / "backup").iterdir() if path.is_file())
        url = bench.cluster.database() if found.url and bench.cluster else None
        restored = Service(found.folder, found.rules, url, found.organiser)
        started_s = time.monotonic()
        command = [sys.executable, "-c", TTA, str(found.rules), "board", "restore", str(found.folder / "backup"),
                   "--data", str(found.folder / "restored"), *(["--database", url] if url else [])]  # fmt: skip
        done = subprocess.run(command, env=restored.environment(), capture_output=True, text=True, check=False)
        taken_s = time.monotonic() - started_s
        if done.returncode != 0:
            raise RuntimeError((done.stdout + done.stderr)[-2000:])
        say(f"| {kind} | {bench.size.results:,} | {backup_s:.0f} | {taken_s:.0f} | {num_bytes / 1e6:,.0f} |")
        if url and bench.cluster:
            bench.cluster.drop(url)


RUN: dict[str, Callable[[Bench], None]] = {
    "pages": bench_pages, "submissions": bench_submissions, "heads": bench_heads, "upload": bench_upload,
    "hostile": bench_hostile, "reindex": bench_reindex, "backup": bench_backup,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(RUN), help="parts, separated by commas (default: all)")
    parser.add_argument("--databases", default=",".join(DATABASES), help="sqlite, postgresql (default: both)")
    parser.add_argument("--small", action="store_true", help="little of everything, to see that it works")
    parser.add_argument("--folder", type=Path, help="where to keep the data meanwhile (default: a temporary folder)")
    for name, default in vars(Size()).items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), metavar="N", help=f"see the code (default: {default})")
    parsed = parser.parse_args(arguments)
    chosen = {name: getattr(parsed, name) for name in vars(Size()) if getattr(parsed, name) is not None}
    size = Size(**{**vars(SMALL if parsed.small else Size()), **chosen})
    parts, kinds = parsed.only.split(","), parsed.databases.split(",")
    for name, known in ((set(parts) - set(RUN), RUN), (set(kinds) - set(DATABASES), DATABASES)):
        if name:
            parser.error(f"{', '.join(sorted(name))}: there are {', '.join(known)}")
    if "postgresql" in kinds and (why := postgres.missing()) is not None:
        parser.error(f"{why}; leave it out with --databases sqlite")
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tta-bench-", dir=parsed.folder)))
        for benchmark in BENCHMARKS:
            write_ruleset(place / "rules" / "v1", benchmark)
        rules.__path__.insert(0, str(place / "rules"))
        cluster = stack.enter_context(postgres.running(is_durable=True)) if "postgresql" in kinds else None
        say(_machine(cluster))
        for part in parts:
            say(f"\n## {part}\n")
            RUN[part](Bench(place, size, kinds, cluster))
    return 0


def _machine(cluster: postgres.Cluster | None) -> str:
    """What this is measured on."""
    versions = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    if cluster is not None:
        with Database(cluster.url).read() as connection:
            versions.append(f"PostgreSQL {connection.execute(text('SHOW server_version')).scalar_one()}")
    names = {line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")}  # fmt: skip
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores ({', '.join(sorted(names))}), {', '.join(versions)}; load when it began: {load}"


if __name__ == "__main__":
    sys.exit(main())
