"""What solutions that train no network reach on the test set. A target must be well above all of them.

Dimension letters: N images, H rows, W columns, M places for objects, D detections, T templates, P pixels of a crop.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.detection import patches
from workloads.detection.coco import TruthSet
from workloads.detection.data import read_split
from workloads.detection.dataset import Bytes, Floats, Ints, Split

Array = npt.NDArray[np.float32]
NUM_CONSTANT = 50  # boxes in the fixed set
NUM_NEAR = 5  # scenes whose boxes are copied
SMALL = 16  # pixels a side at which scenes are compared
CROP = 12  # pixels a side at which candidates are compared
NUM_CROPS = 15  # nearest crops that vote
EVIDENCE = {
    "mini": (0.35, 0.5, 0.7, 1.0, 1.4),
    "standard": (0.25, 0.5, 0.75, 1.0, 1.5),
}  # thresholds, in standard deviations
MIN_SIDE = {"mini": 8, "standard": 6}  # of a candidate, in pixels
TEMPLATE_HEIGHTS = {"mini": (20, 26, 32, 38), "standard": (20, 45, 60, 100)}
NUM_TEMPLATES = 12  # per class: cluster means of its crops
NMS_IOU = 0.5


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Test mAP by name: a fixed set of boxes, copied scenes, blobs classified by neighbours, templates.

    Raises:
        DataError: the data are missing or damaged.
    """
    train, test = read_split(data_dir, "train"), read_split(data_dir, "test", labels_dir)
    num_classes = int(train[2].max()) + 1
    truth = TruthSet(test[1], test[2], num_classes)

    def score(parts: Iterator[Array]) -> float:
        return truth.mean_average_precision(np.concatenate([np.zeros((0, 7)), *parts]).astype(np.float64))

    scores = {
        "constant_boxes": score(_constant(train, len(test[0]))),
        "nearest_scene": score(_nearest_scene(train, test[0], 1)),
        f"nearest_scenes_{NUM_NEAR}": score(_nearest_scene(train, test[0], NUM_NEAR)),
        "blobs_and_neighbours": score(_blobs(suite, train, test[0])),
        "templates": score(_templates(suite, train, test[0], num_classes)),
    }
    if suite == "mini":
        scores["patches_and_ridge"] = score(patches.detections(train, test[0], num_classes))
    return scores


def _rows(image: int, boxes_D4: Any, scores_D: Any, labels_D: Any) -> Array:
    """(D, 7): image, left, top, width, height, score, class."""
    boxes_D4 = np.asarray(boxes_D4, np.float32).reshape(-1, 4)
    columns = [np.full((len(boxes_D4), 1), image), boxes_D4[:, :2], boxes_D4[:, 2:] - boxes_D4[:, :2]]
    columns += [np.asarray(scores_D).reshape(-1, 1), np.asarray(labels_D).reshape(-1, 1)]
    return np.concatenate(columns, 1).astype(np.float32)


def _constant(train: Split, num_images: int) -> Iterator[Array]:
    """Cluster centres of all training boxes, largest cluster first, each with the majority class of its cluster."""
    from sklearn.cluster import KMeans

    labels_NM = train[2]
    boxes, labels = train[1][labels_NM >= 0], labels_NM[labels_NM >= 0]
    clusters = KMeans(min(NUM_CONSTANT, len(np.unique(boxes, axis=0))), n_init=2, random_state=0).fit(boxes)
    count = np.bincount(clusters.labels_)
    majority = [np.bincount(labels[clusters.labels_ == k]).argmax() for k in range(len(count))]
    for image in range(num_images):
        yield _rows(image, clusters.cluster_centers_, count / count.max(), majority)


def _nearest_scene(train: Split, tested: Bytes, k: int) -> Iterator[Array]:
    """The boxes of the k nearest training scenes, nearest first; scenes are compared as small standardised pictures."""
    from sklearn.neighbors import NearestNeighbors

    distances, indices = NearestNeighbors(n_neighbors=k).fit(_small(train[0])).kneighbors(_small(tested))
    for image, (near, away) in enumerate(zip(indices, distances, strict=True)):
        for i, distance in zip(near, away, strict=True):
            real = train[2][i] >= 0
            yield _rows(image, train[1][i][real], np.full(real.sum(), 1 / (1 + distance)), train[2][i][real])


