"""`tta run`: the runs of one benchmark, or of every benchmark of a suite, each in a fresh worker process."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from harness.commands._arguments import Parser, add_benchmark, as_number, as_path, as_positive, as_seed
from harness.commands._jobs import add_scheduler, carried_out
from harness.commands._running import add_running, request_of
from harness.errors import ExitStatus, Interrupted, OutputError, TtaError, UsageError, printable, unknown_name
from harness.launch.runs import campaign_of, make_runs, say, stamp
from harness.launch.scheduled import SCHEDULERS
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run.benchmark import Request
from harness.scoring.summary import Summary, as_text, summarise
from harness.submission.result import Result, read_result
from harness.workload import EXECUTION


def add_arguments(parser: Parser) -> None:
    add_benchmark(parser, is_optional=True)
    parser.add_argument("--all", action="store_true", help="every workload that has the suite, one after the other")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a hyperparameter, by its name in the rules")
    parser.add_argument("--division", default="closed", help="closed or open (default: %(default)s)")
    parser.add_argument(
        "--module",
        type=as_path,
        metavar="FILE",
        help="open division: a Python file that replaces parts of the workload",
    )
    parser.add_argument(
        "--equivalent",
        type=as_path,
        metavar="FILE",
        help="closed division: a Python file that computes parts of the workload in another way; each run compares it "
        "with the reference before its clock starts, and is refused where they differ",
    )
    parser.add_argument(
        "--runs", type=as_positive, metavar="N", help="number of runs (default: as many as the rules ask)"
    )
    parser.add_argument(
        "--seed", type=as_seed, metavar="S", help="run k uses seed S+k (default: a random seed for each run)"
    )
    parser.add_argument("--out", type=as_path, metavar="DIR", help="a new folder (default: results/<benchmark>-<time>)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="add the runs that are missing in --out, and go on with an interrupted one from its last checkpoint; "
        "everything else as in the runs there",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=_minutes,
        metavar="MINUTES",
        help="keep a checkpoint between two blocks every so many minutes (0: between any two), from which --resume "
        "goes on with a run that was interrupted; only where the rules permit it",
    )
    add_running(parser)
    add_scheduler(parser)
    parser.add_argument("--precision", help="fp32, tf32, bf16 or fp16, as far as rules and device permit")
    parser.add_argument(
        "--execution",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"how the workload is executed, without a change of its mathematics: {', '.join(EXECUTION)}; repeatable",
    )
    parser.add_argument(
        "--full-curve", action="store_true", help="run on to max_samples, past the target: for reference runs"
    )
    parser.add_argument(
        "--witness",
        metavar="URL|FILE",
        help="a leaderboard's service that draws the seeds with you, counts every start, and receives the heads of the "
        "logs while they are written (see `tta login`); or a file of tickets that `tta witness fetch` wrote, for a "
        "machine without a network",
    )
    parser.add_argument(
        "--round", metavar="NAME", help="the round of the service that --witness names (default: the only open one)"
    )
    parser.add_argument(
        "--print-campaign",
        action="store_true",
        help="print what `tta witness fetch` needs to fetch tickets for these runs, and make none",
    )
    parser.add_argument(
        "--keep-weights",
        action="store_true",
        help="keep the weights of the last evaluation, once the clock has stopped; anyone can then evaluate them again",
    )


def _minutes(text: str) -> float:
    return as_number(text, 0.0, 10_000.0)


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.all:
        _refuse_single(arguments)
    elif arguments.workload is None:
        raise UsageError("the following arguments are required: WORKLOAD, or --all (see `tta run --help`)")
    elif (status := _as_job(arguments)) is not None:
        return status
    if arguments.keep_weights and arguments.full_curve:
        raise UsageError("--keep-weights: a run with --full-curve is no result; leave one of the two out")
    if arguments.print_campaign and (arguments.all or arguments.launcher in SCHEDULERS):
        raise UsageError("--print-campaign: is for the runs of one workload, made where this is called")
    request = replace(
        request_of(arguments),
        workload=arguments.workload or "",
        suite=arguments.suite,
        division=arguments.division,
        runs=arguments.runs,
        seed=arguments.seed,
        out=arguments.out,
        precision=arguments.precision,
        overrides=tuple(arguments.overrides),
        execution=tuple(arguments.execution),
        is_resumed=arguments.resume,
        full_curve=arguments.full_curve,
        module=arguments.module,
        equivalent=arguments.equivalent,
        checkpoint_min=arguments.checkpoint_every,
        keeps_weights=arguments.keep_weights,
        witness=arguments.witness,
        round=arguments.round,
    )
    if arguments.print_campaign:
        print(json.dumps(campaign_of(request), indent=1))
        return ExitStatus.OK
    return run_all(request) if arguments.all else make_runs(request)


def _refuse_single(arguments: argparse.Namespace) -> None:
    """Raises:
    UsageError: an argument that is for a single workload was given together with --all.
    """
    words = [word for word in (arguments.workload, *arguments.overrides) if word is not None]
    settings = [word for word in words if "=" in word]
    if settings:
        raise UsageError(
            f"--all: {printable(settings[0])} cannot be set for every workload at once; run the workload that has it"
        )
    if words:
        raise UsageError(f"--all means every workload: name either {printable(words[0])!r} or --all")
    num_nodes = arguments.power_nodes if arguments.power_nodes > 1 else None  # their agents serve a single referee
    for option, value in (
        ("--module", arguments.module),
        ("--equivalent", arguments.equivalent),
        ("--source", arguments.source),
        ("--power-nodes", num_nodes),
    ):
        if value is not None:
            raise UsageError(f"--all: {option} {printable(value)} is for one workload; run that workload by itself")


def _as_job(arguments: argparse.Namespace) -> ExitStatus | None:
    """Carry out the part of a scheduler's job that this process has; None if it is to make the runs."""
    if arguments.launcher not in SCHEDULERS:
        return carried_out(arguments, "", Path())
    ruleset = load.load_ruleset(catalog.ruleset_folder(arguments.ruleset), arguments.ruleset)
    name = ruleset.benchmark(arguments.workload, arguments.suite).name
    output = arguments.out or Path("results") / f"{name}-{stamp()}"
    added = () if arguments.out else ("--out", str(output))
    return carried_out(arguments, f"tta-{name.replace('_', '-')}", output, added)


