"""`tta run`: the repeats of one benchmark, each in a cold worker, into one folder."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.base import signals
from harness.base.clock import MonotonicClock
from harness.errors import (
    DataError,
    ExitStatus,
    Interrupted,
    OutputError,
    SubmissionError,
    TtaError,
    UsageError,
    printable,
    unknown_name,
)
from harness.log import events as key
from harness.log import run_log
from harness.log.writer import LogWriter
from harness.metering import session
from harness.metering.session import Metering, Wish
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import data_cache
from harness.run.launcher import LaunchedWorker
from harness.run.plan import Outcome, Plan
from harness.run.progress import open_view
from harness.run.referee import Referee
from harness.run.result_folder import open_folder
from harness.scoring.summary import Summary, as_text, summarise
from harness.submission import module as open_module
from harness.submission.result import CODE_NAME, Result, read_result, small_file

if TYPE_CHECKING:
    from harness.tracking.mirror import Mirror

OPEN = "open"
_MIRROR_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for. None: the rules' or the machine's default."""

    workload: str
    suite: str = "mini"
    division: str = "closed"
    ruleset: str = "v1"
    runs: int | None = None
    seed: int | None = None
    system: Path | None = None
    out: Path | None = None
    devices: int = 1
    precision: str | None = None
    data: Path | None = None
    source: Path | None = None
    power: Wish = field(default_factory=Wish)
    overrides: tuple[str, ...] = ()
    mlflow: str | None = None
    is_mirrored: bool = True
    is_quiet: bool = False
    is_resumed: bool = False
    full_curve: bool = False
    module: Path | None = None


def run(request: Request) -> ExitStatus:
    """Runs it; 0 if every run reached the target, 1 if one did not.

    Raises:
        TtaError: the request, the data, the system description or the output folder is not in order.
        Interrupted: SIGINT, SIGTERM or SIGHUP; the log of the run at hand was closed as aborted.
    """
    session.wanted(request.power)
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    module, module_text = _module(request, ruleset)
    template = replace(_plan(request, ruleset, rules), module=module)
    folder = request.out or Path("results") / f"{rules.name}-{_stamp()}"
    with session.opened(request.power, template.system, partial(_say, request), _complain) as meters:
        done = open_folder(folder, template, module_text, request.is_resumed)
        if module is not None:
            template = replace(template, module_path=folder.absolute() / CODE_NAME / module.name)
        if done:
            first = next(iter(done.values()))  # what is added belongs to the same result, at the same prices
            prices_digest = first.field(key.TTA_RULES, key.PRICES_FIELD)
            template = replace(template, result_id=_result_id(done), prices_digest=prices_digest)
        _say(request, f"{rules.name}: results go to {folder}")
        missing = [index for index in range(request.runs or rules.num_runs) if index not in done]
        outcomes = _runs(request, template, folder, missing, ruleset, meters)
    reached = sum(outcome.is_reached for outcome in outcomes)
    if not outcomes:
        _say(request, f"no run was missing; results are in {folder}")
        return ExitStatus.OK
    _say(request, f"{reached} of {len(outcomes)} runs reached the target; results are in {folder}")
    if request.full_curve:
        return ExitStatus.OK if all(outcome.reason == "full_curve" for outcome in outcomes) else ExitStatus.FINDINGS
    return ExitStatus.OK if reached == len(outcomes) else ExitStatus.FINDINGS


def _runs(
    request: Request, template: Plan, folder: Path, missing: Sequence[int], ruleset: RuleSet, meters: Metering
) -> list[Outcome]:
    usd_per_hour = None if ruleset.prices is None else ruleset.prices.current.usd_per_hour(template.system)
    if missing:
        meters.baseline(folder)
    # The mirror's first import of mlflow takes seconds; it has them while torch is imported.
    following = _follow(folder, request.mlflow) if request.is_mirrored else None
    outcomes: list[Outcome] = []
    try:
        for index in missing:
            outcomes.append(_one(request, template, folder, index, usd_per_hour, meters))
            if outcomes[-1].run_s is None:
                break  # it never came to the clock; the next one would not either
    finally:
        if following is not None:
            is_complete = following.finish(_MIRROR_PATIENCE_S)
            if not is_complete:
                _say(request, f"the MLflow mirror is not complete; fill it in with: tta sync {folder}")
    return outcomes


