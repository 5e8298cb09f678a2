"""Results as an audit takes them: a folder of logs is one result, whatever their names. Reads; never repairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.log_text import read_text
from harness.checker.audit.mlflow_db import MirrorRun
from harness.checker.audit.signals import AuditRules
from harness.checker.audit.standard import standard
from harness.errors import LogError
from harness.log import power_files, run_log
from harness.ruleset.model import RuleSet
from harness.submission.claim import FileEntry, Unreadable
from harness.submission.result import Result, find_results, read_result


def find(paths: Iterable[Path]) -> list[tuple[Path, tuple[Path, ...]]]:
    """The results at or below `paths`, each with its logs if these have MLPerf's freer names, else with none.

    Raises:
        SubmissionError: a path does not exist, or has no result below it.
    """
    found: dict[Path, list[Path]] = {}
    for place in paths:
        for path in find_results(place):
            is_named = path == place  # a log that was named is audited by itself
            if path.is_dir() or is_named:
                found.setdefault(path, [])
            else:
                found.setdefault(path.parent, []).append(path)
    return [(path, tuple(dict.fromkeys(logs))) for path, logs in found.items()]


def read(path: Path, logs: Sequence[Path]) -> Result:
    """The result at `path`, with `logs` as `find` returns them.

    Raises:
        InputError: it cannot be read.
    """
    if not logs:
        return read_result(path)
    runs, unreadable = [], []
    for log in logs:
        try:
            runs.append(power_files.with_power(run_log.read(log)))
        except LogError as error:
            unreadable.append(Unreadable(log, str(error).removeprefix(f"{log}: ")))
    files = {place.name: FileEntry("file", 0, None) for place in sorted(path.iterdir()) if place.is_file()}
    return Result(path=path, kind="result", runs=tuple(runs), unreadable=tuple(unreadable), files=files)


def subject(
    result: Result,
    ruleset: RuleSet | None,
    rules: AuditRules,
    today: date,
    mirror: Sequence[MirrorRun] = (),
) -> Subject:
    """The result with the facts of its runs; the other text of each log is read here.

    Raises:
        LogError: a log can no longer be read.
    """
    expected = standard(result, ruleset, today)
    runs = tuple(
        RunFacts(log, read_text(log.path, log.events), expected, rules.bands, rules.flops) for log in result.runs
    )
    return Subject(result, runs, expected, tuple(mirror))
