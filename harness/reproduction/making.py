"""Makes a claim again: its first steps, the qualities of its predictions, halves of runs, and runs until a look
decides."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.base.values import is_whole
from harness.errors import OutputError, UsageError, WorkerError, printable
from harness.launch.runs import make_runs
from harness.log import keys
from harness.log.replay import replay_of
from harness.reproduction import report
from harness.reproduction.again import replayed
from harness.reproduction.claim import Claim
from harness.reproduction.identity import Identity
from harness.reproduction.identity import compare as compare_identity
from harness.reproduction.replays import Comparison, compare
from harness.reproduction.reproduction import (
    Outlook,
    Reproduction,
    Terms,
    judged,
    mean_length_s,
    outlook_of,
)
from harness.reproduction.screening import Screening
from harness.reproduction.screening import screen as compare_curves
from harness.ruleset.model import RuleSet
from harness.run import data_cache
from harness.run.benchmark import OPEN, Request, read_module, shared_plan
from harness.run.plan import Plan
from harness.run.recompute import Recomputation
from harness.run.reevaluation import Reevaluation
from harness.scoring.run_result import RunResult, run_result
from harness.submission.layout import result_name
from harness.submission.result import Result, read_result
from harness.workload import EXECUTION

# Of a claim's first steps, as many are made again: a log may state thousands, which nobody has time for.
MAX_STEPS = 100
REPLAY_LIMIT_S = 3600.0
MAX_SEED = 2**32  # what numpy's generator takes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A claim, and what was decided before the first run. plan: that its reproduction's runs share."""

    claim: Claim
    terms: Terms
    request: Request
    ruleset: RuleSet
    plan: Plan
    identity: Identity
    outlook: Outlook


def request_of(claim: Claim, base: Request) -> Request:
    """Return the request for runs with the claim's recipe; all else is as in `base`.

    Raises:
        UsageError: it has a module, which is somebody's program, and `base` does not name it.
    """
    module = claim.config.get("module")
    option, given = ("--module", base.module) if claim.division == OPEN else ("--equivalent", base.equivalent)
    if module is not None and given is None:
        name = printable(module.get("name") if isinstance(module, dict) else module, 60)
        raise UsageError(
            f"{claim.name}: was made with the module {name}, a program of the submitter's; read it, and name it with "
            f"{option} FILE if it is to run here"
        )
    defaults = claim.rules.defaults()
    recipe = {name: value for name, value in claim.hyperparameters.items() if defaults.get(name) != value}
    num_devices = base.nodes * base.devices
    execution = {
        name: value
        for name, value in claim.execution.items()
        if name not in EXECUTION or EXECUTION[name].is_for(num_devices)
    }
    return replace(
        base,
        workload=claim.rules.workload,
        suite=claim.rules.suite,
        division=claim.division,
        precision=str(claim.config.get("precision")),
        overrides=tuple(f"{name}={json.dumps(value)}" for name, value in recipe.items()),
        execution=tuple(f"{name}={json.dumps(value)}" for name, value in execution.items()),
        reproduces=claim.digest,
    )


def prepare(claim: Claim, terms: Terms, base: Request, ruleset: RuleSet) -> Prepared:
    """Decide all that is decided before the first run; prepare the data if they are missing.

    Raises:
        UsageError, DataError, SubmissionError: what `shared_plan` raises.
    """
    request = request_of(claim, base)
    module, _ = read_module(request, ruleset)
    given = request.module or request.equivalent
    path = None if given is None else given.absolute()
    plan = replace(shared_plan(request, ruleset, claim.rules), module=module, module_path=path)
    identity = compare_identity(claim, plan)
    usd_per_hour = None if ruleset.prices is None else ruleset.prices.current.usd_per_hour(plan.system)
    outlook = outlook_of(claim, terms, identity.is_same_system, usd_per_hour)
    return Prepared(claim, terms, request, ruleset, plan, identity, outlook)


def replay(prepared: Prepared, folder: Path) -> Comparison | None:
    """Make the first steps of the claim's first run again that has any; None where none has.

    folder: gets the output of the worker.
    """
    for log in prepared.claim.result.runs:
        claimed, seed = replay_of(log), log.value(keys.SEED)
        if claimed is None or not is_whole(seed) or not 0 <= seed < MAX_SEED:
            continue
        if prepared.request.nodes > 1:
            return Comparison("not available", 0, why="they are made on one node")
        num_steps = min(claimed.num_steps or 1, MAX_STEPS)
        rules = replace(prepared.plan.rules, replay_steps=num_steps, replay_limit_s=REPLAY_LIMIT_S)
        plan = replace(prepared.plan, seed=seed, rules=rules)
        again = replayed(prepared.request, plan, folder / "replay.txt")
        found = compare(claimed, again, prepared.identity.may_be_equal)
        if found.status == "not available" and found.num_steps:
            other = replayed(prepared.request, plan, folder / "replay.txt", has_other_kernels=True)
            found = compare(claimed, again, prepared.identity.may_be_equal, other)
        return found
    return None


