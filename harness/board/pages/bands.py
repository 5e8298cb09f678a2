"""Ranks by cost: 1 plus how many are ahead, and one rank for those that cannot be told apart. Pure.

As in the table of times, the first leads a rank, whoever cannot be told apart from the leader shares it, and the first
who can leads the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from harness.base.stats import p_not_slower
from harness.scoring.score import SIGNIFICANCE, Score

Item = TypeVar("Item")


def ranks(items: Sequence[Item], is_behind: Callable[[Item, Item], bool]) -> list[int]:
    """The rank of each of `items`, which are in order. is_behind: whether the first is, beyond doubt, behind the other,
    which leads its rank.
    """
    found: list[int] = []
    leader: Item | None = None
    for ahead, item in enumerate(items):
        if leader is None or is_behind(item, leader):
            leader = item
            found.append(ahead + 1)
        else:
            found.append(found[-1])
    return found


def usd_of_runs(score: Score) -> list[float]:
    """What each run cost, normalised as the mean is; infinite where the target was missed. The score has a cost."""
    assert score.usd is not None
    assert score.seconds
    rate = float(score.usd) / score.seconds
    return [float("inf") if run.seconds is None else run.seconds * score.normalised_by * rate for run in score.runs]


def usd_interval(score: Score) -> tuple[float, float] | None:
    """95 % interval of the cost: that of the time at the same price, which itself is exact."""
    if score.usd is None or not score.seconds or score.interval is None:
        return None
    rate = float(score.usd) / score.seconds
    return score.interval[0] * rate, score.interval[1] * rate


def is_dearer(other: Score, leader: Score) -> bool:
    """Whether `other` costs significantly more than `leader` (Yuen's test over the runs' costs, one-sided)."""
    assert other.usd is not None
    assert leader.usd is not None
    drop = len(leader.dropped) // 2
    is_comparable = len(other.dropped) // 2 == drop and leader.seconds and other.seconds
    doubt = p_not_slower(usd_of_runs(leader), usd_of_runs(other), drop) if is_comparable else None
    return other.usd > leader.usd if doubt is None else doubt < SIGNIFICANCE
