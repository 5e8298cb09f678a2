"""The quality of detection: COCO's mAP on the test set. N images, K classes, D detections."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable
from harness.workload import Arrays, Quality
from workloads.detection.coco import MAX_DETECTIONS, TruthSet
from workloads.detection.data import read_objects


class MeanAveragePrecision:
    """Compares `detections` (D, 7), float32, with the objects of the test set.

    A row: index of the image, left, top, width, height, score, class.
    """

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the labels are missing, damaged, or not what `metadata.json` says."""
        try:
            metadata = json.loads((data_dir / "metadata.json").read_bytes())
            height, width, _ = metadata["image_shape"]
            self._num_classes = len(metadata["classes"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{data_dir}/metadata.json: cannot be used: {printable(error)}") from None
        boxes_NM4, labels_NM = read_objects(labels_dir, "test", (height, width))
        if not -1 <= labels_NM.min() <= labels_NM.max() < self._num_classes:
            raise DataError(
                f"{labels_dir}/test_labels.npy: labels {labels_NM.min()} to {labels_NM.max()}; metadata.json says "
                f"{self._num_classes} classes"
            )
        self._num_test = len(labels_NM)
        self._truth = TruthSet(boxes_NM4, labels_NM, self._num_classes)

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return the mAP of the detections in all images together; without any it is 0.0.

        Raises:
            ValueError: the predictions are not detections in the images of the test set.
        """
        rows_D7: npt.NDArray[Any] | None = predict({}).get("detections")
        if rows_D7 is None or rows_D7.ndim != 2 or rows_D7.shape[1] != 7 or rows_D7.dtype != np.float32:
            raise ValueError("expected detections as rows of 7 numbers, float32")
        if not np.isfinite(rows_D7).all():
            raise ValueError("expected detections of finite numbers")
        for column, what, count in ((0, "image", self._num_test), (6, "class", self._num_classes)):
            index_D = rows_D7[:, column]
            if not ((index_D >= 0) & (index_D < count) & (index_D == np.floor(index_D))).all():
                raise ValueError(f"expected the {what} of a detection as a whole number from 0 to {count - 1}")
        if not (rows_D7[:, 5] > 0).all():
            raise ValueError("expected detections with a score above 0")
        if len(rows_D7) and np.bincount(rows_D7[:, 0].astype(np.int64)).max() > MAX_DETECTIONS:
            raise ValueError(f"expected at most {MAX_DETECTIONS} detections in an image")
        return Quality(self._truth.mean_average_precision(rows_D7.astype(np.float64)), self._num_test)
