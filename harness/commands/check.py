"""`tta check`: judge logs, results, submissions or a tree of them by a ruleset, and report the findings."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from harness.checker import engine, parallel
from harness.checker.report import sarif, text
from harness.checker.results import AUTO, open_results
from harness.commands._arguments import Parser, add_format, add_prepared, add_results, as_positive, utc_today
from harness.errors import ExitStatus, InputError, UsageError, unknown_name
from harness.findings import Rule, grouped, sort_key
from harness.ruleset.model import RuleSet
from harness.run.data_cache import default_cache
from harness.run.recompute import Recomputation

FORMATS = ("text", "json", "sarif", "html")


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a log, a results folder, a submission, or a tree of them", default_ruleset=AUTO, has_auto=True)
    add_format(parser, "sarif", "html")
    parser.add_argument(
        "--verbose", action="store_true", help="text: also why each check that found something matters, and what to do"
    )
    parser.add_argument(
        "--jobs",
        type=as_positive,
        metavar="N",
        help="number of processes (default: one per core if there are many logs)",
    )
    add_prepared(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    again = Recomputation(arguments.data or default_cache())
    return run(
        arguments.paths, arguments.ruleset, arguments.format, utc_today(), arguments.verbose, arguments.jobs, again
    )


def run(
    paths: list[Path],
    ruleset_name: str,
    output_format: str,
    today: date,
    is_verbose: bool = False,
    jobs: int | None = None,
    again: Recomputation | None = None,
) -> ExitStatus:
    """Judge every result at or below `paths` and write the findings to standard output.

    jobs: the number of processes; None: one per core where there is enough to do. again: computes qualities from kept
    predictions; None: they are taken as logged. `harness.checker.results` has what
    the ruleset `auto` means, and what happens to a result that cannot be read.

    Returns:
        FINDINGS if a result is not valid.

    Raises:
        UsageError: no path, or an unknown ruleset or format.
        InputError: a path does not exist, has no result, or has one that cannot be read; the others are judged first.
    """
    if not paths:
        raise UsageError("check: name the logs, folders or trees to check")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    with parallel.without_collector():
        return _judged(paths, ruleset_name, output_format, today, is_verbose, jobs, again)


def _judged(
    paths: list[Path],
    ruleset_name: str,
    output_format: str,
    today: date,
    is_verbose: bool,
    jobs: int | None,
    again: Recomputation | None,
) -> ExitStatus:
    results = open_results(paths, ruleset_name)
    judge = parallel.Judge(results.rulesets, today, text.judged, again)
    judged: list[text.Judged] = []
    outcomes = parallel.in_order(results.paths, judge, parallel.jobs_for(results.paths, jobs))
    for path, outcome in zip(results.paths, outcomes, strict=True):
        if isinstance(outcome, InputError):
            results.skip(path, outcome)
        else:
            results.rulesets.announce(outcome.path, f"judging by ruleset {outcome.ruleset}", outcome.why)
            judged.append(outcome)
    judged = together(judged, judge)
    if judged:
        sys.stdout.write(_document(judged, judge, output_format, today, is_verbose))
    results.raise_unreadable()
    return ExitStatus.OK if all(item.is_valid for item in judged) else ExitStatus.FINDINGS


def together(judged: list[text.Judged], judge: parallel.Judge[text.Judged]) -> list[text.Judged]:
    """Return the same results with the findings that only all of them together give, each by its own ruleset."""
    logs = [log for item in judged for log in item.logs]
    found = {
        name: engine.judge_together(logs, judge.rulesets.load(name), judge.checks(name).values(), judge.today)
        for name in dict.fromkeys(item.ruleset for item in judged)
    }
    return [
        replace(item, findings=tuple(sorted((*item.findings, *more), key=sort_key)))
        if (more := found[item.ruleset].get(item.path))
        else item
        for item in judged
    ]


def _document(
    judged: list[text.Judged], judge: parallel.Judge[text.Judged], output_format: str, today: date, is_verbose: bool
) -> str:
    rulesets = [judge.rulesets.load(name) for name in dict.fromkeys(item.ruleset for item in judged)]
    checks = {code: rule for ruleset in rulesets for code, rule in judge.checks(ruleset.version).items()}
    match output_format:
        case "json":
            return text.as_json(judged, rulesets, checks, today)
        case "sarif":
            return sarif.as_sarif(_sarif_run(judged, ruleset, checks) for ruleset in rulesets)
        case "html":
            from harness.checker.report import html  # jinja2 takes a while

            return html.as_html(
                html.Report(
                    title="Check of results by the rules",
                    rules=[(f"ruleset {ruleset.version}", ruleset.digest) for ruleset in rulesets],
                    parts=[html.part_of(item) for item in judged],
                    documents={code: rule.document for code, rule in checks.items()},
                    today=today,
                    waivers=[use for ruleset in rulesets for use in text.waivers_used(judged, ruleset, today)],
                )
            )
    return text.as_text(judged, rulesets, checks if is_verbose else None)


def _sarif_run(judged: list[text.Judged], ruleset: RuleSet, checks: dict[str, Rule]) -> dict[str, Any]:
    """The findings on the results that are judged by `ruleset`."""
    groups = [(group, None) for item in judged if item.ruleset == ruleset.version for group in grouped(item.findings)]
    properties = {"ruleset": ruleset.version, "rulesetDigest": ruleset.digest}
    return sarif.run_record(groups, checks.values(), ruleset.codes, properties, Path.cwd())