def run_all(request: Request) -> ExitStatus:
    """Runs every workload that has the suite, each into `<out>/<benchmark>`; at the end prints a row for each.

    One that misses its target, crashes or cannot be run at all does not keep the others from running.

    Returns:
        The worst status of them all; FINDINGS, too, where a run of before a --resume missed its target.

    Raises:
        UsageError: no benchmark has the suite, or there is no such division. OutputError: `out` is there already.
        Interrupted: by a signal; the rest is not run, and no row is printed.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    of_suite = [rules for rules in ruleset.benchmarks.values() if rules.suite == request.suite]
    if not of_suite:
        raise UsageError(unknown_name("suite", request.suite, {rules.suite for rules in ruleset.benchmarks.values()}))
    if request.division not in ruleset.divisions:
        raise UsageError(unknown_name("division", request.division, ruleset.divisions))
    out = request.out or Path("results") / f"{request.suite}-{_stamp()}"
    if out.exists() and not request.is_resumed:
        raise OutputError(f"{out}: exists already; choose another --out, or go on in it with --resume")
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


def _one(
    request: Request, template: Plan, folder: Path, index: int, usd_per_hour: Decimal | None, meters: Metering
) -> Outcome:
    seed = secrets.randbits(31) if request.seed is None else request.seed + index
    plan = replace(template, index=index, seed=seed, run_id=secrets.token_hex(16))
    output = folder / "output"
    output.mkdir(exist_ok=True)
    clock = MonotonicClock()
    with signals.collected() as seen:
        referee = Referee(
            plan=plan,
            log=LogWriter(folder / f"result_{index}.txt", clock),
            clock=clock,
            worker=LaunchedWorker(plan.num_devices, output / f"worker_{index}.txt"),
            power=meters.recording(folder, index),
            view=open_view(request.is_quiet, usd_per_hour),
            is_interrupted=lambda: bool(seen),
            drop_caches=lambda: data_cache.drop_caches(plan.data_dir),
        )
        outcome = referee.run()
        if seen:  # while the worker was being dismissed; the run is whole, but there shall be no other
            raise Interrupted("interrupted by a signal")
        return outcome


def _plan(request: Request, ruleset: RuleSet, rules: BenchmarkRules) -> Plan:
    """The plan all repeats share; seed, index and run id are each run's own."""
    if request.division not in ruleset.divisions:
        raise UsageError(f"unknown division {printable(request.division)!r}; there are: {', '.join(ruleset.divisions)}")
    precision = request.precision or rules.precisions[0]
    if precision not in rules.precisions:
        raise UsageError(
            f"{rules.name}: precision {printable(precision)!r} is not permitted; "
            f"permitted: {', '.join(rules.precisions)}"
        )
    hyperparameters = rules.resolve(load.parse_overrides(list(request.overrides)), request.division)
    batch_size = int(hyperparameters["global_batch_size"])
    if request.devices < 1 or batch_size % request.devices:
        raise UsageError(
            f"--devices {request.devices}: global_batch_size {batch_size} cannot be shared equally among them"
        )
    data = data_cache.prepare(
        catalog.workload(rules.workload), rules.suite, request.data or data_cache.default_cache(), request.source
    )
    if rules.data_digest is not None and data.digest != rules.data_digest:
        raise DataError(
            f"{data.path}: the data's digest is {data.digest[:16]}…; the rules of {rules.name} want "
            f"{rules.data_digest[:16]}…; delete {data.path} and prepare again"
        )
    return Plan(
        rules=rules,
        timing=ruleset.timing,
        ruleset=ruleset.version,
        division=request.division,
        seed=0,
        hyperparameters=hyperparameters,
        num_devices=request.devices,
        precision=precision,
        system=_system(request),
        data_dir=data.path,
        data={"digest": data.digest, "num_files": data.num_files, "num_bytes": data.num_bytes},
        metadata=data.metadata,
        result_id=secrets.token_hex(16),
        run_id="",
        index=0,
        full_curve=request.full_curve,
        prices_digest=None if ruleset.prices is None else ruleset.prices.digest,
        energy_limits=ruleset.energy,
    )


def _module(request: Request, ruleset: RuleSet) -> tuple[open_module.Module | None, bytes]:
    """The module named on the command line, and its text; it is read here and never imported."""
    if request.module is None or request.division not in ruleset.divisions:  # which `_plan` refuses
        return None, b""
    if request.division != OPEN:
        raise UsageError(
            f"--module {printable(request.module)}: the {printable(request.division)} division trains the workload as "
            f"it is; a module is for --division {OPEN}"
        )
    workload = catalog.workload(request.workload)
    return open_module.read(request.module, workload.name, workload.parts)


def _system(request: Request) -> Mapping[str, Any]:
    """The system description named on the command line, or this machine's."""
    if request.system is None:
        from harness.run import machine_face

        return machine_face.system_description(machine_face.look())
    try:
        record = json.loads(small_file(request.system))
    except (ValueError, RecursionError) as error:
        raise SubmissionError(f"{request.system}: not JSON: {printable(error)}") from None
    if not isinstance(record, dict):
        raise SubmissionError(f"{request.system}: a system description is a JSON object; `tta doctor --out` writes one")
    for name in ("submitter", "system_name", "status"):
        if not isinstance(record.get(name), str) or not record[name]:
            raise SubmissionError(f"{request.system}: {name!r} is missing or empty; `tta doctor --out` writes it")
    return record


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _result_id(done: Mapping[int, run_log.RunLog]) -> str:
    return str(next(iter(done.values())).field(key.TTA_FORMAT, "result_id"))


def _follow(folder: Path, tracking_uri: str | None) -> Mirror:
    from harness.tracking.mirror import start_mirror

    return start_mirror(folder, tracking_uri)


def _say(request: Request, text: str) -> None:
    if not request.is_quiet:
        with suppress(OSError):  # who no longer reads must not end the run
            print(text, file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    with suppress(OSError):
        print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)
