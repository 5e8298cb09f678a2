"""What the logs of a result say of the weights that their runs began with."""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.submission.result import Result

OPEN = "open"


def not_from_seed(result: Result, is_open: bool) -> Iterator[Fault]:
    """Yield where initial weights are not a function of the seed, in the runs of the open division or of all others."""
    seen: dict[str, RunLog] = {}
    for log in result.runs:
        if (log.value(keys.SUBMISSION_DIVISION) == OPEN) is not is_open:
            continue
        start = log.first(keys.RUN_START)
        rehearsed = log.field(keys.TTA_INITIAL, "weights_digest")
        begun = None if start is None else start.metadata.get("weights_digest")
        if not isinstance(rehearsed, str):
            continue
        if start is not None and isinstance(begun, str) and begun != rehearsed:
            message = "the run began with other weights than the rehearsal, which had the same seed"
            yield Fault(str(log.path), start.lineno, message, {"weights": begun, "rehearsed": rehearsed})
        other = seen.setdefault(rehearsed, log)
        if other.value(keys.SEED) != log.value(keys.SEED):
            message = f"the initial weights are those of {other.path.name}, which had another seed"
            yield Fault(str(log.path), log.line_of(keys.TTA_INITIAL), message, {"weights": rehearsed})
