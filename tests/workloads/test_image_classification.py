"""Image classification: its data and loaders, and one training run as the referee drives it."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import math
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.base.files import sha256_of
from harness.errors import DataError, UsageError
from tests.shared_files import shared, unpack
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.image_classification import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("sklearn")

import torch
from PIL import Image

from workloads.image_classification import cifar10, data, dataset
from workloads.image_classification.model import AirBench94, Lookahead, Whitening, logits_of_views
from workloads.image_classification.workload import TrainingSession, _mirrored

config = functools.partial(sessions.config, WORKLOAD.name)
started = functools.partial(sessions.started, WORKLOAD.name)


def ramp_dir(folder: Path) -> Path:
    """250 images for training and test; image i has grey level i everywhere, so that a batch reveals its indices."""
    folder.mkdir(exist_ok=True)
    ramp = np.repeat(np.arange(250, dtype=np.uint8), 28 * 28).reshape(-1, 28, 28, 1), np.arange(250) % 10
    data._write(folder, "mini", {"train": ramp, "test": ramp}, "ramp")
    return folder


def indices(session: TrainingSession, images: torch.Tensor) -> list[int]:
    """The images of a ramp that a batch consists of."""
    return (images[:, 0, 0, 0] * session.std_C + session.mean_C).round().int().tolist()


def test_mini_source_digits_are_disjoint() -> None:
    """No digit is drawn both for training and for testing."""
    sources = data.mini_sources()

    assert {name: len(which) for name, which in sources.items()} == {"train": 1200, "validation": 237, "test": 360}
    assert sorted(np.concatenate(list(sources.values()))) == list(range(1797))


def test_mini_other_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If scikit-learn changed its digits, the data would silently change too."""
    monkeypatch.setattr(data, "DIGITS_SHA256", "0" * 64)

    with pytest.raises(DataError, match="another data set"):
        data.render_mini()


def test_placed_picture_is_where_it_was_put() -> None:
    """A full picture of 8 pixels a side around the centre of the frame is opaque inside and absent outside."""
    one = np.ones(1, np.int64)

    opacity = data._place(np.full((1, 8, 8), 16), 14 * 16 * one, 14 * 16 * one, 8 * 16 * one, 0 * one, 0 * one)

    assert (opacity[0, 10:18, 10:18] == 4096).all()
    assert opacity.sum() == 64 * 4096


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"global_batch_size": 1}, "at least 2"), ({"data_translation": 28}, "smaller than the image")],
)
def test_wrong_hyperparameter_is_a_usage_error(mini_dir: Path, changed: dict[str, Any], message: str) -> None:
    """Batch statistics need two images, and a shift must leave something of the image."""
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(mini_dir, **changed))


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Ten steps from seed 3: after that the rounding of another instruction set has grown to percents."""
    sessions.assert_golden_curve(WORKLOAD.name, losses(started(mini_dir), 10), {"rel": 1e-4}, rel=2e-3)


def test_an_epoch_shows_no_image_twice_and_drops_the_rest(tmp_path: Path) -> None:
    """250 images in batches of 100: two batches an epoch, in another order each time, and 50 images dropped."""
    session = started(ramp_dir(tmp_path), global_batch_size=100)

    first, second = ([i for _ in range(2) for i in indices(session, session._next_batch()[0])] for _ in range(2))

    assert len(set(first)) == len(set(second)) == 200
    assert first != second
    assert session.train_block(450).num_samples == 500
    assert session.epoch == 4


def test_labels_belong_to_their_images(tmp_path: Path) -> None:
    """Selection, shift and flip move an image together with its label."""
    session = started(ramp_dir(tmp_path), global_batch_size=50, data_flip=True)

    images, labels = session._next_batch()

    assert [i % 10 for i in indices(session, images)] == labels.tolist()


def test_shift_is_mirrored_at_the_border() -> None:
    """Reflection without repeating the edge, as torch's reflect padding."""
    assert _mirrored(torch.arange(-2, 7), 5).tolist() == [2, 1, 0, 1, 2, 3, 4, 3, 2]


def test_flip_alternates_with_the_epoch(tmp_path: Path) -> None:
    """An image seen one way in one epoch is seen the other way in the next."""
    session = started(ramp_dir(tmp_path), data_flip=True)
    before = session.flips_N.clone()

    session._new_epoch()

    assert (session.flips_N != before).all()


