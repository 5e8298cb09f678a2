"""Attacks on power agents and on the port where they arrive: by strangers, and by those who know the token."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.base import arrivals, greeting
from harness.base.arrivals import Arrivals, Door
from harness.base.greeting import Challenge, Hello, Refused, SealedSocket, greet
from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.errors import TtaError, UsageError, WorkerError
from harness.metering.agent import Agent
from harness.metering.agent_connection import POWER, AgentConnection
from harness.metering.meters.redfish import RedfishSource
from harness.metering.recorder import PowerRecorder
from harness.metering.sources import Source
from tests.fabricate import SYSTEM
from tests.harness.metering.test_recorder import free_port, start_agent, start_recorder, tree
from tests.killing import until

ROOT = Path(__file__).parents[2]
TOKEN = b"0123456789abcdef0123456789abcdef"
SECRET = "the password of a controller"


OPENED: list[JsonSocket] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what `opened` opened."""
    yield
    while OPENED:
        OPENED.pop().close()


def opened(connection: socket.socket) -> JsonSocket:
    OPENED.append(JsonSocket(connection))
    return OPENED[-1]


def pair() -> tuple[JsonSocket, JsonSocket]:
    left, right = socket.socketpair()
    return opened(left), opened(right)


class Port:
    """Where the agents of nodes 1 to 3 arrive, in a thread."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.said: list[str] = []
        self.arrivals = Arrivals(POWER, (Door(self.listener, TOKEN, range(1, 4)),), AgentConnection, self.said.append)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        while not self._is_over.is_set():
            self.arrivals.wait(0.05)

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", int(self.listener.getsockname()[1]))

    def connect(self) -> JsonSocket:
        return opened(socket.create_connection(self.address, 10.0))

    def greet(self, node: Any = 1, token: bytes = TOKEN, host: Any = "n17") -> SealedSocket:
        return greet(POWER, self.connect(), token, Hello(node, host, None))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self.arrivals.close()
        for node in self.arrivals.nodes.values():
            node.close()
        self.listener.close()


@pytest.fixture
def port() -> Iterator[Port]:
    found = Port()
    yield found
    found.close()


OPENING = json.dumps({"tta_power": POWER.version, "nonce": "0" * 32}).encode()


class FalseReferee:
    """Listens, greets without the token by `proof`, and keeps what it is sent. It asks for everything at once."""

    def __init__(
        self, proof: Callable[[dict[str, Any]], dict[str, Any]], opening: dict[str, Any] | None = None
    ) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        self._proof = proof
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        self.listener.settimeout(60.0)
        connection, _ = self.listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20.0)
            connection.sendall(OPENING + b"\n")
            stream = connection.makefile("rb")
            if line := stream.readline():
                self.heard += line
                demand = {"kind": "redfish", "url": "http://127.0.0.1:9/x", "user": "u", "password_env": "BMC_PASSWORD"}
                request = {"do": "open", "meters": [], "sources": [demand], "system": {}, "id": 1}
                for message in (self._proof(json.loads(line)), request, {"mac": "0" * 64, "text": json.dumps(request)}):
                    connection.sendall(json.dumps(message).encode() + b"\n")
                self.heard += stream.read()

    def close(self) -> None:
        self._thread.join()
        self.listener.close()


def run_agent(address: str, *options: str, token: bytes = TOKEN) -> subprocess.CompletedProcess[str]:
    """A real `tta agent`, whose environment has a password."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        POWER.variable: token.decode(),
        "BMC_PASSWORD": SECRET,
    }
    command = [sys.executable, "-m", "harness.cli", "agent", "--connect", address, "--node", "1", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("proof", "message"),
    [
        (lambda answer: {"proof": "0" * 64}, "it does not know the TTA_POWER_TOKEN"),
        (lambda answer: {"proof": answer["proof"]}, "it does not know the TTA_POWER_TOKEN"),
        (lambda answer: {"proof": None}, "it does not know the TTA_POWER_TOKEN"),
        (lambda answer: {"refused": ["token"]}, "refuses this agent: it does not say why"),
    ],
    ids=["guessed", "the agent's own", "none", "an odd refusal"],
)
def test_false_referee_gets_neither_token_nor_password(
    proof: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    """It has the agent's proof for a nonce of its own, and nothing else; the agent ends with one sentence."""
    referee = FalseReferee(proof)
    done = run_agent(referee.address)
    referee.close()

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    for secret in (TOKEN, SECRET.encode(), base64.b64encode(f"u:{SECRET}".encode())):
        assert secret not in referee.heard
    assert referee.heard.count(b"\n") == 1  # its greeting


@pytest.mark.parametrize(
    ("opening", "message"),
    [
        ({"tta_power": POWER.version + 1, "nonce": "0"}, "different versions of tta"),
        ({"tta_power": True, "nonce": "0"}, "is not a referee of tta"),
        ({"do": "open"}, "is not a referee of tta"),
    ],
)
def test_agent_ends_where_no_referee_of_its_version_is(opening: dict[str, Any], message: str) -> None:
    """Before it says anything."""
    own, other = pair()
    other.send(opening)

    with pytest.raises(Refused, match=message):
        greet(POWER, own, TOKEN, Hello(1, "n17", None))
    assert other.receive(0.05) is None


def test_silence_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that accepts and says nothing."""
    monkeypatch.setattr(greeting, "GREETING_S", 0.1)
    own, _ = pair()

    with pytest.raises(SocketClosed, match=r"no greeting within 0\.1 s"):
        greet(POWER, own, TOKEN, Hello(1, "n17", None))


def test_guessable_token_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever talks to a side can try out tokens on its proof."""
    monkeypatch.setenv(POWER.variable, "guess")
    with pytest.raises(UsageError, match="has 5 characters; it must have at least 16"):
        POWER.token()
    monkeypatch.setenv(POWER.variable, TOKEN.decode())
    assert POWER.token() == TOKEN


@pytest.mark.parametrize("node", [0, 4, -1, 10**300])
def test_holder_of_the_token_cannot_be_any_node(port: Port, node: int) -> None:
    """Node 0 is the referee's own, by a token that no one else has. It is told why, and the referee reports it."""
    with pytest.raises(Refused, match="the run has no such node"):
        port.greet(node)

    assert until(lambda: len(port.said) == 1, 60)
    assert port.said[0].startswith("power: refused a connection from 127.0.0.1: the run has no such node")
    assert port.arrivals.nodes == {}
    port.greet(1)
    assert until(lambda: list(port.arrivals.nodes) == [1], 60)


def test_a_node_is_claimed_once_until_its_agent_is_lost(port: Port) -> None:
    """The second is refused; when the first is gone, the node is free again."""
    first = port.greet(1)
    assert until(lambda: list(port.arrivals.nodes) == [1], 60)
    with pytest.raises(Refused, match="another agent is that node already"):
        port.greet(1)
    first.close()
    assert until(lambda: port.arrivals.nodes == {}, 60)
    port.greet(1)
    assert until(lambda: list(port.arrivals.nodes) == [1], 60)


ODD = [True, 1.5, "1", None, [1], {"a": 1}, "x" * 3000, "\ud800", "a\nb"]


@pytest.mark.parametrize("field", ["tta_power", "nonce", "node", "host", "machine", "proof"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_greeting_is_refused(port: Port, field: str, value: Any) -> None:
    """Whatever its types are, the connection ends and the port stays open."""
    channel = port.connect()
    assert channel.receive(10.0) is not None
    hello = {"node": 1, "host": "n17", "machine": None}
    answer = {"tta_power": POWER.version, "nonce": "0" * 32, **hello, "proof": "0" * 64}
    channel.send({**answer, field: value})

    with contextlib.suppress(SocketClosed):
        got = channel.receive(10.0)
        assert got is not None
        assert set(got) == {"refused"}
    channel.close()
    port.greet(2)
    assert until(lambda: list(port.arrivals.nodes) == [2], 60)


def test_strangers_are_refused_and_few_are_reported(port: Port) -> None:
    """Whoever guesses a hundred times, or finds a hundred things to say, does not fill the terminal."""
    for _ in range(20):
        with pytest.raises(Refused, match="its TTA_POWER_TOKEN is another"):
            port.greet(1, b"another token of 32 characters..")

    assert until(lambda: port.arrivals.num_refused == 20, 60)
    assert port.said == ["power: refused a connection from 127.0.0.1: its TTA_POWER_TOKEN is another"]

    for node in range(10, 20):
        with pytest.raises(Refused, match="no such node"):
            port.greet(node)

    assert until(lambda: port.arrivals.num_refused == 30, 60)
    assert len(port.said) == arrivals.MAX_REPORTED
    assert port.arrivals.nodes == {}


def test_recorded_greeting_is_worth_nothing(port: Port) -> None:
    """The nonce of the next connection is another."""
    answer: dict[str, Any] = {}

    class Recording(JsonSocket):
        def send(self, message: Any) -> None:
            answer.update(message)
            super().send(message)

    greet(POWER, Recording(socket.create_connection(port.address, 10.0)), TOKEN, Hello(1, "n17", None)).close()
    assert until(lambda: port.arrivals.nodes == {}, 60)
    channel = port.connect()
    channel.receive(10.0)
    channel.send(answer)

    assert channel.receive(10.0) == {"refused": "token"}
    channel.close()


def test_silent_and_slow_connections_hold_up_no_one(port: Port) -> None:
    """100 that say nothing, or a byte now and then: three honest agents are accepted within seconds, and at most 32
    connections are kept."""
    silent = [socket.create_connection(port.address, 10.0) for _ in range(50)]
    is_over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not is_over.wait(0.05):
                connection.sendall(b"[")

    slow = [socket.create_connection(port.address, 10.0) for _ in range(50)]
    threads = [threading.Thread(target=drip, args=(connection,)) for connection in slow[-30:]]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for node in (1, 2, 3):
        port.greet(node)
    elapsed_s = time.monotonic() - began
    num_pending = len(port.arrivals._pending)
    is_over.set()
    for thread in threads:
        thread.join()
    for connection in [*silent, *slow]:
        connection.close()

    assert elapsed_s < 20.0
    assert num_pending <= arrivals.MAX_PENDING
    assert until(lambda: sorted(port.arrivals.nodes) == [1, 2, 3], 60)
    assert port.said.count("power: refused a connection from 127.0.0.1: it had not greeted yet, and more came") == 1


def test_the_whole_greeting_has_one_deadline(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not extend it."""
    monkeypatch.setattr(arrivals, "GREETING_S", 0.5)
    with socket.create_connection(port.address, 10.0) as connection:
        connection.settimeout(0.1)
        began = time.monotonic()
        ended = False
        while not ended and time.monotonic() - began < 10.0:
            try:
                connection.sendall(b"[")
                ended = connection.recv(4096) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
    assert ended
    assert time.monotonic() - began < 10.0
    assert until(lambda: port.said, 60)
    assert port.said == ["power: refused a connection from 127.0.0.1: no greeting within 0.5 s"]


class Full(socket.socket):
    """A listener for whose connections there is no descriptor left."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


def test_port_without_descriptors_drops_who_has_not_greeted() -> None:
    """So that there is one for the next."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Full() as full:
        found = Arrivals(POWER, (Door(listener, TOKEN, range(1, 4)),), AgentConnection, lambda text: None)
        channels = [opened(socket.create_connection(listener.getsockname(), 10.0)) for _ in range(2)]
        for _ in channels:
            found.wait(10.0)
        assert len(found._pending) == 2
        found._open(Door(full, TOKEN, range(1, 4)))
        assert len(found._pending) == 1
        channels[0].receive(10.0)
        with pytest.raises(SocketClosed):
            channels[0].receive(10.0)
        found.close()


def test_endless_greeting_does_not_fill_the_memory(port: Port) -> None:
    """4 KiB without an end, and the connection is closed."""
    with socket.create_connection(port.address, 10.0) as connection, pytest.raises(OSError, match=r"reset|pipe"):
        connection.sendall(b"x" * (256 << 20))
    assert until(lambda: port.said, 60)
    assert port.said == ["power: refused a connection from 127.0.0.1: it sent a message of more than 4,096 bytes"]


def test_agent_tries_again_when_it_was_dropped(port: Port) -> None:
    """An honest agent may be dropped among many connections, too: it has patience."""
    relay = socket.create_server(("127.0.0.1", 0))

    def drop_one() -> None:
        relay.accept()[0].close()
        inner, _ = relay.accept()
        with inner, socket.create_connection(port.address, 10.0) as outer:
            outer.settimeout(10.0)
            inner.sendall(outer.recv(4096))
            outer.sendall(inner.recv(4096))
            inner.sendall(outer.recv(4096))

    thread = threading.Thread(target=drop_one)
    thread.start()
    address = f"127.0.0.1:{relay.getsockname()[1]}"
    greeting.greeted(POWER, address, TOKEN, Hello(1, "n17", None), time.monotonic() + 20.0).close()
    thread.join()
    relay.close()
    with pytest.raises(TtaError, match="nothing can be reached there"):
        greeting.greeted(POWER, address, TOKEN, Hello(1, "n17", None), time.monotonic())


def session() -> tuple[SealedSocket, SealedSocket, JsonSocket, JsonSocket]:
    """A referee's and an agent's end of a session, and what is below them."""
    own, other = pair()
    challenge = Challenge(POWER, own)
    ends: list[SealedSocket] = []
    thread = threading.Thread(target=lambda: ends.append(greet(POWER, other, TOKEN, Hello(1, "n17", None))))
    thread.start()
    answer = own.receive(10.0)
    assert answer is not None
    _, sealed = challenge.accept(answer, TOKEN, [1])
    thread.join()
    return sealed, ends[0], own, other


@pytest.mark.parametrize("act", ["altered", "repeated", "left out", "sent back", "from another session"])
def test_message_that_someone_in_between_touches_ends_the_session(act: str) -> None:
    """Readings are not encrypted, and cannot be forged."""
    referee, own_agent, own, other = session()
    own_agent.send({"samples": [["m", 1, 100.0]]})
    sealed = own.receive(10.0)
    assert sealed is not None
    if act == "altered":
        other.send({**sealed, "text": sealed["text"].replace("100.0", "1.0")})
    elif act == "repeated":
        other.send(sealed)
        assert referee.receive(10.0) == {"samples": [["m", 1, 100.0]]}
        other.send(sealed)
    elif act == "left out":
        own_agent.send({"samples": []})
    elif act == "from another session":
        _, theirs, *_ = session()
        theirs._channel = other
        theirs.send({"samples": [["m", 1, 1.0]]})
    receiver = referee
    if act == "sent back":
        own.send(sealed)
        receiver = own_agent

    with pytest.raises(BadMessage, match="forged or out of order"):
        receiver.receive(10.0)


class Bmc:
    """A controller on loopback that keeps the Authorization headers it gets."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                self.seen.append(handler.headers.get("Authorization"))
                body = b'{"PowerWatts": {"Reading": 100}}'
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)

            def log_message(handler, *arguments: object) -> None:  # noqa: N805
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/x"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def bmc() -> Iterator[Bmc]:
    found = Bmc()
    yield found
    found.close()


def asked(request: dict[str, Any], permitted: tuple[Source, ...] | None = ()) -> dict[str, Any]:
    """What an agent answers to a request to open meters."""
    referee, own_agent, *_ = session()
    thread = threading.Thread(target=Agent(own_agent, permitted).serve)
    thread.start()
    referee.send({"do": "open", "id": 1, **request})
    answer = referee.receive(20.0)
    referee.send({"do": "close"})
    thread.join()
    assert answer is not None
    return dict(answer["opened"])


def test_referee_cannot_choose_hosts_or_variables(bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that knows the token: only the very source that the agent was given is opened, and asked with its
    password."""
    monkeypatch.setenv("BMC_PASSWORD", SECRET)
    monkeypatch.setenv("OTHER_SECRET", "another")
    given = RedfishSource(bmc.url, "reader", "BMC_PASSWORD", node=1)
    changed = [
        dataclasses.replace(given, password_env="OTHER_SECRET"),
        dataclasses.replace(given, url=bmc.url + "/else"),
        dataclasses.replace(given, user="admin"),
        dataclasses.replace(given, node=0),
    ]
    for source in [given, *changed]:
        permitted = () if source is given else (given,)
        answer = asked({"meters": [], "sources": [dataclasses.asdict(source)], "system": {}}, permitted)
        assert answer["meters"] == []
        assert "this node's agent does not permit it" in answer["reasons"][source.name]
    assert bmc.seen == []

    answer = asked({"meters": [], "sources": [dataclasses.asdict(given)], "system": {}}, (given,))
    assert [meter["id"] for meter in answer["meters"]] == ["redfish:127.0.0.1/x"]
    assert answer["reasons"] == {}
    assert bmc.seen == [f"Basic {base64.b64encode(f'reader:{SECRET}'.encode()).decode()}"]


SNMP = {"kind": "snmp", "host": "pdu1", "oid": "1.3"}


@pytest.mark.parametrize(
    ("request_", "place"),
    [
        ({"meters": 5, "sources": [], "system": {}}, "request"),
        ({"meters": [["nvml"]], "sources": [], "system": {}}, "request"),
        ({"meters": [], "sources": {}, "system": {}}, "request"),
        ({"meters": [], "sources": [5], "system": {}}, "request"),
        ({"meters": [], "sources": [], "system": []}, "request"),
        ({}, "request"),
        ({"meters": ["estimate"] * 65, "sources": [], "system": {}}, "request"),
        ({"meters": ["no such meter"], "sources": [], "system": {}}, "no such meter"),
        (
            {"meters": ["estimate"], "sources": [], "system": {"tta_idle_power_w": [1], "tta_max_power_w": {}}},
            "estimate",
        ),
        *(
            ({"meters": [], "sources": [source], "system": {}}, "sources[0]")
            for source in (
                {},
                {"kind": ["snmp"]},
                {"kind": "snmp"},
                {**SNMP, "host": 5},
                {**SNMP, "host": "\ud800"},
                {**SNMP, "host": "-oProxyCommand=x"},
                {**SNMP, "node": 1.5},
                {**SNMP, "node": True},
                {**SNMP, "watts_per_unit": "x"},
                {**SNMP, "watts_per_unit": float("nan")},
                {**SNMP, "calibrated": "yes"},
                {**SNMP, "x" * 300: 1},
                {"kind": "redfish", "url": None},
                {"kind": "ipmi", "host": "x", "password_env": {"a": 1}},
            )
        ),
    ],
)
def test_odd_request_to_open_is_refused(request_: dict[str, Any], place: str) -> None:
    """A reason for it, and no traceback, even where the agent may open anything."""
    answer = asked(request_, None)

    assert answer["meters"] == []
    assert list(answer["reasons"]) == [place]


def test_odd_address_is_refused() -> None:
    """urlsplit raises a ValueError of its own."""
    source = dataclasses.asdict(RedfishSource("http://[x/"))
    answer = asked({"meters": [], "sources": [source], "system": {}}, None)

    assert "redfish: url is" in answer["reasons"]["redfish http://[x/"]


@pytest.mark.parametrize(
    "commands",
    [
        [{"do": "shell"}],
        [{"do": ["open"]}],
        [{}],
        [{"do": "start", "period_s": 1e-9}],
        [{"do": "start", "period_s": "x"}],
        [{"do": "start", "period_s": True}],
        [{"do": "open"}, {"do": "open"}],
    ],
)
def test_odd_command_ends_the_agent_with_a_sentence(commands: list[dict[str, Any]]) -> None:
    """It cannot be made to read in a loop without pause, or to open meters without end."""
    referee, own_agent, *_ = session()
    for command in commands:
        referee.send(command)

    with pytest.raises(WorkerError, match=r"a request that is unknown|a period of"):
        Agent(own_agent, ()).serve()


def test_referee_that_reads_nothing_does_not_keep_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would have sent does not pile up: it ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(greeting, "SEND_S", 0.2)
    channel = greeting.connect(f"127.0.0.1:{listener.getsockname()[1]}", time.monotonic() + 10.0)
    began = time.monotonic()
    with pytest.raises(SocketClosed, match="timed out"):
        channel.send({"samples": "x" * (64 << 20)})
    assert time.monotonic() - began < 10.0
    channel.close()
    listener.close()


def test_real_agent_is_refused_meters_that_it_was_not_given(tmp_path: Path, bmc: Bmc) -> None:
    """From the command line: without --meter no network meter, with the referee's file those of its node."""
    file = tmp_path / "meters.yaml"
    file.write_text(
        f"meters:\n  - {{kind: redfish, url: '{bmc.url}', user: reader, password_env: BMC_PASSWORD, node: 1}}\n"
    )
    source = RedfishSource(bmc.url, "reader", "BMC_PASSWORD", node=1)
    for options, reasons, specs in (((), [source.name], 0), (("--meter", str(file)), [], 1)):
        port = Port()
        done: list[subprocess.CompletedProcess[str]] = []
        call = partial(run_agent, f"127.0.0.1:{port.address[1]}", *options)
        thread = threading.Thread(target=lambda call, done: done.append(call()), args=(call, done))
        thread.start()
        nodes = port.arrivals.nodes
        assert until(partial(nodes.__contains__, 1), 120)
        node = nodes[1]
        node.ask_open([], [dataclasses.asdict(source)], SYSTEM)
        node.opened()
        assert list(node.reasons) == reasons
        assert len(node.specs) == specs
        assert len(bmc.seen) == specs
        port.close()
        thread.join()
        assert done[0].returncode == 0, done[0].stderr


def test_run_starts_while_its_port_is_besieged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 silent connections and ten slow ones, held from the first moment: both nodes are there within seconds."""
    monkeypatch.setenv(POWER.variable, TOKEN.decode())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TREE", str(tree(tmp_path / "own", 100.0)))
    port = free_port()
    held: list[socket.socket] = []
    is_over = threading.Event()

    def besiege() -> None:
        while not is_over.wait(0.02):
            with contextlib.suppress(OSError):  # it does not listen yet, or has dropped one
                while len(held) < 40:
                    held.append(socket.create_connection(("127.0.0.1", port), 1.0))
                for connection in held[30:]:
                    connection.sendall(b"[")

    thread = threading.Thread(target=besiege)
    thread.start()
    began = time.monotonic()
    other = start_agent(port, 1, tree(tmp_path / "other", 250.0))
    with start_recorder(port) as recorder:
        elapsed_s = time.monotonic() - began
        assert recorder.num_nodes == 2
        assert len(held) == 40
    is_over.set()
    thread.join()
    for connection in held:
        connection.close()

    assert other.wait(20) == 0
    assert elapsed_s < 30.0


def test_own_agent_imports_nothing_of_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `sitecustomize` that would change its readings is not loaded."""
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    subprocess.run([sys.executable, "-c", ""], check=True)
    (tmp_path / "loaded").unlink()  # it works where nothing prevents it

    system = {**SYSTEM, "tta_idle_power_w": "10", "tta_max_power_w": "20"}
    with PowerRecorder.start(["estimate"], system) as recorder:
        assert recorder.meters == ["estimate:node"]
    assert not (tmp_path / "loaded").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
def test_agent_shows_its_environment_to_no_one() -> None:
    """It has passwords of controllers, and a worker may run as the same user."""
    code = (
        "import ctypes; from harness.errors import TtaError; from harness.metering import agent\n"
        "try: agent.main('nowhere/socket', 1, b'', 0.0)\n"
        "except TtaError: print(ctypes.CDLL(None).prctl(3))\n"  # PR_GET_DUMPABLE
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "0\n"
