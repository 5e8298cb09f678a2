"""The images of the full suite on their way from a shard to a batch: decoded, scaled, perhaps mirrored, padded.

An image is scaled so that its shorter side has `min_side` pixels, or its longer one `max_side`, whichever is less.
Images are of four kinds, wide or tall and up to 4:3 or beyond, and a batch has images of one kind: four shapes occur,
whatever the batch and however many devices share it.

Dimension letters: N images, H rows, W columns, M places for objects, 4 edges of a box.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from workloads.streaming.order import Ints, Order, shuffled

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

NUM_KINDS = 4
STRIDE = 32  # sides of batches are multiples of it
SHORT_RATIO = 1.36  # 1,088 / 800: COCO's 640x480 becomes 1067x800
# ImageNet's, as torchvision has them: the backbone was trained with these.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PADDING = tuple(round(255 * mean) for mean in MEAN)  # nearly 0 once it is normalised


def kinds(heights_N: Ints, widths_N: Ints) -> Ints:
    """The kind of each image: 0 wide, 1 wide beyond 4:3, 2 tall, 3 tall beyond 3:4."""
    longer_N, shorter_N = np.maximum(heights_N, widths_N), np.minimum(heights_N, widths_N)
    found_N: Ints = 2 * (heights_N > widths_N) + (longer_N > SHORT_RATIO * shorter_N)
    return found_N


def shape(kind: int, min_side: int, max_side: int) -> tuple[int, int]:
    """(H, W) of the batches of a kind."""
    longer = max_side if kind % 2 else min(max_side, round(SHORT_RATIO * min_side))
    height, width = _padded(min_side), _padded(longer)
    return (height, width) if kind < 2 else (width, height)


def _padded(side: int) -> int:
    return -(-side // STRIDE) * STRIDE


def scaled(height: int, width: int, min_side: int, max_side: int) -> tuple[int, int]:
    """(H, W) of an image of that size, scaled."""
    scale = min(min_side / min(height, width), max_side / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def grouped(kinds_N: Ints, batch_size: int, seed: int) -> Order:
    """The order of training: a permutation, of which each kind's images form batches, in the order in which these fill.

    What fills no batch is left out: fewer than `batch_size` images of each kind.
    """
    permuted = shuffled(len(kinds_N), 1, seed)

    def epoch_batches(epoch: int) -> Sequence[Ints]:
        order_N = np.asarray(permuted(epoch)).reshape(-1)
        found = []
        for kind in range(NUM_KINDS):
            places_N = np.flatnonzero(kinds_N[order_N] == kind)
            whole = places_N[: len(places_N) // batch_size * batch_size].reshape(-1, batch_size)
            found += [(places[-1], order_N[places]) for places in whole]
        return [batch for _, batch in sorted(found, key=lambda each: int(each[0]))]

    return epoch_batches


def load_training(
    rows: pa.Table, seeds: Ints, *, sides: tuple[int, int], does_flip: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """images_NHWC (uint8), boxes_NM4 in their pixels and labels_NM (-1: no object) of images of one kind.

    sides: the shorter and the longer one, at most, of a scaled image.
    """
    import torch

    images = rows["image"].to_pylist()
    heights_N, widths_N = (rows[name].to_numpy() for name in ("height", "width"))
    height, width = shape(int(kinds(heights_N, widths_N)[0]), *sides)
    objects, labels = rows["boxes"].to_pylist(), rows["labels"].to_pylist()
    places = max(map(len, labels))
    images_NHWC = np.full((len(images), height, width, 3), PADDING, np.uint8)
    boxes_NM4 = np.zeros((len(images), places, 4), np.float32)
    labels_NM = np.full((len(images), places), -1, np.int64)
    for n, (content, boxes) in enumerate(zip(images, objects, strict=True)):
        size = scaled(int(heights_N[n]), int(widths_N[n]), *sides)
        pixels_HW3 = decoded(content, size)
        edges_M4 = np.array(boxes, np.float32).reshape(-1, 4)
        edges_M4 *= np.array([size[1] / widths_N[n], size[0] / heights_N[n]] * 2, np.float32)
        if does_flip and seeds[n] & 1:
            pixels_HW3 = pixels_HW3[:, ::-1]
            edges_M4 = np.stack([size[1] - edges_M4[:, 2], edges_M4[:, 1], size[1] - edges_M4[:, 0], edges_M4[:, 3]], 1)
        images_NHWC[n, : size[0], : size[1]] = pixels_HW3
        boxes_NM4[n, : len(edges_M4)] = edges_M4
        labels_NM[n, : len(edges_M4)] = labels[n]
    return torch.from_numpy(images_NHWC), torch.from_numpy(boxes_NM4), torch.from_numpy(labels_NM)


def load_test(rows: pa.Table, seeds: Ints, *, sides: tuple[int, int], batch_size: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of one kind each, in the order of the rows, which are sorted by kind.

    images_NHWC, filled up to `batch_size`, and sizes_N4: height and width, scaled and in the file; 0 where there is no
    image.
    """
    import torch

    heights_N, widths_N = (rows[name].to_numpy() for name in ("height", "width"))
    images, kinds_N = rows["image"].to_pylist(), kinds(heights_N, widths_N)
    found = []
    for kind in np.unique(kinds_N):
        images_NHWC = np.full((batch_size, *shape(int(kind), *sides), 3), PADDING, np.uint8)
        sizes_N4 = np.zeros((batch_size, 4), np.int64)
        for n, row in enumerate(np.flatnonzero(kinds_N == kind)):
            size = scaled(int(heights_N[row]), int(widths_N[row]), *sides)
            images_NHWC[n, : size[0], : size[1]] = decoded(images[row], size)
            sizes_N4[n] = *size, heights_N[row], widths_N[row]
        found.append((torch.from_numpy(images_NHWC), torch.from_numpy(sizes_N4)))
    return found


def decoded(content: bytes, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """An image in RGB, scaled to `size` (H, W)."""
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        pixels = image.convert("RGB").resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(pixels)
