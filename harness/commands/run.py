"""`tta run`: the repeats of one benchmark, each in a cold worker, into one folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import (
    ExitStatus,
    Interrupted,
    OutputError,
    TtaError,
    UsageError,
    printable,
    unknown_name,
)
from harness.log import keys
from harness.metering import session
from harness.metering.session import Metering
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run.benchmark import Request, read_module, run_once, shared_plan
from harness.run.plan import Outcome, Plan
from harness.run.result_folder import open_folder
from harness.scoring.summary import Summary, as_text, summarise
from harness.submission.layout import CODE_NAME
from harness.submission.result import Result, read_result

if TYPE_CHECKING:
    from harness.tracking.mirror import Mirror

_MIRROR_PATIENCE_S = 60.0


def run(request: Request) -> ExitStatus:
    """Runs it; 0 if every run reached the target, 1 if one did not.

    Raises:
        TtaError: the request, the data, the system description or the output folder is not in order.
        Interrupted: SIGINT, SIGTERM or SIGHUP; the log of the run at hand was closed as aborted.
    """
    session.meter_plan(request.power)
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    module, module_text = read_module(request, ruleset)
    template = replace(shared_plan(request, ruleset, rules), module=module)
    folder = request.out or Path("results") / f"{rules.name}-{_stamp()}"
    with session.opened(request.power, template.system, partial(_say, request), _complain) as meters:
        done = open_folder(folder, template, module_text, request.is_resumed)
        if module is not None:
            template = replace(template, module_path=folder.absolute() / CODE_NAME / module.name)
        if done:
            first = next(iter(done.values()))  # what is added belongs to the same result, at the same prices
            prices_digest = first.field(keys.TTA_RULES, keys.PRICES_FIELD)
            template = replace(
                template, result_id=str(first.field(keys.TTA_FORMAT, "result_id")), prices_digest=prices_digest
            )
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
            outcomes.append(run_once(request, template, folder, index, usd_per_hour, meters))
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


def _follow(folder: Path, tracking_uri: str | None) -> Mirror:
    from harness.tracking.mirror import start_mirror

    return start_mirror(folder, tracking_uri)


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _complain(text: str) -> None:
    with suppress(OSError):
        print(f"tta: {printable(text, 2000)}", file=sys.stderr, flush=True)


def _say(request: Request, text: str) -> None:
    if not request.is_quiet:
        with suppress(OSError):  # who no longer reads must not end the run
            print(text, file=sys.stderr, flush=True)
