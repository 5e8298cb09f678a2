"""COCO 2017 for the full suite: its images and boxes, from the official archives or their folders.

Annotations are untrusted: only what is used of them is parsed, and an error names the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.errors import DataError, printable

Edges = tuple[float, float, float, float]  # left, top, right, bottom, in pixels from the upper left corner

SPLITS = {"train": "train2017", "test": "val2017"}  # tta's name -> the official one
ANNOTATIONS = "annotations_trainval2017.zip"
# Of 118,287 training images, those with an object to learn: as many as Detectron2 and torchvision train on.
NUM_IMAGES = {"train": 117_266, "test": 5_000}
NUM_CATEGORIES = 80
# COCO itself publishes no digests; these are the ones that PaddleDetection, among others, checks its downloads with.
MD5 = {
    "train2017.zip": "cced6f7f71b7629ddf16f17bbcfab6b2",
    "val2017.zip": "442b8da7639aecaf257c1dceb8ba8c80",
    ANNOTATIONS: "f4bbac642086de4f52a3fdda2de5fa2c",
}
# torchvision's ResNet50_Weights.IMAGENET1K_V1, from https://download.pytorch.org/models/; the name has the beginning of
# the SHA-256, which torchvision checks.
BACKBONE = "resnet50-0676ba61.pth"
BACKBONE_SHA256 = "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a"
MAX_JPEG_BYTES, MAX_JSON_BYTES = 8 << 20, 2 << 30
MAX_SIDE = 2048  # pixels; the longest in COCO are 640
_NAME = re.compile(r"\d{12}\.jpg")


class _Image(msgspec.Struct):
    id: int
    file_name: str
    height: int
    width: int


class _Annotation(msgspec.Struct):
    image_id: int
    category_id: int
    bbox: Edges  # left, top, width, height
    iscrowd: int


class _Category(msgspec.Struct):
    id: int
    name: str


class _Instances(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """An image with its objects: the box, the category and whether it is a crowd, of each."""

    name: str
    height: int
    width: int
    boxes: tuple[Edges, ...]
    labels: tuple[int, ...]
    is_crowd: tuple[bool, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a split's images are: a folder, or an archive with the folder `folder` in it."""

    path: Path
    folder: str | None = None


def backbone(source: Path, sha256: str = BACKBONE_SHA256) -> bytes:
    """Return the file of the backbone's weights.

    Raises:
        DataError: it is not in `source`, or is another file.
    """
    path = source / BACKBONE
    if not path.is_file():
        raise DataError(f"{path} is missing: fetch https://download.pytorch.org/models/{BACKBONE} into that folder")
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise DataError(f"{path}: SHA-256 is {found}, expected {sha256}; fetch it again")
    return content


def pictures(
    source: Path, num_images: Mapping[str, int] = NUM_IMAGES, md5: Mapping[str, str] = MD5
) -> tuple[dict[str, tuple[Place, list[Picture]]], dict[int, str]]:
    """Return, by split, where its images are and what is in them, by name; and the names of the categories by number.

    source: a folder with `train2017/`, `val2017/` and `annotations/`, or with the official archives of these. Boxes to
    train on are clipped to their images; those of crowds and those without an area are left out, and so are images
    without any other. Those of the test set are as the annotations have them.

    Raises:
        DataError: the layout is unknown, or a file is missing, damaged, or not the official one.
    """
    found: dict[str, tuple[Place, list[Picture]]] = {}
    categories: dict[int, str] = {}
    for split, official in SPLITS.items():
        place, instances = _place(source, official, md5), _instances(source, official, md5)
        named = {category.id: category.name for category in instances.categories}
        if len(named) != NUM_CATEGORIES or not 1 <= min(named) <= max(named) <= 90 or (categories or named) != named:
            raise DataError(f"{source}: the categories of {official} are not COCO's 80, numbered from 1 to 90")
        categories = named
        some = _pictures(f"{source}: instances_{official}.json", instances, is_training=split == "train")
        if len(some) != num_images[split]:
            raise DataError(f"{source}: {len(some):,} images of {official} are usable, expected {num_images[split]:,}")
        found[split] = place, some
    return found, categories


def _place(source: Path, official: str, md5: Mapping[str, str]) -> Place:
    if (source / official).is_dir():
        return Place(source / official)
    return Place(_archive(source, f"{official}.zip", f"{official}/", md5), official)


