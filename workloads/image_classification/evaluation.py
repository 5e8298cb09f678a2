"""The quality of image classification: top-1 accuracy on the test set. N images, K classes."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.workload import Arrays, Quality
from workloads.image_classification.data import read_labels


class Accuracy:
    """Compares `classes` (N,), whole numbers, the class predicted for each test image, with the labels."""

    def __init__(self, labels_dir: Path) -> None:
        """Raises DataError if the labels are missing or damaged."""
        self._labels_N = read_labels(labels_dir, "test")

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return the share of images whose predicted class is theirs.

        Raises:
            ValueError: the predictions are not one class for each test image.
        """
        classes_N = predict({}).get("classes")
        num_test = len(self._labels_N)
        if classes_N is None or classes_N.shape != (num_test,) or classes_N.dtype.kind not in "iu":
            raise ValueError(f"expected the class of each of {num_test:,} images, as whole numbers")
        return Quality(float(np.mean(classes_N == self._labels_N)), num_test)