def test_accuracy_agrees_with_scikit_learn_with_a_partial_last_batch(mini_dir: Path, tmp_path: Path) -> None:
    """The metric equals scikit-learn's accuracy, also with a partial last batch, and it is neither 0 nor 1."""
    from sklearn.metrics import accuracy_score

    session = started(mini_dir)
    session.train_block(20 * 128)
    session.test_images_NHWC, session.num_test = session.test_images_NHWC[:1237], 1237
    labels = data.read_labels(mini_dir, "test")[:1237]
    np.save(tmp_path / "test_labels.npy", labels)

    found = sessions.quality(session, mini_dir, tmp_path)

    with torch.inference_mode():
        session.network.eval()
        predicted = session.network(session._normalised(session.test_images_NHWC)).argmax(1)
    assert found.num_examples == 1237
    assert found.value == accuracy_score(labels, predicted)
    assert 0.02 < found.value < 0.98


@pytest.mark.parametrize(
    "predictions",
    [
        {},
        {"classes": np.zeros(5039, np.int32)},
        {"classes": np.zeros(5040)},
        {"classes": np.zeros((5040, 1), np.int32)},
    ],
    ids=["missing", "one too few", "not whole numbers", "another shape"],
)
def test_predictions_that_are_not_a_class_for_each_image_are_refused(mini_dir: Path, predictions: Any) -> None:
    """What the training process sends is foreign input."""
    with pytest.raises(ValueError, match="the class of each of 5,040 images"):
        WORKLOAD.evaluator("mini", mini_dir, mini_dir).quality(lambda _: predictions)


def test_baselines_know_a_majority_and_an_easy_set(tmp_path: Path) -> None:
    """On two grey levels of which 60 % are bright, neighbours are perfect and the majority is 60 %."""
    random = np.random.RandomState(0)
    labels = np.arange(200, dtype=np.int64) % 5 // 2 % 2
    images = (labels[:, None, None, None] * 100 + random.randint(0, 50, (200, 10, 10, 1))).astype(np.uint8)
    data._write(tmp_path, "mini", {"train": (images, labels), "test": (images, labels)}, "two levels")

    scores = WORKLOAD.baselines("mini", tmp_path, tmp_path)

    assert scores["majority_class"] == 0.6
    assert scores["nearest_neighbours_5"] == 1.0
    assert scores["random_forest"] == 1.0
    assert scores["patches_and_ridge"] == 1.0
    assert all(0.0 <= score <= 1.0 for score in scores.values())


