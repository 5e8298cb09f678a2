"""The referee's side of an agent, against a scripted agent: lost, slow, hostile, or with a full disk."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hmac
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.base.clock import MonotonicClock
from harness.base.greeting import Hello, SealedSocket
from harness.base.json_socket import JsonSocket, SocketClosed
from harness.errors import OutputError, TtaError
from harness.log import power_log
from harness.log.power_format import MeterSpec
from harness.metering import agent_connection
from harness.metering.agent_connection import AgentConnection
from tests.killing import until
from tests.powertrace import gpu, package, spec

WALL = spec(period_s=0.1)


class Agent:
    """The other end of the connection: answers each request from `answers`, and sends what a test wants.

    answers: by what is asked, a function of the question's number that gives the answer.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.channel = SealedSocket(JsonSocket(connection), b"agent", b"referee")
        self.lock = threading.Lock()
        self.mono_ns = 1_000_000_000
        self.questions: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[int], Any]] = {
            "clock": lambda number: {"clock": {"id": number, "mono_ns": self.mono_ns}},
            "stop": lambda number: {"stopped": {"id": number, "mono_ns": self.mono_ns + 5, "cpu_s": 0.25}},
        }
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def say(self, message: Any) -> None:
        with self.lock:
            self.channel.send(message)

    def say_text(self, text: str) -> None:
        """Send what need not be JSON, with the MAC that it should have."""
        with self.lock:
            text_at = json.dumps([self.channel._num_sent, text]).encode()
            mac = hmac.new(b"agent", text_at, "sha256").hexdigest()
            self.channel._channel.send({"mac": mac, "text": text})
            self.channel._num_sent += 1

    def read(self, *samples: tuple[MeterSpec | str, Any, Any]) -> None:
        """Send readings: meter, nanoseconds, value."""
        named = [(meter if isinstance(meter, str) else meter.id, at_ns, value) for meter, at_ns, value in samples]
        self.say({"samples": named})

    def go(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with contextlib.suppress(SocketClosed):  # until the referee is gone
            while (question := self.channel.receive(None)) is not None:
                self.questions.append(question)
                answer = self.answers.get(question["do"])
                if answer is not None:
                    self.say(answer(question["id"]))

    @property
    def asked(self) -> list[str]:
        return [question["do"] for question in self.questions]


@dataclasses.dataclass
class Line:
    """A node with its agent."""

    node: AgentConnection
    agent: Agent

    def open(self, *specs: MeterSpec) -> None:
        """The agent has these meters."""
        self.agent.say({"opened": {"meters": [dataclasses.asdict(each) for each in specs], "reasons": {}}})
        self.node.opened()

    def begin(self, folder: Path, name: str = "node_0.txt") -> Path:
        self.node.begin(folder / name, MonotonicClock(), "ab" * 16, None)
        return folder / name

    def record(self, folder: Path) -> Path:
        """Open a wall meter and begin; return the log when it has a reading of 300 W."""
        self.open(WALL)
        path = self.begin(folder)
        self.agent.read((WALL, 1_000_000_000, 300.0))
        assert until(lambda: self.node.watts() == 300.0, 30)
        return path

    def stop(self) -> None:
        self.node.ask_stop()
        self.node.stopped()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A node and its agent, with timeouts for a busy machine."""
    for name in ("OPEN_S", "ROUND_TRIP_S", "ANSWER_S"):
        monkeypatch.setattr(agent_connection, name, 30.0)
    own, other = socket.socketpair()
    agent = Agent(other)
    node = AgentConnection(SealedSocket(JsonSocket(own), b"referee", b"agent"), Hello(0, "n17", "m"))
    yield Line(node, agent)
    node.close()
    agent.thread.join()
    agent.channel.close()


def test_run_is_recorded_with_its_stop(line: Line, tmp_path: Path) -> None:
    """Readings, clock offset and the sampler's own CPU time are in a log without defects."""
    line.open(WALL)
    path = line.begin(tmp_path)
    assert not line.node.is_reading
    line.agent.read((WALL, 1_000_000_000, 300.5), (WALL, 1_100_000_000, None))
    assert until(lambda: line.node.is_reading, 30)
    line.agent.mono_ns = 1_200_000_000
    line.stop()

    log = power_log.read(path)
    assert line.node.fault is None
    assert (log.defects, log.host, log.machine, log.sampler_cpu_s) == ((), "n17", "m", 0.25)
    assert [sample.value for sample in log.samples[WALL.id]] == [300.5, None]
    assert log.stop_ns == 1_200_000_005


def test_agent_opens_meters_and_says_why_not(line: Line) -> None:
    """The request reaches it, and its reasons are returned in printable characters."""
    reasons = {"ipmi": "no BMC\x07", "zeus": "is not installed"}
    line.agent.answers["open"] = lambda number: {"opened": {"id": number, "meters": [], "reasons": reasons}}
    assert line.node.why_not == "has no meter"

    line.node.ask_open(["ipmi", "zeus"], [{"name": "pdu1"}], {"system_name": "box1"})
    line.node.opened()

    asked = {"meters": ["ipmi", "zeus"], "sources": [{"name": "pdu1"}], "system": {"system_name": "box1"}}
    assert line.agent.questions == [{"do": "open", "id": 1, **asked}]
    assert line.node.why_not == "ipmi: no BMC\\x07; zeus: is not installed"


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        ({}, "declares a meter incorrectly: 'meters'"),
        ({"meters": []}, "declares a meter incorrectly: 'reasons'"),
        ({"meters": 5, "reasons": {}}, "declares a meter incorrectly"),
        ({"meters": [{"id": "x"}], "reasons": {}}, "declares a meter incorrectly: the meter has no 'component'"),
        ({"meters": [], "reasons": [5]}, "declares a meter incorrectly"),
        ({"meters": {}, "reasons": {}}, "declares a meter incorrectly"),
        (5, r"node 0 \(n17\) did not answer"),
    ],
)
def test_agent_that_declares_nonsense_is_an_error(line: Line, opened: Any, message: str) -> None:
    """One sentence before any run, with the node's name in printable characters."""
    line.agent.say({"opened": opened})

    with pytest.raises(TtaError, match=message):
        line.node.opened()


