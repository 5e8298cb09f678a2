"""`tta reproduce`: whether a claimed result is true, by runs of one's own."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from harness.commands._arguments import Parser, add_format, add_ruleset, as_number, as_path, as_positive
from harness.errors import ExitStatus, printable
from harness.reproduction import report
from harness.reproduction.claim import read_claim
from harness.reproduction.fetch import fetch, is_address
from harness.reproduction.making import name_of_folder, prepare, replay, reproduce
from harness.reproduction.page import as_html
from harness.reproduction.reproduction import terms_of
from harness.ruleset import catalog, load
from harness.run import isolation
from harness.run.benchmark import Request


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="the folder of a result, submitted or not; or the address of its page on a board"
    )
    add_ruleset(parser, "the ruleset by which it was made")
    parser.add_argument(
        "--runs",
        type=as_positive,
        metavar="N",
        help="judge once, after so many runs (default: after 5, 10 and 20, until the verdict is clear)",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="SHARE",
        help="how much worse than claimed it may be, for example 0.1 (default: that of the rules)",
    )
    parser.add_argument("--replay-only", action="store_true", help="make the first steps again, and no run")
    parser.add_argument(
        "--out", type=as_path, metavar="DIR", help="the folder of the new runs; one with some is continued"
    )
    parser.add_argument("--system", type=as_path, metavar="FILE", help="system description (default: this machine's)")
    parser.add_argument("--data", type=as_path, metavar="DIR", help="the cache of prepared data (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=as_path, metavar="DIR", help="data you already have, as the workload's card says"
    )
    parser.add_argument("--devices", type=as_positive, default=1, metavar="N", help="worker processes (default: 1)")
    parser.add_argument("--module", type=as_path, metavar="FILE", help="open division: the module of the claim")
    parser.add_argument("--isolation", choices=isolation.MODES, default="auto", help="as in `tta run`")
    parser.add_argument("--mlflow", metavar="URI", help="as in `tta run`")
    parser.add_argument("--no-mlflow", action="store_true", help="no mirror")
    parser.add_argument("--quiet", action="store_true", help="report only the verdict and what went wrong")
    add_format(parser, "html", note="; html: one page with the curves of both")


def _tolerance(text: str) -> float:
    return as_number(text, 0.01, 1.0)


def call(arguments: argparse.Namespace) -> ExitStatus:
    base = Request(
        workload="",
        ruleset=arguments.ruleset,
        system=arguments.system,
        devices=arguments.devices,
        data=arguments.data,
        source=arguments.source,
        module=arguments.module,
        isolation=arguments.isolation,
        mlflow=arguments.mlflow,
        is_mirrored=not arguments.no_mlflow,
        is_quiet=arguments.quiet,
    )
    return run(_place(arguments.path), base, arguments)


def _place(text: str) -> Path:
    """The folder that was named; what is on a board is downloaded into one first."""
    if not is_address(text):
        return as_path(text)
    folder = Path("results") / f"claim-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return fetch(text, folder, lambda line: print(line, file=sys.stderr, flush=True))


def run(path: Path, base: Request, arguments: argparse.Namespace) -> ExitStatus:
    """Make the claim at `path` again, and print the verdict.

    Returns:
        FINDINGS if it is not reproduced, or the runs do not suffice to tell.

    Raises:
        UsageError, InputError: the claim, the rules or the data cannot be used. Interrupted: the same command goes on.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(base.ruleset), base.ruleset)
    claim = read_claim(path, ruleset)
    terms = terms_of(claim, arguments.tolerance, arguments.runs)
    prepared = prepare(claim, terms, base, ruleset)

    def say(text: str) -> None:
        if not base.is_quiet:
            print(text, file=sys.stderr, flush=True)

    say(report.plan_text(claim, terms, prepared.identity, prepared.outlook))
    folder = arguments.out or Path("results") / name_of_folder(claim)
    say(f"new runs go to {printable(folder)}")
    if arguments.replay_only:
        folder.mkdir(parents=True, exist_ok=True)
        found = replay(prepared, folder)
        print(report.replay_text(found))
        return ExitStatus.OK if found is not None and found.status in ("equal", "close") else ExitStatus.FINDINGS
    reproduction = reproduce(prepared, folder, say)
    if arguments.format == "json":
        print(json.dumps(report.document(reproduction), allow_nan=False, indent=2))
    elif arguments.format == "html":
        print(as_html(reproduction))
    else:
        print(report.text(reproduction))
    return ExitStatus.OK if reproduction.verdict.status == "reproduced" else ExitStatus.FINDINGS