def _small(images_NHWC: Bytes) -> Array:
    n, height, width, _ = images_NHWC.shape
    rows, columns = (np.arange(SMALL) * size // SMALL for size in (height, width))
    grey = np.stack([np.add.reduceat(np.add.reduceat(x, rows, 0), columns, 1) for x in _grey(images_NHWC)])
    flat = grey.reshape(n, -1)
    small: Array = np.abs(flat - flat.mean(1, keepdims=True)) / (flat.std(1, keepdims=True) + 1e-3)
    return small


def _grey(images_NHWC: Bytes) -> Array:
    """Grey images (N, H, W) with the page at 0 and ink positive, whichever of the two was darker.

    The page's level is the median, the unit is the standard deviation, and the longer tail is ink. Of a colour image,
    the channel that varies most.
    """
    x = images_NHWC.astype(np.float32)
    chosen = x.std((1, 2)).argmax(-1)
    x = np.take_along_axis(x, chosen[:, None, None, None], -1)[..., 0]
    x -= np.median(x, (1, 2), keepdims=True)
    x *= np.where((x**3).mean((1, 2), keepdims=True) < 0, -1, 1)
    grey: Array = x / (x.std((1, 2), keepdims=True) + 1e-3)
    return grey


def _crops(grey_HW: Array, boxes_D4: Floats) -> Array:
    """Crops (D, P): the boxes resized bilinearly to CROP x CROP, with mean 0 and length 1."""
    height, width = grey_HW.shape
    steps = (np.arange(CROP) + 0.5) / CROP
    left, top, right, bottom = boxes_D4.T[:, :, None]
    x, y = left + (right - left) * steps - 0.5, top + (bottom - top) * steps - 0.5
    x, y = np.clip(x, 0, width - 1.001), np.clip(y, 0, height - 1.001)
    column, row = x.astype(np.int64)[:, None, :], y.astype(np.int64)[:, :, None]
    across, down = (x - np.floor(x))[:, None, :], (y - np.floor(y))[:, :, None]
    above = grey_HW[row, column] * (1 - across) + grey_HW[row, column + 1] * across
    below = grey_HW[row + 1, column] * (1 - across) + grey_HW[row + 1, column + 1] * across
    flat = (above * (1 - down) + below * down).reshape(len(boxes_D4), -1)
    flat = flat - flat.mean(1, keepdims=True)
    crops: Array = (flat / (np.linalg.norm(flat, axis=1, keepdims=True) + 1e-6)).astype(np.float32)
    return crops


def _overlap(boxes_A4: Floats, boxes_B4: Floats) -> Array:
    """IoU of every pair, (A, B)."""
    near = np.maximum(boxes_A4[:, None, :2], boxes_B4[None, :, :2])
    far = np.minimum(boxes_A4[:, None, 2:], boxes_B4[None, :, 2:])
    shared = np.clip(far - near, 0, None).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (boxes_A4, boxes_B4)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-6)  # type: ignore[no-any-return]


def _suppressed(boxes_D4: Floats, scores_D: Array, labels_D: Ints, num_kept: int = 20) -> Ints:
    """Indices that greedy suppression over all classes keeps."""
    order = np.argsort(-scores_D, kind="stable")[:400]
    kept: list[int] = []
    overlaps = _overlap(boxes_D4[order], boxes_D4[order]) > NMS_IOU
    alive = np.ones(len(order), bool)
    for rank in range(len(order)):
        if alive[rank] and len(kept) < num_kept:
            kept.append(int(order[rank]))
            alive &= ~overlaps[rank]
    return np.array(kept, np.int64)


def _candidates(suite: str, grey_HW: Array) -> Floats:
    """Boxes of the connected components above each of several thresholds, after slight smoothing."""
    from scipy.ndimage import find_objects, gaussian_filter, label

    smooth = gaussian_filter(grey_HW, 0.8)
    found = []
    for threshold in EVIDENCE[suite]:
        for rows, columns in find_objects(label(smooth > threshold)[0]):
            height, width = rows.stop - rows.start, columns.stop - columns.start
            if height >= MIN_SIDE[suite] and width >= MIN_SIDE[suite] // 2 and max(height, width) < len(grey_HW) // 2:
                found.append((columns.start, rows.start, columns.stop, rows.stop))
    return np.array(sorted(set(found)), np.float32).reshape(-1, 4)


