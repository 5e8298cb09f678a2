"""TODO-DOC."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.base import signals
from harness.base.clock import MonotonicClock
from harness.base.files import small_file
from harness.errors import DataError, Interrupted, SubmissionError, UsageError, printable
from harness.log import keys, run_log
from harness.log.writer import LogWriter
from harness.metering.session import Metering, MeterRequest
from harness.ruleset import overrides as ruleset_overrides
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import data_cache, workloads
from harness.run.launcher import LaunchedWorker
from harness.run.plan import Outcome, Plan
from harness.run.progress import open_view
from harness.run.referee import Referee
from harness.submission import module as open_module

OPEN = "open"


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
    power: MeterRequest = field(default_factory=MeterRequest)
    overrides: tuple[str, ...] = ()
    mlflow: str | None = None
    is_mirrored: bool = True
    is_quiet: bool = False
    is_resumed: bool = False
    full_curve: bool = False
    module: Path | None = None


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
    hyperparameters = rules.resolve(ruleset_overrides.parse_overrides(list(request.overrides)), request.division)
    batch_size = int(hyperparameters["global_batch_size"])
    if request.devices < 1 or batch_size % request.devices:
        raise UsageError(
            f"--devices {request.devices}: global_batch_size {batch_size} cannot be shared equally among them"
        )
    data = data_cache.prepare(
        workloads.workload(rules.workload), rules.suite, request.data or data_cache.default_cache(), request.source
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
    workload = workloads.workload(request.workload)
    return open_module.read(request.module, workload.name, workload.parts)


def _system(request: Request) -> Mapping[str, Any]:
    """The system description named on the command line, or this machine's."""
    if request.system is None:
        from harness.run import machine
        from harness.submission.system import system_description

        return system_description(machine.look())
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
    return str(next(iter(done.values())).field(keys.TTA_FORMAT, "result_id"))


def _complain(text: str) -> None:
    with suppress(OSError):
        print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)
