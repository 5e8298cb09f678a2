"""CIFAR-10 for the standard suite: the two official layouts, images in class folders, or the download.

Planes are (N, 3, 32, 32) uint8 as in the official files; the functions return images_NHWC.
"""

from __future__ import annotations

import hashlib
import pickle
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from harness.errors import DataError, printable
from workloads.image_classification.dataset import Bytes, Split

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # one label byte, then the red, green and blue planes
NUM_CLASSES = 10
PER_CLASS = {"train": 5000, "test": 1000}
SUFFIXES = (".jpg", ".jpeg", ".png")
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
MAX_BYTES = 200_000_000  # the archive has 170,498,071


def read(source: Path) -> tuple[dict[str, Split], str]:
    """Read CIFAR-10 in one of three layouts, from the folder itself or its parent; also return the layout's name.

    Raises:
        DataError: the layout is unknown, or a file is missing, damaged, or of the wrong size.
    """
    for root in (source, source / "cifar-10-batches-py", source / "cifar-10-batches-bin"):
        if (root / "batches.meta").is_file() or (root / "data_batch_1").is_file():
            return read_python_batches(root), "cifar-10-batches-py"
        if (root / "batches.meta.txt").is_file() or (root / "data_batch_1.bin").is_file():
            return read_binary_batches(root), "cifar-10-batches-bin"
        if (root / "train").is_dir() or (root / "test").is_dir():
            return read_class_folders(root), "class folders"
    raise DataError(
        f"{source}: no layout of CIFAR-10 recognised; expected cifar-10-batches-py/, cifar-10-batches-bin/, "
        "or train/<class>/ and test/<class>/ with images"
    )


def download(folder: Path, url: str = URL, sha256: str = SHA256) -> dict[str, Split]:
    """Download CIFAR-10 from its home (or `url`); the archive stays in `folder`, so that a second attempt can resume.

    Raises:
        DataError: there is no network, or the archive is not the official one.
    """
    from harness.base.download import download as fetch

    archive = folder / "cifar-10-python.tar.gz"
    folder.mkdir(exist_ok=True)
    fetch(url, archive, sha256, MAX_BYTES)
    with tarfile.open(archive, "r:gz") as members:

        def read_member(name: str) -> bytes:
            try:
                stream = members.extractfile(f"cifar-10-batches-py/{name}")
            except KeyError:
                stream = None
            if stream is None:
                raise DataError(f"{archive}: contains no file cifar-10-batches-py/{name}")
            return stream.read(MAX_BYTES)

        return _python_batches(archive, read_member)


def read_python_batches(
    folder: Path, md5: Mapping[str, str] | None = None, per_class: Mapping[str, int] = PER_CLASS
) -> dict[str, Split]:
    """Read the official Python layout: five training pickles and one test pickle."""
    return _python_batches(folder, lambda name: _read_file(folder / name), md5, per_class)


def _python_batches(
    place: Path,
    read_one: Callable[[str], bytes],
    md5: Mapping[str, str] | None = None,
    per_class: Mapping[str, int] = PER_CLASS,
) -> dict[str, Split]:
    """Check each pickle by MD5 (torchvision's list) before unpickling it, since a pickle can run code."""
    if md5 is None:
        from torchvision.datasets import CIFAR10

        md5 = dict([*CIFAR10.train_list, *CIFAR10.test_list])
    parts: dict[str, list[Split]] = {"train": [], "test": []}
    for name, expected in md5.items():
        content = read_one(name)
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != expected:
            raise DataError(f"{place / name}: MD5 is {found}, expected {expected}")
        batch = pickle.loads(content, encoding="latin1")  # noqa: S301  (its digest is known)
        planes = np.asarray(batch["data"], np.uint8).reshape(-1, 3, SIDE, SIDE)
        parts["test" if name == "test_batch" else "train"].append((planes, np.asarray(batch["labels"], np.int64)))
    return _joined(place, parts, per_class)


def read_binary_batches(folder: Path, per_class: Mapping[str, int] = PER_CLASS) -> dict[str, Split]:
    """Read the official binary layout: six files of 3,073-byte records."""
    parts: dict[str, list[Split]] = {"train": [], "test": []}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        path = folder / f"{name}.bin"
        content = _read_file(path)
        split = "test" if name == "test_batch" else "train"
        expected = RECORD * per_class[split] * NUM_CLASSES // (1 if split == "test" else 5)
        if len(content) != expected:
            raise DataError(f"{path}: {len(content)} bytes, expected {expected} ({expected // RECORD} records)")
        records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
        if records[:, 0].max() >= NUM_CLASSES:
            raise DataError(f"{path}: label {records[:, 0].max()}, expected 0 to {NUM_CLASSES - 1}")
        parts[split].append((records[:, 1:].reshape(-1, 3, SIDE, SIDE), records[:, 0].astype(np.int64)))
    return _joined(folder, parts, per_class)


def read_class_folders(folder: Path, per_class: Mapping[str, int] = PER_CLASS) -> dict[str, Split]:
    """Read `train/<class>/*` and `test/<class>/*` in jpg or png; classes are numbered in the order of their names."""
    parts: dict[str, list[Split]] = {"train": [], "test": []}
    classes: list[str] = []
    for split in parts:
        names = sorted(p.name for p in (folder / split).glob("*") if p.is_dir())
        classes = classes or names
        if len(names) != NUM_CLASSES or names != classes:
            raise DataError(f"{folder / split}: expected {NUM_CLASSES} classes, the same as in train; found {names}")
        for label, name in enumerate(names):
            paths = sorted(p for p in (folder / split / name).iterdir() if p.suffix.lower() in SUFFIXES)
            if len(paths) != per_class[split]:
                raise DataError(f"{folder / split / name}: {len(paths)} images, expected {per_class[split]}")
            pixels = np.stack(list(_decoded(paths)))
            parts[split].append((pixels.transpose(0, 3, 1, 2), np.full(len(paths), label, np.int64)))
    return _joined(folder, parts, per_class)


def _decoded(paths: list[Path]) -> Iterator[Bytes]:
    from PIL import Image, UnidentifiedImageError

    for path in paths:
        try:
            with Image.open(path) as image:
                pixels = np.asarray(image.convert("RGB"))
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            raise DataError(f"{path} is damaged: {printable(error)}") from None
        if pixels.shape != (SIDE, SIDE, 3):
            raise DataError(f"{path}: {pixels.shape[1]}x{pixels.shape[0]} pixels, expected {SIDE}x{SIDE}")
        yield pixels


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _joined(folder: Path, parts: Mapping[str, list[Split]], per_class: Mapping[str, int]) -> dict[str, Split]:
    """Join planes (N, 3, H, W) into images_NHWC, and check the number of images per class."""
    splits = {}
    for split, batches in parts.items():
        images = np.concatenate([planes for planes, _ in batches]).transpose(0, 2, 3, 1)
        labels = np.concatenate([labels for _, labels in batches])
        counts = np.bincount(labels, minlength=NUM_CLASSES).tolist()
        if len(images) != len(labels) or counts != [per_class[split]] * NUM_CLASSES:
            raise DataError(f"{folder}: {split} images per class are {counts}, expected {per_class[split]} of each")
        splits[split] = (np.ascontiguousarray(images), labels)
    return splits
