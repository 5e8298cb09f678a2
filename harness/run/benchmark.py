"""One benchmark, as `tta run` requests it: the request, the plan that its runs share, and the execution of a run."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.base import signals
from harness.base.clock import MonotonicClock
from harness.base.files import small_file
from harness.base.values import int_of_digits
from harness.errors import DataError, Interrupted, SubmissionError, UsageError, printable, unknown_name
from harness.log.numerics import PRECISIONS
from harness.log.seeds import ORDER
from harness.log.ticket import Ticket
from harness.log.writer import LogWriter
from harness.metering.session import Metering, MeterRequest, NotMetered
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.ruleset.overrides import parse_overrides
from harness.run import data_cache, machine, workloads
from harness.run.checkpoint import Checkpoints
from harness.run.evaluation import EvaluatedWorker, LaunchedEvaluator
from harness.run.identity import identify
from harness.run.isolation import Isolation, Places, choose, moved
from harness.run.launcher import LaunchedWorker, try_out
from harness.run.loaded import Judge, judged
from harness.run.plan import Nodes, Outcome, Plan, View
from harness.run.referee import Referee
from harness.run.resumption import Resumption, gone_on_with
from harness.run.starter import Place
from harness.run.variation import Variation
from harness.scoring.convergence import reference_at
from harness.submission import module as open_module
from harness.submission.layout import SYSTEM_NAME
from harness.submission.predictions import predictions_name
from harness.submission.system import system_description
from harness.submission.weights import weights_name
from harness.workload import read_execution

OPEN = open_module.OPEN


@dataclass(frozen=True, slots=True)
class Launch:
    """How the further nodes are reached. launcher: one of `harness.launch`; None where there is one node."""

    launcher: str | None = None
    hosts: Path | None = None
    address_of: str | None = None
    is_by_hand: bool = False
    ssh: str | None = None
    interface: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `tta run`, and what `tta reproduce` and `tta variance` add. None: the default of the rules or of
    the machine.

    reproduces: the digest of the logs of the result that is made again. screened_samples: end each run after so many
    samples, for a comparison of curves: no result. variation: the seeds, in place of `seed`, of runs of `tta variance`.
    keeps_weights: those of the last evaluation. witness: the address of the service that witnesses the runs, or a
    file with its tickets. round: of that service; None: the only one that is open.
    """

    workload: str
    suite: str = "mini"
    division: str = "closed"
    ruleset: str = "v1"
    runs: int | None = None
    seed: int | None = None
    system: Path | None = None
    out: Path | None = None
    devices: int = 1
    nodes: int = 1
    launch: Launch = field(default_factory=Launch)
    precision: str | None = None
    data: Path | None = None
    source: Path | None = None
    power: MeterRequest = field(default_factory=MeterRequest)
    overrides: tuple[str, ...] = ()
    execution: tuple[str, ...] = ()
    mlflow: str | None = None
    is_mirrored: bool = True
    is_quiet: bool = False
    is_resumed: bool = False
    full_curve: bool = False
    module: Path | None = None
    equivalent: Path | None = None
    isolation: str = "auto"
    checkpoint_min: float | None = None
    reproduces: str | None = None
    screened_samples: int | None = None
    variation: Variation | None = None
    keeps_weights: bool = False
    witness: str | None = None
    round: str | None = None


