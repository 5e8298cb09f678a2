"""A leaderboard's service whose processes are killed at random moments, while many clients submit or stream runs.

    python -m tests.service_kills [NUMBER] [--database sqlite|postgresql] [--clients uploads|runs] [--num N] [--seed S]

With SQLite the victims are the server, its worker, and the child in which a result is checked; with PostgreSQL the web
process, one of two workers, a check, the database's first process, and one of its backends. What was killed is started
again at once. Then the clients end, the service does what it has left to do, and is looked at: what was acknowledged is
there, each submission has one verdict, every receipt is in the log, no ticket has another seed than it was drawn with,
and `tta board verify` finds nothing. Prints a line with counts, and what is wrong; exit status 1 if anything is.
SIGINT ends the kills early.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import select

from harness.base.files import sha256_of
from harness.base.http import HttpClient, UnreachableError
from harness.errors import TtaError
from harness.handin import receipt, sending
from harness.log import keys
from harness.log.ticket import Ticket, nonce_of, seed_of
from harness.service import events, jobs, people, schema, submitting
from harness.service.instance import Instance
from harness.service.states import State
from harness.submission.layout import receipts_name
from harness.submission.receipts import ISSUED, parse_campaign, parse_receipts
from harness.transparency.witnessed import parse_witnessed
from harness.witness.__main__ import TIMEOUT_S
from harness.witness.campaign import Campaign, Identity, receipt_line
from harness.witness.following import Followed, raw_ns
from tests import fabricate, postgres
from tests.fabricate import SYSTEM, Step
from tests.killing import ROOT, kill, until
from tests.rules.box import configure, put, recount
from tests.rules_folder import write_ruleset

ORGANISATIONS = ("acme", "bits", "crux", "dots", "eons")
LONGEST_PAUSE_S = 2.0  # between two kills
READY_SHARE = 0.75  # of the kills wait until the service answers again; the others also hit what is only starting
UPLOADS_PER_KILL, LARGE_EVERY = 2, 20
RUNS = 2  # of a campaign
LONGEST_BLOCK_S = 0.4  # between two evaluations of a run
START_S = 600.0  # for the service to answer: here too long is for ever, since the machine may be busy
END_S = 1800.0  # for the clients to end, and for the jobs that are left
AT_ONCE = (keys.RUN_START, keys.EVAL_STOP, keys.RUN_STOP, keys.TTA_END)


def source_tree(folder: Path) -> Path:
    """The source as it is, but with the fabricated benchmark's rules as `v1`."""
    (folder / "rules").mkdir(parents=True)
    (folder / "harness").symlink_to(ROOT / "harness")
    for name in ("__init__.py", "checks", "audits"):
        (folder / "rules" / name).symlink_to(ROOT / "rules" / name)
    write_ruleset(folder / "rules" / "v1")
    return folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Service:
    """A service in processes of its own. cluster: its PostgreSQL; None: SQLite. tokens: of a person of each team."""

    def __init__(self, place: Path, cluster: postgres.Cluster | None) -> None:
        self.data, self.tree, self.errors = place / "data", source_tree(place / "source"), place / "errors"
        self._cluster, self._port = cluster, free_port()
        self.address = f"http://127.0.0.1:{self._port}/"
        self._environment = {**os.environ, "PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1"}
        self._environment.pop("TTA_BOARD_DATABASE", None)
        self._url = None if cluster is None else cluster.database()
        self._database = [] if self._url is None else ["--database", self._url]
        self.num_starts = 0
        self.tta("init", str(self.data), "--organisation", "host", "--organiser", "olga", "--no-review")
        self.instance = Instance(self.data, database=self._url)
        self.tokens = {name: self._join(name) for name in ORGANISATIONS}
        common = ["--data", str(self.data)]
        listening = [*common, "--port", str(self._port)]
        self._commands = (
            {"server": ["serve", *listening]}
            if cluster is None
            else {
                "web": ["web", *listening, *self._database],
                "worker 1": ["worker", *common, *self._database],
                "worker 2": ["worker", *common, *self._database],
            }
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def tta(self, *arguments: str) -> None:
        """Raises:
        AssertionError: the command did not end with status 0; with what it has said.
        """
        command = [sys.executable, "-m", "harness.cli", "board", *arguments, *self._database]
        done = subprocess.run(
            command, cwd=self.tree, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"tta board {arguments[0]}: {done.stdout}{done.stderr}"

    def _join(self, name: str) -> str:
        with self.instance.database.write() as connection:
            organisation = people.add_organisation(connection, name, self.instance.now_ms())
            person = people.add_person(connection, f"{name}-person", organisation, self.instance.now_ms())
            return people.add_token(connection, person, "test", people.SCOPES, self.instance.now_ms())[1]

    def tend(self) -> None:
        """Start what has not been started, or has ended."""
        if self._cluster is not None and self._cluster.process is not None and self._cluster.process.poll() is not None:
            self._cluster.start_again()
        for name, command in self._commands.items():
            running = self._processes.get(name)
            if running is None or running.poll() is not None:
                self.num_starts += 1
                with self.errors.open("ab") as log:
                    self._processes[name] = subprocess.Popen(
                        [sys.executable, "-m", "harness.cli", "board", *command],
                        cwd=self.tree, env=self._environment, stdout=subprocess.DEVNULL, stderr=log,
                    )  # fmt: skip

    def answers(self) -> bool:
        self.tend()
        try:
            return HttpClient(self.address, retries=0, timeout_s=2.0).request("GET", "readyz").status == 200
        except TtaError:
            return False

    @property
    def victims(self) -> tuple[str, ...]:
        return ("server", "worker", "check") if self._cluster is None else (
            "web", "worker", "check", "database", "backend"
        )  # fmt: skip

    def find(self, victim: str, chance: random.Random) -> psutil.Process | None:
        """The living process of this name; one of them, where there are several."""
        workers: list[psutil.Process] = []
        for name, process in self._processes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                found = psutil.Process(process.pid)
                workers += found.children() if name == "server" else [found] if name.startswith("worker") else []
        match victim:
            case "server" | "web":
                candidates = [psutil.Process(self._processes[victim].pid)]
            case "worker":
                candidates = workers
            case "check":
                candidates = [child for worker in workers for child in children(worker)]
            case _:
                assert self._cluster is not None
                assert self._cluster.process is not None
                candidates = [psutil.Process(self._cluster.process.pid)]
                if victim == "backend":
                    candidates = [item for item in children(candidates[0]) if " tta " in title(item)]
        return chance.choice(candidates) if candidates else None

    def strike(self, chance: random.Random) -> str:
        """Kill one process, and have it started again; return its name, or that there was none."""
        victim = chance.choice(self.victims)
        with contextlib.suppress(psutil.NoSuchProcess):
            if not kill(self.find(victim, chance)):
                return f"no {victim}"
        if victim == "database":
            assert self._cluster is not None
            assert self._cluster.process is not None
            self._cluster.process.wait()
        self.tend()
        return victim

    def wait(self, seconds: float) -> None:
        until(lambda: self.tend() is not None, seconds, 0.05)

    def is_idle(self) -> bool:
        """Whether no job is left."""
        self.tend()
        with self.instance.database.read() as connection:
            return not {"ready", "leased"} & jobs.counts(connection).keys()

    def end(self) -> None:
        self.instance.close()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(process.children())
    return []


def title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return f" {' '.join(process.cmdline())} "
    return ""


@dataclass
class Crowd:
    """Clients, each in a thread of its own. faults: what must not be; counts: what may be."""

    service: Service
    place: Path
    seed: int
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    num_kills: int = 0
    is_ending: threading.Event = field(default_factory=threading.Event)
    _taken: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, num: int) -> None:
        self._threads = [threading.Thread(target=self._go, args=(num,), daemon=True) for _ in range(num)]
        for thread in self._threads:
            thread.start()

    def _go(self, num: int) -> None:
        try:
            while not self.is_ending.is_set():
                number = self._next(num)
                if number is None:
                    self.is_ending.wait(0.1)
                else:
                    self.one(number)
        except Exception:  # noqa: BLE001  (whatever it is, it is a fault, and the other clients go on)
            self.faults.append(f"a client ended: {traceback.format_exc(limit=-3)}")

    def _next(self, num: int) -> int | None:
        with self._lock:
            if self._taken >= self.most(num):
                return None
            self._taken += 1
            return self._taken

    def most(self, num: int) -> int:
        """How many there may be until now."""
        raise NotImplementedError

    def one(self, number: int) -> None:
        """Do what a client does, to its end."""
        raise NotImplementedError

    def join(self) -> None:
        self.is_ending.set()
        deadline_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        self.faults += [f"a client did not end in {END_S:.0f} s" for thread in self._threads if thread.is_alive()]

    def client(self, number: int, **options: Any) -> HttpClient:
        token = self.service.tokens[ORGANISATIONS[number % len(ORGANISATIONS)]]
        return HttpClient(self.service.address, token, **options)

    def insist(self, what: str, call: Callable[[], Any]) -> Any:
        """Do something, again whenever nobody answers, as somebody types a command again."""
        while True:
            try:
                return call()
            except UnreachableError:
                self.counts[f"{what} again"] += 1
                time.sleep(0.2)

    def wrong(self) -> Iterator[str]:
        """Yield what is not as it was acknowledged, when all is over."""
        raise NotImplementedError


@dataclass
class Uploads(Crowd):
    """Submit results. acknowledged: by id, the receipt and the digests of the files."""

    acknowledged: dict[str, tuple[dict[str, Any], dict[str, str]]] = field(default_factory=dict)

    def most(self, num: int) -> int:
        return num + UPLOADS_PER_KILL * self.num_kills

    def one(self, number: int) -> None:
        organisation = ORGANISATIONS[number % len(ORGANISATIONS)]
        tree = self.place / f"tree{number}"
        folder = fabricate.write_submission(
            tree, system={**SYSTEM, "submitter": organisation, "system_name": f"box{number}"}
        )
        if number % LARGE_EVERY == 0:  # makes the result invalid, which is a verdict, too
            (folder / "predictions_0.npz").write_bytes(secrets.token_bytes(sending.LARGE_BYTES + number))
            fabricate.reseal(folder)
        client = self.client(number)

        def submit() -> dict[str, Any]:
            record = sending.send(client, tree, sending.Options(), lambda line: None)
            receipt.verified(client, record)
            return record

        record = self.insist("submitted", submit)
        files = {path.relative_to(tree).as_posix(): sha256_of(path) for path in tree.rglob("*") if path.is_file()}
        self.acknowledged[record["submission"]] = record, files
        self.counts["acknowledged"] += 1
        shutil.rmtree(tree)

    def wrong(self) -> Iterator[str]:
        self._check_again()
        instance, table, verdict = self.service.instance, schema.submission, schema.verdict
        with instance.database.read() as connection:
            states = {row.id: row.state for row in connection.execute(select(table.c.id, table.c.state))}
            verdicts: dict[str, list[tuple[str, bool]]] = {}
            for submission, *found in connection.execute(
                select(verdict.c.submission, verdict.c.id, verdict.c.is_valid)
            ):
                verdicts.setdefault(submission, []).append((found[0], found[1]))
            for submission, (record, files) in self.acknowledged.items():
                listed = submitting.files_of(connection, submission)
                if {item.path: item.sha256 for item in listed} != files:
                    yield f"submission {submission}: has other files than were acknowledged"
                if submitting.manifest_digest(listed) != record["manifest_sha256"]:
                    yield f"submission {submission}: has another digest than its receipt"
                history = events.of_subject(connection, submission)
                if record["opening"] not in [item.record() for item in history]:
                    yield f"submission {submission}: the event of its receipt is not in the log"
                bodies = [item.event["body"] for item in history]
                told = {(body["verdict"], body["is_valid"]) for body in bodies if "verdict" in body}
                if len(told) != 1 or [*told] != verdicts.get(submission):
                    yield f"submission {submission}: has the verdicts {verdicts.get(submission)}, its events {told}"
        for submission, state in states.items():
            if state not in (State.PUBLISHED, State.INVALID):
                yield f"submission {submission}: is {state}"
            if submission not in self.acknowledged:
                yield f"submission {submission}: nobody has its receipt"
        self.counts.update(dict(Counter(states.values())))
        for name, folder in (
            ("incoming", instance.blobs.incoming), ("uploads", instance.uploads), ("work", instance.folder / "work")
        ):  # fmt: skip
            self.counts[f"left in {name}"] = len(list(folder.iterdir())) if folder.exists() else 0

    def _check_again(self) -> None:
        """What could not be checked since its worker was killed three times is checked when its team asks for it."""
        table = schema.submission
        with self.service.instance.database.read() as connection:
            query = select(table.c.id, schema.organisation.c.name).join(schema.organisation)
            failed = connection.execute(query.where(table.c.state == State.CHECK_FAILED)).all()
        for submission, organisation in failed:
            client = HttpClient(self.service.address, self.service.tokens[organisation])
            client.post(f"api/v1/submissions/{submission}/check_again")
            self.counts["check asked for again"] += 1
        until(self.service.is_idle, END_S, 0.5)


@dataclass
class Runs(Crowd):
    """Stream the heads of runs that are made up line by line. tickets: as they were drawn, with their receipts."""

    tickets: list[tuple[Ticket, Path]] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)

    def most(self, num: int) -> int:
        return sys.maxsize

    def one(self, number: int) -> None:
        folder, client = self.place / f"runs{number}", self.client(number)
        code = hashlib.sha256(f"{self.seed} {number}".encode()).hexdigest()
        identity = Identity("toy_mini", "closed", "a" * 64, code, "c" * 64, 5)
        campaign = self.insist("opened", lambda: Campaign(client, identity, folder))
        folder.mkdir()
        chance = random.Random(f"{self.seed} {number}")
        for index in range(RUNS):
            ticket: Ticket = self.insist("drawn", lambda: campaign.draw(index))  # noqa: B023  (called at once)
            path = folder / f"result_{index}.txt"
            self.tickets.append((ticket, path.with_name(receipts_name(path.stem))))
            self._play(path, ticket, self.client(number, timeout_s=TIMEOUT_S, retries=0), chance)
        end = self.insist("closed", lambda: client.post(f"api/v1/campaigns/{campaign.id}/close"))
        self.ends.append(end["receipt"])

    def _play(self, path: Path, ticket: Ticket, client: HttpClient, chance: random.Random) -> None:
        steps = fabricate.events(0, mono_ns=fabricate.MONO_NS, qualities=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95))
        configure(steps, seed=ticket.seed)
        put(steps, Step(0.0, keys.TTA_TICKET, ticket.record()), keys.TTA_RULES)
        recount(steps)
        began_ns = raw_ns()
        followed = Followed(path, client, self._heard, lambda: raw_ns() - began_ns + fabricate.MONO_NS)
        with path.open("a") as log:
            for line in fabricate.text_of(steps).splitlines(keepends=True):
                log.write(line)
                if any(f'"key": "{key}"' in line for key in AT_ONCE):
                    log.flush()
                    followed.read()
                    followed.send()
                    time.sleep(chance.uniform(0.0, LONGEST_BLOCK_S))
        followed.read()
        assert until(lambda: followed.send() or followed.is_done, END_S, 0.05), f"{path}: its end was not received"
        self.counts["runs"] += 1

    def _heard(self, line: str) -> None:
        self.counts["runs interrupted"] += 1
        if "not streamed to its witness any more" in line:
            self.faults.append(line)

    def wrong(self) -> Iterator[str]:
        table = schema.ticket
        with self.service.instance.database.read() as connection:
            known = {item.seq: item for item in events.all_events(connection)}
            rows = {row.id: row for row in connection.execute(table.select())}
        issued = [item.event for item in known.values() if item.event["kind"] == ISSUED]
        drawn = Counter((event["body"]["campaign"], event["body"]["client_nonce"]) for event in issued)
        yield from (f"client nonce {nonce}: {count} tickets" for nonce, count in drawn.items() if count > 1)
        seeds = {event["subject"]: event["body"]["seed"] for event in issued}
        if len(issued) != len(rows) or seeds != {row.id: row.seed for row in rows.values()}:
            yield f"{len(rows)} tickets, {len(issued)} events of them, or they have other seeds"
        for ticket, path in self.tickets:
            if seeds.get(ticket.ticket) != ticket.seed:
                yield f"ticket {ticket.ticket}: has another seed than when it was drawn"
            found = parse_receipts(path.read_bytes(), str(path))
            self.counts["receipts"] += len(found.receipts)
            yield from (
                f"{path}: event {item.opening.seq} is not in the log"
                for item in found.receipts
                if known.get(item.opening.seq) != item.opening
            )
            self.counts["heads"] += len(found.heads)
            row = rows[ticket.ticket]
            if (row.state, row.num_heads) != ("finished", found.heads[-1].number) or not found.is_ended:
                yield f"ticket {ticket.ticket}: is {row.state} after {row.num_heads} heads; {path} has another end"
        for record in self.ends:
            end = parse_campaign(receipt_line(parse_witnessed(record, "the end")), "the end")
            if known.get(end.receipt.opening.seq) != end.receipt.opening:
                yield f"campaign {end.campaign}: its end is not in the log"
            for item in end.tickets:
                nonce = nonce_of(bytes.fromhex(end.body["secret"]), end.campaign, item["number"])
                if item["seed"] != seed_of(item["ticket"], nonce, item["client_nonce"]):
                    yield f"ticket {item['ticket']}: its seed is not made of the nonces"
        self.counts["tickets lost with their answers"] = len(rows) - len(self.tickets)


