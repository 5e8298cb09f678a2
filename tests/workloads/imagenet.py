"""Small copies of ImageNet-1k in the layouts in which people have it: 4 classes, 20 training and 7 test images."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("n01440764", "n01443537", "n02123045", "n04557648")
NUM_PER_CLASS = 5
# ILSVRC2012_ID of each class: not in the order of the WordNet ids, as in the official development kit.
IDS = {"n01440764": 3, "n01443537": 1, "n02123045": 4, "n04557648": 2}
TEST_LABELS = (2, 0, 3, 1, 1, 2, 0)
DEVKIT = "ILSVRC2012_devkit_t12"
TURNED = 6  # EXIF's orientation of a picture that was taken upright
Files = dict[str, bytes]


def picture(number: int, label: int) -> bytes:
    """A JPEG of an odd size, brighter for each label; some are grey, CMYK, turned by EXIF, or in truth a PNG."""
    random = np.random.RandomState(number)
    height, width = 40 + 37 * number % 211, 50 + 53 * number % 307
    pixels = random.randint(0, 60, (height, width, 3)).astype(np.uint8) + np.uint8(45 * label)
    image = Image.fromarray(pixels)
    kind = ("RGB", "L", "CMYK", "turned", "png", "RGB", "RGB")[number % 7]
    stream = io.BytesIO()
    exif = Image.Exif()
    if kind == "turned":
        exif[0x0112] = TURNED
    if kind == "png":
        image.convert("P").save(stream, "PNG")
    else:
        image.convert(kind if kind in ("L", "CMYK") else "RGB").save(stream, "JPEG", exif=exif)
    return stream.getvalue()


def training_files() -> dict[str, Files]:
    """By class."""
    return {
        name: {f"{name}_{n}.JPEG": picture(10 * label + n, label) for n in range(NUM_PER_CLASS)}
        for label, name in enumerate(CLASSES)
    }


def test_files() -> Files:
    return {f"ILSVRC2012_val_{n + 1:08d}.JPEG": picture(100 + n, label) for n, label in enumerate(TEST_LABELS)}


def write_files(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def write_folders(source: Path, is_sorted: bool) -> Path:
    """train/<class>/, and val/ with class folders (`is_sorted`) or with the development kit."""
    for name, files in training_files().items():
        write_files(source / "train" / name, files)
    if is_sorted:
        for label, name in enumerate(CLASSES):
            chosen = zip(test_files().items(), TEST_LABELS, strict=True)
            write_files(source / "val" / name, {file: data for (file, data), own in chosen if own == label})
    else:
        write_files(source / "val", test_files())
        for name, content in devkit_files().items():
            path = source / DEVKIT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return source


def write_tars(source: Path) -> Path:
    """The three official files; their members are in no order."""
    source.mkdir(parents=True)
    classes = {f"{name}.tar": _tar(dict(reversed(files.items()))) for name, files in training_files().items()}
    (source / "ILSVRC2012_img_train.tar").write_bytes(_tar(dict(reversed(classes.items()))))
    (source / "ILSVRC2012_img_val.tar").write_bytes(_tar(dict(reversed(test_files().items()))))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        _add(archive, {f"{DEVKIT}/{name}": content for name, content in devkit_files().items()})
    (source / f"{DEVKIT}.tar.gz").write_bytes(stream.getvalue())
    return source


def write_parquet(source: Path) -> Path:
    """Hugging Face's: two files of training images in row groups of 3, one of test images."""
    import pyarrow as pa
    import pyarrow.parquet

    folder = source / "data"
    folder.mkdir(parents=True)
    training = [
        {"image": {"bytes": content, "path": name}, "label": label}
        for label, files in enumerate(training_files().values())
        for name, content in files.items()
    ]
    test = [
        {"image": {"bytes": content, "path": name}, "label": label}
        for (name, content), label in zip(test_files().items(), TEST_LABELS, strict=True)
    ]
    for name, rows in {
        "train-00000-of-00002-abc": training[:11],
        "train-00001-of-00002-def": training[11:],
        "validation-00000-of-00001-123": test,
    }.items():
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet", row_group_size=3)
    return source


def devkit_files() -> Files:
    """`meta.mat` with the classes and one group of them, and the ground truth."""
    from scipy.io import savemat

    rows = [(number, name, "words", "gloss", 0.0) for name, number in sorted(IDS.items(), key=lambda item: item[1])]
    rows.append((5, "n00001740", "entity", "a group", 4.0))
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    stream = io.BytesIO()
    savemat(stream, {"synsets": np.array(rows, kinds)})
    truth = "".join(f"{IDS[CLASSES[label]]}\n" for label in TEST_LABELS)
    return {
        "data/meta.mat": stream.getvalue(),
        "data/ILSVRC2012_validation_ground_truth.txt": truth.encode(),
    }


def _tar(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:") as archive:
        _add(archive, files)
    return stream.getvalue()


def _add(archive: tarfile.TarFile, files: Files) -> None:
    for name, content in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
