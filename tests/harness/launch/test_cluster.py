"""Helpers of this machine, without ranks: they come, are compared, or the first sentence says which node and why."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.launch import cluster, network
from harness.launch.cluster import Cluster
from harness.launch.launchers import LocalLauncher
from harness.launch.protocol import NODES, Handle, Node
from harness.metering.recorder import PowerRecorder
from harness.run import isolation
from harness.run.isolation import Places
from harness.run.starter import Place
from tests.fabricate import SYSTEM
from tests.killing import until

Change = Callable[[list[str]], list[str]]


class Changed(LocalLauncher):
    """A launcher that changes the command of a helper, or the token that it is given."""

    arrival_s = 6.0

    def __init__(self, num_nodes: int, change: Change = list, token: str | None = None) -> None:
        super().__init__(num_nodes)
        self.change, self.token = change, token

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        return super().start(node, self.change(list(command)), self.token or token)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A prepared data set."""
    path = tmp_path / "toy_mini" / "prepared" / "data"
    path.mkdir(parents=True)
    (path / "metadata.json").write_text("{}")
    return path


def environment(*settings: str) -> Change:
    return lambda command: ["env", *settings, *command]


def option(name: str, value: str) -> Change:
    def changed(command: list[str]) -> list[str]:
        place = command.index(name)
        return [*command[: place + 1], value, *command[place + 2 :]]

    return changed


def said_by_shell(text: str) -> Change:
    return lambda command: ["sh", "-c", f"echo {text} >&2; exit 1"]


@contextlib.contextmanager
def nodes(launcher: LocalLauncher, **options: Any) -> Iterator[tuple[Cluster, list[str]]]:
    said: list[str] = []
    with cluster.opened(launcher, said.append, **options) as found:
        yield found, said


def test_nodes_that_agree_can_begin(data: Path, tmp_path: Path) -> None:
    """Facts of both nodes, one form of confinement, clocks, and a helper that ends with its connection."""
    with nodes(LocalLauncher(2)) as (found, said):
        found.check(1, data, is_metered=True)
        places = Places(data, (tmp_path,))
        place = Place(1, num_nodes=2)
        found.isolate("none", places, isolation.choose("none", places, place, lambda form, where: None), 1)
        assert re.fullmatch("[0-9a-f]{64}", found.start_agents(9))  # nothing listens there

        assert [node["interface"] for node in found.facts()["nodes"]] == ["lo", "lo"]
        assert found.facts()["launcher"] == {"kind": "local"}
        assert abs(found._ahead_s(found._helpers[0]) or 0.0) < 0.5
        assert found.lost is None
        assert [sentence for sentence in said if "is on the same machine as node 0" in sentence]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (environment("SLURM_RESTART_COUNT=1"), "the scheduler has started this job again"),
        (option("--interface", "lo7"), "no interface lo7; see --interface"),
        (environment("NCCL_DEBUG=INFO"), None),
    ],
)
def test_node_that_differs_is_named(data: Path, change: Change, message: str | None) -> None:
    """Before any process of a run is started; a variable that differs is said and refuses nothing."""
    with nodes(Changed(2, change), interface="lo") as (found, said):
        if message is None:
            found.check(1, data, is_metered=False)
            assert [sentence for sentence in said if "NCCL_DEBUG differ from those of node 0" in sentence]
            return
        with pytest.raises(UsageError, match=message) as refused:
            found.check(1, data, is_metered=False)
    assert str(refused.value).startswith("node 1 (")


def test_data_and_confinement_that_differ_are_named(data: Path, tmp_path: Path) -> None:
    """The data are on no node; the ranks of the helper's node are not confined, those of node 0 are."""
    places = Places(data, (), (tmp_path / "module.py",))
    with nodes(LocalLauncher(2)) as (found, _):
        with pytest.raises(UsageError, match=r"node 1 \(.*\): has not the data in .*; prepare them there"):
            found.check(1, tmp_path / "none", is_metered=False)
        with pytest.raises(UsageError, match=r"node 1 \(.*\): has no .*module\.py; put --out on storage"):
            found.isolate("none", places, isolation.Isolation({}), 1)
        full = isolation.Isolation({**isolation._OPEN, "files": "confined", "no_new_privs": True} | ALWAYS)
        with pytest.raises(UsageError, match=r"node 1 \(.*\): .*files: open, and confined on node 0"):
            found.isolate("none", Places(data), full, 1)


