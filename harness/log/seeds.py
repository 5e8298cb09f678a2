"""The seeds of a run by source of chance, as `tta_seeds` has them: what a run of `tta variance` was drawn from. Pure.

weights   the initial weights
order     all that a session draws from a generator of its own: the order of the data, their augmentation, and in
          reinforcement learning environments and actions
noise     what training draws from the generators of Python, numpy and torch: dropout
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.base.values import is_whole, mapping_or_empty
from harness.log import keys
from harness.log.run_log import RunLog

WEIGHTS, ORDER, NOISE = SOURCES = ("weights", "order", "noise")
MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Seeds:
    """A seed for each source. fixed: those that all runs of the folder have. varied: this run's own."""

    fixed: Mapping[str, int]
    varied: Mapping[str, int]

    def __getitem__(self, source: str) -> int:
        return self.varied[source] if source in self.varied else self.fixed[source]

    def record(self) -> dict[str, Any]:
        """Return the value of `tta_seeds`."""
        return {"fixed": dict(self.fixed), "varied": dict(self.varied)}


def parse_seeds(value: object) -> Seeds:
    """Return the seeds that a log states.

    Raises:
        ValueError: each source must have one seed, fixed or varied; the message says what is wrong.
    """
    record = mapping_or_empty(value)
    fixed, varied = record.get("fixed"), record.get("varied")
    if not isinstance(fixed, dict) or not isinstance(varied, dict):
        raise ValueError("not two mappings, fixed and varied")
    if sorted([*fixed, *varied]) != sorted(SOURCES):
        raise ValueError(f"not one seed for each of {', '.join(SOURCES)}")
    for source, seed in {**fixed, **varied}.items():
        if not is_whole(seed) or not 0 <= seed <= MAX_SEED:
            raise ValueError(f"the seed of {source} is not a whole number from 0 to {MAX_SEED}")
    return Seeds(fixed, varied)


def seeds_of(log: RunLog) -> Seeds | None:
    """Return the seeds by source of a run of `tta variance`; None of any other.

    Raises:
        ValueError: they are malformed.
    """
    return None if log.first(keys.TTA_SEEDS) is None else parse_seeds(log.value(keys.TTA_SEEDS))
