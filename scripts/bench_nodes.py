#!/usr/bin/env python3
"""What the helper of a second node costs: the time of runs with it and without, a cut link, and cold starts.

Each pair trains with two ranks twice, for a fixed number of samples: as two processes of one node, without a helper,
and as two nodes on this machine with a process each (`--launcher local`), in alternating order. Both exchange gradients
over the loopback interface, and neither is confined, so that the helper is all that differs. Each command makes two
cold runs in one allocation. Prints the ratios of the timed regions of runs with the same seed, the helper's CPU seconds
per second of a run, and how long both runs of two nodes took to start: the first from the command to `run_start`, the
second from the first one's `run_stop`, without the workload's own preparation.

The second part has two nodes in network namespaces (as the tests have them). Between helper and referee is a relay that
passes nothing on for five seconds in the middle of the run; the ranks' own connections are left alone. Prints the ratio
of the median block (of ten steps, with its evaluation) that meets the cut to that of the others, and how the run ended.

    python scripts/bench_nodes.py [--pairs 20] [--cuts 5] [--samples 25600]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # callable from any folder

from harness.log import run_log  # noqa: E402
from harness.log.run_log import RunLog  # noqa: E402
from harness.run import data_cache, workloads  # noqa: E402
from scripts.bench_overhead import BENCHMARK, interval, shortened_rules  # noqa: E402
from tests.killing import Running, has_event, until  # noqa: E402
from tests.nodes import SPREAD, TWO_NODES, is_permitted  # noqa: E402

NUM_RUNS = 2  # of a command
ALONE = ("--devices", "2")
LOCAL = ("--devices", "1", "--nodes", "2", "--launcher", "local")
CUT_S, CUT_AFTER_S = 5.0, 4.0
CUT_EVERY_SAMPLES = 1280  # ten steps
LIMIT_S = 900.0


def command(rules: Path, out: Path, seed: int, num_runs: int) -> list[str]:
    """Return the arguments of `tta` that all commands here share."""
    own = ["run", BENCHMARK[0], "--suite", BENCHMARK[1], "--full-curve", "--ruleset", str(rules), "--out", str(out)]
    own += ["--runs", str(num_runs), "--seed", str(seed), "--isolation", "none", "--no-mlflow", "--quiet"]
    return [*own, "--data", str(data_cache.default_cache())]


def run_s(log: RunLog) -> float:
    return log.seconds(log.one("run_start"), log.one("run_stop"))


def without_preparation_s(log: RunLog, begin_s: float) -> float:
    """Return the seconds from a time of the wall clock to `run_start`, less those of the workload's preparation."""
    return log.one("run_start").time_ms / 1e3 - begin_s - log.seconds(log.one("init_start"), log.one("init_stop"))