ALWAYS = {"referee_dumpable": False}


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        (Changed(2, token="x" * 64), "its TTA_NODE_TOKEN is another"),
        (Changed(2, token="short"), "TTA_NODE_TOKEN has 5 characters"),
        (Changed(3, option("--node", "1")), "every helper needs a number of its own"),
        (Changed(2, option("--node", "7")), "the run has no such node"),
        (
            Changed(2, lambda command: [*option("--connect", "127.0.0.1:1")(command), "--patience", "0"]),
            "nothing can be reached there: Connection refused; node 0 must be reachable by TCP from it",
        ),
        (
            Changed(2, said_by_shell("srun: unrecognized option --container-image")),
            "this scheduler has no pyxis: leave the container's options out",
        ),
        (Changed(2, said_by_shell("Permission denied '(publickey)'")), "ssh must work without a password"),
        (Changed(2, said_by_shell("sh: tta: not found")), "must be at the same path on every node"),
        (Changed(2, lambda command: ["sleep", "60"]), "its helper did not come within 6 s"),
        (
            Changed(2, lambda command: [*command, "--counted-by", "NO_SUCH_VARIABLE"]),
            "it must be a whole number, which the scheduler sets on each node",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_helper_that_does_not_come_is_named_with_a_remedy(
    launcher: Changed, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CLOSE_S", 0.0)

    with pytest.raises(UsageError, match=re.escape(message)) as refused, nodes(launcher):
        pass
    assert re.match(r"node [12] \(", str(refused.value))


def test_first_node_that_is_not_this_machine_or_has_no_such_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login node's address, an interface that is not here, and a port in use."""
    launcher = LocalLauncher(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of .*: Address already in use"), nodes(launcher, port=port):
            pass
    with (
        pytest.raises(UsageError, match=r"--interface lo7: this machine has no such"),
        nodes(launcher, interface="lo7"),
    ):
        pass
    launcher.nodes[0] = Node(0, "login", "192.0.2.1")
    with (
        pytest.raises(UsageError, match="not an address of this machine; the first node must be the one"),
        nodes(launcher),
    ):
        pass


def test_strangers_at_the_port_are_refused_and_the_helper_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong token, a line without an end, silence, and 200 connections; each refusal is said once."""

    class Besieged(LocalLauncher):
        def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
            host, _, port = command[command.index("--connect") + 1].rpartition(":")
            self.attack = threading.Thread(target=attacked, args=(host, int(port)))
            self.attack.start()
            time.sleep(0.5)
            return super().start(node, command, token)

    connections: list[socket.socket] = []

    def attacked(host: str, port: int) -> None:
        with contextlib.suppress(OSError):
            for number in range(200):
                connection = socket.create_connection((host, port), 5)
                connections.append(connection)
                if number == 0:
                    hello = {"tta_node": NODES.version, "nonce": "0" * 32, "node": 1, "host": "n", "machine": None}
                    connection.sendall(json.dumps({**hello, "proof": "0" * 64}).encode() + b"\n")
                elif number == 1:
                    connection.sendall(b"x" * (1 << 16))

    launcher = Besieged(2)
    with nodes(launcher) as (found, said):
        launcher.attack.join()
        assert found.num_nodes == 2
        assert until(lambda: found._ahead_s(found._helpers[0]) is not None, 5)
    for connection in connections:
        connection.close()
    refused = "node: refused a connection from 127.0.0.1: "
    assert sorted(sentence for sentence in said if "refused" in sentence) == [
        f"{refused}it had not greeted yet, and more came",
        f"{refused}it sent a message of more than 4,096 bytes",
        f"{refused}its TTA_NODE_TOKEN is another",
    ]


def test_helpers_start_the_power_agents_of_their_nodes() -> None:
    """They know the agents' token without a message that has it."""
    with nodes(LocalLauncher(3)) as (found, _):
        port = network.free_port("127.0.0.1")
        token = found.start_agents(port).encode()
        with PowerRecorder.start(
            ["powercap"], SYSTEM, 3, f"127.0.0.1:{port}", is_strict=False, token=token
        ) as recorder:
            assert recorder.num_nodes == 3


def test_helper_that_is_killed_is_lost(data: Path) -> None:
    """No further run can be made, and asking it says so."""
    with nodes(LocalLauncher(2)) as (found, _):
        found._helpers[0]._channel.end()

        assert until(lambda: found.lost is not None, 5)
        assert str(found.lost).endswith("its helper is gone")
        assert found._ahead_s(found._helpers[0]) is None
