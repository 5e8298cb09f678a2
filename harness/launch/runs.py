"""The runs of one benchmark, on one node or on several: what is missing in a folder is made, metered and mirrored."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.base.http import is_address
from harness.errors import ExitStatus, UsageError, printable
from harness.handin.account import client_for
from harness.launch import network, nodes, preflight
from harness.launch.scheduled import is_warned, launch_here
from harness.log import keys
from harness.log.events import digest_of
from harness.log.run_log import RunLog
from harness.log.ticket import config_digest
from harness.metering import session
from harness.metering.session import Metering, MeterRequest
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.run import isolation, result_folder
from harness.run.benchmark import Request, isolate, places, read_module, run_once, shared_plan
from harness.run.plan import Outcome, Plan, View
from harness.run.progress import open_view
from harness.run.resumption import Resumption
from harness.submission.layout import CODE_NAME
from harness.witness.campaign import PATIENCE_S, Campaign, Identity, Witness
from harness.witness.sealed import SealedCampaign, wanted

if TYPE_CHECKING:
    from harness.base.companion import Companion
    from harness.launch.cluster import Cluster

_MIRROR_PATIENCE_S = 60.0


def make_runs(request: Request, on_run: Callable[[], None] | None = None) -> ExitStatus:
    """Carry out the runs of one benchmark that are missing in the output folder.

    on_run: called after each of them.

    Returns:
        FINDINGS if a run did not reach the target, also one that was there before --resume.

    Raises:
        TtaError: the request, the data, the system description or the output folder cannot be used.
        Interrupted: SIGINT, SIGTERM or SIGHUP; the log of the current run was closed as aborted.
    """
    session.meter_plan(request.power)
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    if request.screened_samples is not None:
        rules = replace(rules, max_samples=request.screened_samples)
    if request.checkpoint_min is not None and not rules.permits_resume:
        raise UsageError(
            f"--checkpoint-every {request.checkpoint_min:g}: the rules of {rules.name} do not permit that an "
            "interrupted run goes on; leave it out"
        )
    module, module_text = read_module(request, ruleset)
    template = replace(shared_plan(request, ruleset, rules), module=module)
    folder = request.out or Path("results") / f"{rules.name}-{stamp()}"
    nodes.refuse_too_many(request.devices, warn)
    form = isolate(request, template)
    if form.gaps:
        warn(f"the worker is not fully isolated: {form.gaps} (tta doctor says why)")
    with (
        nodes.opened(request.launch, request.nodes, warn) as cluster,
        session.opened(_metered(request, template, cluster), template.system, partial(say, request), warn) as meters,
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
        say(request, f"{rules.name}: results go to {folder}")
        num_runs = request.runs or rules.required_runs(template.division)
        missing = {index: before.attempts.get(index, 0) + 1 for index in range(num_runs) if index not in before.runs}
        _say_what_counts(request, before, missing)
        usd_per_hour = None if ruleset.prices is None else ruleset.prices.current.usd_per_hour(template.system)
        view = open_view(request.is_quiet, num_runs, usd_per_hour)
        if cluster is not None:
            cluster.isolate(request.isolation, places(request, template, folder), form, request.devices)
        witnessed = _witnessed(request, template, rules, folder, num_runs) if missing else None
        outcomes = _runs(
            request, template, folder, missing, before.interrupted, view, meters, form, cluster, on_run, witnessed
        )
    is_success = [_is_success(log, request.full_curve) for log in before.runs.values()]
    is_success += [outcome.reason == "full_curve" if request.full_curve else outcome.is_reached for outcome in outcomes]
    reached = sum(outcome.is_reached for outcome in outcomes)
    made = f"{reached} of {len(outcomes)} runs reached the target" if missing else "no run is missing"
    say(request, f"{made}; results are in {folder}")
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
        say(request, f"{line.name}: {line.value}")
        if line.advice is not None:
            warn(f"{line.name}: {line.advice}")
    if power.meters == session.NONE or power.num_nodes > 1:
        return power
    port = network.free_port(cluster.address)
    token = cluster.start_agents(port).encode()
    listen = network.joined(cluster.address, port)
    return replace(power, num_nodes=cluster.num_nodes, listen=listen, token=token)


def _say_what_counts(request: Request, before: result_folder.Contents, missing: Iterable[int]) -> None:
    """What --resume found: the finished runs, however they ended, and the attempts that have no end."""
    for index, resumption in before.interrupted.items():
        say(request, f"run {index} goes on from checkpoint {resumption.number}; its clock has not stopped")
    if before.runs or before.attempts:
        there, to_make = (", ".join(map(str, sorted(runs))) or "none" for runs in (before.runs, missing))
        num_aside = sum(before.attempts.values())
        say(request, f"runs there: {there}; to be made: {to_make}; attempts in unfinished/: {num_aside}")


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
    on_run: Callable[[], None] | None,
    witnessed: Witness | None,
) -> list[Outcome]:
    """Make the missing runs. missing: the attempt that each run is. interrupted: those among them that go on.

    cluster: the nodes, if there are several. witnessed: the campaign, if somebody witnesses the runs.
    """
    if missing:
        meters.baseline(folder)
    # The mirror's import of mlflow takes seconds; torch is imported meanwhile.
    mirror = _start_mirror(folder, request.mlflow) if request.is_mirrored else None
    stream = None if witnessed is None else witnessed.follow()
    outcomes: list[Outcome] = []
    try:
        for index, attempt in missing.items():
            if is_warned():
                warn("no further run: the job's time is nearly over; --resume makes those that are missing")
                break
            plan = replace(template, attempt=attempt)
            resumption = interrupted.get(index)
            ticket = None if witnessed is None or resumption is not None else witnessed.draw(index)
            outcomes.append(run_once(request, plan, folder, index, view, meters, form, cluster, resumption, ticket))
            if on_run is not None:
                on_run()
            if outcomes[-1].run_s is None:
                break  # the clock never started; it would not start for the next run either
            if cluster is not None and (lost := cluster.lost) is not None:
                warn(f"no further run: {lost}; --resume makes those that are missing")
                break
    finally:
        if stream is not None and not stream.finish(PATIENCE_S):
            say(request, "the witness has not received every head that was due")
        if mirror is not None and not mirror.finish(_MIRROR_PATIENCE_S):
            say(request, f"the MLflow mirror is incomplete; complete it with: tta sync {folder}")
    return outcomes


def _witnessed(request: Request, template: Plan, rules: BenchmarkRules, folder: Path, num_runs: int) -> Witness | None:
    """Return where the runs draw their tickets, with the first of them a new campaign; None if nobody witnesses them.

    Raises:
        UsageError: the runs cannot be witnessed. InputError: nobody answers, or the service refuses.
    """
    if request.witness is None:
        return None
    for option, is_given in (("--seed", request.seed is not None), ("--full-curve", request.full_curve)):
        if is_given:
            raise UsageError(f"--witness: leave {option} out; the seeds are drawn with the witness, and runs count")
    required = rules.required_runs(template.division)
    if num_runs != required:
        raise UsageError(f"--witness: the rules of {rules.name} ask for {required} runs, not {num_runs}")
    identity = _identity(template, rules)
    if is_address(request.witness):
        return Campaign(client_for(request.witness), identity, folder, request.round)
    return SealedCampaign(Path(request.witness), identity, folder)


def _identity(template: Plan, rules: BenchmarkRules) -> Identity:
    return Identity(
        rules.name,
        template.division,
        digest_of(dict(template.system)),
        str(template.identity.code_event["digest"]),
        config_digest(template.config),
        rules.required_runs(template.division),
    )


def campaign_of(request: Request) -> dict[str, Any]:
    """Return the campaign that runs would be made in, for `tta witness fetch`; prepares the data if they are missing.

    Raises:
        TtaError: the request, the data or the system description cannot be used.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    module, _ = read_module(request, ruleset)
    return wanted(_identity(replace(shared_plan(request, ruleset, rules), module=module), rules))


def _start_mirror(folder: Path, tracking_uri: str | None) -> Companion:
    from harness.tracking.mirror import start_mirror

    return start_mirror(folder, tracking_uri)


def warn(text: str) -> None:
    with suppress(OSError):
        print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)


def say(request: Request, text: str) -> None:
    if not request.is_quiet:
        with suppress(OSError):  # a reader that went away must not end the run
            print(text, file=sys.stderr, flush=True)


def stamp() -> str:
    """Return the present time for the name of a folder."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