class HelperWatch(threading.Thread):
    """Reads the CPU seconds that the helper of a command has used, every half a second."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.seen: list[tuple[float, float]] = []
        self.start()

    def run(self) -> None:
        while self._process.is_running():
            with contextlib.suppress(psutil.Error):  # of a child that has just ended
                for child in self._process.children():
                    if "node" in child.cmdline():
                        used = child.cpu_times()
                        self.seen.append((time.time(), used.user + used.system))
            time.sleep(0.5)

    def per_second(self, log: RunLog) -> float:
        """Return the CPU seconds per second between `run_start` and `run_stop`."""
        start_s, stop_s = (log.one(key).time_ms / 1e3 for key in ("run_start", "run_stop"))
        within = [seen for seen in self.seen if start_s <= seen[0] <= stop_s]
        (first_s, before), (last_s, after) = within[0], within[-1]
        return (after - before) / (last_s - first_s)


def measured(arguments: list[str], out: Path) -> tuple[list[RunLog], float, HelperWatch]:
    """Run a command; return its logs, when it began, and what its helper used."""
    begin_s = time.time()
    process = subprocess.Popen([sys.executable, "-m", "harness.cli", *arguments], cwd=ROOT)
    watch = HelperWatch(psutil.Process(process.pid))
    if process.wait(LIMIT_S) != 0:
        raise SystemExit(f"ended with status {process.returncode}: {' '.join(arguments)}")
    return [run_log.read(out / f"result_{number}.txt") for number in range(NUM_RUNS)], begin_s, watch


def shown(what: str, values: list[float], unit: str = "") -> None:
    low, high = interval(values)
    middle = statistics.median(values)
    print(f"{what}: median {middle:.4f}{unit} (95 % {low:.4f} to {high:.4f}, {len(values)} values)", flush=True)


def pairs(num_pairs: int, rules: Path, scratch: Path) -> None:
    ratios: list[float] = []
    cpu: list[float] = []
    starts: dict[str, list[float]] = {"first": [], "second": []}
    names = ("alone s", "", "two nodes s", "", "helper CPU", "", "first start", "second start")
    print("pair  " + "  ".join(f"{name:>12}" for name in names), flush=True)
    for pair in range(num_pairs):
        seconds = {}
        for kind in (ALONE, LOCAL) if pair % 2 == 0 else (LOCAL, ALONE):
            out = scratch / f"{pair}_{len(kind)}"
            logs, begin_s, watch = measured([*command(rules, out, NUM_RUNS * pair, NUM_RUNS), *kind], out)
            seconds[kind] = [run_s(log) for log in logs]
            if kind is LOCAL:
                starts["first"].append(without_preparation_s(logs[0], begin_s))
                starts["second"].append(without_preparation_s(logs[1], logs[0].one("run_stop").time_ms / 1e3))
                cpu += [watch.per_second(log) for log in logs]
        ratios += [with_s / without_s for with_s, without_s in zip(seconds[LOCAL], seconds[ALONE], strict=True)]
        row = [*seconds[ALONE], *seconds[LOCAL], *cpu[-NUM_RUNS:], starts["first"][-1], starts["second"][-1]]
        print(f"{pair:>4}  " + "  ".join(f"{value:>12.4f}" for value in row), flush=True)
    shown("two nodes / one node, timed region", ratios)
    shown("CPU seconds of the helper per second of a run", cpu)
    shown("first run of two nodes, from the command to run_start", starts["first"], " s")
    shown("second run, from the first run_stop to run_start", starts["second"], " s")


def relay(folder: Path, host: str, line: str) -> int:
    """Be `ssh`: start the helper with an address of this process, and pass on what it and the referee say.

    As long as `folder` has a file `cut`, nothing is passed on.
    """
    found = re.search(r"--connect (\S+):(\d+)", line)
    assert found is not None
    own = socket.create_server((found[1], 0))
    changed = line.replace(found[0], f"--connect {found[1]}:{own.getsockname()[1]}")
    helper = subprocess.Popen([str(folder / "ssh"), host, changed])  # it reads the token from the same input
    inner, _ = own.accept()
    outer = socket.create_connection((found[1], int(found[2])))
    others = {inner: outer, outer: inner}
    with selectors.DefaultSelector() as selector:
        for end in others:
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                end = key.fileobj
                assert isinstance(end, socket.socket)
                data = end.recv(1 << 16)
                while (folder / "cut").exists():
                    time.sleep(0.01)
                if not data:
                    for connection in others:
                        connection.close()
                    return helper.wait()
                others[end].sendall(data)


def cut_once(seed: int, rules: Path, folder: Path) -> tuple[float, str]:
    """Make a run whose control link is cut; return the ratio of the medians of its blocks, and how it ended."""
    folder.mkdir()
    via = f"{sys.executable} {Path(__file__).absolute()} --relay {folder}"
    spread = [*SPREAD, "--devices", "1", "--ssh", via]
    environment = {"PYTHONPATH": str(ROOT)}
    running = Running(
        [*command(rules, folder / "out", seed, 1), *spread], folder, environment, prefix=(*TWO_NODES, str(folder))
    )
    path = folder / "out" / "result_0.txt"
    try:
        until(lambda: has_event(path, "run_start") or running.process.poll() is not None, LIMIT_S)
        time.sleep(CUT_AFTER_S)
        (folder / "cut").touch()
        begin_s = time.time()
        time.sleep(CUT_S)
        (folder / "cut").unlink()
        end_s = time.time()
        if running.wait(LIMIT_S) != 0:
            raise SystemExit(running.errors)
    finally:
        running.end()
    log = run_log.read(path)
    during, others = [], []
    for start, stop in zip(log.all("block_start"), log.all("eval_stop"), strict=True):
        is_during = start.time_ms / 1e3 <= end_s and stop.time_ms / 1e3 >= begin_s
        (during if is_during else others).append(log.seconds(start, stop))
    if not during or not others:
        raise SystemExit(f"{len(during)} blocks meet the cut, {len(others)} do not: change --samples")
    return statistics.median(during) / statistics.median(others), str(log.one("run_stop").metadata["reason"])


def cuts(num_cuts: int, rules: Path, scratch: Path) -> None:
    if not is_permitted():
        raise SystemExit("no namespaces here: --cuts 0 leaves the second part out")
    ratios = []
    for number in range(num_cuts):
        ratio, end = cut_once(number, rules, scratch / f"cut_{number}")
        ratios.append(ratio)
        print(f"cut {number}: blocks that meet it / others {ratio:.3f}; the run ended by {end}", flush=True)
    shown(f"blocks that meet a cut of the control link for {CUT_S:g} s / others", ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--cuts", type=int, default=5)
    parser.add_argument("--samples", type=int, default=25_600, help="samples a run trains on (default: %(default)s)")
    parser.add_argument("--relay", nargs=3, metavar=("FOLDER", "HOST", "LINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.relay is not None:
        folder, host, line = arguments.relay
        sys.exit(relay(Path(folder), host, line))
    data_cache.prepare(workloads.workload(BENCHMARK[0]), BENCHMARK[1], data_cache.default_cache())
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two ranks on one machine, as two nodes and as one
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for folder, others in (("rules", {}), ("often", {"eval_every_samples": CUT_EVERY_SAMPLES})):
            (scratch / folder).mkdir()
            shortened_rules(scratch / folder, arguments.samples, **others)
        if arguments.pairs:
            pairs(arguments.pairs, scratch / "rules", scratch)
        if arguments.cuts:
            cuts(arguments.cuts, scratch / "often", scratch)


if __name__ == "__main__":
    main()
