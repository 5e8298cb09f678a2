"""What the referee makes of a helper's messages, and which of several nodes is blamed; the helpers are scripted."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.base.arrivals import Arrivals, Door
from harness.base.greeting import Hello, SealedSocket, greeted
from harness.base.json_socket import SocketClosed
from harness.errors import UsageError
from harness.launch import connection, spread
from harness.launch.connection import HelperConnection
from harness.launch.protocol import NODES
from harness.launch.spread import SpreadWorker
from harness.run.launcher import LaunchedWorker
from harness.run.plan import WorkerLost, WorkerTimeout
from harness.run.starter import Place
from tests.killing import until

TOKEN = b"0123456789abcdef"


class Scripted:
    """A helper whose messages a test sends; it answers each request by `answer`, unless that is None."""

    def __init__(self, address: str, number: int) -> None:
        self.channel: SealedSocket | None = None
        self.sending = threading.Lock()
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda request: {}
        self.thread = threading.Thread(target=self._serve, args=(address, number), daemon=True)
        self.thread.start()

    def _serve(self, address: str, number: int) -> None:
        self.channel = greeted(NODES, address, TOKEN, Hello(number, f"n{number + 1}", None), time.monotonic() + 10)
        with contextlib.suppress(SocketClosed):
            while True:
                request = self.channel.receive(None) or {}
                if request["do"] == "beat":
                    continue
                self.asked.append(request)
                if request["do"] == "close":
                    break
                if (answer := self.answer(request)) is not None:
                    self.send({"answer": {**answer, "id": request["id"]}})
        self.channel.close()

    def send(self, message: dict[str, Any]) -> None:
        assert self.channel is not None
        with self.sending:
            self.channel.send(message)


@contextlib.contextmanager
def helpers(num: int) -> Iterator[list[tuple[HelperConnection, Scripted]]]:
    """The referee's sides of that many helpers, and the helpers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        arrivals = Arrivals(NODES, (Door(listener, TOKEN, range(1, 1 + num)),), HelperConnection, print)
        scripted = [Scripted(address, number) for number in range(1, 1 + num)]
        while len(arrivals.nodes) < num:
            arrivals.wait(0.05)
        arrivals.close()
    found = [arrivals.nodes[number] for number in range(1, 1 + num)]
    try:
        yield list(zip(found, scripted, strict=True))
    finally:
        for helper in found:
            helper.close()


def test_request_has_its_own_answer_or_a_refusal() -> None:
    """A late answer to an earlier request is no answer to a later one."""
    with helpers(1) as [(helper, scripted)]:
        scripted.answer = lambda request: None
        with pytest.raises(WorkerTimeout, match=r"node 1 \(n2\): no answer within 0 s"):
            helper.ask({"do": "look"}, 0.05)
        scripted.send({"answer": {"id": 1, "what": "late"}})
        scripted.answer = lambda request: {"what": "right"}
        assert helper.ask({"do": "look"}, 5.0)["what"] == "right"
        scripted.answer = lambda request: {"refusal": "no such data"}
        with pytest.raises(UsageError, match=r"node 1 \(n2\): no such data"):
            helper.ask({"do": "look"}, 5.0)


def test_ranks_that_end_are_reported_by_a_beat() -> None:
    with helpers(1) as [(helper, scripted)]:
        assert until(lambda: scripted.channel is not None, 5)
        assert scripted.channel is not None
        assert scripted.channel.addresses == ("127.0.0.1", "127.0.0.1")
        scripted.send({"beat": {}})
        assert helper.found() is None
        scripted.send({"beat": {"fault": "rank 3 was killed by SIGKILL", "reason": "oom", "is_cause": True}})
        assert until(lambda: helper.found() is not None, 5)

        fault = helper.found()
        assert fault is not None
        assert (str(fault), fault.reason, fault.is_cause, fault.node) == (
            "node 1 (n2): rank 3 was killed by SIGKILL",
            "oom",
            True,
            1,
        )


def test_silent_helper_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LATE_S", 0.2)
    with helpers(1) as [(helper, _)]:
        assert until(lambda: helper.found() is not None, 5)
        assert "nothing was heard from its helper for 0 s" in str(helper.found())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (lambda scripted: scripted.channel._channel.send({"mac": "0", "text": "{}"}), "a message that is forged"),
        (
            lambda scripted: [scripted.send({"answer": {"id": 7}}) for _ in range(connection.MAX_ANSWERS + 1)],
            "answers that no one asked for",
        ),
        (lambda scripted: scripted.channel.end(), "its helper is gone"),
    ],
)
def test_helper_that_is_gone_or_sends_what_is_no_message_is_lost(message: Callable[[Scripted], None], why: str) -> None:
    """A request to it says why, whether it is on its way or not sent yet."""
    with helpers(1) as [(helper, scripted)]:
        assert until(lambda: scripted.channel is not None, 5)
        message(scripted)

        assert until(lambda: helper.is_lost, 5)
        assert why in str(helper.found())
        with pytest.raises(WorkerLost, match=why):
            helper.answer(1, 5.0)
        with contextlib.suppress(WorkerLost):
            for _ in range(3):
                helper.send({"do": "clock"})


