"""From compressed images to pixels: what worker processes do for the full suite.

Dimension letters: N images, H rows, W columns, C channels.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import io
import math
import random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torch import Tensor

from harness.errors import DataError, printable
from workloads.image_classification.imagenet import DAMAGE

if TYPE_CHECKING:
    import pyarrow as pa

SIDE = 224  # pixels
TEST_SIDE = 256  # the shorter side of a test image, before its centre is taken
MIN_AREA = 0.08  # of the image, in a random crop
MAX_RATIO = 4 / 3  # of a random crop's sides, either way
NUM_TRIES = 10

Box = tuple[int, int, int, int]


def load_training(rows: pa.Table, seeds: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Randomly cropped and mirrored images_NHWC (uint8), and their labels_N."""
    pixels_NHWC = np.empty((len(rows), SIDE, SIDE, 3), np.uint8)
    for i, (content, seed) in enumerate(zip(rows["image"].to_pylist(), seeds.tolist(), strict=True)):
        image = decoded(content)
        dice = random.Random(seed)  # noqa: S311 (its numbers are the same with every version of Python)
        box = random_crop(image.width, image.height, dice)
        image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box)
        pixels_NHWC[i] = np.asarray(ImageOps.mirror(image) if dice.random() < 0.5 else image)
    return torch.from_numpy(pixels_NHWC), torch.from_numpy(rows["label"].to_numpy().astype(np.int64))


def load_test(rows: pa.Table, seeds: npt.NDArray[np.int64]) -> Tensor:
    """The centres of the images, images_NHWC (uint8)."""
    pixels_NHWC = np.empty((len(rows), SIDE, SIDE, 3), np.uint8)
    for i, content in enumerate(rows["image"].to_pylist()):
        image = decoded(content)
        scale = TEST_SIDE / min(image.size)
        size = (max(TEST_SIDE, int(image.width * scale)), max(TEST_SIDE, int(image.height * scale)))
        image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = round((image.width - SIDE) / 2), round((image.height - SIDE) / 2)
        pixels_NHWC[i] = np.asarray(image.crop((left, top, left + SIDE, top + SIDE)))
    return torch.from_numpy(pixels_NHWC)


def decoded(content: bytes) -> Image.Image:
    """The image in RGB, whatever it was: grey, CMYK, with a palette. A note in EXIF that it is turned is not followed,
    as in every published result on ImageNet.

    Raises:
        DataError: it is damaged.
    """
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.convert("RGB")
    except DAMAGE as error:
        raise DataError(f"a prepared image is damaged: {printable(error)}; prepare the data again") from None


def random_crop(width: int, height: int, dice: random.Random) -> Box:
    """A box (left, top, right, bottom) of random area and shape, as torchvision's RandomResizedCrop draws it.

    After Szegedy et al. 2015 (arXiv:1409.4842): an area of 8 to 100 %, a ratio of the sides of 3/4 to 4/3; after ten
    boxes that do not fit, the centre.
    """
    bound = math.log(MAX_RATIO)
    for _ in range(NUM_TRIES):
        area = width * height * dice.uniform(MIN_AREA, 1.0)
        ratio = math.exp(dice.uniform(-bound, bound))
        columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            left, top = dice.randint(0, width - columns), dice.randint(0, height - rows)
            return left, top, left + columns, top + rows
    columns, rows = min(width, round(height * MAX_RATIO)), min(height, round(width * MAX_RATIO))
    left, top = (width - columns) // 2, (height - rows) // 2
    return left, top, left + columns, top + rows
