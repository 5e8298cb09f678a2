"""`tta summary`: one row per result: target, quality, samples, seconds, and the rules' figures for comparison."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from harness.checker.results import open_results
from harness.commands._arguments import Parser, add_format, add_results
from harness.errors import ExitStatus, printable
from harness.ruleset import catalog, load
from harness.scoring.summary import as_text, summarise


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a results folder, a submission, or a tree of them")
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.ruleset, arguments.format)


def run(paths: list[Path], ruleset_name: str, output_format: str) -> ExitStatus:
    """Print a row for every result at or below `paths`, sorted by benchmark.

    Folders with nothing but reference runs over the full curve are not results; they are named on standard error, and
    so is what cannot be read of a result.

    Returns:
        FINDINGS if a run missed its target; USAGE if a result belongs to no benchmark of the rules (the others are
        shown).

    Raises:
        InputError: the rules cannot be read; a path does not exist, has no result, or has one that cannot be read (the
            others are shown first).
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    rows, status = [], ExitStatus.OK
    results = open_results(paths, ruleset_name, left_out="left out")
    for result in results:
        rules = ruleset.benchmarks.get(result.benchmark or "")
        if rules is None:
            named = printable(result.benchmark) if result.benchmark else "none that can be read"
            print(
                f"tta: {printable(result.path)}: left out: ruleset {ruleset.version} has no such benchmark: {named}",
                file=sys.stderr,
            )
            status = ExitStatus.USAGE
            continue
        row = summarise(result, rules, ruleset.timing, ruleset.energy)
        if row.num_runs:
            rows.append(row)
        else:
            print(f"tta: {printable(result.path)}: left out: only reference runs over the full curve", file=sys.stderr)
    rows.sort(key=lambda row: (row.benchmark, row.division, row.path))
    if output_format == "json":
        document = {"ruleset": ruleset.version, "results": [dataclasses.asdict(row) for row in rows]}
        print(json.dumps(document, allow_nan=False, indent=2))
    elif rows:
        print(as_text(rows))
    results.raise_unreadable()
    if status is ExitStatus.OK and not (rows and all(row.is_reached for row in rows)):
        status = ExitStatus.FINDINGS
    return status
