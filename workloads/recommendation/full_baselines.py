"""What counting clicks reaches on the test rows of the full suite, without a network. R rows, F categories."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.recommendation.full_criteo import NUM_COUNTS
from workloads.recommendation.full_data import read_clicks, read_metadata
from workloads.streaming.shards import read

ROWS_AT_ONCE = 1 << 18
PRIOR_ROWS = 20  # with the mean rate, added to those of each value


def baselines(data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """The area under the curve of the click rates of one category's values, the best one, and of naive Bayes: the sum
    of all categories' log odds.

    Raises:
        DataError: the data are missing or damaged.
    """
    from sklearn.metrics import roc_auc_score

    metadata = read_metadata(data_dir)
    sizes = metadata["vocabulary_sizes"]
    shown, clicked = ([np.zeros(size) for size in sizes] for _ in range(2))
    for rows_RC, clicks_R in _batches(data_dir / "train", has_clicks=True):
        for f, size in enumerate(sizes):
            numbers_R = rows_RC[:, NUM_COUNTS + f]
            shown[f] += np.bincount(numbers_R, minlength=size)
            clicked[f] += np.bincount(numbers_R, clicks_R, minlength=size)
    mean = clicked[0].sum() / shown[0].sum()
    rates = [(yes + PRIOR_ROWS * mean) / (rows + PRIOR_ROWS) for yes, rows in zip(clicked, shown, strict=True)]
    odds = [np.log(rate) - np.log1p(-rate) for rate in rates]
    tests = [
        np.stack([odds[f][rows_RC[:, NUM_COUNTS + f]] for f in range(len(sizes))], 1)
        for rows_RC, _ in _batches(data_dir / "test", has_clicks=False)
    ]
    odds_RF, clicks_R = np.concatenate(tests), read_clicks(labels_dir, metadata["num_test"])
    return {
        "best_category": max(float(roc_auc_score(clicks_R, odds_R)) for odds_R in odds_RF.T),
        "naive_bayes": float(roc_auc_score(clicks_R, odds_RF.sum(1))),
    }


def _batches(folder: Path, has_clicks: bool) -> Any:
    """rows_RC and clicks_R of one part of a split after the other."""
    rows = read(folder)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        table = rows[first : first + ROWS_AT_ONCE]
        values: npt.NDArray[np.int32] = table["row"].combine_chunks().flatten().to_numpy()
        yield values.reshape(len(table), -1), table["click"].to_numpy() if has_clicks else None
