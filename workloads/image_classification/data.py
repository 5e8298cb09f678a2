"""The data of image classification: cluttered digits (mini), or CIFAR-10 converted to the same form (standard).

Whatever the source, the data folder afterwards holds the same files: `<split>_images.npy` (uint8, NHWC),
`<split>_labels.npy` (int64, N) for train and test (mini: validation too), and `metadata.json`.

Dimension letters: N images, H rows, W columns, C channels.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.image_classification.cifar10 import download, read
from workloads.image_classification.dataset import Bytes, Ints, Split

SUITES = ("mini", "standard")


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or in none of the card's layouts; or there is no network.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of image_classification", suite, SUITES))
    if suite == "mini":
        if source is not None:
            raise UsageError("image_classification_mini makes its own data; leave the source out")
        _write(data_dir, suite, render_mini(), "handwritten digits of scikit-learn, rendered")
    elif source is not None:
        splits, layout = read(source)
        _write(data_dir, suite, splits, layout)
    else:
        _write(data_dir, suite, download(data_dir.parent / "downloads"), "cifar-10-batches-py")


def _write(data_dir: Path, suite: str, splits: Mapping[str, Split], source: str) -> None:
    images, labels = splits["train"]
    # Moments from integers, hence exact: a float mean of 150 million values depends on the order of summation.
    counts = [np.bincount(images[..., c].reshape(-1), minlength=256) for c in range(images.shape[-1])]
    total = images[..., 0].size
    levels = np.arange(256)
    means = [float(count @ levels) / total for count in counts]
    stds = [(float(n @ levels**2) / total - m**2) ** 0.5 for n, m in zip(counts, means, strict=True)]
    metadata: dict[str, object] = {
        "suite": suite,
        "source": source,
        "num_classes": int(labels.max()) + 1,
        "image_shape": list(images.shape[1:]),
        "channel_mean": [round(m, 6) for m in means],
        "channel_std": [round(s, 6) for s in stds],
    }
    for name, (images, labels) in splits.items():
        np.save(data_dir / f"{name}_images.npy", images)
        np.save(data_dir / f"{name}_labels.npy", labels)
        metadata[f"num_{name}"] = len(labels)
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_split(data_dir: Path, split: str, labels_dir: Path | None = None) -> Split:
    """Read one prepared split: images_NHWC uint8, labels_N int64. labels_dir: None for `data_dir`.

    Raises:
        DataError: a file is missing, damaged, or does not match the other; the message names it.
    """
    images, labels = read_images(data_dir, split), read_labels(labels_dir or data_dir, split)
    if len(images) != len(labels):
        raise DataError(f"{data_dir}: {len(images)} {split} images but {len(labels)} labels")
    return images, labels


def read_images(data_dir: Path, split: str) -> Bytes:
    """Read the images_NHWC of one prepared split.

    Raises:
        DataError: the file is missing or damaged; the message names it.
    """
    images: Bytes = _read(data_dir / f"{split}_images.npy", np.dtype(np.uint8), 4)
    return images


def read_labels(labels_dir: Path, split: str) -> Ints:
    """Read the labels_N of one prepared split.

    Raises:
        DataError: the file is missing or damaged; the message names it.
    """
    labels: Ints = _read(labels_dir / f"{split}_labels.npy", np.dtype(np.int64), 1)
    return labels


def _read(path: Path, dtype: np.dtype[Any], ndim: int) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if array.dtype != dtype or array.ndim != ndim or len(array) == 0:
        raise DataError(f"{path}: expected {ndim}-d {dtype}, found {array.dtype} of shape {array.shape}")
    return array


# ---- mini: digits of random scale, rotation, offset and contrast among fragments of other digits

FRAME = 28  # pixels a side
DIGITS_SHA256 = "7c1aa07bedb2b8d409607ccc44f6a2b99b7172248b5d137b172b9dda5a395c62"
MINI_SEED = 1797
NUM_SOURCES = {"train": 1200, "validation": 237, "test": 360}  # of the 1,797 digits; disjoint
NUM_RENDERINGS = {"train": 25, "validation": 14, "test": 14}  # of each source digit
NUM_FRAGMENTS = 2
RENDER_AT_ONCE = 2000  # images; the coordinates of such a chunk stay below 15 MB


def mini_sources() -> dict[str, Ints]:
    """Indices of the digits (of 1,797) that each split is made from; disjoint, the same on every machine."""
    order = np.random.RandomState(MINI_SEED).permutation(sum(NUM_SOURCES.values()))
    cuts = np.cumsum(list(NUM_SOURCES.values()))[:-1]
    return {name: np.sort(part) for name, part in zip(NUM_SOURCES, np.split(order, cuts), strict=True)}


def render_mini() -> dict[str, Split]:
    """Render train, validation and test of the mini suite.

    `RandomState` streams are frozen by numpy's policy (NEP 19) and the geometry is in integers, so the
    bytes depend on neither machine nor version.

    Raises:
        DataError: the installed scikit-learn ships other digits than those the data set is made of.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits_N88, labels_N = bunch.images.astype(np.int32), bunch.target.astype(np.int64)
    found = hashlib.sha256(digits_N88.astype("<i4").tobytes() + labels_N.astype("<i8").tobytes()).hexdigest()
    if found != DIGITS_SHA256:
        raise DataError(
            f"scikit-learn's digits have sha256 {found}, expected {DIGITS_SHA256}: this would be another data set"
        )
    splits = {}
    for stream, (name, sources) in enumerate(mini_sources().items()):
        random = np.random.RandomState(MINI_SEED + 1 + stream)
        which = np.repeat(sources, NUM_RENDERINGS[name])
        chunks = np.split(which, range(RENDER_AT_ONCE, len(which), RENDER_AT_ONCE))
        images = [_render(random, digits_N88[chunk], digits_N88[sources]) for chunk in chunks]
        splits[name] = (np.concatenate(images)[..., None], labels_N[which])
    return splits


