"""Runs on two nodes: equal to runs on one, ended with a name where something is killed, and nothing is left."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.run_log import RunLog
from tests import node_kills, node_soak
from tests.harness.launch import besieger
from tests.killing import Running, has_event, toy_runs, toy_tree, until
from tests.nodes import needs_namespaces, on_node, runs_on_two_nodes

pytestmark = pytest.mark.slow
LOCAL = ("--nodes", "2", "--launcher", "local")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts `tta run toy` on two nodes, each a network namespace; ends what is left of it."""
    yield from runs_on_two_nodes(toy_tree(tmp_path))


def ended(running: Running) -> tuple[int, RunLog, dict[str, Any]]:
    """Exit status, log and the metadata of run_stop, after a check for defects and processes left behind."""
    status = running.wait(90)
    assert until(lambda: not running.relatives(), 20), running.relatives()
    log = run_log.read(running.folder / "out" / "result_0.txt")
    assert log.defects == ()
    assert "Traceback" not in running.errors, running.errors
    stop = log.first("run_stop")
    return status, log, {} if stop is None else dict(stop.metadata)


def test_nodes_on_one_machine_are_one_world(tmp_path: Path) -> None:
    """Two nodes with two ranks each: four ranks, the facts of both nodes, and nothing left on either."""
    with toy_runs(toy_tree(tmp_path)) as begin:
        status, log, stop = ended(begin(*LOCAL, "--devices", "2"))

    assert (status, stop["reason"]) == (1, "budget")
    assert [rank["rank"] for rank in log.value("tta_world")] == [0, 1, 2, 3]
    assert [node["node"] for node in log.field("tta_launch", "nodes")] == [0, 1]
    assert log.field("tta_nodes_clean", "left") == {"0": [], "1": []}
    assert log.field("tta_isolation", "network") == "open"


@needs_namespaces
def test_two_nodes_are_reached_over_their_cable(start: Callable[..., Running]) -> None:
    """Each node has its host name, its address and the interface of the cable; the variables name it."""
    status, log, stop = ended(start("--devices", "2"))

    assert (status, stop["reason"]) == (1, "budget")
    assert [rank["host"] for rank in log.value("tta_world")] == ["n1", "n1", "n2", "n2"]
    nodes = log.field("tta_launch", "nodes")
    assert [(node["address"], node["interface"]) for node in nodes] == [
        ("10.77.0.1", "cable0"),
        ("10.77.0.2", "cable1"),
    ]
    assert log.field("tta_isolation", "environment")["GLOO_SOCKET_IFNAME"] == "cable0"


@needs_namespaces
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.release) if what == "helper and starter" else what
        for what in node_kills.VICTIMS
    ],
)
def test_whatever_is_killed_the_run_ends_with_the_node_and_nothing_is_left(tmp_path: Path, what: str) -> None:
    """Every rank has started a process that left its session twice; python -m tests.node_kills makes more of these."""
    node = node_kills.VICTIMS[what][1][-1]
    for begin in runs_on_two_nodes(toy_tree(tmp_path)):
        taken_s, end = node_kills.attempt(begin, what, node, 0.3)

    assert node_kills.verdict(what, node, taken_s, end) is None, (taken_s, end)


def test_runs_in_one_allocation_leave_nothing(tmp_path: Path) -> None:
    """The short form of python -m tests.node_soak."""
    assert node_soak.soak(tmp_path, 4) == []


@needs_namespaces
def test_port_that_is_besieged_changes_no_run(start: Callable[..., Running]) -> None:
    """A wrong token, a greeting that was heard before, a line of 1 GiB and 1,000 connections that say nothing or half a
    greeting, before and during two runs: each reason is said once, and the referee's memory has not the line."""
    running = start("--runs", "2", "--ssh", shlex.join([sys.executable, besieger.__file__, "."]))
    log = running.folder / "out" / "result_1.txt"
    assert until(lambda: has_event(log, "run_start") or running.process.poll() is not None, 120)
    assert running.process.poll() is None, running.process.communicate()[1]
    (referee,) = on_node(running, 0, node_kills.MAIN)
    status = Path(f"/proc/{referee.pid}/status").read_text()
    (peak_kib,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))

    _, _, stop = ended(running)
    assert stop["reason"] == "budget"
    assert run_log.read(log).one("run_stop").metadata["reason"] == "budget"
    done = json.loads((running.folder / "siege.json").read_text())
    assert (done["refusals"], done["opened"]) == (2 * besieger.NUM_EACH, besieger.NUM_CONNECTIONS)
    assert done["sent"] < 16 << 20  # what the buffers of the two sockets take
    assert peak_kib < 256 << 10
    refused = [line for line in running.errors.splitlines() if "refused a connection" in line]
    assert sorted(refused) == [
        f"tta: node: refused a connection from 10.77.0.1: {reason}"
        for reason in (
            "it had not greeted yet, and more came",
            "it sent a message of more than 4,096 bytes",
            "its TTA_NODE_TOKEN is another",
        )
    ]
