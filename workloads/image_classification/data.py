"""The data of image classification: the contest of cluttered digits (mini) and CIFAR-10 (standard).

Whatever the source, what lies in the data folder afterwards is the same: `<split>_images.npy` (uint8, NHWC),
`<split>_labels.npy` (int64, N) and `metadata.json`.

Dimension letters: N images, H rows, W columns, C channels, S source digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pickle
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Split = tuple[Bytes, Ints]  # images_NHWC, labels_N

SUITES = ("mini", "standard")

# ---------------------------------------------------------------------------------------------- mini

FRAME = 28  # pixels a side
DIGITS_SHA256 = "c7e8dd3e5d5a0e6f0e9e3bf6d7c6b2b4"  # replaced below
MINI_SEED = 20240607
NUM_SOURCES = {"train": 1200, "validation": 237, "test": 360}  # of the 1,797 digits, disjoint
NUM_RENDERINGS = {"train": 25, "validation": 14, "test": 14}  # of each source digit


def mini_sources() -> dict[str, Ints]:
    """Which of the 1,797 digits each split is made from; disjoint, the same on every machine."""
    order_S = np.random.RandomState(MINI_SEED).permutation(sum(NUM_SOURCES.values()))
    cuts = np.cumsum(list(NUM_SOURCES.values()))[:-1]
    return {name: np.sort(part) for name, part in zip(NUM_SOURCES, np.split(order_S, cuts), strict=True)}


def _layer(source_N88: Ints, cx: Ints, cy: Ints, size: Ints, degrees: Ints, shear: Ints) -> Ints:
    """Opacity 0..4096 (N, H, W) of 8x8 pictures of values 0..16, placed by an affine map and read bilinearly.

    `cx`, `cy` are the centre in 1/16 pixel, `size` the side in 1/16 pixel, `shear` in 1/256. All integers: sines
    are rounded to 1/2**14 once, so that no machine's floating point can move a pixel.
    """
    radians = np.deg2rad(degrees)
    cos, sin = (np.rint(f(radians) * 2**14).astype(np.int64)[:, None, None] for f in (np.cos, np.sin))
    place = 16 * np.arange(FRAME, dtype=np.int64) + 8
    dx = place[None, None, :] - cx[:, None, None]
    dy = place[None, :, None] - cy[:, None, None]
    scale = (8 * 16 * 2**12 // size)[:, None, None]  # source pixels per frame pixel, 12 fraction bits
    v = (cos * dy - sin * dx) * scale >> 18  # 14 + 4 + 12 fraction bits -> 12
    u = (cos * dx + sin * dy) * scale >> 18
    u += v * shear[:, None, None] >> 8
    # A border of two zeros: whatever falls outside the 8x8 picture reads zero.
    padded = np.pad(source_N88, ((0, 0), (2, 2), (2, 2))).reshape(-1).astype(np.int32)
    u = np.clip(u + (6 * 4096 - 2048), 0, 11 * 4096 - 1).astype(np.int32)
    v = np.clip(v + (6 * 4096 - 2048), 0, 11 * 4096 - 1).astype(np.int32)
    fu, fv = (u & 4095) >> 4, (v & 4095) >> 4
    at = (v >> 12) * 12 + (u >> 12) + 144 * np.arange(len(cx), dtype=np.int32)[:, None, None]
    top = padded[at] * (256 - fu) + padded[at + 1] * fu
    bottom = padded[at + 12] * (256 - fu) + padded[at + 13] * fu
    return ((top * (256 - fv) + bottom * fv) >> 8).astype(np.int64)  # 16 * 256 = 4096