def run_all(request: Request) -> ExitStatus:
    """Run every workload that has the suite, each into `<out>/<benchmark>`, and print a row for each at the end.

    One that misses its target, crashes or cannot be run at all does not keep the others from running.

    Returns:
        The worst status of all; also FINDINGS if a run from before --resume missed its target.

    Raises:
        UsageError: no benchmark has the suite, or there is no such division. OutputError: `out` exists already.
        Interrupted: by a signal; the others are not run, and no row is printed.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    of_suite = [rules for rules in ruleset.benchmarks.values() if rules.suite == request.suite]
    if not of_suite:
        raise UsageError(unknown_name("suite", request.suite, {rules.suite for rules in ruleset.benchmarks.values()}))
    if request.division not in ruleset.divisions:
        raise UsageError(unknown_name("division", request.division, ruleset.divisions))
    out = request.out or Path("results") / f"{request.suite}-{stamp()}"
    if out.exists() and not request.is_resumed:
        raise OutputError(f"{out}: exists already; choose another --out, or continue it with --resume")
    statuses = []
    for number, rules in enumerate(of_suite, 1):
        say(request, f"benchmark {number} of {len(of_suite)}: {rules.name}")
        try:
            statuses.append(make_runs(replace(request, workload=rules.workload, out=out / rules.name)))
        except Interrupted:
            raise
        except TtaError as error:
            print(f"tta: {rules.name}: {printable(error, 2000)}", file=sys.stderr, flush=True)
            statuses.append(error.exit_status)
    rows = [_row(out / rules.name, rules, ruleset) for rules in of_suite]
    print(as_text(rows))
    if not request.full_curve and not all(row.is_reached for row in rows):
        statuses.append(ExitStatus.FINDINGS)
    return max(statuses)


def _row(folder: Path, rules: BenchmarkRules, ruleset: RuleSet) -> Summary:
    result = read_result(folder) if folder.is_dir() else Result(folder, "result", ())
    return summarise(result, rules, ruleset.timing, ruleset.energy)
