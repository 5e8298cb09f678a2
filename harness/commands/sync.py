"""`tta sync`: add to MLflow what is missing there from finished results."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.checker import engine, registry
from harness.commands._arguments import Parser, as_path
from harness.errors import ExitStatus, InputError, printable
from harness.log import keys
from harness.submission.layout import SYSTEM_NAME
from harness.submission.result import find_results, read_result
from harness.tracking.follower import Follower, Report, logs_in, ruleset_called
from harness.tracking.mirror import tracking_uri as store_uri
from harness.tracking.store import Store


def add_arguments(parser: Parser) -> None:
    parser.add_argument("paths", nargs="+", type=as_path, metavar="PATH", help="a results folder or a tree of them")
    parser.add_argument(
        "--mlflow", metavar="URI", help="tracking URI (default: the one MLflow is configured with, or ./mlflow.db)"
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.mlflow)


def run(paths: list[Path], tracking_uri: str | None) -> ExitStatus:
    """Make one pass over the results at or below `paths`, and print one line per run.

    A log without `run_stop` is taken for a run that was cut short.

    Returns:
        FINDINGS if a log could not be mirrored, or a result could not be read.

    Raises:
        SubmissionError: there is no result. OutputError: the store cannot be reached, or refused a run.
        MissingDependencyError: mlflow is not installed.
    """
    results = [result for path in paths for result in find_results(path)]
    store = Store(store_uri(tracking_uri))
    reports, num_unreadable = [], 0
    for result in results:
        try:
            verdict = _verdict(result)
        except InputError as error:
            print(f"tta: {printable(error, 2000)}: not mirrored", file=sys.stderr)
            num_unreadable += 1
            continue
        logs = list(logs_in(result)) if result.is_dir() else [result]
        folder = result if result.is_dir() else result.parent
        follower = Follower(lambda logs=logs: logs, _system(folder), lambda: store, verdict)  # type: ignore[misc]
        follower.read()
        try:
            follower.send(is_last=True)
        finally:
            for report in follower.reports:
                print(_line(report))
            reports += follower.reports
    missing = sum(report.why_not is not None for report in reports)
    print(f"{len(reports) - missing} of {len(reports)} runs are in {store.name}")
    if store.is_file:
        print(f"to view them, start `mlflow server --backend-store-uri {store.name}` and open:")
    for page in store.pages():
        print(page)
    return ExitStatus.FINDINGS if missing or num_unreadable else ExitStatus.OK


def _verdict(path: Path) -> str | None:
    """The verdict of the checks on a whole result today; None if its ruleset is unknown."""
    if not path.is_dir():
        return None
    result = read_result(path)
    names = [log.field(keys.TTA_RULES, "ruleset") for log in result.runs]
    ruleset = ruleset_called(names[0]) if names and isinstance(names[0], str) else None
    if ruleset is None:
        return None
    findings = engine.judge(result, ruleset, registry.checks().values(), datetime.now(UTC).date())
    errors = sum(finding.counts for finding in findings)
    return "valid" if errors == 0 else f"invalid: {errors} findings of severity error"


def _system(folder: Path) -> Path | None:
    """system.json next to the logs, or the submitter's description of the system."""
    beside = folder / SYSTEM_NAME
    parents = folder.absolute().parents
    if beside.exists() or len(parents) < 3:
        return beside
    return parents[2] / "systems" / f"{parents[0].name}.json"


def _line(report: Report) -> str:
    place = printable(report.log)
    if report.why_not is not None:
        return f"{place}: not mirrored: {printable(report.why_not.removeprefix(f'{report.log}: '), 500)}"
    if report.is_empty:
        return f"{place}: {printable(report.run)}: nothing was missing"
    what = "run created; " if report.is_new else ""
    return (
        f"{place}: {printable(report.run)}: {what}{report.params} params, {report.metrics} metric values "
        f"and {report.artifacts} files added"
    )
