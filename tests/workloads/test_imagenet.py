"""ImageNet-1k in four layouts: what is prepared from them, and how its images become pixels."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from tests.workloads import imagenet as copies
from tests.workloads import sessions

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("datasets")

from workloads.image_classification import full_images, imagenet  # noqa: E402 (they import torch)
from workloads.streaming import shards  # noqa: E402

LAYOUTS: dict[str, Any] = {
    "sorted folders": lambda place: copies.write_folders(place, True),
    "folders and development kit": lambda place: copies.write_folders(place, False),
    "tar files": copies.write_tars,
    "parquet": copies.write_parquet,
}


def prepared(place: Path, layout: str) -> Path:
    source, data_dir = LAYOUTS[layout](place / "source"), place / "made"
    data_dir.mkdir()
    imagenet.prepare(data_dir, source)
    return data_dir


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("reference"), "sorted folders")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images_and_labels(layout: str, reference: Path, tmp_path: Path) -> None:
    """The bytes of the source, class by class and in the order of the official names; parquet in its own order, which
    is the same here."""
    data_dir = prepared(tmp_path, layout)

    rows = shards.read(data_dir / "train")[:]
    expected = [(data, n) for n, files in enumerate(copies.training_files().values()) for data in files.values()]
    assert list(zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True)) == expected
    assert shards.read(data_dir / "test")[:]["image"].to_pylist() == list(copies.test_files().values())
    assert np.load(data_dir / "test_labels.npy").tolist() == list(copies.TEST_LABELS)
    if layout != "parquet":  # it has other shards
        found, wanted = (
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.arrow")}
            for folder in (data_dir, reference)
        )
        assert found == wanted


def test_metadata_say_what_a_session_may_know(reference: Path) -> None:
    """Sizes and classes; no label is where a session can see it but in `test_labels.npy`, which the harness moves."""
    metadata = sessions.json.loads((reference / "metadata.json").read_text())

    assert metadata == {"suite": "full", "source": "folders", "num_classes": 4, "num_train": 20, "num_test": 7}
    assert shards.read(reference / "test").column_names == ["image"]


def damaged(place: Path, change: str) -> Path:
    """A copy with one thing wrong."""
    source = copies.write_tars(place) if "tar" in change else copies.write_folders(place, "devkit" not in change)
    image = source / "train" / copies.CLASSES[1] / f"{copies.CLASSES[1]}_2.JPEG"
    match change:
        case "cut image":
            image.write_bytes(image.read_bytes()[:-300])
        case "no image":
            image.write_bytes(b"<html>Not found</html>")
        case "empty class":
            for path in image.parent.iterdir():
                path.unlink()
        case "no val":
            (source / "val").rename(source / "validation")
        case "another class":
            (source / "val" / copies.CLASSES[0]).rename(source / "val" / "n00000000")
        case "devkit is missing":
            (source / copies.DEVKIT).rename(source / "kit")
        case "devkit has another id":
            truth = source / copies.DEVKIT / imagenet.TRUTH
            truth.write_text(truth.read_text() + "77\n")
        case "devkit has a label too few":
            truth = source / copies.DEVKIT / imagenet.TRUTH
            truth.write_text(truth.read_text()[2:])
        case "devkit has a class without images":
            (source / "train" / copies.CLASSES[0]).rename(source / "train" / "n00000000")
        case "tar of val is missing":
            (source / imagenet.TEST_TAR).unlink()
        case "tar is cut":
            path = source / imagenet.TRAIN_TAR
            path.write_bytes(path.read_bytes()[:1000])
        case "tar is empty":
            (source / imagenet.TEST_TAR).write_bytes(copies._tar({}))
        case "tar of the devkit is cut":
            path = source / f"{copies.DEVKIT}.tar.gz"
            path.write_bytes(path.read_bytes()[:100])
    return source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cut image", r"n01443537_2\.JPEG: not an image, or damaged: .*truncated"),
        ("no image", r"n01443537_2\.JPEG: not an image, or damaged"),
        ("empty class", "n01443537: has no images"),
        ("no val", "val: there is no such folder"),
        ("another class", "only one of them has 'n00000000'"),
        ("devkit is missing", r"the labels of the test images need ILSVRC2012_devkit_t12\.tar\.gz"),
        ("devkit has another id", "ground_truth.txt is damaged: 77"),
        ("devkit has a class without images", "has the class n01440764, of which there are no training images"),
        ("tar of val is missing", "ILSVRC2012_img_val.tar: there is no such file"),
        ("tar is cut", "ILSVRC2012_img_train.tar is damaged"),
        ("tar is empty", "an archive without files at byte 0"),
        ("tar of the devkit is cut", "devkit_t12.tar.gz is damaged"),
    ],
)
def test_what_is_wrong_is_one_sentence(change: str, message: str, tmp_path: Path) -> None:
    """It names the file."""
    source = damaged(tmp_path / "source", change)
    with pytest.raises(DataError, match=message) as caught:
        [list(imagenet.read_training(part)) for part in imagenet.find(source).train]

    assert "\n" not in str(caught.value)


def test_a_label_too_few_is_found(tmp_path: Path) -> None:
    """The development kit of another year."""
    source = damaged(tmp_path / "source", "devkit has a label too few")
    (tmp_path / "made").mkdir()

    with pytest.raises(DataError, match="7 test images, but 6 labels"):
        imagenet.prepare(tmp_path / "made", source)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """It was there when the layout was looked at."""
    part = imagenet.find(copies.write_folders(tmp_path / "source", True)).train[0]
    (Path(part.path) / part.items[0]).unlink()

    with pytest.raises(DataError, match=r"_0\.JPEG: cannot be read: No such file"):
        list(imagenet.read_training(part))


def test_without_a_source_the_layouts_are_named(tmp_path: Path) -> None:
    """The data cannot be downloaded without registration; a folder of something else is refused."""
    with pytest.raises(DataError, match=r"register at image-net\.org"):
        imagenet.prepare(tmp_path, None)
    with pytest.raises(DataError, match=r"no layout of ImageNet-1k recognised; expected train"):
        imagenet.prepare(tmp_path, tmp_path)


@pytest.mark.parametrize("change", ["no labels", "no column", "no validation", "no parquet"])
def test_parquet_files_of_something_else_are_refused(change: str, tmp_path: Path) -> None:
    """The hidden test set of Hugging Face has the label -1."""
    import pyarrow as pa
    import pyarrow.parquet

    folder = copies.write_parquet(tmp_path) / "data"
    path = folder / "validation-00000-of-00001-123.parquet"
    table = pyarrow.parquet.read_table(path)
    if change == "no labels":
        table = table.set_column(1, "label", pa.array([-1] * len(table)))
    if change == "no column":
        table = table.drop_columns(["label"])
    pyarrow.parquet.write_table(table, path)
    if change == "no parquet":
        path.write_bytes(b"nothing")
    if change == "no validation":
        path.unlink()

    with pytest.raises(DataError, match=r"images without labels|no column 'label'|has no validation-\*\.parquet"):
        imagenet.find(tmp_path)


def image_bytes(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "1", "I;16"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    """A white picture is white in each; CMYK as JPEG, the others as PNG."""
    image = Image.new("RGB", (30, 20), "white").convert("L" if mode == "I;16" else mode)

    found = full_images.decoded(image_bytes(image, "JPEG" if mode == "CMYK" else "PNG"))

    assert (found.mode, found.size) == ("RGB", (30, 20))
    assert np.asarray(found).min() >= 253


def test_exif_does_not_turn_an_image() -> None:
    """As in every published result on ImageNet."""
    exif = Image.Exif()
    exif[0x0112] = copies.TURNED
    content = image_bytes(Image.new("RGB", (40, 20)), "JPEG", exif=exif)

    assert full_images.decoded(content).size == (40, 20)


def test_a_test_image_is_scaled_to_256_and_cut_to_its_centre(tmp_path: Path) -> None:
    """As torchvision's Resize and CenterCrop do it, upright, lying, tiny and long."""
    import pyarrow as pa
    from torchvision.transforms import v2

    sizes = [(300, 200), (200, 300), (31, 17), (1000, 40), (256, 256)]
    random_pixels = np.random.RandomState(0)
    images = [Image.fromarray(random_pixels.randint(0, 256, (h, w, 3)).astype(np.uint8)) for w, h in sizes]
    rows = pa.table({"image": pa.array([image_bytes(image) for image in images], pa.binary())})
    reference = v2.Compose([v2.Resize(256), v2.CenterCrop(224), v2.PILToTensor()])

    found = full_images.load_test(rows, np.zeros(len(rows), np.int64))

    assert found.shape == (5, 224, 224, 3)
    assert torch.equal(found, torch.stack([reference(image).permute(1, 2, 0) for image in images]))


