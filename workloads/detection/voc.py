"""BCCD for the standard suite: blood cells in PASCAL VOC layout, from a folder or from the official archive.

Annotations are untrusted: they are bounded in size and may not have a document type (hence no entities), and an
error names the file.
"""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from harness.errors import DataError, printable
from workloads.detection.dataset import Bytes, Floats, Split

CLASSES = ("Platelets", "RBC", "WBC")
WIDTH, HEIGHT = 640, 480
SHRINK = 2  # pictures and boxes are halved: 240x320
SPLITS = {"train": "train", "validation": "val", "test": "test"}  # tta's name -> the official list
NUM_IMAGES = {"train": 205, "validation": 87, "test": 72}
MAX_LIST_BYTES, MAX_XML_BYTES, MAX_JPEG_BYTES = 1 << 16, 1 << 16, 1 << 21
# The digest that TensorFlow Datasets publishes for this address (bccd/checksums.tsv: 7,875,205 bytes).
URL = "https://github.com/Shenggan/BCCD_Dataset/archive/v1.0.zip"
SHA256 = "97af5cc16d14d293fcb3c82a8f66e49b0339a8d0abd8e9508e0feeb4911caa1f"
MAX_BYTES = 16_000_000
IN_ARCHIVE = "BCCD_Dataset-1.0/BCCD"

ReadFile = Callable[[str, int], bytes]  # a path under BCCD/ and the maximum number of bytes


def read(source: Path) -> dict[str, Split]:
    """Read BCCD from a folder that is or contains `BCCD/` with JPEGImages, Annotations and ImageSets/Main.

    Raises:
        DataError: the layout is not there, or a file is missing, damaged, too large, or inconsistent with the others.
    """
    for root in (source, source / "BCCD", source / "BCCD_Dataset-1.0" / "BCCD"):
        if (root / "ImageSets" / "Main").is_dir():
            return _splits(str(root), lambda name, limit, root=root: _read_file(root / name, limit))  # type: ignore[misc]
    raise DataError(f"{source}: BCCD not found; expected BCCD/ImageSets/Main, BCCD/Annotations and BCCD/JPEGImages")


def download(folder: Path, url: str = URL, sha256: str = SHA256) -> dict[str, Split]:
    """Download BCCD from its home (or `url`); the archive stays in `folder`, so that a second attempt can resume.

    Raises:
        DataError: there is no network, or the archive is not the official one.
    """
    from harness.base.download import download as fetch

    archive = folder / "BCCD_Dataset-1.0.zip"
    folder.mkdir(exist_ok=True)
    fetch(url, archive, sha256, MAX_BYTES)
    try:
        with zipfile.ZipFile(archive) as members:

            def read_member(name: str, limit: int) -> bytes:
                try:
                    with members.open(f"{IN_ARCHIVE}/{name}") as stream:
                        return _bounded(f"{archive}: {name}", stream.read(limit + 1), limit)
                except KeyError:
                    raise DataError(f"{archive}: contains no file {IN_ARCHIVE}/{name}") from None

            return _splits(str(archive), read_member)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{archive} is damaged: {printable(error)}") from None


