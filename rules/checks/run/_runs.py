"""What the checks of this family ask about the runs of a result: how many there are, and which are copies."""

from __future__ import annotations

import math

from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules
from harness.scoring.non_inferiority import LOOKS
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result


def num_runs(result: Result) -> int:
    """The number of logs of a result, including those that cannot be read."""
    return len(result.runs) + sum(bool(RESULT_PATTERN.fullmatch(part.path.name)) for part in result.unreadable)


def required_runs(result: Result, rules: BenchmarkRules) -> int:
    """The number of runs that a result must have in the division that its logs name."""
    return rules.required_runs(next((log.value(keys.SUBMISSION_DIVISION) for log in result.runs), None))


def permitted_runs(result: Result, rules: BenchmarkRules) -> tuple[int, float]:
    """The least and the largest number of runs that a result may have: of a reproduction, from its first look on."""
    required = required_runs(result, rules)
    return (min(LOOKS[0], required), math.inf) if result.repeats is not None else (required, required)


def is_copy(log: RunLog, other: RunLog) -> bool:
    """Whether RUN004 reports the two: the same bytes, or the same run_id."""
    run_id = log.field(keys.TTA_FORMAT, "run_id")
    return log.sha256 == other.sha256 or (isinstance(run_id, str) and run_id == other.field(keys.TTA_FORMAT, "run_id"))
