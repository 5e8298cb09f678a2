"""Hooks: what is sent, to whom, how it is signed, and what happens when nobody takes it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import itertools
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import select, update
from sqlalchemy.exc import ProgrammingError

from harness.base.processes import python_environment
from harness.cli import main
from harness.errors import InputError, RulesError, UsageError
from harness.service import delivering, hooks, publication, schema
from harness.service.hooks import BACKOFF_MS, LEASE_MS
from harness.service.instance import DATABASE_VARIABLE
from harness.service.people import NOBODY
from harness.service.settings import Hooks, read_settings
from tests.harness.service.test_pages import HERE, browser
from tests.harness.service.world import Member, World
from tests.webserver import serving


class Receiver:
    """What a receiver was sent. answer: what it does with a request, given its number; returns the status."""

    def __init__(self, answer: Callable[[int], int] = lambda number: 204) -> None:
        self.answer = answer
        self.requests: list[tuple[dict[str, str], bytes, str]] = []
        self._numbers = itertools.count(1)  # requests come at once, too

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request.rfile.read(int(headers["content-length"]))
        self.requests.append((headers, body, request.path))
        status = self.answer(next(self._numbers))
        request.send_response(status)
        if 300 <= status < 400:
            request.send_header("location", "/elsewhere")
        request.end_headers()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body, _ in self.requests]

    @property
    def kinds(self) -> list[str]:
        return [event["type"].removeprefix("submission.") for event in self.events]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _, _ in self.requests]


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """As the specification has it: base64 of HMAC-SHA256 of `id.timestamp.body`, by what follows `whsec_`, decoded."""
    prefix, _, encoded = secret.partition("_")
    assert prefix == "whsec"
    key = base64.b64decode(encoded, validate=True)
    assert 24 <= len(key) <= 64
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    versions = [item.split(",", 1) for item in headers["webhook-signature"].split(" ")]
    return ["v1", expected] in versions


def permit(world: World, *networks: str, hosts: tuple[str, ...] = (), ca: str = "") -> None:
    found = world.instance.settings.hooks
    for name, value in (("networks", list(networks)), ("hosts", list(hosts)), ("ca", ca)):
        object.__setattr__(found, name, value)


@contextmanager
def receiving(world: World, answer: Callable[[int], int] = lambda number: 204) -> Iterator[tuple[Receiver, str]]:
    """A receiver on this machine, which hooks may call; and its address."""
    permit(world, "127.0.0.1/32")
    receiver = Receiver(answer)
    with serving(receiver) as url:
        yield receiver, f"{url}/hook?a=b"


def hook_of(member: Member, url: str, **more: str) -> tuple[str, str]:
    answer = member.post("/hooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    return found["id"], found["secret"]


def deliver(world: World) -> int:
    return delivering.deliver_due(world.instance)


def newest(member: Member, hook: str) -> dict[str, Any]:
    found: dict[str, Any] = member.get(f"/hooks/{hook}/deliveries").json()["deliveries"][0]
    return found


def test_a_receiver_can_verify_what_it_is_sent(unreviewed: World) -> None:
    """Every event of its organisation from then on, once, signed, with a time that is now; nothing of another's."""
    world = unreviewed
    world.submit(world.alice)
    with receiving(world) as (receiver, url):
        hook, secret = hook_of(world.alice, url)
        submission = world.submit(world.alice)
        other = world.submit(world.bob, finalise=False)
        world.work()
        deliver(world)
        count = len(receiver.requests)
        again = deliver(world)
        listed = world.alice.get(f"/hooks/{hook}/deliveries").json()["deliveries"]

    assert again == 0
    history = world.alice.get(f"/submissions/{submission}").json()["history"]
    sent = [event["data"] for event in receiver.events if event["data"]["subject"] == submission]
    assert [(item["seq"], item["body"]) for item in sent] == [(item["seq"], item["body"]) for item in history]
    assert other not in str(receiver.events)
    assert all(is_signed(headers, body, secret) for headers, body, _ in receiver.requests)
    headers, body, path = receiver.requests[0]
    assert not is_signed(headers, body + b" ", secret)
    assert not is_signed({**headers, "webhook-id": "x"}, body, secret)
    assert path == "/hook?a=b"
    assert headers["host"] == urlsplit(url).netloc
    assert abs(int(headers["webhook-timestamp"]) * 1000 - world.time.now_ms) < 10_000
    assert len(set(receiver.ids)) == count == len(listed)
    assert {item["state"] for item in listed} == {"delivered"}


