"""`tta run`: the runs of one benchmark, or of every benchmark of a suite, each in a fresh worker process."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands._arguments import (
    Parser,
    add_benchmark,
    add_nodes,
    as_number,
    as_path,
    as_positive,
    as_seconds,
    as_seed,
)
from harness.commands._jobs import add_scheduler, carried_out
from harness.errors import ExitStatus, Interrupted, OutputError, TtaError, UsageError, printable, unknown_name
from harness.launch import network, nodes, preflight
from harness.launch.scheduled import SCHEDULERS, is_warned, launch_here
from harness.log import keys
from harness.log.run_log import RunLog
from harness.metering import session
from harness.metering.session import Metering, MeterRequest
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import isolation, result_folder
from harness.run.benchmark import Request, isolate, places, read_module, run_once, shared_plan
from harness.run.plan import Outcome, Plan, View
from harness.run.progress import open_view
from harness.run.resumption import Resumption
from harness.scoring.summary import Summary, as_text, summarise
from harness.submission.layout import CODE_NAME
from harness.submission.result import Result, read_result
from harness.workload import EXECUTION

if TYPE_CHECKING:
    from harness.launch.cluster import Cluster
    from harness.tracking.mirror import Mirror

_MIRROR_PATIENCE_S = 60.0


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
        "--runs", type=as_positive, metavar="N", help="number of runs (default: as many as the rules ask)"
    )
    parser.add_argument(
        "--seed", type=as_seed, metavar="S", help="run k uses seed S+k (default: a random seed for each run)"
    )
    parser.add_argument("--system", type=as_path, metavar="FILE", help="system description (default: this machine's)")
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
    parser.add_argument(
        "--devices", type=as_positive, default=1, metavar="N", help="worker processes on each node (default: 1)"
    )
    add_nodes(parser)
    add_scheduler(parser)
    parser.add_argument("--precision", help="fp32, tf32, bf16 or fp16, as far as rules and device permit")
    parser.add_argument(
        "--execution",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"how the workload is executed, without a change of its mathematics: {', '.join(EXECUTION)}; repeatable",
    )
    _add_meters(parser)
    parser.add_argument(
        "--mlflow",
        metavar="URI",
        help="tracking URI of the mirror (default: the one MLflow is configured with, or ./mlflow.db)",
    )
    parser.add_argument("--no-mlflow", action="store_true", help="no mirror")
    parser.add_argument(
        "--full-curve", action="store_true", help="run on to max_samples, past the target: for reference runs"
    )
    parser.add_argument(
        "--isolation",
        choices=isolation.MODES,
        default="auto",
        help="what confines the workers: full (refuse to run if this machine does not permit it), auto (the strongest "
        "form that it permits), none (default: %(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="report only what went wrong")


def _add_meters(parser: Parser) -> None:
    """What is metered, and how."""
    parser.add_argument(
        "--meter",
        default="none",
        metavar="NAMES",
        help="powercap, nvml, ipmi, zeus, estimate, or a YAML file of network meters, separated by commas; auto: every "
        "meter that works here; none (default: %(default)s)",
    )
    parser.add_argument(
        "--meter-period", type=_period, metavar="SECONDS", help="time between readings (default: the meter's)"
    )
    parser.add_argument(
        "--idle", type=as_seconds, metavar="SECONDS", help="length of the idle baseline (default: 60 with a meter)"
    )
    parser.add_argument(
        "--power-nodes", type=as_positive, default=1, metavar="N", help="number of metered nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--power-listen", metavar="HOST:PORT", help="the address to listen on for `tta agent` on the other nodes"
    )


def _minutes(text: str) -> float:
    return as_number(text, 0.0, 10_000.0)


def _period(text: str) -> float:
    return as_number(text, 0.02, 60.0)


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.all:
        _refuse_single(arguments)
    elif arguments.workload is None:
        raise UsageError("the following arguments are required: WORKLOAD, or --all (see `tta run --help`)")
    elif (status := _as_job(arguments)) is not None:
        return status
    request = Request(
        workload=arguments.workload or "",
        suite=arguments.suite,
        division=arguments.division,
        ruleset=arguments.ruleset,
        runs=arguments.runs,
        seed=arguments.seed,
        system=arguments.system,
        out=arguments.out,
        devices=arguments.devices,
        nodes=arguments.nodes,
        launch=nodes.asked(arguments),
        precision=arguments.precision,
        data=arguments.data,
        source=arguments.source,
        power=MeterRequest(
            meters=arguments.meter,
            num_nodes=arguments.power_nodes,
            listen=arguments.power_listen,
            idle_s=arguments.idle,
            period_s=arguments.meter_period,
        ),
        overrides=tuple(arguments.overrides),
        execution=tuple(arguments.execution),
        mlflow=arguments.mlflow,
        is_mirrored=not arguments.no_mlflow,
        is_quiet=arguments.quiet,
        is_resumed=arguments.resume,
        full_curve=arguments.full_curve,
        module=arguments.module,
        isolation=arguments.isolation,
        checkpoint_min=arguments.checkpoint_every,
    )
    return run_all(request) if arguments.all else run(request)


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
    output = arguments.out or Path("results") / f"{name}-{_stamp()}"
    added = () if arguments.out else ("--out", str(output))
    return carried_out(arguments, f"tta-{name.replace('_', '-')}", output, added)


def run(request: Request) -> ExitStatus:
    """Carry out the runs of one benchmark that are missing in the output folder.

    Returns:
        FINDINGS if a run did not reach the target, also one that was there before --resume.

    Raises:
        TtaError: the request, the data, the system description or the output folder cannot be used.
        Interrupted: SIGINT, SIGTERM or SIGHUP; the log of the current run was closed as aborted.
    """
    session.meter_plan(request.power)
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    if request.checkpoint_min is not None and not rules.permits_resume:
        raise UsageError(
            f"--checkpoint-every {request.checkpoint_min:g}: the rules of {rules.name} do not permit that an "
            "interrupted run goes on; leave it out"
        )
    module, module_text = read_module(request, ruleset)
    template = replace(shared_plan(request, ruleset, rules), module=module)
    folder = request.out or Path("results") / f"{rules.name}-{_stamp()}"
    nodes.refuse_too_many(request.devices, _warn)
    form = isolate(request, template)
    if form.gaps:
        _warn(f"the worker is not fully isolated: {form.gaps} (tta doctor says why)")
    with (
        nodes.opened(request.launch, request.nodes, _warn) as cluster,
        session.opened(_metered(request, template, cluster), template.system, partial(_say, request), _warn) as meters,
        result_folder.opened(folder, template, module_text, request.is_resumed) as before,
    ):
        if cluster is None:
            template = replace(template, job=launch_here(request.launch.launcher, os.environ, request.devices))
        if module is not None:
            template = replace(template, module_path=folder.absolute() / CODE_NAME / module.name)
        logs = [*before.runs.values(), *(resumption.log for resumption in before.interrupted.values())]
        if logs:
            first = logs[0]  # new runs belong to the same result, at the same prices
            prices_digest = first.field(keys.TTA_RULES, keys.PRICES_FIELD)
            template = replace(
                template, result_id=str(first.field(keys.TTA_FORMAT, "result_id")), prices_digest=prices_digest
            )
        _say(request, f"{rules.name}: results go to {folder}")
        num_runs = request.runs or rules.required_runs(template.division)
        missing = {index: before.attempts.get(index, 0) + 1 for index in range(num_runs) if index not in before.runs}
        _say_what_counts(request, before, missing)
        usd_per_hour = None if ruleset.prices is None else ruleset.prices.current.usd_per_hour(template.system)
        view = open_view(request.is_quiet, num_runs, usd_per_hour)
        if cluster is not None:
            cluster.isolate(request.isolation, places(request, template, folder), form, request.devices)
        outcomes = _runs(request, template, folder, missing, before.interrupted, view, meters, form, cluster)
    is_success = [_is_success(log, request.full_curve) for log in before.runs.values()]
    is_success += [outcome.reason == "full_curve" if request.full_curve else outcome.is_reached for outcome in outcomes]
    reached = sum(outcome.is_reached for outcome in outcomes)
    made = f"{reached} of {len(outcomes)} runs reached the target" if missing else "no run is missing"
    _say(request, f"{made}; results are in {folder}")
    return ExitStatus.OK if all(is_success) and len(outcomes) == len(missing) else ExitStatus.FINDINGS


def _metered(request: Request, template: Plan, cluster: Cluster | None) -> MeterRequest:
    """Return what is metered: on several nodes, once they have been compared, all of them, by agents of their helpers.

    Raises:
        UsageError: the nodes cannot make a run together.
    """
    power = request.power
    if cluster is None:
        return power
    cluster.check(request.devices, template.data_dir, power.meters != session.NONE)
    for line in preflight.all_reduced(cluster, request.devices):
        _say(request, f"{line.name}: {line.value}")
        if line.advice is not None:
            _warn(f"{line.name}: {line.advice}")
    if power.meters == session.NONE or power.num_nodes > 1:
        return power
    port = network.free_port(cluster.address)
    token = cluster.start_agents(port).encode()
    listen = network.joined(cluster.address, port)
    return replace(power, num_nodes=cluster.num_nodes, listen=listen, token=token)


def _say_what_counts(request: Request, before: result_folder.Contents, missing: Iterable[int]) -> None:
    """What --resume found: the finished runs, however they ended, and the attempts that have no end."""
    for index, resumption in before.interrupted.items():
        _say(request, f"run {index} goes on from checkpoint {resumption.number}; its clock has not stopped")
    if before.runs or before.attempts:
        there, to_make = (", ".join(map(str, sorted(runs))) or "none" for runs in (before.runs, missing))
        num_aside = sum(before.attempts.values())
        _say(request, f"runs there: {there}; to be made: {to_make}; attempts in unfinished/: {num_aside}")


def _is_success(log: RunLog, is_full_curve: bool) -> bool:
    stop = log.first(keys.RUN_STOP)
    how = {} if stop is None else stop.metadata
    return how.get("reason") == "full_curve" if is_full_curve else how.get("status") == "success"


def _runs(
    request: Request,
    template: Plan,
    folder: Path,
    missing: Mapping[int, int],
    interrupted: Mapping[int, Resumption],
    view: View,
    meters: Metering,
    form: isolation.Isolation,
    cluster: Cluster | None,
) -> list[Outcome]:
    """Make the missing runs. missing: the attempt that each run is. interrupted: those among them that go on.

    cluster: the nodes, if there are several.
    """
    if missing:
        meters.baseline(folder)
    # The mirror's import of mlflow takes seconds; torch is imported meanwhile.
    mirror = _start_mirror(folder, request.mlflow) if request.is_mirrored else None
    outcomes: list[Outcome] = []
    try:
        for index, attempt in missing.items():
            if is_warned():
                _warn("no further run: the job's time is nearly over; --resume makes those that are missing")
                break
            plan = replace(template, attempt=attempt)
            resumption = interrupted.get(index)
            outcomes.append(run_once(request, plan, folder, index, view, meters, form, cluster, resumption))
            if outcomes[-1].run_s is None:
                break  # the clock never started; it would not start for the next run either
            if cluster is not None and (lost := cluster.lost) is not None:
                _warn(f"no further run: {lost}; --resume makes those that are missing")
                break
    finally:
        if mirror is not None and not mirror.finish(_MIRROR_PATIENCE_S):
            _say(request, f"the MLflow mirror is incomplete; complete it with: tta sync {folder}")
    return outcomes


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
    out = request.out or Path("results") / f"{request.suite}-{_stamp()}"
    if out.exists() and not request.is_resumed:
        raise OutputError(f"{out}: exists already; choose another --out, or continue it with --resume")
    statuses = []
    for number, rules in enumerate(of_suite, 1):
        _say(request, f"benchmark {number} of {len(of_suite)}: {rules.name}")
        try:
            statuses.append(run(replace(request, workload=rules.workload, out=out / rules.name)))
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


def _start_mirror(folder: Path, tracking_uri: str | None) -> Mirror:
    from harness.tracking.mirror import start_mirror

    return start_mirror(folder, tracking_uri)


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _warn(text: str) -> None:
    with suppress(OSError):
        print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)


def _say(request: Request, text: str) -> None:
    if not request.is_quiet:
        with suppress(OSError):  # a reader that went away must not end the run
            print(text, file=sys.stderr, flush=True)