CROWDS: dict[str, type[Crowd]] = {"uploads": Uploads, "runs": Runs}


def attempt(number: int, database: str, clients: str, num: int, seed: int) -> tuple[str, list[str]]:
    """Kill `number` times while `num` clients work; return a line with counts, and what is wrong."""
    chance = random.Random(seed)
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tta-kills-")))
        cluster = stack.enter_context(postgres.running(is_durable=True)) if database == "postgresql" else None
        service = Service(place, cluster)
        stack.callback(service.end)
        crowd = CROWDS[clients](service, place, seed)
        assert until(service.answers, START_S), service.errors.read_text()
        crowd.start(num)
        killed: Counter[str] = Counter()
        with contextlib.suppress(KeyboardInterrupt):  # what was done until then is looked at all the same
            while crowd.num_kills < number:
                service.wait(chance.uniform(0.0, LONGEST_PAUSE_S))
                victim = service.strike(chance)
                killed[victim] += 1
                crowd.num_kills += not victim.startswith("no ")
                if chance.random() < READY_SHARE and not until(service.answers, START_S):
                    crowd.faults.append(f"no answer within {START_S:.0f} s of the end of the {victim}")
        killing_s = time.monotonic() - began_s
        service.instance.close()  # its connections were cut: there will be new ones
        crowd.join()
        if not until(service.is_idle, END_S, 0.5):
            crowd.faults.append(f"jobs are left after {END_S:.0f} s")
        faults = [*crowd.faults, *crowd.wrong()]
        try:
            service.tta("verify", "--data", str(service.data))
        except AssertionError as error:
            faults.append(str(error))
        said = service.errors.read_text()
        if "Traceback" in said:
            faults.append(f"{said.count('Traceback')} tracebacks, the first: {said.partition('Traceback')[2][:3000]}")
        if cluster is not None and cluster.folder is not None:
            crowd.counts["deadlocks"] = (cluster.folder / "log").read_text().count("deadlock detected")
    by_kind = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(crowd.counts.items()))
    end = f"{len(faults)} things are wrong" if faults else "nothing is wrong"
    return (
        f"{database}, {num} {clients}, seed {seed}: {crowd.num_kills} kills in {killing_s:.0f} s ({by_kind}), "
        f"{service.num_starts} starts; {counts}; {end}",
        faults,
    )


def unavailable() -> str | None:
    """Why there is no PostgreSQL here that may be killed; None if there is one."""
    if os.environ.get(postgres.VARIABLE):
        return f"the PostgreSQL that {postgres.VARIABLE} names may not be killed"
    return postgres.missing()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.service_kills")
    parser.add_argument("number", type=int, nargs="?", default=20)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--clients", choices=CROWDS, default="uploads")
    parser.add_argument("--num", type=int, default=50, help="how many clients at once")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    if parsed.database == "postgresql" and (why := unavailable()) is not None:
        parser.error(why)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs have it ignored
    line, faults = attempt(parsed.number, parsed.database, parsed.clients, parsed.num, parsed.seed)
    print(line)
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