def _archive(source: Path, name: str, else_folder: str, md5: Mapping[str, str]) -> Path:
    path = source / name
    if not path.is_file():
        raise DataError(f"{source}: neither {else_folder} nor {name} is there; is this COCO 2017?")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5[name]:
        raise DataError(f"{path}: MD5 is {found}, expected {md5[name]}; fetch it again")
    return path


def _instances(source: Path, official: str, md5: Mapping[str, str]) -> _Instances:
    name = f"annotations/instances_{official}.json"
    path = source / name
    try:
        if path.is_file():
            content = path.read_bytes()
        else:
            archive = _archive(source, ANNOTATIONS, name, md5)
            path = archive / name
            with _damage(archive), zipfile.ZipFile(archive) as members:
                content = _member(archive, members, name, MAX_JSON_BYTES)
        return msgspec.json.decode(content, type=_Instances)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None


def _pictures(place: str, instances: _Instances, is_training: bool) -> list[Picture]:
    objects: dict[int, list[_Annotation]] = {image.id: [] for image in instances.images}
    categories = {category.id for category in instances.categories}
    for annotation in instances.annotations:
        is_sane = all(map(math.isfinite, annotation.bbox)) and min(annotation.bbox[2:]) >= 0
        if annotation.image_id not in objects or annotation.category_id not in categories or not is_sane:
            raise DataError(
                f"{place}: an annotation of image {annotation.image_id} has no image, no category, or no box"
            )
        objects[annotation.image_id].append(annotation)
    found = []
    for image in sorted(instances.images, key=lambda image: image.file_name):
        if not _NAME.fullmatch(image.file_name) or not 1 <= min(image.height, image.width) <= MAX_SIDE:
            raise DataError(f"{place}: image {printable(image.file_name)!r} of {image.width}x{image.height} pixels")
        found.append(_picture(image, objects.pop(image.id, []), is_training))
    if len({picture.name for picture in found}) != len(found):
        raise DataError(f"{place}: two images have the same name")
    return [picture for picture in found if len(picture.labels) or not is_training]


def _picture(image: _Image, objects: Sequence[_Annotation], is_training: bool) -> Picture:
    found = []
    for each in objects:
        left, top, width, height = each.bbox
        edges = left, top, left + width, top + height
        if is_training:
            edges = max(left, 0.0), max(top, 0.0), min(edges[2], image.width), min(edges[3], image.height)
            if each.iscrowd or not (edges[0] < edges[2] and edges[1] < edges[3]):
                continue
        found.append((edges, each.category_id, bool(each.iscrowd)))
    boxes, labels, is_crowd = zip(*found, strict=True) if found else ((), (), ())
    return Picture(image.file_name, image.height, image.width, boxes, labels, is_crowd)


def jpegs(place: Place, some: Sequence[Picture]) -> Iterator[bytes]:
    """Yield the file of each image, which has been decoded to see that it can be.

    Raises:
        DataError: one is missing, damaged, or has another size than the annotations say.
    """
    with contextlib.ExitStack() as opened:
        if place.folder is None:
            folder = place.path
            for picture in some:
                yield _checked(folder / picture.name, picture, _file(folder / picture.name))
            return
        with _damage(place.path):
            members = opened.enter_context(zipfile.ZipFile(place.path))
        for picture in some:
            name = f"{place.folder}/{picture.name}"
            yield _checked(place.path / name, picture, _member(place.path, members, name, MAX_JPEG_BYTES))


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_JPEG_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _checked(path: Path, picture: Picture, content: bytes) -> bytes:
    from PIL import Image, UnidentifiedImageError

    if len(content) > MAX_JPEG_BYTES:
        raise DataError(f"{path}: more than {MAX_JPEG_BYTES:,} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
            image = Image.open(io.BytesIO(content), formats=("JPEG",))
        with image:
            if image.size != (picture.width, picture.height):  # known from the header: nothing large is decoded
                raise DataError(f"{path}: {image.size} pixels; the annotations say {(picture.width, picture.height)}")
            image.load()
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    return content


@contextlib.contextmanager
def _damage(archive: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{archive} is damaged: {printable(error)}") from None


def _member(archive: Path, members: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        with _damage(archive), members.open(name) as stream:
            return stream.read(limit + 1)
    except KeyError:
        raise DataError(f"{archive}: contains no file {name}") from None
