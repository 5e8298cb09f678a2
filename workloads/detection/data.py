"""The data of detection: scenes of handwritten digits (mini), or BCCD converted to the same form (standard).

Whatever the source, the data folder afterwards holds the same files: `<split>_images.npy` (uint8, NHWC),
`<split>_boxes.npy` (float32, NM4: left, top, right, bottom in pixels from the upper left corner, right and bottom
exclusive), `<split>_labels.npy` (int64, NM; -1 where an image has fewer than M objects), and `metadata.json`.

Dimension letters: N images, H rows, W columns, C channels, M places for objects, 4 edges of a box.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.detection.coco2017 import BACKBONE
from workloads.detection.dataset import Bytes, Floats, Ints, Split
from workloads.detection.scenes import render
from workloads.detection.voc import CLASSES, download, read

SUITES = ("mini", "standard", "full")


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or not laid out as the card says; or there is no network.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of detection", suite, SUITES))
    if suite == "mini":
        if source is not None:
            raise UsageError("detection_mini makes its own data; leave the source out")
        classes = [str(digit) for digit in range(10)]
        write(data_dir, suite, render(), classes, "handwritten digits of scikit-learn, in scenes")
        return
    if suite == "full":
        from workloads.detection import full_data

        if source is None:
            raise DataError(
                "COCO 2017 is not downloaded: fetch train2017.zip, val2017.zip and annotations_trainval2017.zip from "
                f"https://cocodataset.org, and https://download.pytorch.org/models/{BACKBONE}, into a folder, and pass "
                "it as the source"
            )
        full_data.prepare(data_dir, source)
        return
    splits = read(source) if source is not None else download(data_dir.parent / "downloads")
    write(data_dir, suite, splits, list(CLASSES), "BCCD, VOC layout")


def write(data_dir: Path, suite: str, splits: Mapping[str, Split], classes: list[str], source: str) -> None:
    """Save the arrays, and the metadata that a session may read before the clock starts."""
    images = splits["train"][0]
    # Moments from integers, hence exact: a float mean of 30 million values depends on the order of summation.
    counts = [np.bincount(images[..., c].reshape(-1), minlength=256) for c in range(images.shape[-1])]
    total = images[..., 0].size
    levels = np.arange(256)
    means = [float(count @ levels) / total for count in counts]
    stds = [(float(n @ levels**2) / total - m**2) ** 0.5 for n, m in zip(counts, means, strict=True)]
    metadata: dict[str, object] = {
        "suite": suite,
        "source": source,
        "classes": classes,
        "image_shape": list(images.shape[1:]),
        "channel_mean": [round(m, 6) for m in means],
        "channel_std": [round(s, 6) for s in stds],
    }
    for name, (images, boxes, labels) in splits.items():
        for kind, array in (("images", images), ("boxes", boxes), ("labels", labels)):
            np.save(data_dir / f"{name}_{kind}.npy", array)
        metadata[f"num_{name}"] = len(images)
        metadata[f"max_objects_{name}"] = labels.shape[1]
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_split(data_dir: Path, split: str, labels_dir: Path | None = None) -> Split:
    """Read one prepared split. labels_dir: where its boxes and labels are; None for `data_dir`.

    Raises:
        DataError: a file is missing, damaged, or does not match the others; the message names it.
    """
    images = read_images(data_dir, split)
    boxes, labels = read_objects(labels_dir or data_dir, split, images.shape[1:3])
    if len(images) != len(labels):
        raise DataError(f"{data_dir}: {len(images)} {split} images but labels of shape {labels.shape}")
    return images, boxes, labels


def read_images(data_dir: Path, split: str) -> Bytes:
    """Read the images_NHWC of one prepared split.

    Raises:
        DataError: the file is missing or damaged; the message names it.
    """
    images: Bytes = _read(data_dir / f"{split}_images.npy", np.dtype(np.uint8), 4)
    return images


def read_objects(folder: Path, split: str, image_size: tuple[int, ...]) -> tuple[Floats, Ints]:
    """Read the boxes_NM4 and labels_NM of one prepared split, whose images are of `image_size` (H, W).

    Raises:
        DataError: a file is missing, damaged, or does not match the other; the message names it.
    """
    boxes: Floats = _read(folder / f"{split}_boxes.npy", np.dtype(np.float32), 3)
    labels: Ints = _read(folder / f"{split}_labels.npy", np.dtype(np.int64), 2)
    if boxes.shape != (*labels.shape, 4):
        raise DataError(f"{folder}: {split} boxes of shape {boxes.shape} and labels of shape {labels.shape}")
    real = boxes[labels >= 0]
    height, width = image_size
    if not ((real[:, :2] >= 0) & (real[:, :2] < real[:, 2:]) & (real[:, 2:] <= (width, height))).all():
        raise DataError(f"{folder}/{split}_boxes.npy: a box is empty or outside its image")
    return boxes, labels


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