def test_a_secret_is_shown_once_and_rotated(small: World) -> None:
    """For a day both sign; then the new one alone."""
    world = small
    with receiving(world) as (receiver, url):
        hook, old = hook_of(world.alice, url)
        new = world.alice.post(f"/hooks/{hook}/rotate").json()["secret"]
        listed = world.alice.get("/hooks").text
        for days in (0.0, 0.99, 0.02):
            world.time.advance(days)
            assert world.alice.post(f"/hooks/{hook}/test").status_code == 202
            deliver(world)

    assert old not in listed
    assert new not in listed
    signed = [(is_signed(*request[:2], old), is_signed(*request[:2], new)) for request in receiver.requests]
    assert signed == [(True, True), (True, True), (False, True)]
    assert receiver.events[0]["type"] == hooks.TEST


def test_under_embargo_a_hook_is_sent_what_its_organisation_sees(reviewed: World) -> None:
    """Its team all, who takes part what is under review, others and the public nothing until it is published.

    The talk of the review is not for others afterwards, either; and what was not for them, they are not sent later.
    """
    world = reviewed
    world.join("dora", "delta")
    world.submit(world.bob)
    world.work()
    members = {"acme": world.alice, "bits": world.bob, "delta": world.dora}
    with receiving(world) as (receiver, url):
        for name, member in members.items():
            hook_of(member, f"{url}&of={name}")
        hook_of(world.olga, f"{url}&of=public", of="public")

        def sent() -> dict[str, list[str]]:
            receiver.requests.clear()
            deliver(world)
            found: dict[str, list[str]] = {name: [] for name in (*members, "public")}
            for (_, _, path), kind in zip(receiver.requests, receiver.kinds, strict=True):
                found[path.rpartition("=")[2]].append(kind)
            return found

        submission = world.submit(world.alice)
        first = sent()
        world.work()
        review = sent()
        world.bob.post(f"/submissions/{submission}/comments", json={"text": "fast"})
        talk = sent()
        world.olga.post(f"/submissions/{submission}/actions/accept", json={"reason": "good"})
        accepted = sent()
        world.work()
        public = sent()
        world.alice.post(f"/submissions/{submission}/comments", json={"text": "thanks"})
        after = sent()

    everyone = ("acme", "bits", "delta", "public")
    assert first == {"acme": ["announced", "finalise"], "bits": [], "delta": [], "public": []}
    # When it is looked at, it is under review: `find_valid` is in the history that bits sees.
    assert review == {"acme": ["find_valid", "open_review"], "bits": ["find_valid", "open_review"], "delta": [],
                      "public": []}  # fmt: skip
    assert talk == {"acme": ["commented"], "bits": ["commented"], "delta": [], "public": []}
    assert accepted == {"acme": ["accept"], "bits": ["accept"], "delta": [], "public": []}
    assert public == {name: ["publish"] for name in everyone}
    assert after == {"acme": ["commented"], "bits": [], "delta": [], "public": []}


def test_what_is_public_is_decided_once(reviewed: World) -> None:
    """Event by event, as the log's list of public events has it."""
    world = reviewed
    submission = world.submit(world.alice)
    world.work()
    world.carol.post(f"/submissions/{submission}/comments", json={"text": "fast"})
    world.submit(world.bob)
    world.olga.post(f"/submissions/{submission}/actions/accept", json={"reason": "good"})
    world.work()

    with world.instance.database.read() as connection:
        listed = [item.seq for item in publication.public_openings(connection, 0, 1000)]
        rows = connection.execute(select(schema.event).order_by(schema.event.c.seq)).all()
        opened = [row.seq for row in rows if publication.is_opened_to(connection, NOBODY, row.kind, row.subject)]

    assert opened == listed
    assert 0 < len(listed) < len(rows)


