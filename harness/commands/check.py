"""`tta check`: judges logs, results, submissions or a tree of them by a ruleset, and says what it found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from harness.checker import engine, parallel
from harness.checker.report import sarif, text
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.findings import Rule, grouped
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission.result import Result, find_results, read_result

FORMATS = ("text", "json", "sarif", "html")


def run(
    paths: list[Path],
    ruleset_name: str,
    output_format: str,
    today: date,
    is_verbose: bool = False,
    jobs: int | None = None,
) -> ExitStatus:
    """Judges every result at or below `paths` and writes the findings to standard output.

    jobs: processes to do it with; None: one a core where there is enough to do.

    The ruleset "auto" is the one that the results point to (`harness.ruleset.detect`), else v1; which it is goes to
    standard error. What can be read is judged even if something else cannot.

    Raises:
        UsageError: no path, an unknown ruleset or format; "auto", and the results point to two.
        InputError: a path is not there, has no result, or cannot be read.
    """
    if not paths:
        raise UsageError("check: which results? name logs, folders or trees of them")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    with parallel.without_collector():
        return _judged(paths, ruleset_name, output_format, today, is_verbose, jobs)


def _judged(
    paths: list[Path], ruleset_name: str, output_format: str, today: date, is_verbose: bool, jobs: int | None
) -> ExitStatus:
    checks: dict[str, Rule] = {}
    ruleset: RuleSet | None = None
    if ruleset_name != parallel.AUTO:
        ruleset, checks = _load(ruleset_name)
    judged: list[text.Judged] = []
    unreadable: InputError | None = None
    found = list(dict.fromkeys(found for place in paths for found in find_results(place)))
    waiting, auto = iter(found), None

    def first() -> Iterator[Result]:
        nonlocal unreadable
        for path in waiting:
            try:
                yield read_result(path)
            except InputError as error:
                unreadable = _told(unreadable, error)

    if ruleset is None:
        undecided, auto = parallel.auto_of(paths).decide(first())
        if undecided:
            parallel.say(auto)
            ruleset_name = auto.name
            ruleset, checks = _load(ruleset_name)
            judged = [parallel.Judge(ruleset, checks, today).of(result) for result in undecided]
            undecided.clear()
    if ruleset is not None:
        judge, rest = parallel.Judge(ruleset, checks, today, auto), list(waiting)
        for said in parallel.in_order(rest, judge, ruleset_name, parallel.jobs_for(rest, jobs)):
            if isinstance(said, UsageError):
                raise said
            if isinstance(said, InputError):
                unreadable = _told(unreadable, said)
            else:
                judged.append(said)
    if ruleset is not None and judged:
        sys.stdout.write(_document(judged, ruleset, checks, output_format, today, is_verbose))
    if unreadable is not None:
        raise unreadable
    return ExitStatus.OK if all(item.is_valid for item in judged) else ExitStatus.FINDINGS


def _document(
    judged: list[text.Judged],
    ruleset: RuleSet,
    checks: dict[str, Rule],
    output_format: str,
    today: date,
    is_verbose: bool,
) -> str:
    match output_format:
        case "json":
            return text.as_json(judged, ruleset, checks, today)
        case "sarif":
            groups = [(group, None) for item in judged for group in grouped(item.findings)]
            law = {"ruleset": ruleset.version, "rulesetDigest": ruleset.digest}
            return sarif.as_sarif(groups, checks.values(), ruleset.codes, law, Path.cwd())
        case "html":
            from harness.checker.report import html  # jinja2 takes a while

            return html.as_html(
                html.Report(
                    title="Check of results by the rules",
                    law=(f"ruleset {ruleset.version}", ruleset.digest),
                    parts=[html.part_of(item) for item in judged],
                    documents={code: rule.document for code, rule in checks.items()},
                    today=today,
                    waivers=engine.waiver_uses(ruleset, [(item.path, item.findings) for item in judged], today),
                )
            )
    return text.as_text(judged, ruleset, checks if is_verbose else None)


def _told(before: InputError | None, error: InputError) -> InputError:
    """The last of what cannot be read, which ends the command; the one before is said here."""
    if before is not None:
        print(f"tta: {printable(before, 2000)}", file=sys.stderr)
    return error


def _load(name: str) -> tuple[RuleSet, dict[str, Rule]]:
    ruleset = load.load_ruleset(catalog.ruleset_folder(name), name)
    return ruleset, parallel.checks_of(ruleset)