def shared_plan(request: Request, ruleset: RuleSet, rules: BenchmarkRules) -> Plan:
    """Return the plan that all runs share; each run sets its own seed, index and run id.

    Prepares the data if they are missing.

    Raises:
        UsageError: the rules do not permit what was requested.
        SubmissionError: the system description cannot be used.
        DataError: the data are not available, damaged, or not those of the rules.
    """
    if request.division not in ruleset.divisions:
        raise UsageError(unknown_name("division", request.division, ruleset.divisions))
    precision = request.precision or rules.precisions[0]
    permitted = PRECISIONS if request.division == OPEN else rules.precisions
    if precision not in permitted:
        raise UsageError(
            f"{rules.name}: precision {printable(precision)!r} is not permitted; permitted: {', '.join(permitted)}"
        )
    hyperparameters = rules.resolve(parse_overrides(list(request.overrides)), request.division)
    batch_size = int(hyperparameters["global_batch_size"])
    if request.division != OPEN and not request.full_curve:
        refuse_unreferenced(rules, batch_size)
    num_devices = request.nodes * request.devices
    if request.devices < 1 or batch_size % num_devices:
        where = f" on each of {request.nodes} nodes" if request.nodes > 1 else ""
        raise UsageError(
            f"--devices {request.devices}{where}: global_batch_size {batch_size} cannot be divided equally among them"
        )
    workload = workloads.workload(rules.workload)
    settings = parse_overrides(list(request.execution), "an execution option")
    execution = read_execution(settings, workload.execution.get(rules.suite, ()), workload.name, num_devices)
    data = data_cache.prepare(workload, rules.suite, request.data or data_cache.default_cache(), request.source)
    if rules.data_digest is not None and data.digest != rules.data_digest:
        raise DataError(
            f"{data.path}: the data digest is {data.digest[:16]}…; the rules of {rules.name} require "
            f"{rules.data_digest[:16]}…; delete {data.path.parent} and prepare again"
        )
    return Plan(
        rules=rules,
        timing=ruleset.timing,
        ruleset=ruleset.version,
        division=request.division,
        seed=0,
        hyperparameters=hyperparameters,
        num_devices=num_devices,
        precision=precision,
        system=_system(request),
        data_dir=data.path,
        labels_dir=data.labels,
        data={"digest": data.digest, "num_files": data.num_files, "num_bytes": data.num_bytes},
        metadata=data.metadata,
        result_id=secrets.token_hex(16),
        run_id="",
        index=0,
        identity=identify(),
        full_curve=request.full_curve,
        execution=execution,
        prices_digest=None if ruleset.prices is None else ruleset.prices.digest,
        energy_limits=ruleset.energy,
        reproduces=request.reproduces,
        seeds=None if request.variation is None else request.variation.of_run(0),
    )


def refuse_unreferenced(rules: BenchmarkRules, batch_size: int) -> None:
    """Refuse a global batch size that the reference does not cover, before a run that would be for nothing.

    Rules without any reference permit every batch size.

    Raises:
        UsageError: there is no reference at it.
    """
    found = reference_at(rules.reference_convergence, batch_size)
    if isinstance(found, str) and rules.reference_convergence:
        raise UsageError(
            f"{rules.name}: {found}, where the closed division has no score; --full-curve makes reference runs at "
            "another batch size"
        )


def read_module(request: Request, ruleset: RuleSet) -> tuple[open_module.Module | None, bytes]:
    """Return the module named on the command line, None without one, and its text. It is read and never imported.

    Raises:
        UsageError: the division or the benchmark takes no such module, or the file is not one.
    """
    if request.division not in ruleset.divisions:  # `shared_plan` refuses it
        return None, b""
    is_open = request.division == OPEN
    path, other = (request.module, request.equivalent) if is_open else (request.equivalent, request.module)
    if other is not None and is_open:
        raise UsageError(
            f"--equivalent {printable(other)}: in the {OPEN} division a module need not be equivalent; use --module"
        )
    if other is not None:
        raise UsageError(
            f"--module {printable(other)}: the {printable(request.division)} division trains the workload unchanged; a "
            f"module needs --division {OPEN}, or --equivalent if it computes the same"
        )
    if path is None:
        return None, b""
    workload = workloads.workload(request.workload)
    rules = ruleset.benchmark(request.workload, request.suite)
    if not is_open and not rules.equivalence_steps:
        raise UsageError(
            f"--equivalent {printable(path)}: the rules of {rules.name} compare no steps (equivalence_steps), so that "
            "it takes no reimplementation"
        )
    parts = open_module.permitted_parts(request.division, workload.parts)
    return open_module.read_module(path, workload.name, parts)


def _system(request: Request) -> Mapping[str, Any]:
    """Return the system description named on the command line, that of the resumed result, or that of this machine."""
    path = request.system
    if path is None and request.is_resumed and request.out is not None:
        own = request.out / SYSTEM_NAME
        path = own if own.is_file() and own.stat().st_size else None
    if path is None:
        described = system_description(machine.look())
        return described if request.nodes == 1 else {**described, "number_of_nodes": str(request.nodes)}
    try:
        record = json.loads(small_file(path))
    except (ValueError, RecursionError) as error:
        raise SubmissionError(f"{path}: not JSON: {printable(error)}") from None
    if not isinstance(record, dict):
        raise SubmissionError(f"{path}: must be a JSON object, as `tta doctor --out` writes it")
    for name in ("submitter", "system_name", "status"):
        if not isinstance(record.get(name), str) or not record[name]:
            raise SubmissionError(f"{path}: {name!r} is missing or empty; `tta doctor --out` writes it")
    if request.nodes > 1:
        for name, asked in (("number_of_nodes", request.nodes), ("accelerators_per_node", request.devices)):
            if (found := int_of_digits(record.get(name))) not in (0, None, asked):
                option = "--nodes" if name == "number_of_nodes" else "--devices"
                raise SubmissionError(f"{path}: {name} is {found}; {option} is {asked}: describe the system that runs")
    return record


