#!/usr/bin/env python3
"""`tta check` against MLCommons' compliance checker: the same logs, processes in turns, CPU seconds of each.

    python scripts/bench_check.py DIR --ruleset mlperf_training/5.1.0 [--sample N] [--pairs 5] [--each 10]

Needs `pip install mlperf-logging`. DIR is a round, unpacked. In each pair one process of theirs reads all logs through
its API, which is kinder than the documented way of one process a file; that way is measured on `--each` logs. Beside
them: a bare pass that finds the token and parses what follows, the limit; and `tta check` with all cores, by the wall.
CPU seconds are those the system charges to the process, its start-up among them. Their checker executes what its rule
files hold and follows names a log gives it: let it read logs of other people where that does not matter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

THEIRS = """
import contextlib, io, logging, sys
from mlperf_logging.compliance_checker import mlp_compliance
logging.disable(logging.CRITICAL)
version = sys.argv[1]
for path in sys.stdin.read().split("\\0"):
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", version, True, False)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            mlp_compliance.main(path, f"training_{version}/common.yaml", checker)
        except Exception:
            pass
"""
BARE = """
import json, re, sys
for path in sys.stdin.read().split("\\0"):
    with open(path, "rb") as stream:
        for line in stream:
            place = line.find(b":::MLLOG ")
            if place >= 0:
                try:
                    json.loads(line[place + 9:])
                except ValueError:
                    pass
"""


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    status: int


def measured(command: list[str], told: bytes = b"") -> Cost:
    """The cost of one process and those it started and waited for; peak memory of the largest of them."""
    with tempfile.TemporaryFile() as given:
        given.write(told)
        given.seek(0)
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # their checker leaves a log where it is called
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - started
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, process.returncode)


def logs_below(folder: Path) -> list[Path]:
    """Every result log of a round, not those of power meters."""
    found = sorted(folder.rglob("result_*.txt"))
    return [path for path in found if "power" not in path.relative_to(folder).parts and path.is_file()]


def row(name: str, costs: list[Cost], num_logs: int, ratios: list[float] | None) -> str:
    cpu_s = statistics.median(cost.cpu_s for cost in costs)
    wall_s = statistics.median(cost.wall_s for cost in costs)
    shown = ""
    if ratios:
        shown = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    return (
        f"| {name} | {num_logs} | {cpu_s:.2f} | {num_logs / cpu_s:.0f} | {shown} | {wall_s:.2f} | "
        f"{max(cost.peak_mib for cost in costs):.0f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="tta check against MLCommons' compliance checker.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ruleset", default="mlperf_training/5.1.0")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N logs, evenly spread (default: all)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--each", type=int, default=5, metavar="N", help="logs for their one process a file")
    arguments = parser.parse_args()
    version = arguments.ruleset.rpartition("/")[2]
    logs = logs_below(arguments.folder.resolve())
    if arguments.sample:
        logs = logs[:: max(1, len(logs) // arguments.sample)][: arguments.sample]
    if not logs:
        print(f"bench_check: {arguments.folder}: no result_*.txt", file=sys.stderr)
        return 2
    told = "\0".join(map(str, logs)).encode()
    # Of a sample each log is named; a whole tree is checked as one has it, with all that lies beside the logs.
    places = [str(path) for path in logs] if arguments.sample else [str(arguments.folder.resolve())]
    check = [sys.executable, "-m", "harness.cli", "check", "--ruleset", arguments.ruleset, *places]
    commands = {
        "theirs": ([sys.executable, "-c", THEIRS, version], told),
        "ours": ([*check, "--jobs", "1"], b""),
        "bare": ([sys.executable, "-c", BARE], told),
        "cores": ([*check, "--jobs", str(os.cpu_count())], b""),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for pair in range(arguments.pairs):
        for name in commands if pair % 2 == 0 else reversed(commands):
            cost = measured(*commands[name])
            if cost.status not in (0, 1):  # 1: findings
                print(f"bench_check: {name} ended with status {cost.status}", file=sys.stderr)
                return 2
            costs[name].append(cost)
    one = "mlperf_logging.compliance_checker"
    few = logs[:: max(1, len(logs) // arguments.each)][: arguments.each]
    options = ["--usage", "training", "--ruleset", version]
    single = [measured([sys.executable, "-m", one, *options, str(path)]) for path in few]
    each = Cost(sum(c.cpu_s for c in single), sum(c.wall_s for c in single), max(c.peak_mib for c in single), 0)

    def ratios(name: str) -> list[float]:
        pairs = zip(costs["theirs"], costs[name], strict=True)
        return [theirs.cpu_s / mine.cpu_s for theirs, mine in pairs]

    num_mb = sum(path.stat().st_size for path in logs) / 1e6
    print(f"{len(logs)} logs, {num_mb:.0f} MB; {arguments.pairs} pairs, {os.cpu_count()} cores; {arguments.ruleset}\n")
    print("| | logs | CPU s | logs per CPU s | times theirs (range) | wall s | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    print(row("MLCommons', one process a file", [each], len(few), None))
    print(row("MLCommons', one process for all", costs["theirs"], len(logs), None))
    print(row("`tta check --jobs 1`", costs["ours"], len(logs), ratios("ours")))
    print(row("`tta check`, all cores", costs["cores"], len(logs), ratios("cores")))
    print(row("bare find and parse", costs["bare"], len(logs), ratios("bare")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
