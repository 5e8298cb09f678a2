#!/usr/bin/env python3
"""`tta check` against MLCommons' compliance checker: CPU seconds for the same logs, in alternating processes.

    python scripts/bench_check.py DIR=5.1.0 [DIR=4.0.0 ...] [--sample N] [--pairs 5] [--each 10]
    python scripts/bench_check.py DIR [DIR ...] --board       # one site of these rounds: `tta board build`

Needs `pip install mlperf-logging`. DIR is an unpacked round of that version. Both checkers must judge the same number
of logs; the number that each accepts is printed too (for `tta`: logs without an error of a check that MLCommons'
checker also has). In each pair, one process of MLCommons' checker reads all logs through its API, which favours it over
the documented one process per file; that is measured on `--each` logs. Everything runs once unmeasured first, so that
no measured run compiles modules. For comparison: a bare pass that finds the token and parses the rest of the line with
the standard library, and `tta check` on all cores, by wall time. CPU seconds are those the system charges to the
process, its start-up included. MLCommons' checker executes code in its rule files and follows names in a log: give it
untrusted logs only where that does not matter.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.checker import engine, parallel
from harness.errors import TtaError
from harness.findings import Severity
from harness.ruleset import catalog, load
from harness.submission.layout import LOG_PATTERN
from harness.submission.result import find_results, read_result

ROOT = Path(__file__).resolve().parents[1]
VERDICT = re.compile("MLP00[1-9]|MLP010")  # the checks that MLCommons' checker has too

CACHE = tempfile.TemporaryDirectory(prefix="bench-check-")  # compiled modules, as an installation has them

MLCOMMONS = """
import contextlib, io, logging, sys
from mlperf_logging.compliance_checker import mlp_compliance
logging.disable(logging.CRITICAL)
version = sys.argv[1]
num_judged = num_valid = 0
for path in sys.stdin.read().split("\\0"):
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", version, True, False)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            valid, *_ = mlp_compliance.main(path, f"training_{version}/common.yaml", checker)
        except Exception:
            valid = False
    num_judged, num_valid = num_judged + 1, num_valid + bool(valid)
print(num_judged, num_valid)
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
    """The resources that a process used."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    status: int
    output: str = ""


def measured(command: list[str], stdin: bytes = b"") -> Cost:
    """Return the cost of a process and the children it waited for; peak memory is that of the largest."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(stdin)
        given.seek(0)
        started = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # MLCommons' checker writes a log to the current folder
            env={**environment, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": CACHE.name, "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - started
        output.seek(0)
        text = output.read(100).decode(errors="replace")
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, process.returncode, text)


def logs_below(folder: Path) -> list[Path]:
    """Return every result log of a round, without those of power meters."""
    found = sorted(folder.rglob("result_*.txt"))
    return [path for path in found if "power" not in path.relative_to(folder).parts and path.is_file()]


def row(round_: str, name: str, costs: list[Cost], num_logs: int, ratios: list[float] | None) -> str:
    cpu_s = statistics.median(cost.cpu_s for cost in costs)
    wall_s = statistics.median(cost.wall_s for cost in costs)
    shown = ""
    if ratios:
        shown = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    return (
        f"| {round_} | {name} | {num_logs} | {cpu_s:.2f} | {num_logs / cpu_s:.0f} | {shown} | {wall_s:.2f} | "
        f"{max(cost.peak_mib for cost in costs):.0f} |"
    )


def tta_verdicts(places: list[Path], version: str) -> tuple[set[Path], int]:
    """Return the logs that `tta check` judges at `places`, and the number without an error of a shared check."""
    name = f"mlperf_training/{version}"
    ruleset = load.load_ruleset(catalog.ruleset_folder(name), name)
    checks = parallel.checks_of(ruleset).values()
    judged, refused = set[Path](), set[Path]()
    for path in [found for place in places for found in find_results(place)]:
        result = read_result(path)
        unread = {item.path for item in result.unreadable if LOG_PATTERN.fullmatch(item.path.name)}
        judged, refused = judged | unread, refused | unread
        for log in result.runs:
            judged.add(log.path)
            alone = replace(result, path=log.path, kind="log", runs=(log,), files={})
            found = engine.judge(alone, ruleset, checks, datetime.now(UTC).date())
            if any(VERDICT.fullmatch(item.code) and item.severity is Severity.ERROR for item in found):
                refused.add(log.path)
    return judged, len(judged - refused)