def screen(prepared: Prepared, folder: Path) -> tuple[int, Screening | None]:
    """Make the first half of as many runs as the first look has, into `folder`; compare their curves with the claim's.

    Returns:
        The samples of a half, and what was found; None where the curves are too short.

    Raises:
        OutputError, WorkerError, Interrupted: as `reproduce`.
    """
    claim, mean = prepared.claim, prepared.claim.mean_samples
    assert mean is not None  # else there would be no terms
    every = claim.rules.eval_every_samples
    most = every * max(2, math.ceil(mean / 2 / every))
    look = prepared.terms.looks[0]
    make_runs(replace(prepared.request, runs=look, out=folder, is_resumed=True, screened_samples=most))
    new = _results(prepared, made(prepared, folder, look))
    return most, compare_curves([_curve(run) for run in claim.runs], [_curve(run) for run in new], most)


def _curve(run: RunResult) -> list[tuple[float, float]]:
    return [(item.samples, item.quality) for item in run.evaluations]


def reproduce(
    prepared: Prepared, folder: Path, say: Callable[[str], None], is_watched: bool = False, weights: Path | None = None
) -> Reproduction:
    """Make runs into `folder`, which may have some, until a look decides; return what was found.

    say: told what is known after each look. is_watched: also after each run. weights: a folder with
    downloaded weights of the claim, which are evaluated again like those that it has.

    Raises:
        OutputError: runs in `folder` repeat another claim. WorkerError: runs could not be made.
        Interrupted: by a signal; the same call goes on.
    """
    claim = prepared.claim
    folder.mkdir(parents=True, exist_ok=True)
    steps = replay(prepared, folder)
    cache = prepared.request.data or data_cache.default_cache()
    known = Recomputation(cache, prepared.identity.may_be_equal)(claim.result, prepared.ruleset)
    evaluate = Reevaluation(cache, folder, weights, prepared.request.isolation, say)
    known = evaluate(known, prepared.ruleset)
    is_estimated = prepared.outlook.seconds is not None

    def after_run() -> None:
        nonlocal is_estimated
        found = made(prepared, folder, 1)
        if not is_estimated:
            is_estimated = True
            say(report.estimate_text(replace(prepared.outlook, run_s=mean_length_s(found.runs))))
        if is_watched:
            say(report.watch_text(claim, _results(prepared, found)))

    found: Reproduction | None = None
    for look in prepared.terms.looks:
        make_runs(replace(prepared.request, runs=look, out=folder, is_resumed=True), after_run)
        new = _results(prepared, made(prepared, folder, look))
        found = judged(
            claim,
            prepared.terms,
            prepared.identity,
            prepared.outlook,
            folder,
            new,
            steps,
            dict(known.recomputed),
            dict(known.reevaluated),
        )
        if found.is_over:
            break
        say(f"after {look} runs: {found.verdict.why}; more runs")
    assert found is not None
    return found


def made(prepared: Prepared, folder: Path, least: int) -> Result:
    """The runs in a folder.

    Raises:
        WorkerError: there are fewer than `least`. OutputError: one of them repeats another claim.
    """
    result = read_result(folder)
    if len(result.runs) < least:
        raise WorkerError(f"{folder}: {len(result.runs)} of {least} runs could be made; their logs say why")
    for log in result.runs:
        if log.field(keys.TTA_REPRODUCES, "digest") != prepared.claim.digest:
            raise OutputError(f"{log.path}: repeats another result; choose another --out")
    return result


def _results(prepared: Prepared, result: Result) -> list[RunResult]:
    return [run_result(log, prepared.claim.rules, timing=prepared.ruleset.timing) for log in result.runs]


def name_of_folder(claim: Claim, what: str = "again") -> str:
    """Return the name of the folder of a claim's reproduction: the same command goes on in it.

    what: "again" for whole runs, "screened" for halves, "drawn" for what a witness has drawn.
    """
    return result_name(claim.rules.name, claim.digest, what)