PER_CLASS = {"train": 5, "test": 1}
BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def small_cifar() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Planes (N, 3, 32, 32) and labels: five training images and one test image per class."""
    random = np.random.RandomState(5)
    labels = {"train": np.tile(np.arange(10), 5), "test": np.arange(10)}
    return {k: (random.randint(0, 256, (len(n), 3, 32, 32)).astype(np.uint8), n) for k, n in labels.items()}


def binary_dir(folder: Path) -> Path:
    folder.mkdir()
    for split, (planes, labels) in small_cifar().items():
        names = BATCHES[split]
        records = np.concatenate([labels[:, None].astype(np.uint8), planes.reshape(len(planes), -1)], axis=1)
        for name, part in zip(names, np.split(records, len(names)), strict=True):
            (folder / f"{name}.bin").write_bytes(part.tobytes())
    return folder


def python_dir(folder: Path) -> dict[str, str]:
    """Write the pickles; return their MD5 by name."""
    folder.mkdir()
    md5 = {}
    for split, whole in small_cifar().items():
        names = BATCHES[split]
        planes, labels = (np.split(part, len(names)) for part in whole)
        for name, part, numbers in zip(names, planes, labels, strict=True):
            content = pickle.dumps({"data": part.reshape(len(part), -1), "labels": numbers.tolist()}, protocol=2)
            (folder / name).write_bytes(content)
            md5[name] = hashlib.md5(content).hexdigest()
    return md5


def folders_dir(folder: Path) -> Path:
    for split, (planes, labels) in small_cifar().items():
        for i, (pixels, label) in enumerate(zip(planes, labels, strict=True)):
            (folder / split / f"class{label}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / split / f"class{label}" / f"{i:04d}.png")
    return folder


def assert_is_small_cifar(splits: dict[str, dataset.Split], ordered: bool = True) -> None:
    for split, (planes, labels) in small_cifar().items():
        images, found = splits[split]
        order = np.arange(len(labels)) if ordered else np.argsort(labels, kind="stable")
        assert np.array_equal(images, planes.transpose(0, 2, 3, 1)[order])
        assert np.array_equal(found, labels[order])


def test_three_layouts_hold_the_same_images(tmp_path: Path) -> None:
    """Pickles, records and PNG folders of the same pictures come out equal."""
    md5 = python_dir(tmp_path / "python")

    assert_is_small_cifar(cifar10.read_python_batches(tmp_path / "python", md5, PER_CLASS))
    assert_is_small_cifar(cifar10.read_binary_batches(binary_dir(tmp_path / "binary"), PER_CLASS))
    assert_is_small_cifar(cifar10.read_class_folders(folders_dir(tmp_path / "png"), PER_CLASS), ordered=False)


def test_layout_is_recognised_and_counts_are_the_official_ones(tmp_path: Path) -> None:
    """A small copy is recognised in each layout, also from the parent folder, and refused for its size."""
    python_dir(tmp_path / "cifar-10-batches-py")

    with pytest.raises(DataError, match="data_batch_1: MD5 is"):
        cifar10.read(tmp_path)
    with pytest.raises(DataError, match=r"data_batch_1.bin: 30730 bytes, expected 30730000 \(10000 records\)"):
        cifar10.read(binary_dir(tmp_path / "binary"))
    with pytest.raises(DataError, match="class0: 5 images, expected 5000"):
        cifar10.read(folders_dir(tmp_path / "png"))
    with pytest.raises(DataError, match="no layout"):
        cifar10.read(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["missing", "cut", "label", "count"])
def test_damaged_binary_file_is_named(tmp_path: Path, damage: str) -> None:
    """A file that is missing or truncated, has a label of 10, or one class too often."""
    folder = binary_dir(tmp_path / "binary")
    path = folder / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[0] = {"label": 10, "count": 1}.get(damage, 0)
    path.write_bytes(content[:-1] if damage == "cut" else content)
    if damage == "missing":
        path.unlink()

    with pytest.raises(DataError, match="binary: train images per class" if damage == "count" else "data_batch_3.bin"):
        cifar10.read_binary_batches(folder, PER_CLASS)


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])], ids=["missing", "cut"]
)
def test_damaged_python_batch_is_named_and_not_unpickled(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """A pickle with another digest is never opened."""
    folder = tmp_path / "python"
    md5 = python_dir(folder)
    damage(folder / "test_batch")

    with pytest.raises(DataError, match="test_batch"):
        cifar10.read_python_batches(folder, md5, PER_CLASS)


@pytest.mark.parametrize(
    ("place", "damage", "named"),
    [
        ("train/class4/0024.png", lambda path: path.write_bytes(path.read_bytes()[:600]), r"0024\.png"),
        ("train/class4/0024.png", lambda path: path.write_text("no picture"), r"0024\.png"),
        ("train/class4/0024.png", Image.new("RGB", (31, 32)).save, r"0024\.png"),
        ("train/class4/0024.png", Path.unlink, "class4: 4 images, expected 5"),
        ("test/class4", lambda path: path.rename(path.with_name("classy")), "test: expected 10 classes, the same as"),
        ("test", lambda path: path.rename(path.with_name("exam")), "test: expected 10 classes"),
    ],
    ids=["cut", "text", "size", "missing", "class", "split"],
)
def test_damaged_image_folder_is_named(
    tmp_path: Path, place: str, damage: Callable[[Path], object], named: str
) -> None:
    """A damaged picture is named by its path, a missing picture or class by its folder."""
    folder = folders_dir(tmp_path / "png")
    damage(folder / place)

    with pytest.raises(DataError, match=named):
        cifar10.read_class_folders(folder, PER_CLASS)


@pytest.mark.parametrize(
    ("held", "named"),
    [({}, "contains no file cifar-10-batches-py/data_batch_1"), ({"data_batch_1": b"x"}, "data_batch_1: MD5 is")],
)
def test_archive_is_read_by_the_names_of_its_members(tmp_path: Path, held: dict[str, bytes], named: str) -> None:
    """Nothing is unpacked, and only the official pickles are read."""
    archive = tmp_path / "some.tar.gz"
    with tarfile.open(archive, "w:gz") as members:
        for name, content in held.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            members.addfile(info, io.BytesIO(content))

    with pytest.raises(DataError, match=named):
        cifar10.download(tmp_path / "downloads", archive.as_uri(), sha256_of(archive))

    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["cifar-10-python.tar.gz"]


def test_whitened_patches_are_uncorrelated() -> None:
    """On the images it was fitted to, the first layer's outputs have nearly the identity as covariance.

    The layer is saved with the weights, and out of the optimiser's reach.
    """
    images = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 3
    images -= images.mean()
    whitening = Whitening(3, 2)

    whitening.fit(images, floor=0.0)

    flat, negative = whitening(images).detach().transpose(0, 1).flatten(1).chunk(2)
    assert torch.allclose(flat @ flat.T / flat.shape[1], torch.eye(12), atol=1e-4)
    assert torch.equal(negative, -flat)
    assert "whitening.weight" in AirBench94(3, 10).state_dict()
    assert "whitening.weight" not in dict(AirBench94(3, 10).named_parameters())


def test_standard_network_is_airbench94() -> None:
    """Its number of parameters, and a first group that nearly passes its input on."""
    network = AirBench94(3, 10)
    card = (sessions.ROOT / "workloads/image_classification/README.md").read_text()

    assert f"{sum(p.numel() for p in network.parameters() if p.requires_grad):,}" in card
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    images = torch.randn(2, 24, 31, 31)
    assert torch.allclose(network.groups[0].first(images)[:, :24], images)


def test_lookahead_moves_weights_back_to_their_mean_every_five_steps() -> None:
    """By hand: gradient 1, rate 0.1, so five steps go from 0 to -0.5; at half of the horizon the mean keeps 0.0967."""
    weight, bias = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    groups = [{"params": [weight]}, {"params": [bias]}]
    optimizer = Lookahead(groups, num_steps=10, num_bias_steps=2, lr=0.1)
    path, biases = [], []

    for _ in range(10):
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        weight.grad, bias.grad = torch.ones(1), torch.ones(1)
        optimizer.step()
        path.append(weight.item())
        biases.append(bias.item())

    kept = 0.95**5 * 0.5**3
    first = -0.5 * (1 - kept)
    assert path[3:5] == pytest.approx([-0.4, first])
    assert path[9] == pytest.approx(first + (1 - 0.95**5) * -0.5)
    assert biases[:4] == pytest.approx([-0.1, -0.2, -0.2, -0.2])


def test_views_of_an_image_are_averaged() -> None:
    """A network that reads one pixel sees it in the image, its mirror image, and both moved along the diagonals."""
    image = torch.arange(16.0).reshape(1, 1, 4, 4)

    def corner(images: torch.Tensor) -> torch.Tensor:
        return images[:, 0, 1, 1:2]

    found = logits_of_views(corner, images_NCHW=image)

    # At row 1: columns 1 and 2; moved down and right: row 0, columns 0 and 1; up and left: row 2, columns 2 and 3.
    assert found.item() == pytest.approx(0.25 * (5 + 6) + 0.125 * (0 + 1) + 0.125 * (10 + 11))


@pytest.mark.slow
def test_standard_network_learns_and_starts_as_seeded(tmp_path: Path) -> None:
    """Ten classes of brightness: the loss falls within a few steps of airbench94's network."""
    random = np.random.RandomState(0)
    labels = np.arange(128, dtype=np.int64) % 10
    images = (labels[:, None, None, None] * 20 + random.randint(0, 30, (128, 32, 32, 3))).astype(np.uint8)
    data._write(tmp_path, "standard", {"train": (images, labels), "test": (images, labels)}, "ramps")
    session = started(
        tmp_path, suite="standard", global_batch_size=32, opt_learning_rate_warmup_steps=0, opt_base_learning_rate=0.1
    )

    curve = losses(session, 8)

    assert curve[0] == pytest.approx(math.log(10), abs=0.4)
    assert curve[-1] < curve[0] - 0.3
    assert sessions.quality(session, tmp_path).num_examples == 128
    assert sessions.network_digest(session) == sessions.rules_of(WORKLOAD.name, "standard").network_digest


