"""Writes COCO 2017's layout in small: images of odd sizes, of which some are grey or CMYK, with boxes around squares.

Among them are images without an object, with a crowd, with only a crowd, and boxes that reach over an edge, are empty,
or have fractions of pixels.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

NUM_IMAGES = {"train": 17, "test": 7}  # that can be used; there are three more for training
SIZES = ((64, 48), (48, 64), (97, 41), (41, 97), (64, 47), (50, 50))  # width, height
CATEGORIES = [number for number in range(1, 91) if number not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
COLOURS = {1: (200, 40, 40), 90: (40, 40, 200), 44: (40, 200, 40)}


def write(root: Path, backbone: dict[str, Any]) -> Path:
    """Write `train2017/`, `val2017/`, `annotations/` and the file of the backbone's weights below `root`."""
    import torch

    random = np.random.RandomState(0)
    (root / "annotations").mkdir(parents=True)
    for official, count in (("train2017", NUM_IMAGES["train"] + 3), ("val2017", NUM_IMAGES["test"])):
        (root / official).mkdir()
        images, annotations = [], []
        for n in range(count):
            number = 1000 * len(official) + 7 * n  # the numbers of the two splits differ
            width, height = SIZES[n % len(SIZES)]
            boxes = [] if n == 3 else [_box(random, width, height) for _ in range(1 + n % 3)]
            (root / official / f"{number:012d}.jpg").write_bytes(_jpeg(random, n, width, height, boxes))
            images.append({"id": number, "file_name": f"{number:012d}.jpg", "width": width, "height": height})
            found = [_annotation(number, category, box) for category, box in boxes]
            if n == 5:
                found[0]["iscrowd"] = 1
            if n == 7:  # one that is empty and one that reaches over the edge, as there are in COCO
                found.append(_annotation(number, 1, (5.0, 5.0, 0.0, 8.0)))
                found.append(_annotation(number, 44, (width - 10.5, 3.25, 20.0, 8.5)))
            if n in (9, 11) and official == "train2017":
                found = [{**found[0], "iscrowd": 1}] if n == 9 else [_annotation(number, 1, (5.0, 5.0, 0.0, 8.0))]
            annotations += found
        for id_, annotation in enumerate(annotations, 1):
            annotation["id"] = id_
        categories = [{"id": number, "name": f"thing {number}", "supercategory": "thing"} for number in CATEGORIES]
        content = {"info": {}, "images": images[::-1], "annotations": annotations, "categories": categories}
        (root / "annotations" / f"instances_{official}.json").write_text(json.dumps(content))
    torch.save(backbone, root / "resnet50-0676ba61.pth")
    return root


def backbone_digest(root: Path) -> str:
    return hashlib.sha256((root / "resnet50-0676ba61.pth").read_bytes()).hexdigest()


def pack(root: Path) -> dict[str, str]:
    """Replace the folders below `root` by archives named as the official ones; return their MD5 by name."""
    found = {}
    for folder, name in (
        ("train2017", "train2017"),
        ("val2017", "val2017"),
        ("annotations", "annotations_trainval2017"),
    ):
        archive = root / f"{name}.zip"
        with zipfile.ZipFile(archive, "w") as members:
            for path in sorted((root / folder).iterdir()):
                members.write(path, f"{folder}/{path.name}")
        shutil.rmtree(root / folder)
        found[archive.name] = hashlib.md5(archive.read_bytes()).hexdigest()
    return found


def _box(random: np.random.RandomState, width: int, height: int) -> tuple[int, tuple[float, float, float, float]]:
    side = random.randint(14, 26)
    left, top = random.randint(0, width - side), random.randint(0, height - side)
    return list(COLOURS)[random.randint(3)], (left + 0.25, top + 0.5, side - 0.5, side - 0.75)


def _annotation(image: int, category: int, box: tuple[float, float, float, float]) -> dict[str, Any]:
    area = box[2] * box[3]
    return {"image_id": image, "category_id": category, "bbox": box, "iscrowd": 0, "area": area, "segmentation": []}


def _jpeg(random: np.random.RandomState, n: int, width: int, height: int, boxes: Any) -> bytes:
    from PIL import Image

    pixels = random.randint(90, 130, (height, width, 3)).astype(np.uint8)
    for category, (left, top, across, down) in boxes:
        pixels[round(top) : round(top + down), round(left) : round(left + across)] = COLOURS[category]
    image = Image.fromarray(pixels).convert({2: "L", 4: "CMYK"}.get(n, "RGB"))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=90)
    return stream.getvalue()
