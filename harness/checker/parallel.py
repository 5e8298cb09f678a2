"""Results judged by a ruleset, in order, by as many processes as there are cores.

A small input stays in this process: to start the others costs what it takes to read some thousand lines.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.checker import engine, registry
from harness.checker.report import text
from harness.errors import InputError, SubmissionError, UsageError
from harness.findings import Rule
from harness.ruleset import catalog, load
from harness.ruleset.detect import Detector, with_parents
from harness.ruleset.model import RuleSet
from harness.submission.result import Result, read_result

if TYPE_CHECKING:  # to import what starts processes takes longer than to judge a small result
    from concurrent.futures import Future

AUTO = "auto"  # stands for the ruleset that the results point to
_MIN_BYTES = 16 << 20  # about half a second of one core
_IN_FLIGHT = 2  # results asked for, for each process; what is judged waits for those before it


def auto_of(paths: Iterable[Path]) -> Detector:
    """What finds the ruleset of results at or below `paths` among those that come with the harness."""
    rounds = load.round_candidates(catalog.ruleset_folders())
    own = {name for name, _ in catalog.ruleset_folders()}.difference(one.name for one in rounds)
    return Detector(frozenset(own), tuple(rounds), with_parents(paths))


def held_to_one(results: Iterator[Result], paths: Iterable[Path]) -> tuple[Detector, Iterator[Result]]:
    """What the results at or below `paths` are to be judged by, and the same results.

    Raises:
        UsageError: they point to two rulesets; also while what is returned is read.
    """
    kept, auto = auto_of(paths).decide(results)
    return auto, _held(deque(kept), results, auto)


def _held(kept: deque[Result], results: Iterator[Result], auto: Detector) -> Iterator[Result]:
    while kept:
        yield kept.popleft()  # nothing of it is kept here
    for result in results:
        auto.refuse_other(result)
        yield result


def say(auto: Detector) -> None:
    """Which ruleset was taken, and why."""
    print(f"tta: judging by ruleset {auto.name}{auto.why}", file=sys.stderr)


Said: TypeAlias = text.Judged | InputError | UsageError  # of one result


class Judge:
    """A ruleset with all checks, and the day they are applied; `auto` where the results were asked for it."""

    def __init__(self, ruleset: RuleSet, checks: dict[str, Rule], today: date, auto: Detector | None = None) -> None:
        self.ruleset, self.checks, self.today, self.auto = ruleset, checks, today, auto

    def judged(self, path: Path) -> Said:
        """What is found on the result at `path`; why it cannot be read; that it points to another ruleset."""
        try:
            result = read_result(path)
            if self.auto is not None:
                self.auto.refuse_other(result)
        except (InputError, UsageError) as error:
            return error
        return self.of(result)

    def of(self, result: Result) -> text.Judged:
        """What is found on `result`, which is not needed afterwards."""
        findings = engine.judge(result, self.ruleset, self.checks.values(), self.today)
        judged = text.judged(result, findings, self.ruleset)
        for log in result.runs:
            log.forget()  # what checks share refers to the log: a cycle, and the collector is switched off
        return judged


def checks_of(ruleset: RuleSet) -> dict[str, Rule]:
    """The checks in force; all there are, where one of those is not among them, so that it can be said."""
    found = registry.checks(ruleset.codes)
    return found if len(found) == len(ruleset.codes) else registry.checks()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for cycles meanwhile: a log is a hundred thousand objects without one, searched again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def jobs_for(paths: Sequence[Path], jobs: int | None) -> int:
    """Processes to judge `paths` with: as asked for, else one a core where there is enough to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = min(jobs or cores, len(paths))
    return wanted if wanted < 2 or jobs is not None or _has_bytes(paths, _MIN_BYTES) else 1


def in_order(paths: Sequence[Path], judge: Judge, ruleset_name: str, jobs: int) -> Iterator[Said]:
    """What `judge` says of each path, in order; by `jobs` processes, each of which loads the ruleset itself.

    A process that is killed costs nothing but the result that killed it, which cannot be read then.
    """
    if jobs < 2:
        for path in paths:
            yield judge.judged(path)
        return
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        for said in _by_processes(paths, ruleset_name, judge, jobs):
            done += 1
            yield said
    except BrokenProcessPool:
        for path in paths[done:]:
            try:
                yield next(_by_processes([path], ruleset_name, judge, 1))
            except BrokenProcessPool:
                yield SubmissionError(f"{path}: the process that read it was killed; is there enough memory?")


def _by_processes(paths: Sequence[Path], ruleset_name: str, judge: Judge, jobs: int) -> Iterator[Said]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has all modules already; nothing here has threads. Elsewhere than on Linux a fork is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(jobs, context, _start, (ruleset_name, judge.today, judge.auto))
    before = set(multiprocessing.active_children())
    try:
        waiting: deque[Future[Said]] = deque()
        for path in paths:
            if len(waiting) >= jobs * _IN_FLIGHT:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_judged, path))
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        # Interrupted, or nobody wants more: what the others are at is of no use.
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_judge: list[Judge] = []  # of this process, once it is one of the pool


def _start(ruleset_name: str, today: date, auto: Detector | None) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the first process ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    gc.disable()
    _judge[:] = [Judge(ruleset, checks_of(ruleset), today, auto)]


def _judged(path: Path) -> Said:
    return _judge[0].judged(path)


def _has_bytes(paths: Sequence[Path], num_bytes: int) -> bool:
    """Whether the files at and directly in `paths` have as many bytes; where logs lie, one level deep."""
    found = 0
    for path in paths:
        with contextlib.suppress(OSError):
            for file in path.iterdir() if path.is_dir() else [path]:
                found += file.lstat().st_size
                if found >= num_bytes:
                    return True
    return False