def _read_file(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return _bounded(str(path), stream.read(limit + 1), limit)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _bounded(place: str, content: bytes, limit: int) -> bytes:
    if len(content) > limit:
        raise DataError(f"{place}: more than {limit:,} bytes")
    return content


def _splits(place: str, read_one: ReadFile) -> dict[str, Split]:
    names = {split: _names(place, read_one, official) for split, official in SPLITS.items()}
    seen: dict[str, str] = {}
    for split, listed in names.items():
        for name in listed:
            if name in seen:
                raise DataError(f"{place}/ImageSets/Main: {name} is listed twice, in {seen[name]} and in {split}")
            seen[name] = split
        if len(listed) != NUM_IMAGES[split]:
            raise DataError(f"{place}/ImageSets/Main: {split} has {len(listed)} images, expected {NUM_IMAGES[split]}")
    return {split: _split(place, read_one, listed) for split, listed in names.items()}


def _names(place: str, read_one: ReadFile, official: str) -> list[str]:
    text = read_one(f"ImageSets/Main/{official}.txt", MAX_LIST_BYTES).decode("utf-8", "replace")
    names = sorted(line.strip() for line in text.splitlines() if line.strip())
    for name in names:
        # A name becomes part of a path.
        if not (name.isascii() and name.replace("_", "").isalnum()):
            raise DataError(f"{place}/ImageSets/Main/{official}.txt: {printable(name)!r} is not an image name")
    return names


def _split(place: str, read_one: ReadFile, names: list[str]) -> Split:
    pictures, objects = [], []
    for name in names:
        picture = f"JPEGImages/{name}.jpg"
        pictures.append(_decoded(f"{place}/{picture}", read_one(picture, MAX_JPEG_BYTES)))
        annotation = f"Annotations/{name}.xml"
        objects.append(_objects(f"{place}/{annotation}", read_one(annotation, MAX_XML_BYTES)))
    places = max(1, *(len(found) for found in objects))
    boxes = np.zeros((len(names), places, 4), np.float32)
    labels = np.full((len(names), places), -1, np.int64)
    for i, found in enumerate(objects):
        for j, (label, box) in enumerate(found):
            boxes[i, j], labels[i, j] = box, label
    return np.stack(pictures), boxes, labels


def _decoded(place: str, content: bytes) -> Bytes:
    """The picture at half size, (240, 320, 3): integer means of 2x2 pixels, halves rounded up."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
            image = Image.open(io.BytesIO(content), formats=("JPEG",))
        with image:
            if image.size != (WIDTH, HEIGHT):  # known from the header: nothing large is decoded
                raise DataError(f"{place}: {image.size[0]}x{image.size[1]} pixels, expected {WIDTH}x{HEIGHT}")
            pixels = np.asarray(image.convert("RGB"), np.uint16)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{place} is damaged: {printable(error)}") from None
    blocks = pixels.reshape(HEIGHT // SHRINK, SHRINK, WIDTH // SHRINK, SHRINK, 3).sum((1, 3))
    halved: Bytes = ((blocks + SHRINK**2 // 2) // SHRINK**2).astype(np.uint8)
    return halved


def _objects(place: str, content: bytes) -> list[tuple[int, Floats]]:
    """Label and box of every object in the halved picture.

    VOC counts pixels from 1 and both corners belong to the box. A box is clipped to its picture; one whose corners
    coincide in a coordinate (there are two in BCCD) encloses nothing and is dropped. The name and path in the file
    itself are ignored: only the name in the lists counts.
    """
    root = _parsed(place, content)
    for name, expected in (("width", WIDTH), ("height", HEIGHT)):
        if (found := _integer(place, root, f"size/{name}")) != expected:
            raise DataError(f"{place}: size/{name} is {found}, expected {expected}")
    objects: list[tuple[int, Floats]] = []
    for element in root.iter("object"):
        name = (element.findtext("name") or "").strip()
        if name not in CLASSES:
            raise DataError(f"{place}: unknown class {printable(name)!r}, expected one of {', '.join(CLASSES)}")
        left, top, right, bottom = (
            _integer(place, element, f"bndbox/{edge}") for edge in ("xmin", "ymin", "xmax", "ymax")
        )
        if left > right or top > bottom or right < 1 or bottom < 1 or left > WIDTH or top > HEIGHT:
            raise DataError(f"{place}: a box from ({left}, {top}) to ({right}, {bottom}) in {WIDTH}x{HEIGHT} pixels")
        if left < right and top < bottom:
            edges = max(left - 1, 0), max(top - 1, 0), min(right, WIDTH), min(bottom, HEIGHT)
            objects.append((CLASSES.index(name), np.array(edges, np.float32) / np.float32(SHRINK)))
    return objects


def _integer(place: str, element: Element, path: str) -> int:
    text = (element.findtext(path) or "").strip()
    try:
        return int(text) if len(text) < 10 else int("")
    except ValueError:
        raise DataError(f"{place}: {path} is {printable(text)!r}, expected a whole number") from None


def _parsed(place: str, content: bytes) -> Element:
    """The root element. A document type is refused, since that is the only place to declare entities."""
    builder = TreeBuilder()

    def refuse(*_: object) -> None:
        raise DataError(f"{place}: has a document type, which an annotation must not have")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DataError(f"{place} is not XML: {printable(error)}") from None
    return builder.close()
