"""The data of the mini suite: scenes of scikit-learn's handwritten digits, the same bytes on every machine.

One to six digits of random scale, slant and position on a textured page, among strokes and torn digits, with noise.

Dimension letters: N pictures, D source digits, H rows, W columns, M places for objects, 4 edges of a box.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import hashlib

import numpy as np

from harness.errors import DataError
from workloads.detection.dataset import Bytes, Floats, Ints, Split

FRAME = 128  # pixels a side
PATCH = 60  # holds the largest rotated digit: 40 * (cos 15 + sin 15 + shear)
MAX_OBJECTS = 6
DIGITS_SHA256 = "7c1aa07bedb2b8d409607ccc44f6a2b99b7172248b5d137b172b9dda5a395c62"
SEED = 6128
NUM_SOURCES = {"train": 1200, "validation": 237, "test": 360}  # of the 1,797 digits; disjoint
NUM_SCENES = {"train": 2000, "validation": 320, "test": 320}
SIDES = (18, 41)  # pixels a side at which a digit's 8x8 picture is drawn
INK = 1024  # of 4096: opacity from which a pixel counts towards the digit's box
MAX_COVERED = 10  # per cent of the smaller of two boxes
NUM_TRIES = 30  # to find a free place; after that the scene does without the digit
RENDER_AT_ONCE = 500


def sources() -> dict[str, Ints]:
    """Indices of the digits (of 1,797) that each split is made from; disjoint, the same on every machine."""
    order = np.random.RandomState(SEED).permutation(sum(NUM_SOURCES.values()))
    cuts = np.cumsum(list(NUM_SOURCES.values()))[:-1]
    return {name: np.sort(part) for name, part in zip(NUM_SOURCES, np.split(order, cuts), strict=True)}


def render() -> dict[str, Split]:
    """Render train, validation and test of the mini suite.

    `RandomState` streams are frozen by numpy's policy (NEP 19) and the geometry is in integers, so the
    bytes depend on neither machine nor version.

    Raises:
        DataError: the installed scikit-learn ships other digits than those the data set is made of.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits_D88, labels_D = bunch.images.astype(np.int32), bunch.target.astype(np.int64)
    found = hashlib.sha256(digits_D88.astype("<i4").tobytes() + labels_D.astype("<i8").tobytes()).hexdigest()
    if found != DIGITS_SHA256:
        raise DataError(
            f"scikit-learn's digits have sha256 {found}, expected {DIGITS_SHA256}: this would be another data set"
        )
    splits = {}
    for stream, (name, which) in enumerate(sources().items()):
        random = np.random.RandomState(SEED + 1 + stream)
        scenes = [_scene(random, digits_D88[which], labels_D[which]) for _ in range(NUM_SCENES[name])]
        images, boxes, labels = (np.stack(part) for part in zip(*scenes, strict=True))
        splits[name] = (images[..., None], boxes, labels)
    return splits


def _scene(random: np.random.RandomState, digits_D88: Ints, labels_D: Ints) -> tuple[Bytes, Floats, Ints]:
    """Draw one page (H, W): texture, strokes, torn digits, whole digits, noise; with boxes (M, 4) and labels (M,)."""

    def draw(low: int, high: int, *shape: int) -> Ints:
        return random.randint(low, high, size=shape, dtype=np.int64)

    # Always draw every quantity for six digits, so that the stream does not depend on how many find a place.
    num = int(draw(1, MAX_OBJECTS + 1))
    texture = [
        _placed(draw(0, 17, 1, 8, 8), draw(0, 16, 1), draw(0, 16, 1), draw(*sides, 1) * 16, draw(0, 360, 1), FRAME, 8)[
            0
        ]
        for sides in ((100, 180), (40, 80))
    ]
    level = (draw(80, 176) << 12) + texture[0] * draw(-40, 41) + texture[1] * draw(-40, 41)
    sign = 2 * draw(0, 2) - 1  # ink darker or lighter than the paper
    for _ in range(draw(0, 5)):
        level += _stroke(draw(0, FRAME, 4), int(draw(16, 40))) * sign * draw(50, 110)
    which = draw(0, len(digits_D88), 2 * MAX_OBJECTS)
    pictures_88 = digits_D88[which]
    kept = draw(0, 4, MAX_OBJECTS)
    for side, lost in enumerate((np.s_[:4, :], np.s_[4:, :], np.s_[:, :4], np.s_[:, 4:])):
        pictures_88[MAX_OBJECTS:][(kept == side, *lost)] = 0
    still, count = np.zeros(2 * MAX_OBJECTS, np.int64), 2 * MAX_OBJECTS
    size = draw(*SIDES, count) * 16
    patches = _placed(pictures_88, still, still, size, draw(-15, 16, count), PATCH, 0, draw(-40, 41, count))
    contrast = sign * draw(70, 121, count)
    corners = draw(0, 2**16, count, NUM_TRIES, 2)
    num_torn = int(draw(0, 4))
    for i in range(MAX_OBJECTS, MAX_OBJECTS + num_torn):
        x, y = (int(c) * (FRAME - PATCH) >> 16 for c in corners[i, 0])
        level[y : y + PATCH, x : x + PATCH] += patches[i] * contrast[i]
    # The faint fringe of ink around a box is drawn too, if need be beyond the edge of the page.
    page = np.pad(level, PATCH)
    boxes, labels = np.zeros((MAX_OBJECTS, 4), np.int64), np.full(MAX_OBJECTS, -1, np.int64)
    placed = 0
    for i in range(num):
        rows, columns = (np.flatnonzero((patches[i] >= INK).any(axis)) for axis in (1, 0))
        top, left = int(rows[0]), int(columns[0])
        height, width = int(rows[-1]) + 1 - top, int(columns[-1]) + 1 - left
        for cx, cy in corners[i]:
            x, y = int(cx) * (FRAME - width + 1) >> 16, int(cy) * (FRAME - height + 1) >> 16
            box = np.array([x, y, x + width, y + height])
            if _is_free(box, boxes[:placed]):
                down, right = PATCH + y - top, PATCH + x - left
                page[down : down + PATCH, right : right + PATCH] += patches[i] * contrast[i]
                boxes[placed], labels[placed] = box, labels_D[which[i]]
                placed += 1
                break
    noise = draw(-128, 128, FRAME, FRAME) * draw(2, 12) >> 7
    image = np.clip((page[PATCH:-PATCH, PATCH:-PATCH] >> 12) + noise, 0, 255).astype(np.uint8)
    return image, boxes.astype(np.float32), labels


