"""Results judged by a ruleset, in order, by as many processes as there are cores.

A small input stays in this process: starting others takes as long as reading some thousand lines.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.checker import engine, registry
from harness.checker.report import text
from harness.errors import InputError, SubmissionError, UsageError
from harness.findings import Rule
from harness.ruleset import catalog, load
from harness.ruleset.detect import Detector
from harness.ruleset.model import RuleSet
from harness.submission.result import Result, read_result

if TYPE_CHECKING:  # importing what starts processes takes longer than judging a small result
    from concurrent.futures import Future

_MIN_BYTES = 16 << 20  # about half a second of one core
_IN_FLIGHT = 2  # results per process; a judged result waits for those before it


Outcome: TypeAlias = text.Judged | InputError | UsageError  # of one result
Complete: TypeAlias = Callable[[Result, RuleSet], Result]


class Judge:
    """A ruleset with its checks, and the day they are applied.

    auto: how the results chose the ruleset, if they did. complete: adds facts to a result before it is judged.
    """

    def __init__(
        self,
        ruleset: RuleSet,
        checks: dict[str, Rule],
        today: date,
        auto: Detector | None = None,
        complete: Complete | None = None,
    ) -> None:
        self.ruleset, self.checks, self.today, self.auto, self.complete = ruleset, checks, today, auto, complete

    def judged(self, path: Path) -> Outcome:
        """The findings on the result at `path`, or why it cannot be read or points to another ruleset."""
        try:
            result = read_result(path)
            if self.auto is not None:
                self.auto.refuse_other(result)
        except (InputError, UsageError) as error:
            return error
        return self.of(result)

    def of(self, result: Result) -> text.Judged:
        """The findings on `result`, which must not be used afterwards."""
        if self.complete is not None:
            result = self.complete(result, self.ruleset)
        findings = engine.judge(result, self.ruleset, self.checks.values(), self.today)
        judged = text.judged(result, findings, self.ruleset)
        for log in result.runs:
            log.forget()  # what checks share refers to the log: a cycle, and the garbage collector is off
        return judged


def checks_of(ruleset: RuleSet) -> dict[str, Rule]:
    """The checks in force; every check if one of those does not exist, so that `judge` can name the nearest."""
    found = registry.checks(ruleset.codes)
    return found if len(found) == len(ruleset.codes) else registry.checks()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Turn the search for cycles off meanwhile: a log has a hundred thousand objects and no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def jobs_for(paths: Sequence[Path], jobs: int | None) -> int:
    """The number of processes to judge `paths` with: `jobs`, or else one per core if there is enough to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = min(jobs or cores, len(paths))
    return wanted if wanted < 2 or jobs is not None or _has_bytes(paths, _MIN_BYTES) else 1


def in_order(paths: Sequence[Path], judge: Judge, ruleset_name: str, jobs: int) -> Iterator[Outcome]:
    """The outcome of each path, in order, from `jobs` processes, each of which loads the ruleset itself.

    A process that is killed costs only the result it was reading, which then counts as unreadable.
    """
    if jobs < 2:
        for path in paths:
            yield judge.judged(path)
        return
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        for outcome in _by_processes(paths, ruleset_name, judge, jobs):
            done += 1
            yield outcome
    except BrokenProcessPool:
        for path in paths[done:]:
            try:
                yield next(_by_processes([path], ruleset_name, judge, 1))
            except BrokenProcessPool:
                yield SubmissionError(f"{path}: the process that read it was killed; is there enough memory?")


def _by_processes(paths: Sequence[Path], ruleset_name: str, judge: Judge, jobs: int) -> Iterator[Outcome]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has all modules already; nothing here has threads. Elsewhere than on Linux a fork is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(jobs, context, _start, (ruleset_name, judge.today, judge.auto, judge.complete))
    before = set(multiprocessing.active_children())
    try:
        waiting: deque[Future[Outcome]] = deque()
        for path in paths:
            if len(waiting) >= jobs * _IN_FLIGHT:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_judged, path))
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        # Interrupted, or the caller stopped: what the other processes are doing is no longer needed.
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_judge: list[Judge] = []  # of this process, once it is one of the pool


def _start(ruleset_name: str, today: date, auto: Detector | None, complete: Complete | None) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent to all processes by the terminal; the first ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    gc.disable()
    _judge[:] = [Judge(ruleset, checks_of(ruleset), today, auto, complete)]


def _judged(path: Path) -> Outcome:
    return _judge[0].judged(path)


def _has_bytes(paths: Sequence[Path], num_bytes: int) -> bool:
    """Whether the files at `paths` and directly in them have that many bytes; logs are no deeper than that."""
    found = 0
    for path in paths:
        with contextlib.suppress(OSError):
            for file in path.iterdir() if path.is_dir() else [path]:
                found += file.lstat().st_size
                if found >= num_bytes:
                    return True
    return False
