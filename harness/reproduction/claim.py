"""What is claimed: the runs of a result, from its logs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base.values import mapping_or_empty
from harness.errors import SubmissionError, UsageError, printable, unknown_name
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.convergence import Reference
from harness.scoring.non_inferiority import Scatter
from harness.scoring.repetition import batch_size_of, difference, recipe_of, reference_of, scatter_of
from harness.scoring.run_result import RunResult, run_result
from harness.submission.result import Result, find_results, read_result, require_runs
from harness.workload import ExecutionValue, HyperparameterValue


@dataclass(frozen=True, slots=True)
class Claim:
    """The runs of a result, as its logs have them.

    name: how it was named. digest: of its logs, whatever their order. runs: all of them, also those that a score leaves
    out. reference: the reference runs at its batch size, or why there are none to tell how runs scatter.
    """

    name: str
    digest: str
    result: Result
    rules: BenchmarkRules
    runs: tuple[RunResult, ...]
    reference: Reference | str

    @property
    def first(self) -> RunLog:
        """The log that stands for what all runs share."""
        return self.result.runs[0]

    @property
    def config(self) -> Mapping[str, Any]:
        return mapping_or_empty(self.first.value(keys.TTA_CONFIG))

    @property
    def division(self) -> str:
        return str(self.first.value(keys.SUBMISSION_DIVISION))

    @property
    def hyperparameters(self) -> Mapping[str, HyperparameterValue]:
        return dict(mapping_or_empty(self.config.get("hyperparameters")))

    @property
    def execution(self) -> Mapping[str, ExecutionValue]:
        return dict(mapping_or_empty(self.config.get(keys.EXECUTION_FIELD)))

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs if run.seed is not None]

    @property
    def samples(self) -> list[float | None]:
        """Samples to target of each run, interpolated between evaluations; None: it missed."""
        return [run.crossing_samples for run in self.runs]

    @property
    def scatter(self) -> Scatter | None:
        """That of the reference's samples to target; None where there is no reference."""
        return scatter_of(self.reference)

    @property
    def mean_samples(self) -> float | None:
        """Geometric mean of the samples to target; None if every run missed it."""
        logs = [math.log(samples) for samples in self.samples if samples is not None]
        return math.exp(math.fsum(logs) / len(logs)) if logs else None

    @property
    def who(self) -> str:
        """Submitter and system, as the logs name them."""
        names = (self.first.value(name) for name in (keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM))
        return ", ".join(printable(name, 60) for name in names)


def read_claim(path: Path, ruleset: RuleSet) -> Claim:
    """Read the claim in the folder of a result.

    Raises:
        UsageError: there are several results, or one that `tta` cannot make again. InputError: it cannot be read.
    """
    found = find_results(path)
    if len(found) > 1:
        raise UsageError(f"{printable(path)}: has {len(found)} results; name the folder of one")
    result = read_result(found[0])
    require_runs(result)
    if foreign := next((log for log in result.runs if log.is_foreign), None):
        raise UsageError(f"{printable(foreign.path)}: is not a log of tta; tta reproduce makes runs of tta again")
    name = result.benchmark or ""
    if name not in ruleset.benchmarks:
        what = unknown_name(f"benchmark of ruleset {ruleset.version}", printable(name), ruleset.benchmarks)
        raise UsageError(f"{printable(path)}: {what}")
    rules = ruleset.benchmarks[name]
    recipe = recipe_of(result.runs[0])
    for log in result.runs:
        if (unlike := difference(recipe, recipe_of(log))) is not None:
            name = result.runs[0].path.name
            raise SubmissionError(f"{log.path}: {unlike} as in {name}: these runs are not a result")
    size = batch_size_of(recipe)
    if size is None:
        raise SubmissionError(f"{result.runs[0].path}: {keys.TTA_CONFIG} names no {keys.GLOBAL_BATCH_SIZE}")
    reference = reference_of(rules, recipe["division"], size)
    runs = tuple(run_result(log, rules, timing=ruleset.timing) for log in result.runs)
    if untrained := next((run for run in runs if run.crossing_samples is not None and run.crossing_samples <= 0), None):
        raise SubmissionError(f"{untrained.path}: reached the target without training: there is nothing to make again")
    return Claim(str(path), result.runs_digest, result, rules, runs, reference)