def test_what_became_hidden_before_it_was_sent_is_not_sent(reviewed: World) -> None:
    """A receiver was away; meanwhile the submission was withdrawn, and its organisation sees it no more."""
    world = reviewed
    world.submit(world.bob)
    world.work()
    with receiving(world, lambda number: 503) as (receiver, url):
        hook, _ = hook_of(world.bob, url)
        submission = world.submit(world.alice)
        world.work()
        deliver(world)
        num_tried = len(receiver.requests)
        world.alice.post(f"/submissions/{submission}/withdraw")
        world.time.advance(1)
        deliver(world)
        listed = world.bob.get(f"/hooks/{hook}/deliveries").json()["deliveries"]

    assert len(receiver.requests) == num_tried > 0
    assert {(item["state"], item["reason"]) for item in listed} == {("given up", "not for this organisation any more")}


def test_a_delivery_whose_process_ended_is_made_again_with_its_id(unreviewed: World) -> None:
    """After its lease, and not before; what the process that was thought dead says then does not count."""
    world = unreviewed
    with receiving(world) as (receiver, url):
        hook, _ = hook_of(world.alice, url)
        world.alice.post(f"/hooks/{hook}/test")
        lost = hooks.claim(world.instance)
        assert lost is not None
        early = deliver(world)
        world.time.advance(1.01 * LEASE_MS / 86_400_000)
        count = deliver(world)
        hooks.record(world.instance, lost, hooks.Outcome("late"))
        found = newest(world.alice, hook)

    assert (early, count) == (0, 1)
    assert receiver.ids == [lost.id]
    assert (found["state"], found["attempts"], found["reason"]) == ("delivered", 2, None)


@pytest.mark.slow
def test_killed_between_commit_and_answer_nothing_is_lost(unreviewed: World) -> None:
    """Before anything was sent, and while it is: the next process sends the same id, and each event is there."""
    world = unreviewed
    instance = world.instance
    database = instance.database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "harness.cli", "board", "deliver", "--data", str(instance.folder)]
    processes: list[subprocess.Popen[bytes]] = []
    arrived = threading.Event()

    def start() -> None:
        processes.append(subprocess.Popen(command, env={**python_environment(), DATABASE_VARIABLE: database}))

    def answer(number: int) -> int:
        if number == 1:
            processes[0].kill()
            processes[0].wait()
        if number == 3:
            arrived.set()
        return 204

    with receiving(world, answer) as (receiver, url):
        settings = "origin: a\nurl: http://x/\nhooks: {networks: [127.0.0.1/32]}\n"
        (instance.folder / "board.yaml").write_text(settings)
        hook_of(world.alice, url)
        world.submit(world.alice)  # two events, and no process
        start()
        processes[0].wait(60)
        with instance.database.write() as connection:  # its lease is over
            connection.execute(update(schema.hook).values(busy_until_ms=0))
        start()
        assert arrived.wait(60)
        processes[1].send_signal(signal.SIGTERM)
        status = processes[1].wait(60)

    assert status == 0
    assert receiver.ids[0] in receiver.ids[1:]
    assert sorted(set(receiver.kinds)) == ["announced", "finalise"]
    assert len(set(receiver.ids)) == 2


def test_a_receiver_that_fails_is_tried_for_two_days_then_the_delivery_is_given_up(small: World) -> None:
    """Ten times, ever later, with the reason shown; the hook itself goes on."""
    world = small
    with receiving(world, lambda number: 500 if number <= 10 else 200) as (receiver, url):
        hook, _ = hook_of(world.alice, url)
        world.alice.post(f"/hooks/{hook}/test")
        for pause_ms in BACKOFF_MS:
            assert deliver(world) == 1
            assert newest(world.alice, hook)["state"] == "waiting"
            world.time.now_ms += pause_ms - 1000
            assert deliver(world) == 0
            world.time.now_ms += 2000
        assert deliver(world) == 1
        found = newest(world.alice, hook)
        failing = world.alice.get("/hooks").json()["hooks"][0]
        world.alice.post(f"/hooks/{hook}/test")
        deliver(world)
        well = world.alice.get("/hooks").json()["hooks"][0]

    assert (found["state"], found["attempts"], found["status"]) == ("given up", 10, 500)
    assert found["reason"] == "the receiver answered 500"
    assert len(set(receiver.ids[:10])) == 1
    assert 2 * 24 * 60 < sum(BACKOFF_MS) / 60_000 < 2.5 * 24 * 60
    assert (failing["failing_since_ms"] is None, failing["disabled_ms"]) == (False, None)
    assert well["failing_since_ms"] is None


