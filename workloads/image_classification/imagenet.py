"""ImageNet-1k for the full suite: the layouts in which people have it, and its preparation as shards.

The prepared folder has the images as they are compressed in the source: `train/` (image, label) class by class,
`test/` (image) in the order of the official file names, `test_labels.npy` and `metadata.json`. Classes are numbered in
the order of their WordNet ids, as everywhere. N images.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from harness.errors import DataError, printable
from workloads.image_classification.dataset import Ints

SUFFIXES = (".jpeg", ".jpg", ".png")
TRAIN_TAR, TEST_TAR = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
DEVKIT = "ILSVRC2012_devkit_t12"
META, TRUTH = "data/meta.mat", "data/ILSVRC2012_validation_ground_truth.txt"
IMAGES_PER_SHARD = 2500  # of the test set
EXPECTED = (
    f"train/<class>/ and val/, {TRAIN_TAR} and {TEST_TAR}, or train-*.parquet and validation-*.parquet (also in data/)"
)
# torchvision's defaults, which are those of ImageNet's training images.
CHANNEL_MEAN, CHANNEL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


# What Pillow raises for an image that is none; DecompressionBombError is an Exception of its own.
DAMAGE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class Part(NamedTuple):
    """One shard's images in the source, as plain data.

    kind: "files", "tar" or "parquet". path: the folder or file. items: names of files; (name, offset, size) in a tar;
        row groups of a parquet file. label: of all of them; None: they have none, or are stored with their own.
    """

    kind: str
    path: str
    items: tuple[Any, ...]
    label: int | None


class Source(NamedTuple):
    """What a layout has: the parts of both splits, the labels of the test images in their order, and its name."""

    train: list[Part]
    test: list[Part]
    test_labels: Ints
    layout: str
    num_classes: int


def prepare(data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with shards, labels and `metadata.json`; a second attempt goes on where the first one ended.

    Raises:
        DataError: there is no source, its layout is unknown, or a file is missing or damaged.
    """
    import datasets

    from workloads.streaming.shards import Shards

    if source is None:
        raise DataError(
            "image_classification_full needs ImageNet-1k, which is licensed to persons who register at image-net.org; "
            f"give the folder that has it as the source: {EXPECTED}"
        )
    found = find(source)
    image = datasets.Value("binary")
    with Shards(data_dir) as shards:
        features = datasets.Features({"image": image, "label": datasets.Value("int32")})
        num_train = shards.write("train", features, found.train, read_training)
        num_test = shards.write("test", datasets.Features({"image": image}), found.test, read_test)
        if num_test != len(found.test_labels):
            raise DataError(f"{source}: {num_test:,} test images, but {len(found.test_labels):,} labels")
        np.save(data_dir / "test_labels.npy", found.test_labels)
        metadata = {
            "suite": "full",
            "source": found.layout,
            "num_classes": found.num_classes,
            "num_train": num_train,
            "num_test": num_test,
        }
        text = json.dumps(metadata, indent=1, sort_keys=True)
        (data_dir / "metadata.json").write_text(text + "\n", encoding="utf-8")


def baselines(labels_dir: Path) -> dict[str, float]:
    """The accuracy of the most frequent class of the test set."""
    from workloads.image_classification.data import read_labels

    labels_N = read_labels(labels_dir, "test")
    return {"majority_class": float(np.bincount(labels_N).max() / len(labels_N))}


def find(source: Path) -> Source:
    """Return what `source` has of ImageNet, in the first of the layouts that it has.

    Raises:
        DataError: it has none of them, or a file is missing or damaged.
    """
    if (source / "train").is_dir() and any(path.is_dir() for path in (source / "train").iterdir()):
        return _of_folders(source)
    if (source / TRAIN_TAR).is_file():
        return _of_tars(source)
    for folder in (source, source / "data"):
        if any(folder.glob("train-*.parquet")):
            return _of_parquet(folder)
    raise DataError(f"{source}: no layout of ImageNet-1k recognised; expected {EXPECTED}")


