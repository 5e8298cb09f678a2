"""Runs on two nodes in which something is killed at a random moment.

    python -m tests.node_kills [NUM_RUNS] [SEED]

Each run must end as aborted within 30 s, name the node, and leave no process on any node, although every rank has
started one that left its session twice. Prints a line a run; fails if one does not.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from harness.log import run_log
from tests.killing import Running, has_event, kill, toy_tree, until
from tests.nodes import on_node, runs_on_two_nodes

LIMIT_S = 30.0
WORKER, STARTER, MAIN = "harness.run.worker", "harness.run.starter", "harness.cli"


def _rank(running: Running, node: int) -> list[psutil.Process]:
    return on_node(running, node, WORKER)[-1:]


def _starter(running: Running, node: int) -> list[psutil.Process]:
    return on_node(running, node, STARTER)[-1:]


def _helper(running: Running, node: int) -> list[psutil.Process]:
    return on_node(running, 1, MAIN)


def _helper_and_starter(running: Running, node: int) -> list[psutil.Process]:
    return [*_helper(running, 1), *_starter(running, 1)]


def _node(running: Running, node: int) -> list[psutil.Process]:
    return [*_helper(running, 1), *on_node(running, 1, STARTER), *on_node(running, 1, WORKER)]


def _referee(running: Running, node: int) -> list[psutil.Process]:
    return on_node(running, 0, MAIN)


# What is killed, and on which nodes. A run whose referee is killed has no end in its log.
VICTIMS: dict[str, tuple[Callable[[Running, int], list[psutil.Process]], tuple[int, ...]]] = {
    "rank": (_rank, (0, 1)),
    "starter": (_starter, (0, 1)),
    "helper": (_helper, (1,)),
    "helper and starter": (_helper_and_starter, (1,)),
    "node": (_node, (1,)),
    "link": (lambda running, node: [], (1,)),
    "referee": (_referee, (0,)),
}


def cut(running: Running) -> None:
    """Take the cable down, in the namespaces of the first node."""
    (referee,) = on_node(running, 0, MAIN)
    inside = ["nsenter", "-t", str(referee.pid), "-U", "-n", "--preserve-credentials"]
    subprocess.run([*inside, "ip", "link", "set", "cable0", "down"], check=True)


def attempt(begin: Callable[..., Running], what: str, node: int, wait_s: float) -> tuple[float, str]:
    """Make one run and kill something; return how long everything took to end, and what the log says."""
    running = begin("--devices", "2", "pause_s=0.3", "fault=start:twice")
    log = running.folder / "out" / "result_0.txt"
    try:
        assert until(lambda: has_event(log, "run_start") or running.process.poll() is not None), "did not start"
        time.sleep(wait_s)
        find = VICTIMS[what][0]
        began_s = time.monotonic()
        if what == "link":
            cut(running)
        victims = find(running, node)
        assert victims or what == "link", f"no {what} on node {node}"
        for process in victims:
            kill(process)
        running.wait(60)
        assert until(lambda: not running.relatives(), LIMIT_S), f"left: {running.relatives()}"
        taken_s = time.monotonic() - began_s
    finally:
        running.end()
    stop = run_log.read(log).first("run_stop")
    return taken_s, "no end" if stop is None else f"{stop.metadata['status']}: {stop.metadata['evidence']}"


def verdict(what: str, node: int, taken_s: float, end: str) -> str | None:
    """Return what is wrong with an end; None if nothing is."""
    if taken_s > LIMIT_S:
        return f"took {taken_s:.1f} s"
    wanted = "no end" if what == "referee" else f"aborted: node {node} (n{node + 1}): "
    return None if end.startswith(wanted) else f"not {wanted!r}"


@contextmanager
def folder() -> Any:
    with tempfile.TemporaryDirectory(prefix="tta-kills-") as place:
        yield Path(place)


def main(num_runs: int, seed: int) -> int:
    """Make the runs; return how many ended otherwise than they must."""
    drawn = random.Random(seed)
    num_wrong = 0
    for number in range(num_runs):
        what = drawn.choice(list(VICTIMS))
        node = drawn.choice(VICTIMS[what][1])
        wait_s = drawn.uniform(0.0, 1.5)
        with folder() as place:
            tree = toy_tree(place)
            for begin in runs_on_two_nodes(tree):
                try:
                    taken_s, end = attempt(begin, what, node, wait_s)
                    wrong = verdict(what, node, taken_s, end)
                except AssertionError as error:
                    taken_s, end, wrong = 0.0, "", str(error)
        num_wrong += wrong is not None
        print(f"{number:3d} {what:18s} node {node} {taken_s:5.1f} s  {end[:110]}  {wrong or 'ok'}", flush=True)
    print(f"{num_runs - num_wrong} of {num_runs} ended as they must")
    return num_wrong


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if main(*(numbers + [100, 1][len(numbers) :])) else 0)