def test_a_hook_that_fails_for_long_is_disabled_until_a_test_arrives(small: World) -> None:
    """What waits then is given up with the reason; what happens until it is enabled again is not made up for."""
    world = small
    is_well = False
    with receiving(world, lambda number: 200 if is_well else 500) as (receiver, url):
        hook, _ = hook_of(world.alice, url)
        world.alice.post(f"/hooks/{hook}/test")
        deliver(world)
        world.time.advance(5)
        world.submit(world.alice)
        deliver(world)
        disabled = world.alice.get("/hooks").json()["hooks"][0]
        listed = world.alice.get(f"/hooks/{hook}/deliveries").json()["deliveries"]
        world.submit(world.alice)
        assert deliver(world) == 0
        world.alice.post(f"/hooks/{hook}/test")
        deliver(world)
        still = newest(world.alice, hook)
        is_well = True
        world.alice.post(f"/hooks/{hook}/test")
        deliver(world)
        enabled = world.alice.get("/hooks").json()["hooks"][0]
        count = len(receiver.requests)
        world.submit(world.alice)
        deliver(world)

    assert disabled["reason"] == "the hook was disabled: the receiver answered 500"
    assert {(item["state"], item["reason"]) for item in listed} == {("given up", disabled["reason"])}
    assert (still["kind"], still["state"]) == (hooks.TEST, "given up")
    assert (enabled["disabled_ms"], enabled["reason"], enabled["failing_since_ms"]) == (None, None, None)
    assert receiver.kinds[count:] == ["announced", "finalise"]


def test_a_receiver_that_is_gone_disables_its_hook(small: World) -> None:
    """At once, when it says so by 410."""
    with receiving(small, lambda number: 410) as (_, url):
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)

    assert "answered 410" in small.alice.get("/hooks").json()["hooks"][0]["reason"]
    assert newest(small.alice, hook)["state"] == "given up"


def test_redirects_are_not_followed(small: World) -> None:
    """Where they lead was not checked."""
    with receiving(small, lambda number: 307) as (receiver, url):
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)

    assert len(receiver.requests) == 1
    assert newest(small.alice, hook)["reason"] == "the receiver answered 307; redirects are not followed"


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_slow_receiver_is_waited_for_in_vain(small: World, monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """One that says nothing, or ever a little more; the limit is on the whole."""
    monkeypatch.setattr(delivering, "TIMEOUT_S", 0.3)
    is_over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        while not is_over.wait(0.05):
            request.wfile.write(head)

    permit(small, "127.0.0.1/32")
    with serving(drip) as url:
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)
        is_over.set()

    found = newest(small.alice, hook)
    expected = {b"HTTP/1.1 2": ("the answer is not HTTP", "no answer within 0 s")}.get(head, ("no answer within 0 s",))
    assert found["reason"] in expected
    assert found["state"] == "waiting"


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * (1 << 20)])
def test_what_is_no_answer_is_a_failure(small: World, said: bytes) -> None:
    """No byte, another protocol, a head without an end."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        try:
            request.wfile.write(said)
        except OSError:
            return  # the sender has seen enough

    permit(small, "127.0.0.1/32")
    with serving(answer) as url:
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)

    assert newest(small.alice, hook)["reason"] == "the answer is not HTTP"


def test_a_port_without_a_receiver_is_a_failure(small: World) -> None:
    """With the system's reason."""
    permit(small, "127.0.0.0/8")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        hook, _ = hook_of(small.alice, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)

    assert "Connect" in newest(small.alice, hook)["reason"]


class Names:
    """A name server: every answer is the next one in a list, and the last for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: object, **options: object) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (item, 0)) for item in found]


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's, which its own `folder/ca.pem` vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, secret, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


def test_the_address_that_was_checked_is_the_one_that_is_called(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means another address a moment later leads nowhere else; its certificate is still the name's."""
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    receiver, context = Receiver(), certificate(tmp_path, "hooks.example.com")
    permit(small, "127.0.0.0/8", ca=str(tmp_path / "ca.pem"))
    with serving(receiver, context) as url:
        port = urlsplit(url).port
        hook, secret = hook_of(small.alice, f"https://hooks.example.com:{port}/")
        for _ in range(2):
            small.alice.post(f"/hooks/{hook}/test")
            deliver(small)
        refused = newest(small.alice, hook)
        names.answers = [["10.0.0.1", "127.0.0.1"]]
        other, _ = hook_of(small.alice, f"https://other.example.com:{port}/")
        small.alice.post(f"/hooks/{other}/test")
        deliver(small)

    assert len(receiver.requests) == 1
    assert is_signed(*receiver.requests[0][:2], secret)
    assert refused["reason"] == "hooks.example.com is 10.0.0.1, which the organisers do not permit"
    assert "certificate" in newest(small.alice, other)["reason"]
    assert len(names.asked) == 3