def read_training(part: Part) -> Iterator[Mapping[str, Any]]:
    """Yield the training images of a part in order, with their labels."""
    for content, label in _read(part):
        yield {"image": content, "label": label}


def read_test(part: Part) -> Iterator[Mapping[str, Any]]:
    """Yield the test images of a part in order."""
    for content, _ in _read(part):
        yield {"image": content}


def _read(part: Part) -> Iterator[tuple[bytes, int | None]]:
    readers: dict[str, Callable[[Part], Iterator[tuple[str, bytes, int | None]]]] = {
        "files": _read_files,
        "tar": _read_tar,
        "parquet": _read_parquet,
    }
    for place, content, label in readers[part.kind](part):
        _verify(content, place)
        yield content, label


def _verify(content: bytes, place: str) -> None:
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.draft("L", (8, 8))  # an eighth of the resolution: every bit is read, and few pixels are computed
            image.load()
    except DAMAGE as error:
        raise DataError(f"{place}: not an image, or damaged: {printable(error)}") from None


def _read_files(part: Part) -> Iterator[tuple[str, bytes, int | None]]:
    for name in part.items:
        path = Path(part.path) / name
        try:
            yield str(path), path.read_bytes(), part.label
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _read_tar(part: Part) -> Iterator[tuple[str, bytes, int | None]]:
    with Path(part.path).open("rb") as stream:
        for name, offset, size in part.items:
            stream.seek(offset)
            yield f"{part.path}: {name}", stream.read(size), part.label


def _read_parquet(part: Part) -> Iterator[tuple[str, bytes, int | None]]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(part.path)
    for group in part.items:
        table = file.read_row_group(group, columns=["image", "label"])
        labels = table["label"].to_pylist()
        for row, image in enumerate(table["image"].to_pylist()):
            yield f"{part.path}: image {row} of row group {group}", image["bytes"], labels[row]


# ---- train/<class>/ and val/, in class folders or not


def _of_folders(source: Path) -> Source:
    train = source / "train"
    classes = sorted(path.name for path in train.iterdir() if path.is_dir())
    parts = [Part("files", str(train / name), _images(train / name), label) for label, name in enumerate(classes)]
    folder = source / "val"
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected {EXPECTED}")
    folders = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not folders:
        names = _images(folder)
        return Source(parts, _divided("files", folder, names), _devkit_labels(source, classes), "folders", len(classes))
    if folders != classes:
        strange = sorted(set(folders) ^ set(classes))
        raise DataError(f"{folder}: its classes are not those of {train}; only one of them has {strange[0]!r}")
    # Sorted by the names of the files, not of the classes: the same order as without class folders.
    found = sorted(
        (name, f"{folder_name}/{name}", label)
        for label, folder_name in enumerate(classes)
        for name in _images(folder / folder_name)
    )
    labels = np.array([label for _, _, label in found], np.int64)
    names = tuple(path for _, path, _ in found)
    return Source(parts, _divided("files", folder, names), labels, "folders", len(classes))


def _images(folder: Path) -> tuple[str, ...]:
    names = tuple(sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES))
    if not names:
        raise DataError(f"{folder}: has no images ({', '.join(SUFFIXES)})")
    return names


def _divided(kind: str, path: Path, items: Sequence[Any]) -> list[Part]:
    """The test images as parts, a shard each."""
    firsts = range(0, len(items), IMAGES_PER_SHARD)
    return [Part(kind, str(path), tuple(items[first : first + IMAGES_PER_SHARD]), None) for first in firsts]


# ---- the official tar files


