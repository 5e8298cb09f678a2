"""`tta check`: judges logs, results, submissions or a tree of them by a ruleset, and says what it found."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from harness import events as key
from harness import judging, loader, registry, render
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.ruleset import RuleSet
from harness.submission import Result, find_results, read_result

AUTO = "auto"
DEFAULT_RULESET = "v1"
FORMATS = ("text", "json", "sarif")


def run(paths: list[Path], ruleset_name: str, output_format: str, today: date) -> ExitStatus:
    """Judges every result at or below `paths` and writes the findings to standard output.

    The ruleset "auto" is the one that the first log names, if it comes with the harness, else v1; which
    it is goes to standard error. What can be read is judged even if something else cannot.

    Raises:
        UsageError: no path, an unknown ruleset or format.
        InputError: a path is not there, has no result, or cannot be read.
    """
    if not paths:
        raise UsageError("check: which results? name logs, folders or trees of them")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    checks = registry.checks()
    ruleset: RuleSet | None = None if ruleset_name == AUTO else _load(ruleset_name)
    judged: list[render.Judged] = []
    unreadable: InputError | None = None
    for path in dict.fromkeys(found for place in paths for found in find_results(place)):
        try:
            result = read_result(path)
        except InputError as error:
            if unreadable is not None:
                print(f"tta: {printable(unreadable, 2000)}", file=sys.stderr)
            unreadable = error
            continue
        if ruleset is None:
            ruleset = _load(_named(result))
        findings = judging.judge(result, ruleset, checks.values(), today)
        judged.append(render.Judged(str(path), result.benchmark, tuple(findings)))
    if ruleset is not None and judged:
        match output_format:
            case "json":
                document = render.as_json(judged, ruleset)
            case "sarif":
                document = render.as_sarif(judged, ruleset, checks, Path.cwd())
            case _:
                document = render.as_text(judged, ruleset)
        sys.stdout.write(document)
    if unreadable is not None:
        raise unreadable
    return ExitStatus.OK if all(item.is_valid for item in judged) else ExitStatus.FINDINGS


def _load(name: str) -> RuleSet:
    return loader.load_ruleset(registry.ruleset_folder(name), name)


def _named(result: Result) -> str:
    """The ruleset that the first log names.

    Only one that comes with the harness: a log must not choose a folder of its own to be judged by.
    """
    named = result.runs[0].field(key.TTA_RULES, "ruleset") if result.runs else None
    if isinstance(named, str) and named in dict(registry.ruleset_folders()):
        print(f"tta: judging by ruleset {named}, which the first log names", file=sys.stderr)
        return named
    said = "the first log names none" if named is None else f"there is no {printable(named, 60)!r}"
    print(f"tta: judging by ruleset {DEFAULT_RULESET}; {said}", file=sys.stderr)
    return DEFAULT_RULESET
