"""The quality of kept weights, evaluated again by a confined worker that opens the session and trains nothing.

The weights are a submitter's file. The session is `tta`'s, configured as the log says and as the rules permit; the
program of a module is not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.base import signals
from harness.base.files import sha256_of
from harness.base.values import finite_number, is_whole, mapping_or_empty
from harness.errors import (
    DataError,
    InputError,
    Interrupted,
    MissingDependencyError,
    UsageError,
    WorkerError,
    printable,
)
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.run import data_cache
from harness.run.benchmark import Request, isolate, places, shared_plan
from harness.run.evaluation import EvaluatedWorker, LaunchedEvaluator
from harness.run.isolation import Isolation, Places, moved
from harness.run.launcher import LaunchedWorker
from harness.run.plan import Plan
from harness.run.referee import START_LIMIT_S
from harness.run.starter import Place
from harness.run.workloads import workload_names
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, REFUSED, Recomputed
from harness.submission.result import Result
from harness.submission.weights import MAX_APART_BYTES, weights_digest, weights_name, wrong_with_weights

# Predictions that another order of summation makes on another system differ in a few examples. How many is measured by
# another order here; where that changes nothing, this many may differ.
MAX_ORDERS = 10.0
MIN_EXAMPLES = 3.0
_LIMIT_S = 3600.0  # of one evaluation
_MAX_FILES = 10_000  # of a folder with weights


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """Adds to results what becomes of their kept weights.

    cache: where data are prepared. output: a folder for what the processes print. downloads: a folder with weights that
    are not part of a result, whatever they are called there. isolation: as in `tta run`. say: told what is evaluated.
    """

    cache: Path
    output: Path
    downloads: Path | None
    isolation: str
    say: Callable[[str], None]

    def __call__(self, result: Result, ruleset: RuleSet) -> Result:
        """Return the result with the quality of the kept weights of each run that has some, or why it has none.

        A single log, and a result of a workload that this installation does not have, stay as they are.

        Raises:
            Interrupted: by a signal.
        """
        rules = ruleset.benchmarks.get(result.benchmark or "")
        if rules is None or result.kind == "log" or rules.workload not in workload_names():
            return result
        found = {}
        prepared: tuple[Plan, Isolation] | str | None = None
        for log in result.runs:
            number = result.run_number(log)
            if number is None or weights_digest(log) is None or not log.all(keys.EVAL_ACCURACY):
                continue
            if log.field(keys.TTA_WEIGHTS, "file") is not None and wrong_with_weights(log, number, result.files):
                continue  # QUA018 reports it
            place = self._place(result, log, number)
            if isinstance(place, str):
                found[log.path.name] = Recomputed(IMPOSSIBLE, place)
                continue
            if prepared is None:
                prepared = self._prepared(log, ruleset, rules)
            if isinstance(prepared, str):
                found[log.path.name] = Recomputed(IMPOSSIBLE, prepared)
                continue
            self.say(f"{log.path.name}: evaluating its weights")
            found[log.path.name] = self._evaluated(log, place, *prepared)
        for name, again in found.items():
            self.say(f"{name}: {_words(again)}")
        return replace(result, reevaluated=found)

    def _place(self, result: Result, log: RunLog, number: int) -> Path | str:
        """Return the file with the weights of a run, or why there is none."""
        if log.field(keys.TTA_WEIGHTS, "file") is not None:
            return result.path / weights_name(number)
        digest, num_bytes = weights_digest(log), log.field(keys.TTA_WEIGHTS, "num_bytes")
        files = [] if self.downloads is None else sorted(self.downloads.iterdir())[:_MAX_FILES]
        for path in files:
            with suppress(OSError):  # one that cannot be read is not it
                is_like = path.is_file() and path.stat().st_size == num_bytes <= MAX_APART_BYTES
                if is_like and sha256_of(path) == digest:
                    return path
        where = printable(result.claim.weights_at, 200) if result.claim is not None and result.claim.weights_at else ""
        there = f"the weights are at {where}: download them" if where else "the weights are not part of the result"
        return f"{there}; --weights DIR names the folder that has the file with the SHA-256 {digest}"

    def _prepared(self, log: RunLog, ruleset: RuleSet, rules: BenchmarkRules) -> tuple[Plan, Isolation] | str:
        """Return the plan that the log states, and how its worker is confined; or why it cannot be opened here."""
        config = mapping_or_empty(log.value(keys.TTA_CONFIG))
        if config.get("module") is not None:
            return "the run was made with a module, a program of the submitter's, which is not run here"
        labels = self.cache / rules.name / "prepared" / data_cache.LABELS_NAME
        if not labels.is_dir():
            return f"the data of {rules.name} are not prepared here"
        request = Request(
            workload=rules.workload,
            suite=rules.suite,
            division=str(config.get("division")),
            precision=str(config.get("precision")),
            overrides=tuple(
                f"{name}={json.dumps(value)}"
                for name, value in mapping_or_empty(config.get("hyperparameters")).items()
                if rules.defaults().get(name) != value
            ),
            data=self.cache,
            isolation=self.isolation,
        )
        try:
            plan = shared_plan(request, ruleset, rules)
            if log.field(keys.TTA_DATA, "digest") != plan.data["digest"]:
                return f"the data of {rules.name} that are prepared here are not those of the run"
            seed = log.value(keys.SEED)
            plan = replace(plan, seed=seed if is_whole(seed) and 0 <= seed < 1 << 63 else 0)
            return plan, isolate(request, plan)
        except (InputError, MissingDependencyError, UsageError) as error:
            return f"the run's configuration cannot be opened here: {printable(error, 500)}"

    def _evaluated(self, log: RunLog, path: Path, plan: Plan, isolation: Isolation) -> Recomputed:
        """Return the quality of weights; one that may differ by what another order of summation changes here."""
        try:
            answers = evaluated(plan, isolation, path, self.output)
        except DataError as error:
            return Recomputed(REFUSED, str(error))
        except WorkerError as error:
            return Recomputed(IMPOSSIBLE, f"the worker failed: {printable(error, 500)}")
        event = log.all(keys.EVAL_ACCURACY)[-1]
        again = answers[0]
        if again["predictions"] == event.metadata.get("predictions"):
            return _recomputed(again, 0.0)
        if again["signature"] != event.metadata.get("signature"):
            mine, theirs = printable(again["signature"], 100), printable(event.metadata.get("signature"), 100)
            return Recomputed(IMPOSSIBLE, f"the metric here is {mine!r}; in the run it was {theirs!r}")
        margin = _margin(plan.rules, again, answers[1])
        computed = _recomputed(again, margin)
        if again["is_played"] and not computed.agrees_with(event.value):
            there = printable(event.value, 40)
            why = f"the episodes that the weights play here have {computed.value:.6g}, the log {there}"
            return Recomputed(IMPOSSIBLE, f"{why}: they amplify the last digit in which two systems differ")
        return computed


def evaluated(plan: Plan, isolation: Isolation, path: Path, output: Path) -> list[dict[str, Any]]:
    """Evaluate weights in a worker of its own: as usual, and by other kernels.

    output: a folder for what the processes print.

    Returns:
        The evaluator's answers: value, num_examples, signature, predictions (a digest), is_played.

    Raises:
        DataError: the session does not take them, or they have no quality. WorkerError: the worker failed, or refused
            its configuration. Interrupted: by a signal.
    """
    place = Place(plan.num_devices)
    with signals.collected() as seen, LaunchedEvaluator(plan, output / "weights_evaluator.txt") as evaluator:
        own = moved(isolation, _shown(plan, path, output), place)
        stream = evaluator.streams[0]
        worker = EvaluatedWorker(LaunchedWorker(place, output / "weights_worker.txt", own, stream), evaluator, 0)

        def tick() -> None:
            if seen:
                raise Interrupted("interrupted by a signal")

        def ask(command: Mapping[str, Any], limit_s: float = _LIMIT_S) -> dict[str, Any]:
            answer = worker.ask(command, tick, limit_s)
            if answer.get("ok") is True:
                return answer
            is_theirs = command["do"] in ("load_weights", "evaluate")
            raise (DataError if is_theirs else WorkerError)(printable(answer.get("message"), 500))

        try:
            worker.start(tick, START_LIMIT_S)
            ask(plan.opening)
            ask({"do": "prepare"}, plan.timing.max_init_s[plan.division])
            ask({"do": "start", "data_dir": worker.give_data(plan.data_dir)})
            ask({"do": "load_weights", "path": str(path.resolve())})
            return [_checked(ask({"do": "evaluate", "other_kernels": is_other})) for is_other in (False, True)]
        finally:
            worker.stop(0.0)


def _shown(plan: Plan, path: Path, output: Path) -> Places:
    """What the worker sees: of all that is hidden, the weights."""
    found = places(Request(plan.rules.workload), plan, output)
    return replace(found, shown=(*found.shown, path.resolve()))


def _words(again: Recomputed) -> str:
    """What became of the weights of a run."""
    if again.state != COMPUTED:
        return f"its weights were not evaluated: {again.why}"
    if not again.margin:
        return f"its weights make the predictions of its last evaluation, bit by bit: {again.value:.6g}"
    return f"its weights have {again.value:.6g}; other kernels may change that by {again.margin:.2g}"


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if finite_number(answer.get("value")) is None or not is_whole(answer.get("num_examples")):
        raise DataError(f"their quality is {printable(answer.get('value'), 40)}")
    return answer


def _margin(rules: BenchmarkRules, again: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """By how much the quality on another system may differ."""
    scale = 1.0 if rules.metric.unit == "fraction" else 100.0  # BLEU
    floor = scale * MIN_EXAMPLES / int(again["num_examples"])
    return max(floor, MAX_ORDERS * abs(float(again["value"]) - float(other["value"])))


def _recomputed(answer: Mapping[str, Any], margin: float) -> Recomputed:
    value = float(answer["value"])
    return Recomputed(COMPUTED, "", value, answer["num_examples"], answer["signature"], answer["is_played"], margin)
