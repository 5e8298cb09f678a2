#!/usr/bin/env python3
"""`tta check` against MLCommons' compliance checker: the same logs, processes in turns, CPU seconds of each.

    python scripts/bench_check.py DIR=5.1.0 [DIR=4.0.0 ...] [--sample N] [--pairs 5] [--each 10]

Needs `pip install mlperf-logging`. DIR is a round of that version, unpacked. Both sides must have judged as many logs;
how many each accepts stands beside them (ours: logs without an error of a check that theirs has, too). In each pair
one process of theirs reads all logs through its API, which is kinder than the documented way of one process a file;
that way is measured on `--each` logs. Everything runs once unmeasured first, so that no measured run compiles modules.
Beside them: a bare pass that finds the token and parses what follows with the standard library; and `tta check` with
all cores, by the wall. CPU seconds are those the system charges to the process, its start-up among them. Their checker
executes what its rule files hold and follows names a log gives it: let it read logs of other people where that does
not matter.
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
VERDICT = re.compile("MLP00[1-9]|MLP010")  # the checks that say what MLCommons' checker says of a log

CACHE = tempfile.TemporaryDirectory(prefix="bench-check-")  # compiled modules of all, as an installation keeps them

THEIRS = """
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
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    status: int
    said: str = ""


def measured(command: list[str], told: bytes = b"") -> Cost:
    """The cost of one process and those it started and waited for; peak memory of the largest of them."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(told)
        given.seek(0)
        started = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=said,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # their checker leaves a log where it is called
            env={**environment, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": CACHE.name, "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - started
        said.seek(0)
        text = said.read(100).decode(errors="replace")
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, process.returncode, text)


def logs_below(folder: Path) -> list[Path]:
    """Every result log of a round, not those of power meters."""
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


def our_verdicts(places: list[Path], version: str) -> tuple[set[Path], int]:
    """The logs that `tta check` judges at `places`, and how many have no error that their checker has, too."""
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
    """The rows of one round.

    Raises:
        ValueError: there are no logs, a process failed, or the two judged different numbers of logs.
    """
    folder = folder.resolve()
    logs = logs_below(folder)
    if sample:
        logs = logs[:: max(1, len(logs) // sample)][:sample]
    if not logs:
        raise ValueError(f"{folder}: no result_*.txt")
    # Of a sample each log is named; a whole tree is checked as one has it, with all that lies beside the logs.
    places = logs if sample else [folder]
    with ProcessPoolExecutor(1) as pool:  # what this process needs at its peak, those it starts seem to need, too
        judged, num_ours = pool.submit(our_verdicts, places, version).result()
    num_beside = len(set(logs) - judged)  # named like logs, where no result lies: theirs is not told of them
    logs = [path for path in logs if path in judged]
    told = "\0".join(map(str, logs)).encode()
    check = [sys.executable, "-m", "harness.cli", "check", "--ruleset", f"mlperf_training/{version}"]
    check += [str(place) for place in places]
    commands = {
        "theirs": ([sys.executable, "-c", THEIRS, version], told),
        "ours": ([*check, "--jobs", "1"], b""),
        "bare": ([sys.executable, "-c", BARE], told),
        "cores": ([*check, "--jobs", str(os.cpu_count())], b""),
    }
    for command, few_told in commands.values():
        measured(command, few_told.split(b"\0")[0])  # to compile what it imports, which an installation does once
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for pair in range(num_pairs):
        for name in commands if pair % 2 == 0 else reversed(commands):
            cost = measured(*commands[name])
            if cost.status not in ((0, 1) if name in ("ours", "cores") else (0,)):  # 1: findings
                raise ValueError(f"{name} ended with status {cost.status}")
            costs[name].append(cost)
    num_judged, num_theirs = map(int, costs["theirs"][0].said.split())
    if not num_judged == len(judged) == len(logs):
        raise ValueError(f"{folder}: of {len(logs)} logs theirs judged {num_judged}, ours {len(judged)}")
    few = logs[:: max(1, len(logs) // num_each)][:num_each]
    options = ["-m", "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", version]
    single = [measured([sys.executable, *options, str(path)]) for path in few]
    each = Cost(sum(c.cpu_s for c in single), sum(c.wall_s for c in single), max(c.peak_mib for c in single), 0)

    def ratios(name: str) -> list[float]:
        pairs = zip(costs["theirs"], costs[name], strict=True)
        return [their.cpu_s / mine.cpu_s for their, mine in pairs]

    num_mb = sum(path.stat().st_size for path in logs) / 1e6
    said = f"{len(logs)} logs ({num_beside} beside them), {num_mb:.0f} MB; accepted by theirs"
    print(f"{version}: {said} {num_theirs}, by ours {num_ours}", flush=True)
    return [
        row(version, "MLCommons', one process a file", [each], len(few), None),
        row(version, "MLCommons', one process for all", costs["theirs"], len(logs), None),
        row(version, "`tta check --jobs 1`", costs["ours"], len(logs), ratios("ours")),
        row(version, "`tta check`, all cores", costs["cores"], len(logs), ratios("cores")),
        row(version, "bare find and parse", costs["bare"], len(logs), ratios("bare")),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="tta check against MLCommons' compliance checker.")
    parser.add_argument("rounds", nargs="+", metavar="DIR=VERSION", help="an unpacked round and its version")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N logs, evenly spread (default: all)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--each", type=int, default=5, metavar="N", help="logs for their one process a file")
    arguments = parser.parse_args()
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
    print("| round | | logs | CPU s | logs per CPU s | times theirs (range) | wall s | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
