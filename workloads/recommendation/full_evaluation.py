"""The quality of recommendation in the full suite: the area under the ROC curve over the test rows. R rows."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

from harness.workload import Arrays, Quality
from workloads.recommendation.full_data import read_clicks, read_metadata


class AreaUnderCurve:
    """How often a row that was clicked has the higher one of two `scores` (R,), floats; equal ones count half.

    A score that is not a number is the lowest one.
    """

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the labels are missing or damaged."""
        self._clicks_R = read_clicks(labels_dir, read_metadata(data_dir)["num_test"])

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return the area under the curve.

        Raises:
            ValueError: the predictions are not one score for each row.
        """
        from sklearn.metrics import roc_auc_score

        scores_R = predict({}).get("scores")
        num_rows = len(self._clicks_R)
        if scores_R is None or scores_R.shape != (num_rows,) or scores_R.dtype.kind != "f":
            raise ValueError(f"expected a score for each of {num_rows:,} rows, as floats")
        # Their order is all that counts; scikit-learn accepts no infinity.
        _, places_R = np.unique(np.where(np.isnan(scores_R), -np.inf, scores_R), return_inverse=True)
        area = float(roc_auc_score(self._clicks_R, places_R))
        return Quality(area, num_rows, f"sklearn.metrics.roc_auc_score {metadata.version('scikit-learn')}")
