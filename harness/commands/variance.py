"""`tta variance`: where the scatter of samples to target comes from, and which tolerance it calls for."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from harness.commands._arguments import Parser, add_format, add_ruleset, add_suite, as_path, as_positive, as_seed
from harness.commands._jobs import add_scheduler, carried_out
from harness.commands._running import add_running, request_of
from harness.errors import ExitStatus, UsageError, printable, unknown_name
from harness.launch.scheduled import SCHEDULERS
from harness.log.seeds import SOURCES
from harness.reproduction import variance_report as report
from harness.reproduction.variance import Design, make, read
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

_LEAST = 2  # runs of which there is a variance


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=_named,
        metavar="WORKLOAD|PATH",
        help="a workload, of which runs are made; and folders of runs that there are: of an earlier `tta variance`, or "
        "of others, whose seeds all differ",
    )
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument(
        "--runs",
        type=as_positive,
        default=3,
        metavar="N",
        help="runs of each source, and with all seeds the same, at each base (default: %(default)s)",
    )
    parser.add_argument(
        "--bases",
        type=as_positive,
        default=4,
        metavar="B",
        help="points at which what does not vary is held (default: %(default)s)",
    )
    parser.add_argument(
        "--sources",
        default=",".join(SOURCES),
        metavar="NAMES",
        help="what is varied by itself, separated by commas (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=as_seed, default=0, metavar="S", help="from which all seeds are derived (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=as_path,
        metavar="DIR",
        help="the folder of the new runs; one with some is continued (default: results/<benchmark>-variance)",
    )
    parser.add_argument("--data", type=as_path, metavar="DIR", help="the cache of prepared data (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=as_path, metavar="DIR", help="data you already have, as the workload's card says"
    )
    add_running(parser)
    add_scheduler(parser)
    add_format(parser)


def _named(text: str) -> str:
    """A workload or a path as typed: `./detection` is never the workload."""
    as_path(text)
    return text


def call(arguments: argparse.Namespace) -> ExitStatus:
    """Make the runs of a workload that are missing, if one is named, and print where the scatter comes from.

    Returns:
        FINDINGS if the rules' tolerance is too small, or the runs are too few to tell.

    Raises:
        UsageError, InputError: what was named, the rules or the data cannot be used. Interrupted: the same command goes
        on.
    """
    if arguments.launcher in SCHEDULERS and arguments.out is None:
        raise UsageError(f"--launcher {arguments.launcher}: also needs --out, in which the job's runs are continued")
    if (ended := carried_out(arguments, "tta-variance", arguments.out or Path())) is not None:
        return ended
    ruleset = load.load_ruleset(catalog.ruleset_folder(arguments.ruleset), arguments.ruleset)
    first, *rest = arguments.paths
    workloads = {rules.workload for rules in ruleset.benchmarks.values()}
    if first in workloads:
        paths = [_made(first, ruleset, arguments), *map(as_path, rest)]
    elif Path(first).exists() or Path(first).name != first:
        paths = [*map(as_path, arguments.paths)]
    else:
        raise UsageError(unknown_name("workload or folder", first, workloads))
    study = read(paths, ruleset)
    if arguments.format == "json":
        print(json.dumps(report.document(study), allow_nan=False, indent=2))
    else:
        print(report.text(study))
    return report.status(study)


def _made(workload: str, ruleset: RuleSet, arguments: argparse.Namespace) -> Path:
    """Make the runs; return their folder."""
    rules = ruleset.benchmark(workload, arguments.suite)
    if arguments.runs < _LEAST:
        raise UsageError(f"--runs {arguments.runs}: of one run there is no variance; at least {_LEAST}")
    design = Design(arguments.seed, arguments.bases, arguments.runs, _sources(arguments.sources))
    base = replace(request_of(arguments), workload=workload, suite=arguments.suite)
    folder = arguments.out or Path("results") / f"{rules.name}-variance"

    def say(text: str) -> None:
        if not arguments.quiet:
            print(text, file=sys.stderr, flush=True)

    say(f"{rules.name}: {design.total} runs go to {printable(folder)}")
    make(design, base, folder, say)
    return folder


def _sources(text: str) -> tuple[str, ...]:
    named = text.split(",")
    for name in named:
        if name not in SOURCES:
            raise UsageError(f"--sources: {printable(name)!r} is none of {', '.join(SOURCES)}")
    return tuple(source for source in SOURCES if source in named)