def test_a_training_image_is_a_function_of_its_seed(tmp_path: Path) -> None:
    """The same seed gives the same pixels, wherever it stands in a batch; another one another crop."""
    import pyarrow as pa

    pixels = np.random.RandomState(0).randint(0, 256, (90, 70, 3)).astype(np.uint8)
    content = image_bytes(Image.fromarray(pixels))
    rows = pa.table({"image": pa.array([content] * 3, pa.binary()), "label": [0, 1, 2]})

    images, labels = full_images.load_training(rows, np.array([5, 6, 5]))

    assert labels.tolist() == [0, 1, 2]
    assert torch.equal(images[0], images[2])
    assert not torch.equal(images[0], images[1])


def test_crops_have_the_areas_and_shapes_of_torchvision() -> None:
    """Mean area, ratio and place of 4,000 boxes, within four standard errors of torchvision's."""
    from torchvision.transforms import RandomResizedCrop

    def moments(boxes: list[tuple[int, int, int, int]]) -> list[tuple[float, float]]:
        left, top, right, bottom = np.array(boxes, np.float64).T
        width, height = right - left, bottom - top
        values = (width * height, np.log(width / height), left + width / 2, top + height / 2)
        return [(float(value.mean()), float(value.std())) for value in values]

    torch.manual_seed(0)
    dice = random.Random(0)
    image = torch.empty(3, 200, 300)
    drawn = [RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(4000)]
    wanted = moments([(left, top, left + w, top + h) for top, left, h, w in drawn])

    found = moments([full_images.random_crop(300, 200, dice) for _ in range(4000)])

    for (mean, _), (expected, spread) in zip(found, wanted, strict=True):
        assert abs(mean - expected) < 4 * spread * (2 / 4000) ** 0.5


def test_where_no_crop_fits_the_centre_is_taken() -> None:
    """Of a strip: as much of it as a ratio of 4/3 permits."""
    assert full_images.random_crop(1000, 3, random.Random(0)) == (498, 0, 502, 3)
    assert full_images.random_crop(3, 1000, random.Random(0)) == (0, 498, 3, 502)


def test_a_prepared_image_that_is_damaged_is_an_error_of_the_data() -> None:
    """Not a crash of a worker process."""
    with pytest.raises(DataError, match="a prepared image is damaged"):
        full_images.decoded(b"nothing")
