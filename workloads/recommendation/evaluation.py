"""The quality of recommendation: the hit rate at 10 over all items not yet taken. U users, I items."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.workload import Arrays, Quality
from workloads.recommendation.data import read_sizes, read_test_items

NUM_BEST = 10


class HitRate:
    """Looks for each user's test item among `items` (U, 10), whole numbers: the items predicted, -1 for none.

    That none of them was taken before is not checked: the test item was not, so such an item hits nothing.
    """

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the labels are missing or damaged."""
        sizes = read_sizes(data_dir)
        self._num_items = sizes["num_items"]
        self._items_U = read_test_items(labels_dir, sizes["num_users"], self._num_items)

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return the share of users whose test item is predicted.

        Raises:
            ValueError: the predictions are not up to ten different items for each user.
        """
        items = predict({}).get("items")
        num_users = len(self._items_U)
        if items is None or items.shape != (num_users, NUM_BEST) or items.dtype.kind not in "iu":
            raise ValueError(f"expected {NUM_BEST} items for each of {num_users:,} users, as whole numbers")
        items_UB = items.astype(np.int64)
        if not -1 <= items_UB.min() <= items_UB.max() < self._num_items:
            raise ValueError(f"expected items from 0 to {self._num_items - 1}, or -1 for none")
        sorted_UB = np.sort(items_UB, axis=1)
        if ((sorted_UB[:, 1:] == sorted_UB[:, :-1]) & (sorted_UB[:, 1:] >= 0)).any():
            raise ValueError("expected different items for each user, found one twice")
        is_hit_U = (items_UB == self._items_U[:, None]).any(1)
        return Quality(float(np.mean(is_hit_U)), num_users)
