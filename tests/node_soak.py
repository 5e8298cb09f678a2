"""Many runs in one allocation: what the referee and the helper hold must not grow, and nothing may be left.

    python -m tests.node_soak [NUM_RUNS]

Prints the open files, threads and resident memory of referee and helper after each run; fails if in the last third of
the runs they hold more threads than in the first, over two files or 2 % (helper) and 10 % (referee) of memory more, or
if a process, a folder or shared memory is left. One further run is not measured: at its end both processes end, too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import psutil

from tests.killing import Running, has_event, toy_runs, toy_tree, until

GROWTH = {"referee": 1.1, "helper": 1.02}
MORE_FILES = 2  # a run that is about to end holds more or fewer
RUN_LIMIT_S = 120.0
OTHERS_S = 60.0  # for which other programs may keep shared memory that they have made meanwhile


def held(process: psutil.Process) -> tuple[int, int, int]:
    """Return open files, threads and resident bytes."""
    return process.num_fds(), process.num_threads(), process.memory_info().rss


def shared_memory() -> set[Path]:
    return set(Path("/dev/shm").iterdir())


def measured(running: Running, num_runs: int) -> dict[str, list[tuple[int, int, int]]]:
    """Return what referee and helper hold after each run."""
    referee = psutil.Process(running.process.pid)
    found: dict[str, list[tuple[int, int, int]]] = {"referee": [], "helper": []}
    for number in range(num_runs):
        log = running.folder / "out" / f"result_{number}.txt"
        if not until(partial(has_event, log, "tta_end"), RUN_LIMIT_S):
            running.process.terminate()
            running.wait()
            raise AssertionError(f"run {number} did not end in {RUN_LIMIT_S:.0f} s:\n{running.errors[-4000:]}")
        helper = next(child for child in referee.children() if "node" in child.cmdline())
        for name, process in (("referee", referee), ("helper", helper)):
            found[name].append(held(process))
        print(number, found["referee"][-1], found["helper"][-1], flush=True)
    return found


def grown(name: str, values: list[tuple[int, int, int]]) -> list[str]:
    """Return what has grown from the first third to the last; the first run, which loads things, is left out."""
    values = values[1:] or values
    third = max(1, len(values) // 3)
    first, last = (
        [statistics.median(column) for column in zip(*part, strict=True)]
        for part in (
            values[:third],
            values[-third:],
        )
    )
    limits = (first[0] + MORE_FILES, first[1], first[2] * GROWTH[name])
    names = ("files", "threads", "memory")
    return [
        f"{name}: {what}: {before:,.0f} to {after:,.0f}"
        for what, before, after, limit in zip(names, first, last, limits, strict=True)
        if after > limit
    ]


def soak(tree: Path, num_runs: int) -> list[str]:
    """Make the runs; return what has grown or is left."""
    before = shared_memory()
    with tempfile.TemporaryDirectory(prefix="tta-") as place, toy_runs(toy_tree(tree)) as begin:
        # Quiet: its output is not read before the end, and a full pipe would block it.
        words = ("--nodes", "2", "--launcher", "local", "--isolation", "none", "--quiet", "--runs", str(num_runs + 1))
        running = begin(*words, environment={"TMPDIR": place})
        found = measured(running, num_runs)
        running.wait(60)
        wrong = [what for name, values in found.items() for what in grown(name, values)]
        if not until(lambda: not running.relatives(), 10):
            wrong.append(f"processes: {running.relatives()}")
        wrong += [f"left: {path}" for path in Path(place).iterdir()]
    left = shared_memory() - before
    until(lambda: not any(path.exists() for path in left), OTHERS_S)
    return wrong + [f"left: {path}" for path in left if path.exists()]


def main(num_runs: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tta-soak-") as place:
        wrong = soak(Path(place), num_runs)
    print("; ".join(wrong) or "nothing has grown, nothing is left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
