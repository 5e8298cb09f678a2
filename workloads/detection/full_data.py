"""The data of the full suite: COCO 2017 as shards of JPEG files with their boxes, and the backbone's weights.

`train/` and `test/` are Arrow shards; `backbone.pth` is the file of the weights; `test_boxes.npy` (float64, NM4: left,
top, right, bottom) and `test_labels.npy` (int64, NM2: the category, -1 where an image has fewer than M objects, and
whether it is a crowd) are the labels of the test set. Test images are sorted by their kind, so that a batch has images
of one shape.

Dimension letters: N images, M places for objects, 4 edges of a box.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable
from workloads.detection import coco2017
from workloads.detection.coco2017 import Picture, Place
from workloads.detection.full_images import kinds

BACKBONE_FILE = "backbone.pth"
ROWS_PER_SHARD = 1000  # 160 MB
Part = tuple[Place, Sequence[Picture], bool]  # whether it is for training: then its rows have the objects


def prepare(
    data_dir: Path,
    source: Path,
    num_images: Mapping[str, int] = coco2017.NUM_IMAGES,
    md5: Mapping[str, str] = coco2017.MD5,
    backbone_sha256: str = coco2017.BACKBONE_SHA256,
) -> None:
    """Fill `data_dir` from the folder `source`: COCO 2017 in either layout, and the file of the backbone's weights.

    Raises:
        DataError: a file is missing, damaged, or not the official one.
    """
    import datasets

    from workloads.streaming.shards import Shards

    backbone = coco2017.backbone(source, backbone_sha256)
    found, categories = coco2017.pictures(source, num_images, md5)
    value = datasets.Value
    features = {"image": value("binary"), "height": value("int32"), "width": value("int32")}
    objects = {"boxes": datasets.List(datasets.List(value("float32"))), "labels": datasets.List(value("int64"))}
    with Shards(data_dir) as shards:
        for split, (place, some) in found.items():
            is_training = split == "train"
            if not is_training:
                some = test_order(some)
            parts = [
                (place, tuple(some[first : first + ROWS_PER_SHARD]), is_training)
                for first in range(0, len(some), ROWS_PER_SHARD)
            ]
            columns = datasets.Features({**features, **(objects if is_training else {})})
            shards.write(split, columns, parts, rows)
    (data_dir / BACKBONE_FILE).write_bytes(backbone)
    tested = test_order(found["test"][1])
    boxes_NM4, labels_NM2 = truth(tested)
    np.save(data_dir / "test_boxes.npy", boxes_NM4)
    np.save(data_dir / "test_labels.npy", labels_NM2)
    metadata = {
        "suite": "full",
        "source": "COCO 2017",
        "classes": {str(number): name for number, name in sorted(categories.items())},
        "num_train": len(found["train"][1]),
        "num_test": len(tested),
    }
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def rows(part: Part) -> Iterator[Mapping[str, Any]]:
    """The examples of a shard."""
    place, some, is_training = part
    for picture, content in zip(some, coco2017.jpegs(place, some), strict=True):
        row = {"image": content, "height": picture.height, "width": picture.width}
        yield {**row, "boxes": picture.boxes, "labels": picture.labels} if is_training else row


def test_order(some: Sequence[Picture]) -> list[Picture]:
    """The images of the test set by kind, and by name within a kind."""
    kind_of = kinds(*(np.array([getattr(each, side) for each in some]) for side in ("height", "width")))
    return [some[n] for n in np.argsort(kind_of, kind="stable")]


def truth(some: Sequence[Picture]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """boxes_NM4 and labels_NM2 of the test set."""
    places = max(1, *(len(picture.labels) for picture in some))
    boxes_NM4 = np.zeros((len(some), places, 4), np.float64)
    labels_NM2 = np.full((len(some), places, 2), (-1, 0), np.int64)
    for n, picture in enumerate(some):
        count = len(picture.labels)
        boxes_NM4[n, :count] = np.array(picture.boxes).reshape(-1, 4)
        labels_NM2[n, :count, 0], labels_NM2[n, :count, 1] = picture.labels, picture.is_crowd
    return boxes_NM4, labels_NM2


def read_truth(labels_dir: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Read boxes_NM4 and labels_NM2.

    Raises:
        DataError: a file is missing, damaged, or does not match the other; the message names it.
    """
    arrays = []
    for name, dtype in (("test_boxes.npy", np.float64), ("test_labels.npy", np.int64)):
        path = labels_dir / name
        try:
            array: npt.NDArray[Any] = np.load(path)
        except FileNotFoundError:
            raise DataError(f"{path} is missing; prepare the data first") from None
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} is damaged: {printable(error)}") from None
        if array.dtype != dtype or array.ndim != 3 or len(array) == 0:
            raise DataError(f"{path}: expected 3-d {np.dtype(dtype)}, found {array.dtype} of shape {array.shape}")
        arrays.append(array)
    boxes_NM4, labels_NM2 = arrays
    if boxes_NM4.shape != (*labels_NM2.shape[:2], 4) or labels_NM2.shape[2] != 2:
        raise DataError(f"{labels_dir}: boxes of shape {boxes_NM4.shape} and labels of shape {labels_NM2.shape}")
    return boxes_NM4, labels_NM2
