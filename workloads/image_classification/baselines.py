"""What solutions that train no network reach on the test set. A target must be well above all of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

# ruff: noqa: N803 (dimension letters)
import numpy as np
import numpy.typing as npt

from workloads.image_classification.data import read_split
from workloads.image_classification.dataset import Bytes

NEIGHBOURS = (1, 5, 25)
NUM_FITTED = {"mini": 30_000, "standard": 10_000}  # on all of CIFAR-10 these would take most of an hour
NUM_PROJECTED = 60  # principal components for the support vector machine
NUM_SVM = 10_000  # its kernel is quadratic in the number of images


def baselines(suite: str, data_dir: Path) -> dict[str, float]:
    """Test accuracy by name: majority, nearest neighbours, logistic regression, forest, support vectors.

    Each is fitted on the training split (the first `NUM_FITTED` images of a fixed shuffle) as raw pixels and, under
    the names with `_standardised`, with every image scaled to mean 0 and standard deviation 1. `_aligned` (mini) is
    what a person would try next: ink always bright, with its centre of mass in the middle of the frame.

    Raises:
        DataError: the data are missing or damaged.
    """
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    (train, train_labels), (test, test_labels) = (read_split(data_dir, split) for split in ("train", "test"))
    chosen = np.random.RandomState(0).permutation(len(train))[: NUM_FITTED[suite]]
    labels = train_labels[chosen]
    raw = [images.reshape(len(images), -1).astype(np.float32) for images in (train[chosen], test)]
    standardised = [(x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1) for x in raw]

    def score(model: Any, fitted: Any, tested: Any) -> float:
        return float(np.mean(model.fit(fitted, labels[: len(fitted)]).predict(tested) == test_labels))

    scores = {"majority_class": float(np.mean(test_labels == np.bincount(labels).argmax()))}
    views = {"": raw, "_standardised": standardised}
    if suite == "mini":
        views["_aligned"] = [_aligned(images) for images in (train[chosen], test)]
    for suffix, (fitted, tested) in views.items():
        for k in NEIGHBOURS:
            scores[f"nearest_neighbours_{k}{suffix}"] = score(KNeighborsClassifier(k), fitted, tested)
    fitted, tested = standardised
    with warnings.catch_warnings():
        # 60 steps of L-BFGS: more steps improve the fit to the training images, but not the test accuracy.
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores["logistic_regression"] = score(LogisticRegression(max_iter=60), fitted, tested)
    forest = RandomForestClassifier(100, n_jobs=-1, random_state=0)
    scores["random_forest"] = score(forest, fitted, tested)
    components = PCA(NUM_PROJECTED, random_state=0).fit(fitted)
    scores["support_vectors"] = score(SVC(C=10.0), components.transform(fitted[:NUM_SVM]), components.transform(tested))
    return scores


def _aligned(images_NHWC: Bytes) -> npt.NDArray[np.float32]:
    """Standardised frames (N, H * W), inverted where the longer tail is dark, rolled to their centre of mass."""
    x = images_NHWC.mean(-1, dtype=np.float32)
    x = (x - x.mean((1, 2), keepdims=True)) / (x.std((1, 2), keepdims=True) + 1)
    x *= np.where((x**3).mean((1, 2), keepdims=True) < 0, np.float32(-1), np.float32(1))
    n, height, width = x.shape
    ink = np.maximum(x - 1, 0)
    total = ink.sum((1, 2)) + 1e-6
    down = np.rint(ink.sum(2) @ np.arange(height) / total - height / 2).astype(np.int64)
    right = np.rint(ink.sum(1) @ np.arange(width) / total - width / 2).astype(np.int64)
    rows = (np.arange(height) + down[:, None]) % height
    columns = (np.arange(width) + right[:, None]) % width
    centred: npt.NDArray[np.float32] = x[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return centred.reshape(n, -1)
