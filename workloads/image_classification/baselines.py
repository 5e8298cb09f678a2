"""What solutions that train no network reach on the test set. A target must be well above all of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

# ruff: noqa: N803 (dimension letters)
import numpy as np
import numpy.typing as npt

from workloads.image_classification.data import read_split
from workloads.image_classification.dataset import Bytes, Ints

Floats = npt.NDArray[np.float32]

NEIGHBOURS = (1, 5, 25)
NUM_FITTED = {"mini": 30_000, "standard": 10_000}  # on all of CIFAR-10 these would take most of an hour
NUM_PROJECTED = 60  # principal components for the support vector machine
NUM_SVM = 10_000  # its kernel is quadratic in the number of images
PATCH, NUM_PATCHES = 6, 200  # pixels a side; patterns in the dictionary
NUM_DRAWN = 60_000  # patches that the dictionary is made from
CELLS = 4  # a side, in which the responses are summed
STRENGTH = 100.0  # of the ridge


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Test accuracy by name: majority, nearest neighbours, logistic regression, forest, support vectors.

    Each is fitted on the training split (the first `NUM_FITTED` images of a fixed shuffle) as raw pixels and, under
    the names with `_standardised`, with every image scaled to mean 0 and standard deviation 1. `_aligned` (mini) is
    what a person would try next: ink always bright, with its centre of mass in the middle of the frame.
    `patches_and_ridge` (mini) is the strongest without gradients that was found: see `_by_patches`.

    Raises:
        DataError: the data are missing or damaged.
    """
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    (train, train_labels), (test, test_labels) = read_split(data_dir, "train"), read_split(data_dir, "test", labels_dir)
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
    if suite == "mini":
        fitted, tested = views["_aligned"]
        answers = _by_patches(fitted, tested, labels, train.shape[1])
        scores["patches_and_ridge"] = float(np.mean(answers == test_labels))
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


def _by_patches(fitted: Floats, tested: Floats, labels: Ints, side: int) -> Ints:
    """Labels by a dictionary of patches and a ridge regression in closed form.

    Coates and Ng 2012 ("Learning Feature Representations with K-Means"): whitened patches are clustered by their
    direction; an image is described by how strongly each pattern, or its negative, responds in each of 4 by 4 cells.
    """
    from scipy.linalg import cho_factor, cho_solve

    random = np.random.RandomState(0)
    num_places = side - PATCH + 1

    def patches(flat: Floats) -> Floats:
        views = np.lib.stride_tricks.sliding_window_view(flat.reshape(-1, side, side), (PATCH, PATCH), axis=(1, 2))
        even: Floats = views.reshape(len(flat), num_places**2, PATCH**2)
        even = even - even.mean(2, keepdims=True)
        even /= np.sqrt(even.var(2, keepdims=True) + np.float32(0.1))
        return even

    drawn = np.concatenate([
        patches(fitted[i : i + 1])[0, random.randint(num_places**2, size=1 + NUM_DRAWN // len(fitted))]
        for i in range(len(fitted))
    ])  # fmt: skip
    middle = drawn.mean(0)
    values, axes = np.linalg.eigh(np.cov((drawn - middle).T))
    whitening = ((axes / np.sqrt(values + 0.1)) @ axes.T).astype(np.float32)
    white = (drawn - middle) @ whitening
    patterns = random.randn(NUM_PATCHES, PATCH**2).astype(np.float32)
    for _ in range(10):
        likeness = white @ patterns.T
        best = np.abs(likeness).argmax(1)
        sums = np.zeros_like(patterns)
        np.add.at(sums, best, likeness[np.arange(len(best)), best][:, None] * white)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        patterns = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), patterns)
        patterns /= np.linalg.norm(patterns, axis=1, keepdims=True)
    edges = np.linspace(0, num_places, CELLS + 1).astype(np.int64)[:-1]

    def described(flat: Floats) -> Floats:
        parts = []
        for first in range(0, len(flat), 500):
            response = ((patches(flat[first : first + 500]) - middle) @ whitening) @ patterns.T
            both = np.concatenate([np.maximum(response - 0.25, 0), np.maximum(-response - 0.25, 0)], 2)
            both = both.reshape(-1, num_places, num_places, 2 * NUM_PATCHES)
            parts.append(np.add.reduceat(np.add.reduceat(both, edges, 1), edges, 2).reshape(len(both), -1))
        return np.concatenate(parts)

    known = described(fitted)
    mean, deviation = known.mean(0), known.std(0) + np.float32(0.05)
    known -= mean
    known /= deviation
    gram = known.T @ known
    gram[np.diag_indices_from(gram)] += STRENGTH
    wanted = np.eye(int(labels.max()) + 1, dtype=np.float32)[labels] - np.float32(0.1)
    weights = cho_solve(cho_factor(gram, overwrite_a=True), known.T @ wanted)
    answers: Ints = (((described(tested) - mean) / deviation) @ weights).argmax(1)
    return answers
