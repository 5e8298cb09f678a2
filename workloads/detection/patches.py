"""A detector without gradients: connected components, a dictionary of patches, ridge regressions for class and box.

Dimension letters: N images, H rows, W columns, M places for objects, D boxes, P places of a patch, F features.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.detection.dataset import Bytes, Floats, Split

Array = npt.NDArray[np.float32]
THRESHOLDS = (0.35, 0.5, 0.7, 1.0, 1.4, 1.9)  # of ink, in standard deviations
BLURS = (0.7, 1.5)
SIDE, MARGIN = 26, 0.15  # pixels of a crop, and the part of the box that is added around it
PATCH, NUM_PATCHES, NUM_DRAWN, CELLS = 6, 100, 50_000, 4
NUM_SCALED = 10_000  # crops whose features decide their scale
STRENGTH = 1000.0  # of the ridge
NUM_STEPS = 2  # in which a box is moved to where the regression expects it
MIN_IOU = 0.4  # with a true box, to count as it
MIN_SCORE = 0.03


def detections(train: Split, tested: Bytes, num_classes: int) -> Iterator[Array]:
    """Rows (D, 7) of each image: image, left, top, width, height, score, class."""
    from workloads.detection.baselines import _grey, _overlap, _rows, _suppressed

    random = np.random.RandomState(0)
    crops, overlaps, classes, moves = [], [], [], []
    for grey_HW, boxes_M4, labels_M in zip(_grey(train[0]), train[1], train[2], strict=True):
        real = labels_M >= 0
        true_M4, found_D4 = boxes_M4[real], candidates(grey_HW)
        if not real.any():
            continue
        found_D4 = np.concatenate([found_D4, true_M4, _shaken(random, true_M4), _shaken(random, true_M4)])
        overlap_DM = _overlap(found_D4, true_M4)
        best_D = overlap_DM.argmax(1)
        crops.append(cropped(grey_HW, found_D4))
        overlaps.append(overlap_DM.max(1))
        classes.append(labels_M[real][best_D])
        moves.append(((true_M4[best_D] - found_D4) / _sizes(found_D4)).astype(np.float32))
    crops_DHW, overlap_D = np.concatenate(crops), np.concatenate(overlaps)
    described = Dictionary(random, crops_DHW)
    known_DF = described(crops_DHW)
    is_near_D = overlap_D > MIN_IOU
    # A box's score for its class is how much of the object it covers.
    wanted = np.eye(num_classes, dtype=np.float32)[np.concatenate(classes)]
    scoring = _ridge(known_DF, wanted * np.where(is_near_D, overlap_D, 0).astype(np.float32)[:, None])
    known_DF *= is_near_D[:, None]  # boxes far from any object do not say where to move
    moving = _ridge(known_DF, np.concatenate(moves))
    for image, grey_HW in enumerate(_grey(tested)):
        boxes_D4 = candidates(grey_HW)
        if not len(boxes_D4):
            continue
        for _ in range(NUM_STEPS):
            boxes_D4 = boxes_D4 + described(cropped(grey_HW, boxes_D4)) @ moving * _sizes(boxes_D4)
            boxes_D4[:, 2:] = np.maximum(boxes_D4[:, 2:], boxes_D4[:, :2] + 4)
        scores_DC = described(cropped(grey_HW, boxes_D4)) @ scoring
        scores_D, labels_D = scores_DC.max(1), scores_DC.argmax(1)
        kept = _suppressed(boxes_D4, scores_D, labels_D)
        kept = kept[scores_D[kept] > MIN_SCORE]
        yield _rows(image, boxes_D4[kept], scores_D[kept], labels_D[kept])


def candidates(grey_HW: Array) -> Floats:
    """Boxes of the connected components of ink, at several thresholds and two blurs, of about a digit's size."""
    from scipy.ndimage import find_objects, gaussian_filter, label

    found = set()
    for blur in BLURS:
        smooth = gaussian_filter(grey_HW, blur)
        for threshold in THRESHOLDS:
            for rows, columns in find_objects(label(smooth > threshold)[0]):
                height, width = rows.stop - rows.start, columns.stop - columns.start
                if 12 <= height <= 48 and 6 <= width <= 48:
                    found.add((columns.start, rows.start, columns.stop, rows.stop))
    return np.array(sorted(found), np.float32).reshape(-1, 4)