def _of_tars(source: Path) -> Source:
    if not (source / TEST_TAR).is_file():
        raise DataError(f"{source / TEST_TAR}: there is no such file; {TRAIN_TAR} is next to it")
    classes = {}
    for name, offset, _ in _members(source / TRAIN_TAR):
        if name.endswith(".tar"):
            classes[Path(name).stem] = offset
    parts = []
    for label, name in enumerate(sorted(classes)):
        members = _members(source / TRAIN_TAR, classes[name])
        parts.append(Part("tar", str(source / TRAIN_TAR), tuple(sorted(members)), label))
    test = sorted(_members(source / TEST_TAR))
    labels = _devkit_labels(source, sorted(classes))
    return Source(parts, _divided("tar", source / TEST_TAR, test), labels, "tar files", len(classes))


def _members(path: Path, offset: int = 0) -> list[tuple[str, int, int]]:
    """Name, offset in the file and size of the regular files in the archive that begins at `offset`."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                # tarfile counts from the beginning of the stream, not of the archive.
                found = [(Path(item.name).name, item.offset_data, item.size) for item in archive if item.isfile()]
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if not found:
        raise DataError(f"{path}: an archive without files at byte {offset}")
    return found


def _devkit_labels(source: Path, classes: Sequence[str]) -> Ints:
    """The labels of the official test images, in the order of their names, from the development kit."""
    from scipy.io import loadmat

    truth, meta = _devkit_file(source, TRUTH), _devkit_file(source, META)
    place = f"{source / DEVKIT}"
    try:
        synsets = loadmat(io.BytesIO(meta), squeeze_me=True)["synsets"]  # type: ignore[arg-type]
        # Without children are the classes; the others are groups of them.
        wordnet = {int(item["ILSVRC2012_ID"]): str(item["WNID"]) for item in synsets if int(item["num_children"]) == 0}
        names = [wordnet[int(line)] for line in truth.decode().split()]
    except (ValueError, KeyError, IndexError, TypeError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: {META} or {TRUTH} is damaged: {printable(error)}") from None
    if strange := set(names) - set(classes):
        raise DataError(f"{place}: {TRUTH} has the class {min(strange)}, of which there are no training images")
    numbers = {name: number for number, name in enumerate(classes)}
    return np.array([numbers[name] for name in names], np.int64)


def _devkit_file(source: Path, name: str) -> bytes:
    """A file of the development kit, unpacked or not."""
    plain, packed = source / DEVKIT / name, source / f"{DEVKIT}.tar.gz"
    try:
        if plain.is_file():
            return plain.read_bytes()
        with tarfile.open(packed) as archive:
            content = archive.extractfile(f"{DEVKIT}/{name}")
            assert content is not None, "a regular file has a stream"
            return content.read()
    except FileNotFoundError:
        raise DataError(f"{source}: the labels of the test images need {DEVKIT}.tar.gz, or {DEVKIT}/") from None
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise DataError(f"{packed} is damaged: {printable(error)}") from None


# ---- Hugging Face's parquet files


def _of_parquet(folder: Path) -> Source:
    train = _row_groups(folder, "train")
    test = _row_groups(folder, "validation")
    if not test:
        raise DataError(f"{folder}: has no validation-*.parquet")
    return Source(
        train=[Part("parquet", path, (group,), None) for path, groups, _ in train for group in range(groups)],
        test=[Part("parquet", path, (group,), None) for path, groups, _ in test for group in range(groups)],
        test_labels=np.concatenate([labels for _, _, labels in test]),
        layout="parquet",
        num_classes=1 + max(int(labels.max()) for _, _, labels in train),
    )


def _row_groups(folder: Path, split: str) -> list[tuple[str, int, Ints]]:
    """Path, number of row groups and labels of the files of a split."""
    import pyarrow as pa
    import pyarrow.parquet

    found = []
    for path in sorted(folder.glob(f"{split}-*.parquet")):
        try:
            file = pyarrow.parquet.ParquetFile(path)
            labels = file.read(columns=["label"])["label"].to_numpy().astype(np.int64)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise DataError(f"{path} is damaged, or has no column 'label': {printable(error)}") from None
        if len(labels) == 0 or labels.min() < 0:
            raise DataError(f"{path}: images without labels; only train and validation have them")
        found.append((str(path), file.num_row_groups, labels))
    return found