def test_names_that_cannot_be_looked_up_and_certificates_that_cannot_be_read_are_failures(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason, as everything that may be mended."""

    def unknown(*arguments: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    permit(small, hosts=(".example.com",))
    hook, _ = hook_of(small.alice, "https://a.example.com/")
    small.alice.post(f"/hooks/{hook}/test")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        deliver(small)
    assert "not known" in newest(small.alice, hook)["reason"]
    small.time.advance(1)
    permit(small, "192.0.2.0/24", ca=str(tmp_path / "none.pem"))
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", Names(["192.0.2.1"]))
        deliver(small)
    assert "none.pem: cannot be read" in newest(small.alice, hook)["reason"]
    small.time.advance(1)
    permit(small)
    deliver(small)
    assert "this board has no hooks" in newest(small.alice, hook)["reason"]
    with pytest.raises(InputError, match="cannot be read"):
        delivering._context(str(tmp_path / "none.pem"))


NAMED = Hooks(hosts=["hooks.example.com", ".Svc.example.com"])
INTERNAL = Hooks(networks=["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"])


@pytest.mark.parametrize(
    ("settings", "url", "why"),
    [
        (NAMED, "https://hooks.example.com/x?y=z", None),
        (NAMED, "https://HOOKS.example.com:8443", None),
        (NAMED, "https://hooks.example.com./", None),
        (NAMED, "https://a.svc.example.com/", None),
        (NAMED, "https://svc.example.com/", "the organisers permit: hooks.example.com"),
        (NAMED, "https://nothooks.example.com/", "the organisers permit"),
        (NAMED, "https://8.8.8.8/", "do not permit"),
        (NAMED, "http://hooks.example.com/", "must be https"),
        (NAMED, "http://127.0.0.1/", "do not permit"),
        (NAMED, "ftp://hooks.example.com/", "must be https"),
        (NAMED, "https://", "must be https"),
        (NAMED, "https://[::1/", "must be https"),
        (NAMED, "https://hooks.example.com/ x", "must be https"),
        (NAMED, "https://hooks.example.com/\r\nx: y", "must be https"),
        (NAMED, "https://hooks.example.com/ü", "must be https"),
        (NAMED, "https://hooks.example.com/" + "a" * 500, "at most 500"),
        (NAMED, "https://me:secret@hooks.example.com/", "no user"),
        (NAMED, "https://hooks.example.com/#a", "no fragment"),
        (NAMED, "https://hooks.example.com:0/", "a port that there is"),
        (NAMED, "https://hooks.example.com:99999/", "a port that there is"),
        (NAMED, "https://.example.com/", "a name or an address"),
        (NAMED, f"https://{'a' * 64}.example.com/", "a name or an address"),
        (INTERNAL, "https://10.1.2.3/", None),
        (INTERNAL, "https://[fd00::1]:8443/", None),
        (INTERNAL, "https://anything.internal/", None),
        (INTERNAL, "http://127.0.0.1:8080/", None),
        (INTERNAL, "https://[::ffff:10.1.2.3]/", None),
        (INTERNAL, "http://10.1.2.3/", "must be https"),
        (INTERNAL, "http://localhost/", "must be https"),
        (INTERNAL, "https://169.254.169.254/", "do not permit"),
        (INTERNAL, "https://[::ffff:192.168.0.1]/", "do not permit"),
        (INTERNAL, "https://[fe80::1%25eth0]/", "a name or an address"),
        (Hooks(), "https://hooks.example.com/", "has no hooks"),
    ],
)
def test_addresses_that_hooks_may_have(settings: Hooks, url: str, why: str | None) -> None:
    """https, of hosts or networks that the organisers name; http on this machine alone, if they name it."""
    if why is None:
        assert hooks.require_url(settings, url).hostname
        return
    with pytest.raises(UsageError, match=why):
        hooks.require_url(settings, url)


@pytest.mark.parametrize(
    ("address", "is_permitted"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("10.0.0.1", False), ("127.0.0.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.251", False),
        ("::1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:a00:1::1", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False), ("fd00::1", False), ("fe80::1", False), ("ff02::1", False),
    ],
)  # fmt: skip
def test_a_host_that_is_named_has_a_public_address(address: str, is_permitted: bool) -> None:
    """Who keeps its name cannot have this service call what is inside, by any way of writing such an address."""
    parts = hooks.require_url(NAMED, "https://hooks.example.com/")
    if is_permitted:
        hooks.require_address(NAMED, parts, ip_address(address))
        return
    with pytest.raises(UsageError, match="do not permit"):
        hooks.require_address(NAMED, parts, ip_address(address))


def test_the_settings_of_hooks_are_read(tmp_path: Path) -> None:
    """Networks that are none are refused by name."""
    path = tmp_path / "board.yaml"
    path.write_text("origin: a\nurl: http://x/\nhooks: {hosts: [a.b], networks: [10.0.0.0/8]}\n")
    assert read_settings(path).hooks == Hooks(["a.b"], ["10.0.0.0/8"])
    path.write_text("origin: a\nurl: http://x/\nhooks: {networks: [10.0.0.1/8]}\n")
    with pytest.raises(RulesError, match=r"hooks.networks: 10.0.0.1/8 has host bits set"):
        read_settings(path)


def test_a_body_is_bounded(small: World) -> None:
    """What is larger is left out; its number says where it is."""
    object.__setattr__(small.instance.settings.limits, "max_text", 100_000)
    with receiving(small) as (receiver, url):
        hook_of(small.bob, url)
        submission = small.submit(small.alice)
        small.work()
        answer = small.bob.post(f"/submissions/{submission}/dispute", json={"reason": "ü" * 50_000})
        assert answer.status_code == 200, answer.text
        deliver(small)

    [event] = [item for item in receiver.events if item["type"] == "submission.dispute"]
    assert event["data"]["body"] is None
    assert event["data"]["subject"] == submission
    assert all(len(body) <= hooks.MAX_BODY_BYTES for _, body, _ in receiver.requests)


def test_who_keeps_which_hooks(unreviewed: World) -> None:
    """A team's are its members', with a token for submitting; those for what is public are the organisers'."""
    world = unreviewed
    world.join("adam", "acme")
    with receiving(world) as (_, url):
        own, _ = hook_of(world.alice, url)
        public, _ = hook_of(world.olga, url, of="public")
        reading = world.alice.post("/tokens", json={"label": "a", "scopes": ["read"]}).json()["token"]
        scopes = {"authorization": f"Bearer {reading}"}

        def seen(member: Member) -> list[str]:
            return [item["id"] for item in member.get("/hooks").json()["hooks"]]

        assert (seen(world.alice), seen(world.adam), seen(world.bob)) == ([own], [own], [])
        assert (seen(world.carol), seen(world.olga)) == ([], [public])
        assert world.carol.post("/hooks", json={"url": url, "of": "public"}).status_code == 403
        assert world.client.get("/api/v1/hooks").status_code == 401
        assert world.client.post("/api/v1/hooks", json={"url": url}, headers=scopes).status_code == 403
        for member in (world.bob, world.carol, world.olga):
            for method, path in (("GET", "deliveries"), ("POST", "test"), ("POST", "rotate"), ("DELETE", "")):
                address = f"/api/v1/hooks/{own}/{path}".rstrip("/")
                assert member.client.request(method, address).status_code == 404
        assert world.adam.post(f"/hooks/{own}/test").status_code == 202
        assert world.adam.post(f"/hooks/{own}/test").status_code == 409
        assert world.alice.client.delete(f"/api/v1/hooks/{own}").status_code == 204
        assert deliver(world) == 0
        assert seen(world.alice) == []
        object.__setattr__(world.instance.settings.limits, "max_hooks", 1)
        hook_of(world.alice, url)
        assert world.adam.post("/hooks", json={"url": url}).status_code == 409
        permit(world)
        assert world.bob.post("/hooks", json={"url": url}).status_code == 422


def test_a_hook_that_was_deleted_while_it_was_called_is_forgotten(small: World) -> None:
    """Whatever became of the call."""
    with receiving(small) as (_, url):
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        lease = hooks.claim(small.instance)
        assert lease is not None
        small.alice.client.delete(f"/api/v1/hooks/{hook}")
        delivering.attempt(small.instance, lease)

    with small.instance.database.read() as connection:
        assert connection.execute(select(schema.delivery.c.id)).all() == []


def test_two_processes_do_not_take_the_same_delivery(unreviewed: World) -> None:
    """Nor two deliveries of one hook at once; another hook's they do."""
    world = unreviewed
    with receiving(world) as (_, url):
        for member in (world.alice, world.alice, world.bob):
            hook, _ = hook_of(member, url)
            world.alice.post(f"/hooks/{hook}/test")
        world.submit(world.alice, finalise=False)
        assert hooks.spread(world.instance) == 2
        assert hooks.spread(world.instance) == 0
        taken: list[hooks.Lease | None] = []
        threads = [threading.Thread(target=lambda: taken.append(hooks.claim(world.instance))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while (lease := hooks.claim(world.instance)) is not None:
            taken.append(lease)

    found = [lease.hook for lease in taken if lease is not None]
    assert len(found) == len(set(found)) == 2


def test_deliveries_that_ended_long_ago_are_forgotten(small: World) -> None:
    """By the sweep of a worker; what waits stays."""
    from harness.service.worker import sweep

    with receiving(small) as (_, url):
        hook, _ = hook_of(small.alice, url)
        small.alice.post(f"/hooks/{hook}/test")
        deliver(small)
        small.alice.post(f"/hooks/{hook}/test")
        small.time.advance(31)
        sweep(small.instance)

    assert [item["state"] for item in small.alice.get(f"/hooks/{hook}/deliveries").json()["deliveries"]] == ["waiting"]


def test_the_process_delivers_until_it_is_told_to_end(small: World) -> None:
    """Also what happens meanwhile; hooks do not wait for each other, and what is begun is ended."""
    deliverer = delivering.Deliverer(small.instance)
    others = threading.Barrier(2, timeout=10)

    class Idle(threading.Event):
        """Something happens when the process has nothing to do."""

        def wait(self, timeout: float | None = None) -> bool:
            small.bob.post(f"/hooks/{first}/test")
            small.alice.post(f"/hooks/{second}/test")
            return self.is_set()

    deliverer._ending = Idle()

    def answer(number: int) -> int:
        if number <= 2:
            others.wait()
        if number == 1:
            small.submit(small.bob, finalise=False)
        if number >= 3:
            deliverer.end()
        return 204

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with receiving(small, answer) as (receiver, url):
        first, _ = hook_of(small.bob, url)
        second, _ = hook_of(small.alice, url)
        try:
            deliverer.run()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    assert sorted(receiver.kinds[:3]) == ["announced", hooks.TEST, hooks.TEST]
    made = [item for member, hook in ((small.bob, first), (small.alice, second))
            for item in member.get(f"/hooks/{hook}/deliveries").json()["deliveries"]]  # fmt: skip
    assert sorted(item["id"] for item in made if item["state"] == "delivered") == sorted(receiver.ids)


def test_the_process_waits_for_a_database_and_ends_at_what_is_an_error(
    unreviewed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite calls a missing table an error of operation, PostgreSQL one of the program."""
    world = unreviewed
    deliverer = delivering.Deliverer(world.instance)

    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            deliverer.end()
            return super().write(text)

    monkeypatch.setattr(delivering, "_UNREACHABLE_S", 60.0)  # which ends with the process
    monkeypatch.setattr(sys, "stderr", heard := Heard())
    with world.instance.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE hook RENAME TO away")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if world.instance.database.is_sqlite:
            deliverer.run()
            assert "the database cannot be reached: no such table: hook" in heard.getvalue()
        else:
            with pytest.raises(ProgrammingError):
                deliverer.run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        with world.instance.database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE away RENAME TO hook")


def test_a_worker_keeps_the_process_going_where_hooks_are_on(
    small: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database's password is not on the command line; it ends with the worker."""
    started: list[tuple[list[str], dict[str, str]]] = []
    ended: list[str] = []

    class Process:
        status: int | None = None

        def __init__(self, command: list[str], env: dict[str, str], **options: object) -> None:
            started.append((command, env))

        def poll(self) -> int | None:
            return self.status

        def terminate(self) -> None:
            ended.append("terminate")

        def wait(self) -> None:
            ended.append("wait")

    monkeypatch.setattr("harness.service.delivering.subprocess.Popen", Process)
    keeper = delivering.Keeper(small.instance)
    keeper.look()
    keeper.end()
    assert (started, ended) == ([], [])
    permit(small, "127.0.0.1/32")
    keeper.look()
    keeper.look()
    assert len(started) == 1
    Process.status = 3
    keeper.look()
    assert "ended with status 3" in capsys.readouterr().err
    keeper.end()

    [_, (command, environment)] = started
    assert command[1:] == ["-m", "harness.cli", "board", "deliver", "--data", str(small.instance.folder)]
    assert environment[DATABASE_VARIABLE].startswith("sqlite:")
    assert ended == ["terminate", "wait"]


def test_hooks_are_kept_on_the_account_page(small: World) -> None:
    """Made, tested, rotated and deleted by forms; secrets once; what went wrong with a delivery is shown."""
    world = small
    assert "Hooks" not in browser(world, world.alice).get("/account").text
    with receiving(world, lambda number: 500 if number == 1 else 410) as (_, url):
        alice, olga = browser(world, world.alice), browser(world, world.olga)

        def post(client: Any, action: str, **fields: str) -> Any:
            return client.post(f"/account/hooks/{action}", data=fields, headers=HERE)

        page = post(alice, "make", url=f" {url} ").text
        [hook] = [item["id"] for item in world.alice.get("/hooks").json()["hooks"]]
        assert page.count("whsec_") == 1
        assert "secret of the hook" in page
        assert "whsec_" not in alice.get("/account").text
        assert post(alice, "rotate", hook=hook).text.count("whsec_") == 1
        assert "waiting" in post(alice, "test", hook=hook).text
        refused = post(alice, "test", hook=hook)
        assert (refused.status_code, "waits already" in refused.text) == (409, True)
        deliver(world)
        page = alice.get("/account").text
        assert "the receiver answered 500" in page
        assert "Nothing has arrived since" in page
        world.time.advance(0.1)
        deliver(world)
        assert "the hook was disabled: the receiver answered 410" in alice.get("/account").text
        assert post(alice, "make", url=url, of="public").status_code == 403
        assert "what is public</span>" in post(olga, "make", url=url, of="public").text
        assert post(alice, "make", url="https://8.8.8.8/").status_code == 409
        assert post(alice, "eat", hook=hook).status_code == 404
        assert post(olga, "delete", hook=hook).status_code == 404
        assert post(browser(world), "delete", hook=hook).url.path == "/account"
        assert hook not in post(alice, "delete", hook=hook).text
        assert alice.post("/account/hooks/make", data={"url": url}).status_code == 403


def test_hooks_at_the_command_line(small: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Made, listed and deleted by the organiser at the machine; where they are off, one sentence."""
    folder = small.instance.folder
    data = ["--data", str(folder)]
    assert main(["board", "hook", "https://a.example.com/", *data]) == 2
    assert "permit no hosts" in capsys.readouterr().err
    settings = folder / "board.yaml"
    settings.write_text(settings.read_text() + "hooks: {hosts: [.example.com]}\n")
    assert main(["board", "hook", "https://a.example.com/", *data]) == 0
    assert capsys.readouterr().out.startswith("whsec_")
    assert main(["board", "hook", "https://b.example.com/", "--organisation", "acme", *data]) == 0
    assert main(["board", "hook", "https://b.example.com/", "--organisation", "none", *data]) == 2
    [hook] = small.alice.get("/hooks").json()["hooks"]
    capsys.readouterr()
    assert main(["board", "hook", *data]) == 0
    listed = capsys.readouterr().out
    assert "(public)" in listed
    assert "acme" in listed
    assert main(["board", "hook", "https://b.example.com/", "--delete", hook["id"], *data]) == 2
    assert main(["board", "hook", "--delete", hook["id"], *data]) == 0
    assert main(["board", "hook", "--delete", hook["id"], *data]) == 2
    assert small.alice.get("/hooks").json()["hooks"] == []