def cropped(grey_HW: Array, boxes_D4: Floats) -> Array:
    """The boxes with a margin, resized bilinearly to SIDE x SIDE."""
    height, width = grey_HW.shape
    steps = (np.arange(SIDE) + 0.5) / SIDE * (1 + 2 * MARGIN) - MARGIN
    left, top, right, bottom = boxes_D4.T[:, :, None]
    x = np.clip(left + (right - left) * steps - 0.5, 0, width - 1.001)
    y = np.clip(top + (bottom - top) * steps - 0.5, 0, height - 1.001)
    column, row = x.astype(np.int64)[:, None, :], y.astype(np.int64)[:, :, None]
    across, down = (x - np.floor(x))[:, None, :], (y - np.floor(y))[:, :, None]
    above = grey_HW[row, column] * (1 - across) + grey_HW[row, column + 1] * across
    below = grey_HW[row + 1, column] * (1 - across) + grey_HW[row + 1, column + 1] * across
    crops: Array = (above * (1 - down) + below * down).astype(np.float32)
    return crops


class Dictionary:
    """Responses of patch patterns to crops, summed in cells (Coates and Ng 2012); the last feature is 1."""

    def __init__(self, random: np.random.RandomState, crops_DHW: Array) -> None:
        self.num_places = SIDE - PATCH + 1
        views = np.lib.stride_tricks.sliding_window_view(crops_DHW, (PATCH, PATCH), axis=(1, 2))
        image, row, column = (random.randint(size, size=NUM_DRAWN) for size in views.shape[:3])
        drawn = _even(views[image, row, column].reshape(NUM_DRAWN, -1))
        self.middle = drawn.mean(0)
        values, axes = np.linalg.eigh(np.cov((drawn - self.middle).T))
        self.whitening = ((axes / np.sqrt(values + 0.1)) @ axes.T).astype(np.float32)
        white = (drawn - self.middle) @ self.whitening
        self.patterns = random.randn(NUM_PATCHES, PATCH**2).astype(np.float32)
        self.patterns /= np.linalg.norm(self.patterns, axis=1, keepdims=True)
        for _ in range(10):
            likeness = white @ self.patterns.T
            best = np.abs(likeness).argmax(1)
            sums = np.zeros_like(self.patterns)
            np.add.at(sums, best, likeness[np.arange(NUM_DRAWN), best][:, None] * white)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            self.patterns = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), self.patterns)
        num_features = CELLS**2 * 2 * NUM_PATCHES + 1
        self.mean: Array = np.zeros(num_features, np.float32)
        self.deviation: Array = np.ones(num_features, np.float32)
        some = self(crops_DHW[:: 1 + len(crops_DHW) // NUM_SCALED])
        self.mean, self.deviation = some.mean(0), some.std(0) + np.float32(0.05)
        self.mean[-1], self.deviation[-1] = 0, 1

    def __call__(self, crops_DHW: Array) -> Array:
        features_DF = np.ones((len(crops_DHW), len(self.mean)), np.float32)
        edges = np.linspace(0, self.num_places, CELLS + 1).astype(np.int64)[:-1]
        for first in range(0, len(crops_DHW), 500):
            views = np.lib.stride_tricks.sliding_window_view(
                crops_DHW[first : first + 500], (PATCH, PATCH), axis=(1, 2)
            )
            even = _even(views.reshape(len(views), self.num_places**2, PATCH**2))
            response = ((even - self.middle) @ self.whitening) @ self.patterns.T
            both = np.concatenate([np.maximum(response - 0.25, 0), np.maximum(-response - 0.25, 0)], 2)
            both = both.reshape(-1, self.num_places, self.num_places, 2 * NUM_PATCHES)
            sums = np.add.reduceat(np.add.reduceat(both, edges, 1), edges, 2)
            features_DF[first : first + 500, :-1] = sums.reshape(len(both), -1)
        features_DF -= self.mean
        features_DF /= self.deviation
        return features_DF


def _even(patches: Array) -> Array:
    even: Array = patches - patches.mean(-1, keepdims=True)
    even /= np.sqrt(even.var(-1, keepdims=True) + np.float32(0.1))
    return even


def _sizes(boxes_D4: Floats) -> Floats:
    return np.tile(boxes_D4[:, 2:] - boxes_D4[:, :2], (1, 2))


def _shaken(random: np.random.RandomState, boxes_M4: Floats) -> Floats:
    shift = np.concatenate([random.uniform(-0.15, 0.15, (len(boxes_M4), 2)) for _ in range(2)], 1)
    return (boxes_M4 + shift * _sizes(boxes_M4)).astype(np.float32)


def _ridge(known_DF: Array, wanted: Array) -> Any:
    from scipy.linalg import cho_factor, cho_solve

    gram = known_DF.T @ known_DF
    gram[np.diag_indices_from(gram)] += STRENGTH
    return cho_solve(cho_factor(gram, overwrite_a=True), known_DF.T @ wanted)