def isolate(request: Request, plan: Plan) -> Isolation:
    """Return the form of confinement that is possible on this machine, before there is a folder for the result.

    Raises:
        UsageError: it is not what was requested.
    """
    return choose(request.isolation, places(request, plan), _place(request), try_out)


def _place(request: Request) -> Place:
    return Place(request.devices, num_nodes=request.nodes)


def places(request: Request, plan: Plan, *results: Path, own: Path | None = None) -> Places:
    cache = plan.data_dir.parents[2]
    hidden = (*results, cache, *([] if request.source is None else [request.source]))
    return Places(plan.data_dir, hidden, () if plan.module_path is None else (plan.module_path,), own)


def _weights_places(folder: Path, index: int) -> tuple[Path, Path]:
    """Where weights are kept, and where they are if a submission cannot have them: next to the result, not in it."""
    name = weights_name(index)
    return folder / name, folder.with_name(f"{folder.absolute().name}-weights") / name


def run_once(
    request: Request,
    template: Plan,
    folder: Path,
    index: int,
    view: View,
    meters: Metering,
    isolation: Isolation,
    nodes: Nodes | None = None,
    resumption: Resumption | None = None,
    ticket: Ticket | None = None,
) -> Outcome:
    """Execute run number `index` of a plan: the log goes to `folder`, the output of the worker below it.

    nodes: where the workers are, if not on this node alone.
    ticket: of a witness, which gives the seed.
    resumption: go on with that run instead of beginning one. Its energy is not measured: no meter has seen all of it.

    Raises:
        Interrupted: a signal arrived; the log was closed.
        OutputError: the checkpoint is not one of this run.
        UsageError: the code or the packages have changed since the plan was made.
        TtaError: what `Referee.run` raises.
    """
    if identify().lists != template.identity.lists:
        raise UsageError(f"{folder}: the code or the packages have changed since the first run; choose another --out")
    seed = secrets.randbits(31) if request.seed is None else request.seed + index
    plan = replace(template, index=index, seed=seed, run_id=secrets.token_hex(16))
    if ticket is not None:
        plan = replace(plan, seed=ticket.seed, ticket=ticket)
    if request.variation is not None:
        seeds = request.variation.of_run(index)
        plan = replace(plan, seed=seeds[ORDER], seeds=seeds)
    every_s = None if request.checkpoint_min is None else 60 * request.checkpoint_min
    checkpoints = Checkpoints.of_run(folder.absolute(), index, every_s)
    if resumption is not None:
        plan = gone_on_with(resumption, plan, request.seed is not None)
    elif every_s is not None:
        checkpoints.clear()
    is_kept = resumption is not None or every_s is not None
    known = () if plan.module is None else (plan.module.sha256,)
    # The rehearsal has seen the data before the clock starts; it must not leave anything to the worker.
    owned = {"rehearsal": None, "worker": checkpoints.folder if is_kept else None}
    forms = {
        name: moved(isolation, places(request, plan, folder, own=own), _place(request)) for name, own in owned.items()
    }
    output = folder / "output"
    output.mkdir(exist_ok=True)
    clock = MonotonicClock() if resumption is None else resumption.clock()
    with signals.collected() as seen, LaunchedEvaluator(plan, output / f"evaluator_{index}.txt") as evaluator:
        rehearsal, worker = (
            EvaluatedWorker(
                LaunchedWorker(_place(request), output / f"{name}_{index}.txt", forms[name], stream)
                if nodes is None
                else nodes.worker(request.devices, output / f"{name}_{index}.txt", forms[name], stream, own),
                evaluator,
                number,
            )
            for number, ((name, own), stream) in enumerate(zip(owned.items(), evaluator.streams, strict=True))
        )
        referee = Referee(
            plan=plan,
            log=LogWriter(folder / f"result_{index}.txt", clock, None if resumption is None else resumption.end),
            clock=clock,
            rehearsal=rehearsal,
            worker=worker,
            predictions=folder / predictions_name(index),
            power=meters.recording(folder, index) if resumption is None else NotMetered(),
            view=view,
            is_interrupted=lambda: bool(seen),
            drop_caches=lambda: data_cache.drop_caches(plan.data_dir, plan.labels_dir),
            nodes=nodes,
            judge_loaded=lambda listed: judged(Judge(plan.identity.code, known=known), listed),
            checkpoints=checkpoints if is_kept else None,
            resumption=resumption,
            weights=_weights_places(folder, index) if request.keeps_weights else None,
        )
        outcome = referee.run()
        if seen:  # while the worker was closing; this run is complete, but no other may start
            raise Interrupted("interrupted by a signal")
        return outcome
