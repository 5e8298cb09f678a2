"""Results judged, each by its ruleset, in order, by as many processes as there are cores.

A small input stays in this process: starting others takes as long as reading some thousand lines.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from harness.checker import engine, registry
from harness.checker.results import Rulesets
from harness.errors import InputError, SubmissionError
from harness.findings import Finding, Rule
from harness.ruleset.detect import Detector
from harness.ruleset.model import RuleSet
from harness.submission.result import Result, read_result

if TYPE_CHECKING:  # importing what starts processes takes longer than judging a small result
    from concurrent.futures import Future

_MIN_BYTES = 16 << 20  # about half a second of one core
_IN_FLIGHT = 2  # results per process; a judged result waits for those before it


T = TypeVar("T")
Outcome: TypeAlias = T | InputError  # of one result
Summary: TypeAlias = Callable[[Result, list[Finding], RuleSet, str], T]
Complete: TypeAlias = Callable[[Result, RuleSet], Result]


class Judge(Generic[T]):
    """The rulesets with their checks, and the day they are applied.

    summary: what is kept of a result, its findings and its ruleset, and why it has that one; it is sent from one
    process to another. complete: adds facts to a result before it is judged.
    """

    def __init__(self, rulesets: Rulesets, today: date, summary: Summary[T], complete: Complete | None = None) -> None:
        self.rulesets, self.today, self.summary, self.complete = rulesets, today, summary, complete
        self._checks: dict[str, dict[str, Rule]] = {}

    def judged(self, path: Path) -> Outcome[T]:
        """The summary of the result at `path`, or why it cannot be read."""
        try:
            return self.of(read_result(path))
        except InputError as error:
            return error

    def of(self, result: Result) -> T:
        """The summary of `result`, which must not be used afterwards."""
        choice = self.rulesets.choose(result)
        ruleset = self.rulesets.load(choice.name)
        if self.complete is not None:
            result = self.complete(result, ruleset)
        findings = engine.judge(result, ruleset, self.checks(choice.name).values(), self.today)
        judged = self.summary(result, findings, ruleset, choice.why)
        for log in result.runs:
            log.forget()  # what checks share refers to the log: a cycle, and the garbage collector is off
        return judged

    def checks(self, name: str) -> dict[str, Rule]:
        """The checks in force in the ruleset `name`, by code."""
        if name not in self._checks:
            self._checks[name] = checks_of(self.rulesets.load(name))
        return self._checks[name]


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


def in_order(paths: Sequence[Path], judge: Judge[T], jobs: int) -> Iterator[Outcome[T]]:
    """The outcome of each path, in order, from `jobs` processes, each of which loads the rulesets itself.

    A process that is killed costs only the result it was reading, which then counts as unreadable.
    """
    if jobs < 2:
        for path in paths:
            yield judge.judged(path)
        return
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        for outcome in _by_processes(paths, judge, jobs):
            done += 1
            yield outcome
    except BrokenProcessPool:
        for path in paths[done:]:
            try:
                yield from _by_processes([path], judge, 1)
            except BrokenProcessPool:
                yield SubmissionError(f"{path}: the process that read it was killed; is there enough memory?")


def _by_processes(paths: Sequence[Path], judge: Judge[T], jobs: int) -> Iterator[Outcome[T]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has all modules already; nothing here has threads. Elsewhere than on Linux a fork is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    initial = (judge.rulesets.name, judge.rulesets.detector, judge.today, judge.summary, judge.complete)
    pool = ProcessPoolExecutor(jobs, context, _start, initial)
    before = set(multiprocessing.active_children())
    try:
        waiting: deque[Future[Outcome[T]]] = deque()
        for path in paths:
            if len(waiting) >= jobs * _IN_FLIGHT:
                yield waiting.popleft().result()
            with _signals_held():  # the first starts all processes
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


_SIGNALS = {signal.SIGINT, signal.SIGTERM}


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back what would reach a process that has just started, before it has said what to do then."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_judge: list[Judge[Any]] = []  # of this process, once it is one of the pool


def _start(name: str, detector: Detector | None, today: date, summary: Summary[Any], complete: Complete | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent to all processes by the terminal; the first ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    gc.disable()
    _judge[:] = [Judge(Rulesets(name, detector), today, summary, complete)]


def _judged(path: Path) -> Any:
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