def _blobs(suite: str, train: Split, tested: Bytes) -> Iterator[Array]:
    """Connected components of ink as boxes, classified by the votes of the nearest training crops.

    The crops that vote are the true boxes and the candidates found in the training scenes; a candidate has the label
    of the true box it covers best, or none, so torn digits and strokes are recognised as such.
    """
    from sklearn.neighbors import NearestNeighbors

    crops, votes = [], []
    for image, boxes, labels in zip(_grey(train[0]), train[1], train[2], strict=True):
        real = labels >= 0
        candidates = _candidates(suite, image)
        if len(candidates) and real.any():
            overlap = _overlap(candidates, boxes[real])
            best = overlap.argmax(1)
            votes.append(np.where(overlap.max(1) > 0.5, labels[real][best], -1))
            crops.append(_crops(image, candidates))
        votes.append(labels[real])
        crops.append(_crops(image, boxes[real]))
    known, votes_D = np.concatenate(crops), np.concatenate(votes)
    neighbours = NearestNeighbors(n_neighbors=min(NUM_CROPS, len(known)), algorithm="brute").fit(known)
    for index, image in enumerate(_grey(tested)):
        candidates = _candidates(suite, image)
        if not len(candidates):
            continue
        near = votes_D[neighbours.kneighbors(_crops(image, candidates), return_distance=False)]
        shares = np.stack([(near == k).mean(1) for k in range(int(votes_D.max()) + 1)], 1)
        labels, scores = shares.argmax(1), shares.max(1)
        kept = _suppressed(candidates, scores.astype(np.float32), labels)
        kept = kept[scores[kept] > 0]
        yield _rows(index, candidates[kept], scores[kept], labels[kept])


def _templates(suite: str, train: Split, tested: Bytes, num_classes: int) -> Iterator[Array]:
    """A sliding window: normalised correlation with templates of each class, at several heights and two shapes.

    Templates are cluster means of crops. Images are halved first, which puts boxes off by at most one pixel.
    """
    import torch
    from sklearn.cluster import KMeans
    from torch.nn import functional

    crops, ratios, classes = [], [], []
    for image, boxes, labels in zip(_grey(train[0]), train[1], train[2], strict=True):
        real = boxes[labels >= 0]
        crops.append(_crops(image, real))
        ratios.append((real[:, 2] - real[:, 0]) / (real[:, 3] - real[:, 1]))
        classes.append(labels[labels >= 0])
    crops_DP, classes_D = np.concatenate(crops), np.concatenate(classes)
    middles = [
        KMeans(min(NUM_TEMPLATES, len(np.unique(crops_DP[classes_D == k], axis=0))), n_init=1, random_state=0).fit(
            crops_DP[classes_D == k]
        )
        for k in range(num_classes)
    ]
    class_T = np.concatenate([np.full(len(each.cluster_centers_), k) for k, each in enumerate(middles)])
    templates = torch.from_numpy(np.concatenate([each.cluster_centers_ for each in middles])).view(-1, 1, CROP, CROP)
    windows = [
        (height // 2, max(3, round(height * ratio / 2)))
        for height in TEMPLATE_HEIGHTS[suite]
        for ratio in np.quantile(np.concatenate(ratios), (0.25, 0.75))
    ]
    half = functional.avg_pool2d(torch.from_numpy(np.ascontiguousarray(_grey(tested)))[:, None], 2)
    for index in range(len(half)):
        image = half[index : index + 1]
        boxes, scores, labels = [], [], []
        for height, width in windows:
            kernels = functional.interpolate(templates, (height, width), mode="bilinear")
            kernels = kernels - kernels.mean((2, 3), keepdim=True)
            kernels = kernels / (kernels.norm(dim=(2, 3), keepdim=True) + 1e-6)
            sums = functional.avg_pool2d(torch.cat([image, image**2], 1), (height, width), stride=1)
            deviation = (sums[:, 1:] - sums[:, :1] ** 2).clamp(min=0.02).sqrt() * (height * width) ** 0.5
            values = functional.conv2d(image, kernels)[0] / deviation[0]
            best, which = values.max(0)  # over all templates, at every position
            score, place = best.flatten().topk(min(200, best.numel()))
            left, top = 2 * (place % best.shape[1]), 2 * (place // best.shape[1])
            boxes.append(torch.stack([left, top, left + 2 * width, top + 2 * height], -1).float().numpy())
            scores.append(score.numpy())
            labels.append(class_T[which.flatten()[place].numpy()])
        boxes_D4, scores_D, labels_D = (np.concatenate(part) for part in (boxes, scores, labels))
        kept = _suppressed(boxes_D4, scores_D, labels_D)
        yield _rows(index, boxes_D4[kept], scores_D[kept], labels_D[kept])