class Own:
    """The ranks of the referee's node, which do as they are told."""

    def __init__(self) -> None:
        self.isolation = {"means": "none"}
        self.act: Callable[[Callable[[], None]], Any] = lambda tick: [{}]
        self.done: list[str] = []

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> Any:
        return self.act(on_tick)

    def ask(self, command: dict[str, Any], on_tick: Callable[[], None], timeout_s: float) -> Any:
        return self.act(on_tick)

    def give_data(self, data_dir: Path) -> str:
        return str(data_dir)

    def stop(self, grace_s: float) -> None:
        self.done.append(f"stopped after {grace_s:g} s")


@contextlib.contextmanager
def spread_over(num: int, folder: Path) -> Iterator[tuple[SpreadWorker, Own, list[tuple[HelperConnection, Scripted]]]]:
    with helpers(num) as found:
        own = Own()
        place = Place(2, num_nodes=1 + num, port=20_001, interface="ib0", mark="0123456789abcdef")
        connections = [helper for helper, _ in found]
        output = folder / "worker_0.txt"
        yield SpreadWorker(cast(LaunchedWorker, own), connections, place, "n1", output, "worker"), own, found


def test_ranks_are_numbered_over_the_nodes_and_their_output_is_kept(tmp_path: Path) -> None:
    with spread_over(2, tmp_path) as (worker, own, found):
        for _, scripted in found:
            scripted.answer = lambda request: {"left": ["sleep\n"], "output": "what they printed"}
        assert worker.start(lambda: None, 5.0) == [{}]
        assert worker.give_data(tmp_path) == str(tmp_path)
        assert worker.isolation == {"means": "none"}
        worker.stop(1.0)
        worker.stop(0.0)

        places = [scripted.asked[0]["place"] for _, scripted in found]
        assert [(place["first_rank"], place["num_ranks"], place["interface"]) for place in places] == [
            (2, 2, None),
            (4, 2, None),
        ]
        assert [request["do"] for request in found[0][1].asked] == ["start", "give", "stop"]
        assert worker.left == {"0": [], "1": ["sleep\\n"], "2": ["sleep\\n"]}
        assert (tmp_path / "worker_0_node_2.txt").read_text() == "what they printed"
        assert own.done == ["stopped after 1 s"]


def raising(error: Exception) -> Callable[[Callable[[], None]], Any]:
    def act(on_tick: Callable[[], None]) -> Any:
        raise error

    return act


@pytest.mark.parametrize(
    ("own", "beat", "blamed"),
    [
        # A rank of this node was killed: the others followed.
        (WorkerLost("rank 0 was killed by SIGKILL", is_cause=True), "Connection closed by peer", 0),
        # A rank of the other node was killed, and this node lost its connection.
        (WorkerLost("rank 0: Connection closed by peer"), "rank 2 was killed by SIGKILL", 1),
        # All lost their connections: the one that noticed first is named.
        (WorkerLost("rank 0: Connection closed by peer"), None, 0),
    ],
)
def test_node_that_went_wrong_first_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: WorkerLost, beat: str | None, blamed: int
) -> None:
    monkeypatch.setattr(spread, "BLAME_S", 0.5)
    with spread_over(1, tmp_path) as (worker, ranks, [(_, scripted)]):
        worker.start(lambda: None, 5.0)
        ranks.act = raising(own)
        if beat is not None:
            scripted.send({"beat": {"fault": beat, "reason": "crashed", "is_cause": "killed" in beat}})
        with pytest.raises(WorkerLost) as lost:
            worker.ask({"do": "train"}, lambda: None, 5.0)

        assert lost.value.node == blamed
        assert str(lost.value).startswith(f"node {blamed} (n{1 + blamed}): ")


def test_fault_of_another_node_ends_the_wait_for_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 may wait in a collective operation for ever; also where it is no cause of its own."""
    monkeypatch.setattr(spread, "BLAME_S", 0.1)
    with spread_over(1, tmp_path) as (worker, ranks, [(_, scripted)]):
        worker.start(lambda: None, 5.0)
        scripted.send({"beat": {"fault": "rank 2: the exit status was 1", "reason": "crashed"}})

        def wait(on_tick: Callable[[], None]) -> Any:
            for _ in range(200):
                time.sleep(0.02)
                on_tick()
            return {}

        ranks.act = wait
        with pytest.raises(WorkerLost, match=r"node 1 \(n2\): rank 2: the exit status was 1"):
            worker.ask({"do": "train"}, lambda: None, 5.0)


@pytest.mark.parametrize("message", ["ValueError: boom", "RuntimeError: Connection reset"])
def test_answer_of_rank_0_that_it_crashed_names_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setattr(spread, "BLAME_S", 0.1)
    with spread_over(1, tmp_path) as (worker, ranks, _):
        worker.start(lambda: None, 5.0)
        ranks.act = lambda on_tick: {"ok": False, "kind": "crashed", "message": message}
        with pytest.raises(WorkerLost, match=r"node 0 \(n1\): "):
            worker.ask({"do": "train"}, lambda: None, 5.0)
        ranks.act = lambda on_tick: {"ok": True}
        assert worker.ask({"do": "train"}, lambda: None, 5.0) == {"ok": True}


def test_node_that_cannot_be_asked_is_not_known_to_be_clean(tmp_path: Path) -> None:
    with spread_over(1, tmp_path) as (worker, _, [(helper, scripted)]):
        worker.start(lambda: None, 5.0)
        assert scripted.channel is not None
        scripted.channel.end()
        assert until(lambda: helper.is_lost, 5)
        worker.stop(0.0)

        assert worker.left == {"0": [], "1": None}
