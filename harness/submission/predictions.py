"""The predictions of a run's last evaluation, kept next to its log so that the quality can be computed again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.base.values import finite_number, is_number
from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.submission.claim import FileEntry

PREDICTIONS_PATTERN = re.compile(r"predictions_(0|[1-9][0-9]{0,3})\.npz")
MAX_BYTES = 64 << 20  # larger ones are not kept
TOLERANCE = 1e-6  # of a quality that is computed again; one example of any test set changes it by more
COMPUTED, REFUSED, IMPOSSIBLE = "computed", "refused", "impossible"


def predictions_name(index: int) -> str:
    """Return the name of the file with the predictions of run `index`."""
    return f"predictions_{index}.npz"


def wrong_with(log: RunLog, index: int, files: Mapping[str, FileEntry]) -> str:
    """Return what is wrong with the predictions that the log of run `index` says were kept; empty if nothing is.

    files: what is next to the log.
    """
    stated, name = log.field(keys.TTA_PREDICTIONS, "file"), predictions_name(index)
    evaluations = log.all(keys.EVAL_ACCURACY)
    digest = evaluations[-1].metadata.get("predictions") if evaluations else None
    if stated != name:
        return f"the predictions are in {printable(stated, 60)!r}; their name must be {name}"
    entry = files.get(name)
    if entry is None or entry.kind != "file":
        return f"{name} is missing"
    if entry.num_bytes > MAX_BYTES:
        return f"{name} has {entry.num_bytes:,} bytes; predictions of more than {MAX_BYTES:,} are not kept"
    if digest is None or entry.sha256 != digest:
        return f"{name} does not have the predictions of the last evaluation"
    return ""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What came of computing the quality of kept predictions again.

    state: "computed", "refused" (they cannot be evaluated), or "impossible" (what it takes is missing here).
    why: of the other two. value, num_examples, signature: of one that was computed; see `harness.workload.Quality`.
    is_played: the predictions are actions, and the episodes were played again. margin: by how much the value may differ
        where weights were evaluated on another system.
    """

    state: str
    why: str = ""
    value: float = 0.0
    num_examples: int = 0
    signature: str | None = None
    is_played: bool = False
    margin: float = 0.0

    def agrees_with(self, logged: object) -> bool:
        """Whether the quality is the logged one, but for the last digits of sums of floats, and for the margin."""
        tolerance = max(TOLERANCE, self.margin)
        return is_number(logged) and math.isclose(self.value, logged, rel_tol=TOLERANCE, abs_tol=tolerance)


def contradiction(log: RunLog, again: Recomputed | None, what: str = "the kept predictions") -> str:
    """Return how what was computed again contradicts the last quality of the log; empty if it does not.

    again: None and one that was not possible contradict nothing. what: has the quality, in plural.
    """
    if again is None or again.state == IMPOSSIBLE:
        return ""
    if again.state == REFUSED:
        return f"{what} cannot be evaluated: {printable(again.why, 300)}"
    event = log.all(keys.EVAL_ACCURACY)[-1]
    logged = finite_number(event.value)
    if logged is None or (again.agrees_with(logged) and again.num_examples == event.metadata.get("num_examples")):
        return ""
    return f"the quality is {logged:.6g}; {what} have {again.value:.6g}, of {again.num_examples:,} examples"
