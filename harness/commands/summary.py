"""`tta summary`: results in one row each: target, quality, samples, seconds, and what the rules have beside them."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from harness.errors import ExitStatus, InputError, printable
from harness.ruleset import catalog, load
from harness.scoring.summary import as_text, summarise
from harness.submission import result as submission_result
from harness.submission.result import find_results, read_result


def run(paths: list[Path], ruleset_name: str, output_format: str) -> ExitStatus:
    """Prints a row for every result at or below `paths`, sorted by benchmark.

    Folders that have nothing but reference runs over the full curve are no results, and named on standard error, as
    is what cannot be read of a result.

    Returns:
        FINDINGS where a run missed its target; USAGE where a result cannot be read or is of no benchmark of the
        rules (the others are shown).

    Raises:
        TtaError: a path has no result, or the rules cannot be read.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    rows, status = [], ExitStatus.OK
    for path in dict.fromkeys(found for place in paths for found in find_results(place)):
        try:
            result = read_result(path)
            for part in submission_result.unreadable_parts(result):
                print(f"tta: {printable(part.path)}: left out: {printable(part.message, 500)}", file=sys.stderr)
            submission_result.require_runs(result)
        except InputError as error:
            print(f"tta: {printable(error, 2000)}", file=sys.stderr)
            status = ExitStatus.USAGE
            continue
        rules = ruleset.benchmarks.get(result.benchmark or "")
        if rules is None:
            named = printable(result.benchmark) if result.benchmark else "none that can be read"
            print(
                f"tta: {printable(path)}: left out: ruleset {ruleset.version} has no such benchmark: {named}",
                file=sys.stderr,
            )
            status = ExitStatus.USAGE
            continue
        row = summarise(result, rules, ruleset.timing, ruleset.energy)
        if row.num_runs:
            rows.append(row)
        else:
            print(f"tta: {printable(path)}: left out: reference runs over the full curve only", file=sys.stderr)
    rows.sort(key=lambda row: (row.benchmark, row.division, row.path))
    if output_format == "json":
        document = {"ruleset": ruleset.version, "results": [dataclasses.asdict(row) for row in rows]}
        print(json.dumps(document, allow_nan=False, indent=2))
    elif rows:
        print(as_text(rows))
    if status is ExitStatus.OK and not (rows and all(row.is_reached for row in rows)):
        status = ExitStatus.FINDINGS
    return status