def _render(random: np.random.RandomState, digits_N88: Ints, others_88: Ints) -> Bytes:
    """Draw frames (N, H, W): texture, then fragments of `others_88`, then the digit, then noise."""
    n, side = len(digits_N88), 16 * FRAME

    def draw(low: int, high: int, *shape: int) -> Ints:
        return random.randint(low, high, size=(n, *shape), dtype=np.int64)

    still = np.zeros(n, np.int64)
    texture = _place(draw(0, 17, 8, 8), draw(0, side), draw(0, side), draw(30 * 16, 70 * 16), draw(0, 360), still)
    level = (draw(60, 140)[:, None, None] << 12) + texture * draw(5, 40)[:, None, None]
    sign = 2 * draw(0, 2) - 1  # ink darker or lighter than the paper
    for _ in range(NUM_FRAGMENTS):
        half_N88 = others_88[draw(0, len(others_88))].copy()
        kept = draw(0, 4)
        for which, lost in enumerate((np.s_[:4, :], np.s_[4:, :], np.s_[:, :4], np.s_[:, 4:])):
            half_N88[(kept == which, *lost)] = 0
        size = draw(7 * 16, 12 * 16)
        opacity = _place(half_N88, draw(0, side), draw(0, side), size, draw(0, 360), still)
        level += opacity * (sign * draw(70, 120))[:, None, None]
    size = draw(15 * 16, 22 * 16)
    margin = size * 3 // 8  # 3/8 of a digit's side; the remaining eighth up to its edge is mostly paper
    cx, cy = (margin + (draw(0, 2**16) * (side - 2 * margin) >> 16) for _ in range(2))
    opacity = _place(digits_N88, cx, cy, size, draw(-20, 21), draw(-40, 41))
    level += opacity * (sign * draw(70, 120))[:, None, None]
    noise = draw(-128, 128, FRAME, FRAME) * draw(2, 16)[:, None, None]
    return np.clip((level >> 12) + (noise >> 7), 0, 255).astype(np.uint8)


def _place(pictures_N88: Ints, cx: Ints, cy: Ints, size: Ints, degrees: Ints, shear: Ints) -> Ints:
    """Opacity (N, H, W), 0..4096, of pictures of values 0..16 under an affine map, sampled bilinearly.

    Centre and side are in 1/16 pixel of the frame, shear in 1/256. Sines are rounded to 1/2**14 once and
    everything else is integers, so floating point cannot move a pixel on any machine.
    """
    cos, sin = (np.rint(f(np.deg2rad(degrees)) * 2**14).astype(np.int64)[:, None, None] for f in (np.cos, np.sin))
    pixel = 16 * np.arange(FRAME) + 8
    dx = pixel[None, None, :] - cx[:, None, None]
    dy = pixel[None, :, None] - cy[:, None, None]
    scale = (8 * 16 * 2**12 // size)[:, None, None]  # picture pixels per frame pixel, 12 fraction bits
    v = (cos * dy - sin * dx) * scale >> 22  # 14 + 4 + 12 fraction bits to 8
    u = ((cos * dx + sin * dy) * scale >> 22) + (v * shear[:, None, None] >> 8)
    # A border of two zeros: samples outside the picture read zero. 6 is its centre, less half a pixel.
    padded = np.pad(pictures_N88, ((0, 0), (2, 2), (2, 2))).reshape(-1).astype(np.int32)
    u, v = (np.clip(w + (6 * 256 - 128), 0, 11 * 256 - 1).astype(np.int32) for w in (u, v))
    right, down = u & 255, v & 255
    corner = (v >> 8) * 12 + (u >> 8) + 144 * np.arange(len(cx), dtype=np.int32)[:, None, None]
    top = padded[corner] * (256 - right) + padded[corner + 1] * right
    bottom = padded[corner + 12] * (256 - right) + padded[corner + 13] * right
    opacity: Ints = (top * (256 - down) + bottom * down >> 8).astype(np.int64)
    return opacity