def _is_free(box: Ints, others_M4: Ints) -> bool:
    """Whether `box` shares at most MAX_COVERED per cent of the smaller area with each of the others."""
    shared = np.clip(np.minimum(box[2:], others_M4[:, 2:]) - np.maximum(box[:2], others_M4[:, :2]), 0, None).prod(1)
    smaller = np.minimum((box[2:] - box[:2]).prod(), (others_M4[:, 2:] - others_M4[:, :2]).prod(1))
    return bool((100 * shared <= MAX_COVERED * smaller).all())


def _stroke(ends_4: Ints, width: int) -> Ints:
    """Opacity (H, W), 0..4096, of a straight stroke between two points; `width` in 1/8 pixel."""
    x0, y0, x1, y1 = (int(end) for end in ends_4)
    dx, dy = x1 - x0, y1 - y0
    length2 = max(1, dx * dx + dy * dy)
    px, py = np.arange(FRAME)[None, :] - x0, np.arange(FRAME)[:, None] - y0
    along = np.clip(px * dx + py * dy, 0, length2)  # of length2
    ex, ey = (64 * px - 64 * along * dx // length2), (64 * py - 64 * along * dy // length2)
    half = 4 * width  # in 1/64 pixel
    opacity: Ints = np.clip((half * half - ex * ex - ey * ey) * 4096 // (half * half), 0, 4096)
    return opacity


def _placed(
    pictures_N88: Ints, cx: Ints, cy: Ints, size: Ints, degrees: Ints, frame: int, tiles: int, shear: Ints | None = None
) -> Ints:
    """Opacity (N, frame, frame), 0..4096, of pictures of values 0..16 under an affine map, sampled bilinearly.

    (cx, cy) is the offset of a picture's centre from the frame's and `size` its side, all in 1/16 pixel; `shear` is in
    1/256. `tiles`: 8 repeats the picture over the plane, 0 places it once. Sines are rounded to 1/2**14 once and
    everything else is integers, so floating point cannot move a pixel on any machine.
    """
    cos, sin = (np.rint(f(np.deg2rad(degrees)) * 2**14).astype(np.int64)[:, None, None] for f in (np.cos, np.sin))
    pixel = 16 * np.arange(frame) + 8 - 8 * frame
    dx = pixel[None, None, :] - cx[:, None, None]
    dy = pixel[None, :, None] - cy[:, None, None]
    scale = (8 * 16 * 2**12 // size)[:, None, None]  # picture pixels per frame pixel, 12 fraction bits
    v = (cos * dy - sin * dx) * scale >> 22  # 14 + 4 + 12 fraction bits to 8
    u = (cos * dx + sin * dy) * scale >> 22
    if shear is not None:
        u = u + (v * shear[:, None, None] >> 8)
    if tiles:
        padded, stride = np.pad(pictures_N88, ((0, 0), (0, 1), (0, 1)), mode="wrap"), 9
        u, v = (w + (4 * 256 - 128) & 8 * 256 - 1 for w in (u, v))
    else:
        # A border of two zeros: samples outside the picture read zero. 6 is its centre, less half a pixel.
        padded, stride = np.pad(pictures_N88, ((0, 0), (2, 2), (2, 2))), 12
        u, v = (np.clip(w + (6 * 256 - 128), 0, 11 * 256 - 1) for w in (u, v))
    flat, right, down = padded.reshape(-1), u & 255, v & 255
    corner = (v >> 8) * stride + (u >> 8) + stride * stride * np.arange(len(size))[:, None, None]
    top = flat[corner] * (256 - right) + flat[corner + 1] * right
    bottom = flat[corner + stride] * (256 - right) + flat[corner + stride + 1] * right
    opacity: Ints = top * (256 - down) + bottom * down >> 8
    return opacity
