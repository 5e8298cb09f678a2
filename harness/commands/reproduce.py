"""`tta reproduce`: whether a claimed result is true, by runs of one's own."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.base.http import is_address
from harness.commands._arguments import Parser, add_format, add_ruleset, as_folder, as_number, as_path, as_positive
from harness.commands._jobs import add_scheduler, carried_out
from harness.commands._running import add_running, request_of
from harness.errors import ExitStatus, UsageError, printable
from harness.launch.scheduled import SCHEDULERS
from harness.reproduction import drawn, report
from harness.reproduction.claim import Claim, read_claim
from harness.reproduction.fetch import fetch
from harness.reproduction.identity import claimed_versions
from harness.reproduction.making import name_of_folder, prepare, replay, reproduce, screen
from harness.reproduction.page import as_html
from harness.reproduction.replays import facts
from harness.reproduction.reproduction import terms_of
from harness.reproduction.versions import environment
from harness.ruleset import catalog, load
from harness.run.benchmark import Request


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path",
        type=_claim,
        metavar="PATH",
        help="the folder of a result, submitted or not; or the address of its page on a board",
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
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plan-only", action="store_true", help="print what differs here and the plan, and run nothing")
    only.add_argument("--replay-only", action="store_true", help="make the first steps again, and no run")
    only.add_argument(
        "--screen",
        action="store_true",
        help="make only the first half of each run of the first look, and compare the curves: no verdict",
    )
    only.add_argument(
        "--drawn",
        action="store_true",
        help="of a witnessed result: repeat the run and the evaluation that the witness has drawn, and compare the "
        "predictions",
    )
    parser.add_argument("--watch", action="store_true", help="say after each run what is known so far")
    parser.add_argument(
        "--out", type=as_path, metavar="DIR", help="the folder of the new runs; one with some is continued"
    )
    parser.add_argument("--data", type=as_path, metavar="DIR", help="the cache of prepared data (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=as_path, metavar="DIR", help="data you already have, as the workload's card says"
    )
    parser.add_argument("--module", type=as_path, metavar="FILE", help="open division: the module of the claim")
    parser.add_argument(
        "--weights", type=as_folder, metavar="DIR", help="a folder with weights that were too large to be submitted"
    )
    parser.add_argument(
        "--equivalent",
        type=as_path,
        metavar="FILE",
        help="closed division: the claim's reimplementation, if it has one",
    )
    parser.add_argument(
        "--same-versions",
        action="store_true",
        help="run in an environment with the claim's versions of the packages, which pip makes",
    )
    add_running(parser)
    add_scheduler(parser)
    add_format(parser, "html", note="; html: one page with the curves of both")


def _tolerance(text: str) -> float:
    return as_number(text, 0.01, 1.0)


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.launcher in SCHEDULERS and arguments.out is None:
        raise UsageError(f"--launcher {arguments.launcher}: also needs --out, in which the job's runs are continued")
    if arguments.same_versions and arguments.nodes > 1:
        raise UsageError("--same-versions: makes an environment on this node alone; make it first, then use --nodes")
    only_part = arguments.plan_only or arguments.replay_only or arguments.screen or arguments.drawn
    if arguments.format == "html" and only_part:
        raise UsageError("--format html: shows a whole reproduction; of a part alone, text or json")
    if (status := carried_out(arguments, "tta-reproduce", arguments.out or Path())) is not None:
        return status
    base = replace(request_of(arguments), module=arguments.module, equivalent=arguments.equivalent)
    return run(_place(arguments.path), base, arguments)


def _claim(text: str) -> str | Path:
    """An address on a board, or a folder."""
    return text if is_address(text) else as_path(text)


def _place(claim: str | Path) -> Path:
    """The folder that was named; what is on a board is downloaded into one first."""
    if isinstance(claim, Path):
        return claim
    folder = Path("results") / f"claim-{hashlib.sha256(claim.encode()).hexdigest()[:12]}"
    return fetch(claim, folder, lambda line: print(line, file=sys.stderr, flush=True))


def run(path: Path, base: Request, arguments: argparse.Namespace) -> ExitStatus:
    """Make the claim at `path` again, and print the verdict.

    Returns:
        FINDINGS if it is not reproduced, or the runs do not suffice to tell; of a part alone, if it speaks against the
        claim, or says nothing.

    Raises:
        UsageError, InputError: the claim, the rules or the data cannot be used. Interrupted: the same command goes on.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(base.ruleset), base.ruleset)
    claim = read_claim(path, ruleset)
    if arguments.same_versions:
        folder, versions = _environment_of(claim)
        if Path(sys.prefix) != folder.absolute():  # else this is that environment
            print(f"tta: going on in {printable(folder)}, with the claim's packages", file=sys.stderr, flush=True)
            program = str(environment(versions, folder))
            os.execv(program, [program, "-m", "harness.cli", *arguments.argv])  # noqa: S606  (tta itself)
    terms = terms_of(claim, arguments.tolerance, arguments.runs)
    prepared = prepare(claim, terms, base, ruleset)

    def say(text: str) -> None:
        if not base.is_quiet:
            print(text, file=sys.stderr, flush=True)

    plan = report.plan_text(claim, terms, prepared.identity, prepared.outlook)
    if arguments.plan_only:
        _show(plan, report.plan_facts(terms, prepared.identity, prepared.outlook), arguments.format)
        return ExitStatus.OK
    say(plan)
    what = "screened" if arguments.screen else "drawn" if arguments.drawn else "again"
    folder = arguments.out or Path("results") / name_of_folder(claim, what)
    if arguments.replay_only:
        folder.mkdir(parents=True, exist_ok=True)
        found = replay(prepared, folder)
        _show(report.replay_text(found), {"replay": None if found is None else facts(found)}, arguments.format)
        return ExitStatus.OK if found is not None and found.status in ("equal", "close") else ExitStatus.FINDINGS
    say(f"new runs go to {printable(folder)}")
    if arguments.drawn:
        repeated = drawn.repeat(prepared, folder)
        _show(drawn.text(repeated), {"drawn": drawn.facts(repeated)}, arguments.format)
        return ExitStatus.OK if repeated.status == "equal" else ExitStatus.FINDINGS
    if arguments.screen:
        most, screening = screen(prepared, folder)
        found_text = report.screening_text(most, screening, terms.tolerance)
        _show(found_text, {"screening": report.screening_facts(most, screening)}, arguments.format)
        is_over = screening is not None and not report.is_doubtful(screening, terms.tolerance)
        return ExitStatus.OK if is_over else ExitStatus.FINDINGS
    reproduction = reproduce(prepared, folder, say, arguments.watch, arguments.weights)
    if arguments.format == "html":
        print(as_html(reproduction))
    else:
        _show(report.text(reproduction), report.document(reproduction), arguments.format)
    return ExitStatus.OK if reproduction.status == "reproduced" else ExitStatus.FINDINGS


def _show(text: str, document: Mapping[str, object], output_format: str) -> None:
    print(json.dumps(document, allow_nan=False, indent=2) if output_format == "json" else text)


def _environment_of(claim: Claim) -> tuple[Path, dict[str, str]]:
    """The folder of the environment with the claim's packages, and their versions."""
    versions = claimed_versions(claim)
    key = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:12]
    return Path("results") / f"environment-{key}", versions