def bench(folder: Path, version: str, sample: int, num_pairs: int, num_each: int) -> list[str]:
    """Return the table rows of one round.

    Raises:
        ValueError: there are no logs, a process failed, or the checkers judged different numbers of logs.
    """
    folder = folder.resolve()
    logs = logs_below(folder)
    if sample:
        logs = logs[:: max(1, len(logs) // sample)][:sample]
    if not logs:
        raise ValueError(f"{folder}: no result_*.txt")
    # The logs of a sample are listed; a whole tree is checked as it is, with the other files next to the logs.
    places = logs if sample else [folder]
    with ProcessPoolExecutor(1) as pool:  # the peak memory of this process would be charged to those it starts
        judged, num_tta = pool.submit(tta_verdicts, places, version).result()
    num_stray = len(set(logs) - judged)  # named like logs, outside of a result: not given to MLCommons' checker
    logs = [path for path in logs if path in judged]
    stdin = "\0".join(map(str, logs)).encode()
    check = [sys.executable, "-m", "harness.cli", "check", "--ruleset", f"mlperf_training/{version}"]
    check += [str(place) for place in places]
    commands = {
        "mlcommons": ([sys.executable, "-c", MLCOMMONS, version], stdin),
        "tta": ([*check, "--jobs", "1"], b""),
        "bare": ([sys.executable, "-c", BARE], stdin),
        "tta_cores": ([*check, "--jobs", str(os.cpu_count())], b""),
    }
    for command, paths in commands.values():
        measured(command, paths.split(b"\0")[0])  # compiles its modules, which an installation does once
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for pair in range(num_pairs):
        for name in commands if pair % 2 == 0 else reversed(commands):
            cost = measured(*commands[name])
            if cost.status not in ((0, 1) if name in ("tta", "tta_cores") else (0,)):  # 1: findings
                raise ValueError(f"{name} ended with status {cost.status}")
            costs[name].append(cost)
    num_judged, num_mlcommons = map(int, costs["mlcommons"][0].output.split())
    if not num_judged == len(judged) == len(logs):
        raise ValueError(f"{folder}: of {len(logs)} logs MLCommons judged {num_judged}, tta {len(judged)}")
    few = logs[:: max(1, len(logs) // num_each)][:num_each]
    options = ["-m", "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", version]
    single = [measured([sys.executable, *options, str(path)]) for path in few]
    each = Cost(sum(c.cpu_s for c in single), sum(c.wall_s for c in single), max(c.peak_mib for c in single), 0)

    def ratios(name: str) -> list[float]:
        pairs = zip(costs["mlcommons"], costs[name], strict=True)
        return [other.cpu_s / own.cpu_s for other, own in pairs]

    num_mb = sum(path.stat().st_size for path in logs) / 1e6
    summary = f"{len(logs)} logs ({num_stray} others outside of results), {num_mb:.0f} MB; accepted by MLCommons"
    print(f"{version}: {summary} {num_mlcommons}, by tta {num_tta}", flush=True)
    return [
        row(version, "MLCommons', one process per file", [each], len(few), None),
        row(version, "MLCommons', one process for all", costs["mlcommons"], len(logs), None),
        row(version, "`tta check --jobs 1`", costs["tta"], len(logs), ratios("tta")),
        row(version, "`tta check`, all cores", costs["tta_cores"], len(logs), ratios("tta_cores")),
        row(version, "bare find and parse", costs["bare"], len(logs), ratios("bare")),
    ]


def bench_board(folders: list[Path]) -> str:
    """Return a sentence about one site of all rounds in `folders`: seconds, memory, pages and their sizes.

    Raises:
        ValueError: the build failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-board-") as place:
        site = Path(place, "site")
        command = [sys.executable, "-m", "harness.cli", "board", "build", *map(str, folders)]
        cost = measured([*command, "--ruleset", "auto", "--out", str(site)])
        if cost.status != 0:
            raise ValueError(f"tta board build ended with status {cost.status}")
        pages = [path.stat().st_size for path in site.rglob("*.html")]
        total = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    num_logs = sum(len(logs_below(folder)) for folder in folders)
    return (
        f"{num_logs} logs: {cost.wall_s:.0f} s ({cost.cpu_s:.0f} CPU s, {os.cpu_count()} cores), at most "
        f"{cost.peak_mib:.0f} MiB per process; {len(pages)} pages, the median {statistics.median(pages) / 1e3:.0f} kB, "
        f"the largest {max(pages) / 1e3:.0f} kB; {total / 1e6:.0f} MB in all"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="tta check against MLCommons' compliance checker.")
    parser.add_argument("rounds", nargs="+", metavar="DIR=VERSION", help="an unpacked round and its version")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N logs, evenly spread (default: all)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--board", action="store_true", help="build one site of all DIRs instead")
    parser.add_argument("--each", type=int, default=5, metavar="N", help="logs for MLCommons' one process per file")
    arguments = parser.parse_args()
    if arguments.board:
        try:
            print(bench_board([Path(place).resolve() for place in arguments.rounds]))
        except ValueError as error:
            print(f"bench_check: {error}", file=sys.stderr)
            return 2
        return 0
    if importlib.util.find_spec("mlperf_logging") is None:
        print("bench_check: needs `pip install mlperf-logging`", file=sys.stderr)
        return 2
    rows = []
    for named in arguments.rounds:
        place, _, version = named.rpartition("=")
        try:
            rows += bench(Path(place), version, arguments.sample, arguments.pairs, arguments.each)
        except (ValueError, TtaError) as error:
            print(f"bench_check: {error}", file=sys.stderr)
            return 2
    print(f"\n{arguments.pairs} pairs, {os.cpu_count()} cores\n")
    print("| round | | logs | CPU s | logs per CPU s | speed-up over MLCommons (range) | wall s | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
