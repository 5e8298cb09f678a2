"""What is claimed: the runs of a result, from its logs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base.values import is_whole, mapping_or_empty
from harness.errors import SubmissionError, UsageError, printable, unknown_name
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.convergence import Reference, reference_at
from harness.scoring.non_inferiority import Scatter
from harness.scoring.run_result import RunResult, run_result
from harness.submission.result import Result, find_results, read_result, require_runs
from harness.workload import ExecutionValue, HyperparameterValue

CLOSED = "closed"


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
        if isinstance(self.reference, str):
            return None
        return Scatter(self.reference.variance, self.reference.num_runs - 1)

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
    for log in result.runs:
        _refuse_unlike(log, result.runs[0])
    size = mapping_or_empty(result.runs[0].field(keys.TTA_CONFIG, "hyperparameters")).get("global_batch_size")
    if not is_whole(size) or size < 1:
        raise SubmissionError(f"{result.runs[0].path}: {keys.TTA_CONFIG} names no global_batch_size")
    division = result.runs[0].value(keys.SUBMISSION_DIVISION)
    reference: Reference | str = "the reference runs are of the closed division"
    if division == CLOSED:
        reference = reference_at(rules.reference_convergence, size)
    runs = tuple(run_result(log, rules, timing=ruleset.timing) for log in result.runs)
    return Claim(str(path), result.runs_digest, result, rules, runs, reference)


def _refuse_unlike(log: RunLog, first: RunLog) -> None:
    for what, own, other in (
        ("benchmark", log.value(keys.SUBMISSION_BENCHMARK), first.value(keys.SUBMISSION_BENCHMARK)),
        ("division", log.value(keys.SUBMISSION_DIVISION), first.value(keys.SUBMISSION_DIVISION)),
        *(
            (name, log.field(keys.TTA_CONFIG, name), first.field(keys.TTA_CONFIG, name))
            for name in ("hyperparameters", "precision", "module")
        ),
    ):
        if own != other:
            raise SubmissionError(f"{log.path}: has another {what} than {first.path.name}: these runs are not a result")