def test_waiting_for_an_agents_meters_ends(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is silent or gone; a late message about something else is not an answer."""
    monkeypatch.setattr(agent_connection, "OPEN_S", 0.3)
    line.agent.say({"clock": {"id": 1, "mono_ns": 5}})
    with pytest.raises(TtaError, match="did not answer"):
        line.node.opened()
    line.agent.go()
    with pytest.raises(TtaError, match="did not answer"):
        line.node.opened()


def test_log_that_cannot_be_made_is_an_output_error(line: Line, tmp_path: Path) -> None:
    """Another run's log is there, and is not overwritten."""
    line.open(WALL)
    (tmp_path / "node_0.txt").write_text("another's")

    with pytest.raises(OutputError, match=r"node_0\.txt: cannot be written: File exists"):
        line.begin(tmp_path)

    assert (tmp_path / "node_0.txt").read_text() == "another's"
    assert not line.agent.asked


@pytest.mark.parametrize("is_gone", [False, True])
def test_agent_that_hangs_or_is_gone_leaves_a_log_without_a_stop(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """The end of the run waits for a limited time, and reports it; a lost agent has no watts."""
    monkeypatch.setattr(agent_connection, "ANSWER_S", 0.3)
    path = line.record(tmp_path)
    del line.agent.answers["stop"]
    if is_gone:
        line.agent.go()
        assert until(lambda: line.node.is_lost, 30)
        assert (line.node.watts(), line.node.is_reading) == (None, True)
    line.stop()

    assert line.node.fault == ("its agent is gone" if is_gone else "its agent does not answer")
    assert set(power_log.read(path).defect_counts) == {"stop_missing"}
    line.stop()  # a second time there is nothing to close
    assert line.agent.asked.count("stop") == (0 if is_gone else 1)


def test_answer_to_an_earlier_request_is_ignored(line: Line, tmp_path: Path) -> None:
    """The stop of the previous run, or the time of another round trip, would shift the readings."""
    path = line.record(tmp_path)

    def late(number: int) -> dict[str, Any]:
        line.agent.say({"stopped": {"id": number - 1, "mono_ns": 7, "cpu_s": 9.0}})
        return {"stopped": {"id": number, "mono_ns": 2_000_000_000, "cpu_s": -1.0}}

    line.agent.answers["stop"] = late
    line.stop()

    log = power_log.read(path)
    assert (log.stop_ns, log.sampler_cpu_s) == (2_000_000_000, 0.0)


def test_agent_that_does_not_report_its_clock_has_no_offset(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run begins all the same; the log shows that the clocks were never compared."""
    monkeypatch.setattr(agent_connection, "ROUND_TRIP_S", 0.1)
    line.open(WALL)
    del line.agent.answers["clock"]
    path = line.begin(tmp_path)
    line.stop()

    log = power_log.read(path)
    assert (log.offsets, log.start_ns is None) == ((), False)
    assert line.node.compare_clocks() is None  # no run, no log to write it into
    assert line.agent.asked.count("clock") == 1


@pytest.mark.parametrize(
    "said",
    [
        b"no JSON\n",
        b'{"samples": []}\n',
        b'{"mac": 5, "text": "{}"}\n',
        b'{"mac": "\\ud800", "text": "{}"}\n',
        b'{"mac": "", "text": 5}\n',
        b"x" * (4 << 20) + b"\n",
    ],
    ids=lambda said: said[:45].decode(errors="replace"),
)
def test_message_without_a_mac_ends_the_connection(line: Line, tmp_path: Path, said: bytes) -> None:
    """Whoever can write into the connection does not know its keys."""
    path = line.record(tmp_path)

    with contextlib.suppress(OSError):
        line.agent.connection.setblocking(True)
        line.agent.connection.sendall(said)

    assert until(lambda: line.node.is_lost, 30)
    line.stop()
    assert set(power_log.read(path).defect_counts) == {"stop_missing"}


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "[" * 100_000,
        "5",
        '{"samples": 5}',
        '{"samples": [["csv:wall", 1]]}',
        '{"samples": [["no such meter", 1, 2.0]]}',
        '{"samples": [["csv:wall", true, 2.0]]}',
        '{"samples": [["csv:wall", -1, 2.0]]}',
        '{"samples": [["csv:wall", 9223372036854775808, 2.0]]}',
        '{"samples": [["csv:wall", 1.5, 2.0]]}',
        '{"clock": {"mono_ns": "noon"}}',
        '{"stopped": {"mono_ns": 5}}',
    ],
    ids=lambda said: said[:45],
)
def test_invalid_message_ends_the_connection(line: Line, tmp_path: Path, said: str) -> None:
    """The log stops there with whole lines, and nothing crashes."""
    path = line.record(tmp_path)

    line.agent.say_text(said)

    assert until(lambda: line.node.is_lost, 30)
    line.stop()
    log = power_log.read(path)
    assert set(log.defect_counts) == {"stop_missing"}
    assert [sample.value for sample in log.samples[WALL.id]] == [300.0]


def test_flood_ends_the_connection(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder of the token that sends more than any meters give; the log says why it stops."""
    monkeypatch.setattr(agent_connection, "BURST_BYTES", 1 << 16)
    monkeypatch.setattr(agent_connection, "MAX_BYTES_PER_S", 1 << 12)
    path = line.record(tmp_path)

    with contextlib.suppress(SocketClosed):
        for number in range(200):
            line.agent.read(*[(WALL, 2_000_000_000 + number * 100 + k, 1.0) for k in range(100)])

    assert until(lambda: line.node.is_lost, 30)
    line.stop()
    assert line.node.fault == "its agent sends more than 4,096 bytes a second"
    log = power_log.read(path)
    assert set(log.defect_counts) == {"stop_missing"}
    assert len(log.samples[WALL.id]) < 5000


def test_answers_that_no_one_asked_for_end_the_connection(line: Line, tmp_path: Path) -> None:
    """They would wait in memory for ever."""
    line.record(tmp_path)

    with contextlib.suppress(SocketClosed):
        for number in range(2 * agent_connection.MAX_ANSWERS):
            line.agent.say({"clock": {"id": number, "mono_ns": 1}})

    assert until(lambda: line.node.is_lost, 30)
    line.stop()
    assert line.node.fault == "its agent sends answers that no one asked for"


def test_log_does_not_grow_beyond_what_can_be_read(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of power logs has a limit, and so has their writer."""
    monkeypatch.setattr(agent_connection, "MAX_SAMPLES", 3)
    path = line.record(tmp_path)
    line.agent.read(*[(WALL, 2_000_000_000 + k, 1.0) for k in range(9)])
    assert until(lambda: line.node.fault is not None, 30)
    line.stop()

    assert line.node.fault == "its agent sent more readings than a log may have (3)"
    assert len(power_log.read(path).samples[WALL.id]) == 3


def test_readings_outside_of_a_run_are_ignored(line: Line, tmp_path: Path) -> None:
    """Readings before and after a run are not shown, and the next run does not have them."""
    line.open(WALL)
    line.agent.read((WALL, 900_000_000, 1.0))
    line.open(WALL)  # answered after the reading, so that it has been taken by then
    assert line.node.watts() is None
    paths = []
    for number in range(2):
        paths.append(line.begin(tmp_path, f"node_{number}.txt"))
        line.agent.read((WALL, 1_000_000_000 + number, 300.0))
        line.stop()
        line.agent.read((WALL, 1_500_000_000, 2.0))
        line.open(WALL)

    for path in paths:
        assert [sample.value for sample in power_log.read(path).samples[WALL.id]] == [300.0]


class FillsUp(io.StringIO):
    """A file on a disk that is full after some lines."""

    def __init__(self, num_lines: int) -> None:
        super().__init__()
        self.num_lines = num_lines

    def write(self, text: str) -> int:
        if self.getvalue().count("\n") >= self.num_lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_log_without_room_for_its_first_lines_is_closed(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run does not begin, and no file is left open."""
    stream = FillsUp(num_lines=1)
    monkeypatch.setattr(Path, "open", lambda self, *arguments, **options: stream)
    line.open(WALL)

    with pytest.raises(OutputError, match=r"node_0\.txt: cannot be written: No space left on device"):
        line.begin(tmp_path)

    assert stream.closed


def test_full_disk_ends_the_log_and_nothing_else(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watts are still shown and the run continues; the reason remains even if the agent is silent afterwards."""
    stream = FillsUp(num_lines=5)
    monkeypatch.setattr(Path, "open", lambda self, *arguments, **options: stream)
    monkeypatch.setattr(agent_connection, "ANSWER_S", 0.3)
    line.open(WALL)
    line.begin(tmp_path)
    lines = [(WALL, 1_000_000_000 + number, 300.0 + number) for number in range(3)]
    line.agent.read(*lines)
    assert until(lambda: line.node.watts() == 302.0, 30)
    text = stream.getvalue()
    del line.agent.answers["stop"]
    line.stop()

    assert line.node.fault == "its log cannot be written: No space left on device"
    assert text.count("\n") == 5
    assert text.endswith("\n")


def test_watts_are_those_of_the_node_or_of_its_parts(line: Line, tmp_path: Path) -> None:
    """A counter needs two readings; a device with two meters counts once; a node's own sensor replaces all."""
    sampled = spec(id="nvml:GPU-0:power", component="gpu", scope="board", meter_class="D", device="GPU-0")
    line.open(gpu(0), sampled, package(0), package(1), WALL)
    line.begin(tmp_path)
    line.agent.read((package(0), 10**9, 1000.0), (package(1), 10**9, 500.0))
    line.agent.read((package(0), 2 * 10**9, 1100.0))
    assert until(lambda: line.node.watts() == 100.0, 30)
    line.agent.read((gpu(0), 10**9, 0.0), (gpu(0), 2 * 10**9, 250.0), (sampled, 2 * 10**9, 999.0))
    assert until(lambda: line.node.watts() == 350.0, 30)
    line.agent.read((package(1), 2 * 10**9, 400.0))  # it wrapped or was reset: this second is unknown
    line.agent.read((package(0), 2 * 10**9, 1200.0))  # no time has passed
    assert until(lambda: line.node.watts() == 250.0, 30)

    line.agent.read((WALL, 10**9, 700.0))
    assert until(lambda: line.node.watts() == 700.0, 30)