@pytest.mark.slow
def test_real_cifar_in_folders_is_converted(tmp_path: Path) -> None:
    """Sixty thousand JPEG files become the same four arrays as any other layout."""
    unpack(shared("data/cifar10_jpeg.tar"), tmp_path / "source")
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path / "source")

    images, labels = data.read_split(tmp_path / "out", "train")
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert images.shape == (50000, 32, 32, 3)
    assert np.bincount(labels).tolist() == [5000] * 10
    # The published moments of CIFAR-10 are 0.4914, 0.4822, 0.4465; JPEG moves them little.
    assert metadata["channel_mean"] == pytest.approx([255 * m for m in (0.4914, 0.4822, 0.4465)], abs=0.5)


SCRIPT = """
from tests.workloads.test_image_classification import data, indices, started
mini, ramp = folders
session = started(ramp, num_devices=2, global_batch_size=50)
batches = [indices(session, session._next_batch()[0]) for _ in range(6)]
session = started(mini, num_devices=2)
result = course(session, 12000, mini)
images, labels = (torch.from_numpy(a) for a in data.read_split(mini, "test"))
alone = (session._classes(images) == labels).sum().item()
result |= dict(batches=batches, alone=alone)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are shared, the count is exact, and the course is nearly that of one process."""
    ramp = ramp_dir(tmp_path / "ramp")

    ranks = on_two_processes(SCRIPT, tmp_path, mini_dir, ramp)

    alone = started(ramp, global_batch_size=50)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert both == indices(alone, alone._next_batch()[0])
        assert len(set(both)) == 50
    assert ranks[0]["course"]["value"] == ranks[0]["alone"] / 5040
    assert ranks[0]["counts"] == [12032, 5040]
    single = started(mini_dir)
    assert ranks[0]["course"]["loss"] == pytest.approx(single.train_block(12000).mean_loss, rel=0.05)
    assert ranks[0]["course"]["value"] == pytest.approx(sessions.quality(single, mini_dir).value, abs=0.15)
