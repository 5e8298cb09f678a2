"""The first steps of a claimed run and those made again: equal bit by bit, or where they part, and how far. Pure."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

from harness.log.replay import Replay

# How far the loss of a step may part on another system, in units of what another order of summation has changed here up
# to that step. Training amplifies rounding: what is much at the first step is nothing at the twentieth.
MAX_ORDERS = 10.0
ROUNDING = 2.0**-23  # the least that another order changes: one unit in the last place of single precision
Status = Literal["equal", "close", "different", "not available"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two replays of the same seed.

    num_steps: that both have. first: the first step, from 1, in which something differs (0: before it); None: nothing
    does. what: what differs there: "network", "initial weights", "batch", "loss" or "weights". largest: the largest
    relative difference of the losses of a step. excess: the largest share of it in what it may be on another system at
    that step; above 1, the replays differ. None: not measured.
    """

    status: Status
    num_steps: int
    first: int | None = None
    what: str = ""
    largest: float = 0.0
    excess: float | None = None
    why: str = ""


def compare(claimed: Replay, again: Replay, is_same_system: bool, other: Replay | None = None) -> Comparison:
    """Compare the replay of a claim with the one made again.

    other: one made here, too, that sums in another order; what it differs in from `again` tells how close another
    system can be expected to come. Networks and batches must be equal everywhere.
    """
    if again.not_available is not None:
        return Comparison("not available", 0, why=f"{again.not_available} has no deterministic form")
    if claimed.not_available is not None:
        why = f"the claim says that {claimed.not_available} has no deterministic form; here every operation has one"
        return Comparison("not available", 0, why=why)
    num_steps = min(claimed.num_steps, again.num_steps)
    first, what = _parting(claimed, again, num_steps)
    if first is None:
        return Comparison("equal", num_steps)
    distances = _distances(claimed, again, num_steps)
    largest = max(distances, default=0.0)
    if is_same_system or what in ("network", "batch"):
        return Comparison("different", num_steps, first, what, largest)
    if other is None or other.num_steps < num_steps:
        return Comparison("not available", num_steps, first, what, largest, why="no other order of summation was tried")
    allowed = [
        MAX_ORDERS * item for item in itertools.accumulate(_distances(again, other, num_steps), max, initial=ROUNDING)
    ]
    excess = max(distance / limit for distance, limit in zip(distances, allowed[1:], strict=True))
    return Comparison("close" if excess <= 1 else "different", num_steps, first, what, largest, excess)


def _parting(claimed: Replay, again: Replay, num_steps: int) -> tuple[int | None, str]:
    before, now = claimed.network, again.network
    if before is not None and now is not None and before.parameters != now.parameters:
        return 0, "network"
    if claimed.weights["0"] != again.weights["0"]:
        return 0, "initial weights"
    for step in range(1, num_steps + 1):
        if claimed.batches[step - 1] != again.batches[step - 1]:
            return step, "batch"
        if claimed.bits[step - 1] != again.bits[step - 1]:
            return step, "loss"
        name = str(step)
        if name in claimed.weights and name in again.weights and claimed.weights[name] != again.weights[name]:
            return step, "weights"
    return None, ""


def _distances(one: Replay, other: Replay, num_steps: int) -> list[float]:
    found = []
    for a, b in zip(one.losses[:num_steps], other.losses[:num_steps], strict=True):
        distance = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b) / max(abs(a), abs(b))
        found.append(distance if math.isfinite(distance) else math.inf)
    return found


def facts(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison for a JSON document."""
    return {
        "status": comparison.status,
        "num_steps": comparison.num_steps,
        "first_different_step": comparison.first,
        "what": comparison.what or None,
        "largest_relative_difference": comparison.largest if math.isfinite(comparison.largest) else None,
        "share_of_what_is_allowed": comparison.excess,
        "why": comparison.why or None,
    }
