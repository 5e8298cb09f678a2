"""Image classification: its data, its loaders, and one training run as the referee drives it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import os
import pickle
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.workload import Metric, RunConfig, Workload
from tests.shared_files import unpack
from workloads.image_classification import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("sklearn")

import torch
from PIL import Image

from workloads.image_classification import cifar10, data, dataset
from workloads.image_classification.model import ResNet9, Whitening
from workloads.image_classification.recipe import Recipe
from workloads.image_classification.workload import TrainingSession, _mirrored

ROOT = Path(__file__).parents[2]
CIFAR10_JPEG = ROOT.parent / "shared" / "data" / "cifar10_jpeg.tar"
GOLDEN = Path(__file__).with_name("image_classification_golden.json")
MINI = {
    "global_batch_size": 128,
    "opt_name": "sgd",
    "opt_base_learning_rate": 0.4,
    "opt_end_learning_rate": 0.004,
    "opt_learning_rate_warmup_steps": 200,
    "opt_learning_rate_training_steps": 750,
    "opt_momentum": 0.9,
    "opt_weight_decay": 0.0005,
    "label_smoothing": 0.1,
    "data_translation": 2,
    "data_flip": False,
}
STANDARD = {**MINI, "global_batch_size": 32, "label_smoothing": 0.2, "data_translation": 4, "data_flip": True}


@pytest.fixture(scope="module")
def mini_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mini")
    WORKLOAD.prepare_data("mini", folder, None)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread: sums are taken in one order, and a machine with other work does not slow the tests twentyfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(folder: Path, suite: str = "mini", seed: int = 3, num_devices: int = 1, **changed: Any) -> RunConfig:
    values = {**(MINI if suite == "mini" else STANDARD), **changed}
    metadata = json.loads((folder / "metadata.json").read_text())
    return RunConfig(WORKLOAD.name, suite, "closed", seed, values, metadata, num_devices)


def started(folder: Path, **arguments: Any) -> TrainingSession:
    session = WORKLOAD.open(config(folder, **arguments))
    session.prepare()
    session.start(folder)
    return session


def losses(session: TrainingSession, num_steps: int) -> list[float]:
    return [session.train_block(1).mean_loss for _ in range(num_steps)]


def ramp_dir(folder: Path, num_train: int = 250, num_test: int = 37, size: int = 28, channels: int = 1) -> Path:
    """A data folder in which the training image i is grey level i everywhere, so that a batch tells its indices."""
    folder.mkdir(exist_ok=True)
    random = np.random.RandomState(0)
    train = np.repeat(np.arange(num_train, dtype=np.uint8), size * size * channels)
    test = random.randint(0, 256, (num_test, size, size, channels), dtype=np.uint8)
    splits = {"train": (train.reshape(-1, size, size, channels), num_train), "test": (test, num_test)}
    data._write(folder, "mini", {k: (x, np.arange(n, dtype=np.int64) % 10) for k, (x, n) in splits.items()}, "ramp")
    return folder


def indices(session: TrainingSession, images: torch.Tensor) -> list[int]:
    """Which images of a ramp a batch was made of."""
    return (images[:, 0, 0, 0] * session.std_C + session.mean_C).round().int().tolist()


# ---- what is imported, and the contract


def test_import_brings_no_machine_learning_library() -> None:
    """Naming the workload costs no second: torch and its like come with the session."""
    code = (
        "import sys; from workloads.image_classification import WORKLOAD; "
        "print([m for m in ('torch', 'sklearn', 'torchvision', 'accelerate', 'numpy') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_workload_meets_the_protocol() -> None:
    """The referee's view of it: a name, a metric whose direction is told."""
    assert isinstance(WORKLOAD, Workload)
    assert WORKLOAD.name == "image_classification"
    assert WORKLOAD.metric == Metric("top1_accuracy", "fraction", "max")


# ---- the mini data


def test_mini_data_have_the_golden_digests(mini_dir: Path) -> None:
    """Every byte of the contest is the same on every machine."""
    golden = json.loads(GOLDEN.read_text())["sha256"]

    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(mini_dir.iterdir())}

    assert found == golden


def test_mini_data_twice_are_the_same(mini_dir: Path) -> None:
    """Nothing but the seed decides: not the random state of the process."""
    np.random.seed(99)

    again = data.render_mini()

    for split, (images, labels) in again.items():
        assert np.array_equal(images, np.load(mini_dir / f"{split}_images.npy"))
        assert np.array_equal(labels, np.load(mini_dir / f"{split}_labels.npy"))


def test_mini_source_digits_are_disjoint() -> None:
    """No digit is drawn both for training and for testing."""
    sources = data.mini_sources()

    assert {name: len(which) for name, which in sources.items()} == {"train": 1200, "validation": 237, "test": 360}
    assert sorted(np.concatenate(list(sources.values()))) == list(range(1797))


def test_mini_other_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If scikit-learn changed its digits the contest would silently be another."""
    monkeypatch.setattr(data, "DIGITS_SHA256", "0" * 64)

    with pytest.raises(DataError, match="another data set"):
        data.render_mini()


def test_placed_picture_is_where_it_was_put() -> None:
    """A full picture of 8 pixels a side around the centre of the frame is opaque inside and absent outside."""
    one = np.ones(1, np.int64)

    opacity = data._place(np.full((1, 8, 8), 16), 14 * 16 * one, 14 * 16 * one, 8 * 16 * one, 0 * one, 0 * one)

    assert (opacity[0, 10:18, 10:18] == 4096).all()
    assert opacity.sum() == 64 * 4096


def test_metadata_moments_are_those_of_the_training_images(mini_dir: Path) -> None:
    """What is known before the clock is right."""
    metadata = json.loads((mini_dir / "metadata.json").read_text())
    images = np.load(mini_dir / "train_images.npy")

    assert metadata["num_train"] == 30000
    assert metadata["num_test"] == 5040
    assert metadata["image_shape"] == [28, 28, 1]
    assert metadata["channel_mean"] == pytest.approx([images.mean()], abs=1e-4)
    assert metadata["channel_std"] == pytest.approx([images.std()], abs=1e-4)


def test_mini_refuses_a_source(tmp_path: Path) -> None:
    """A source that would be ignored is an error."""
    with pytest.raises(UsageError, match="makes its own data"):
        WORKLOAD.prepare_data("mini", tmp_path, tmp_path)


def test_unknown_suite_is_answered_with_the_known(tmp_path: Path) -> None:
    """A typing error is met with a suggestion."""
    with pytest.raises(UsageError, match="did you mean 'standard'"):
        WORKLOAD.prepare_data("standrd", tmp_path, None)


# ---- hyperparameters and configuration


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"global_batchsize": 3}, "did you mean 'global_batch_size'"),
        ({"global_batch_size": 128.0}, "expected int"),
        ({"global_batch_size": True}, "expected int"),
        ({"global_batch_size": 1}, "at least 2"),
        ({"global_batch_size": 30001}, "larger than the training set of 30000"),
        ({"data_flip": 1}, "expected bool"),
        ({"opt_name": "adam"}, "expected sgd"),
        ({"opt_base_learning_rate": -0.1}, "finite number"),
        ({"opt_base_learning_rate": math.nan}, "finite number"),
        ({"opt_momentum": 1.0}, "below 1"),
        ({"data_translation": 28}, "smaller than the image"),
        ({"opt_learning_rate_warmup_steps": 750}, "must be below"),
    ],
)
def test_wrong_hyperparameter_is_a_usage_error(mini_dir: Path, changed: dict[str, Any], message: str) -> None:
    """One sentence that says what was given and what may be."""
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(mini_dir, **changed))


def test_optimiser_of_ones_own_may_have_any_name(mini_dir: Path) -> None:
    """In the open division `opt_name` is what the log says; with the workload's own optimiser it must be that."""
    own = {"build_optimizer": lambda network, recipe: torch.optim.Adam(network.parameters())}
    of_mine = dataclasses.replace(config(mini_dir, opt_name="adam"), division="open", parts=own)

    WORKLOAD.open(of_mine)

    with pytest.raises(UsageError, match="expected sgd"):
        WORKLOAD.open(dataclasses.replace(of_mine, parts={"build_model": lambda *arguments: None}))


def test_missing_hyperparameter_is_named() -> None:
    """There are no defaults in code."""
    with pytest.raises(UsageError, match="missing: data_flip"):
        Recipe.parse({key: value for key, value in MINI.items() if key != "data_flip"})


def test_batch_that_devices_cannot_share_is_refused(mini_dir: Path) -> None:
    """Every rank has the same share of every batch."""
    with pytest.raises(UsageError, match="128 cannot be shared by 3 devices"):
        WORKLOAD.open(config(mini_dir, num_devices=3))


def test_world_that_is_not_the_one_declared_is_refused(mini_dir: Path) -> None:
    """One process cannot stand for two devices."""
    session = WORKLOAD.open(config(mini_dir, num_devices=2))

    with pytest.raises(UsageError, match="1 processes were started for 2 devices"):
        session.prepare()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="has an accelerator")
def test_half_precision_on_a_cpu_is_refused(mini_dir: Path) -> None:
    """Gradient scaling needs an accelerator; the sentence says what there is instead."""
    run = dataclasses.replace(config(mini_dir), precision="fp16")

    with pytest.raises(UsageError, match="a CPU supports fp32 and bf16"):
        WORKLOAD.open(run).prepare()


def test_metadata_that_lack_a_key_are_refused(mini_dir: Path) -> None:
    """An old data folder is told apart."""
    run = config(mini_dir)
    metadata = {key: value for key, value in run.metadata.items() if key != "image_shape"}

    with pytest.raises(DataError, match="lacks 'image_shape'"):
        WORKLOAD.open(RunConfig(run.workload, run.suite, run.division, 0, run.hyperparameters, metadata))


def test_learning_rate_rises_falls_and_stays() -> None:
    """A triangle with a floor: a run past its horizon still learns."""
    recipe = Recipe.parse({**MINI, "opt_learning_rate_warmup_steps": 3, "opt_learning_rate_training_steps": 7})

    rates = [recipe.learning_rate(step) for step in range(9)]

    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.301, 0.202, 0.103, 0.004, 0.004])


# ---- one run


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty steps from seed 3; the tolerance is for other processors' order of summation."""
    golden = json.loads(GOLDEN.read_text())["loss"]

    curve = losses(started(mini_dir), len(golden))

    assert curve == pytest.approx(golden, rel=0.03)
    assert curve[:5] == pytest.approx(golden[:5], rel=1e-3)


def test_warm_up_leaves_no_trace(mini_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the warm-up the losses are the same to the last bit."""
    warm = losses(started(mini_dir), 8)
    monkeypatch.setattr(TrainingSession, "_warm_up", lambda self: None)

    cold = losses(started(mini_dir), 8)

    assert warm == cold


def test_evaluation_does_not_change_training(mini_dir: Path) -> None:
    """Evaluating between steps leaves the curve as it was, and so does evaluating twice."""
    plain = losses(started(mini_dir), 6)
    session = started(mini_dir)

    evaluated = []
    for _ in range(6):
        evaluated += losses(session, 1)
        assert session.evaluate() == session.evaluate()

    assert evaluated == plain


def test_seeds_differ(mini_dir: Path) -> None:
    """The seed reaches the weights and the order."""
    assert losses(started(mini_dir, seed=1), 1) != losses(started(mini_dir, seed=2), 1)


def test_block_counts_whole_batches_over_the_end_of_an_epoch(tmp_path: Path) -> None:
    """250 images in batches of 100: two batches an epoch, 50 images dropped, and what was used is what is counted."""
    session = started(ramp_dir(tmp_path), global_batch_size=100)

    block = session.train_block(450)
    empty = session.train_block(0)

    assert block.num_samples == 500
    assert session.epoch == 2
    assert session.step == 5
    assert math.isfinite(block.mean_loss)
    assert block.data_wait_s > 0
    assert empty.num_samples == 0


def test_an_epoch_shows_no_image_twice_and_shuffles(tmp_path: Path) -> None:
    """Two epochs of a ramp: each a set without doubles, in another order."""
    session = started(ramp_dir(tmp_path), global_batch_size=50)

    first, second = ([i for _ in range(5) for i in indices(session, session._next_batch()[0])] for _ in range(2))

    assert sorted(first) == sorted(second) == list(range(250))
    assert first != second


def test_labels_belong_to_their_images(tmp_path: Path) -> None:
    """Selection, shift and flip move an image together with its label."""
    session = started(ramp_dir(tmp_path), global_batch_size=50, data_flip=True)

    images, labels = session._next_batch()

    assert [i % 10 for i in indices(session, images)] == labels.tolist()


def test_shift_is_mirrored_at_the_border() -> None:
    """Reflection without repeating the edge, as torch's reflect padding."""
    assert _mirrored(torch.arange(-2, 7), 5).tolist() == [2, 1, 0, 1, 2, 3, 4, 3, 2]


def test_flip_alternates_with_the_epoch(tmp_path: Path) -> None:
    """An image seen one way in an epoch is seen the other way in the next."""
    session = started(ramp_dir(tmp_path), data_flip=True)
    before = session.flips_N.clone()

    session._new_epoch()

    assert (session.flips_N != before).all()


def test_accuracy_agrees_with_scikit_learn_with_a_partial_last_batch(mini_dir: Path) -> None:
    """The metric is scikit-learn's accuracy, also where the last batch is not full, and it is neither 0 nor 1."""
    from sklearn.metrics import accuracy_score

    session = started(mini_dir)
    session.train_block(20 * 128)
    session.test_images_NHWC, session.test_labels_N = session.test_images_NHWC[:1237], session.test_labels_N[:1237]
    session.num_test = 1237

    quality = session.evaluate()

    with torch.inference_mode():
        session.network.eval()
        predicted = session.network(session._normalised(session.test_images_NHWC)).argmax(1)
    assert quality.num_examples == 1237
    assert quality.value == accuracy_score(session.test_labels_N, predicted)
    assert 0.02 < quality.value < 0.98


def test_diverged_run_returns_a_loss_that_is_not_finite(mini_dir: Path) -> None:
    """The session does not judge: the referee sees the loss and ends the run."""
    session = started(mini_dir, opt_base_learning_rate=1e8, opt_learning_rate_warmup_steps=0)

    loss = session.train_block(30 * 128).mean_loss

    assert not math.isfinite(loss)
    assert session.evaluate().num_examples == 5040


def test_start_refuses_data_that_are_not_as_announced(tmp_path: Path) -> None:
    """Images of another size than the metadata's."""
    ramp_dir(tmp_path)
    session = WORKLOAD.open(config(tmp_path))
    session.prepare()
    ramp_dir(tmp_path, size=30)

    with pytest.raises(DataError, match=r"train_images\.npy"):
        session.start(tmp_path)


def test_closed_session_can_be_closed_unprepared(mini_dir: Path) -> None:
    """A run that failed early is still put away."""
    WORKLOAD.open(config(mini_dir)).close()


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "dtype", "count"])
def test_damaged_array_is_named(tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with a file, the sentence says which."""
    ramp_dir(tmp_path)
    path = tmp_path / "train_labels.npy"
    whole = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(whole[:-5])
        case "text":
            path.write_text("labels")
        case "dtype":
            np.save(path, np.zeros(250))
        case "count":
            np.save(path, np.zeros(249, np.int64))

    with pytest.raises(DataError, match="train"):
        data.read_split(tmp_path, "train")


# ---- baselines


@pytest.mark.slow
def test_baselines_know_a_majority_and_an_easy_set(tmp_path: Path) -> None:
    """On two grey levels of which 60 % are bright, neighbours are perfect and the majority is 60 %."""
    random = np.random.RandomState(0)
    labels = np.arange(200, dtype=np.int64) % 5 // 2 % 2
    images = (labels[:, None, None, None] * 100 + random.randint(0, 50, (200, 10, 10, 1))).astype(np.uint8)
    data._write(tmp_path, "mini", {"train": (images, labels), "test": (images, labels)}, "two levels")

    scores = WORKLOAD.baselines("mini", tmp_path)

    assert scores["majority_class"] == 0.6
    assert scores["nearest_neighbours_5"] == 1.0
    assert scores["random_forest"] == 1.0
    assert all(0.0 <= score <= 1.0 for score in scores.values())


# ---- CIFAR-10's layouts, small

PER_CLASS = {"train": 5, "test": 1}


def small_cifar() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Planes (N, 3, 32, 32) and labels: five images a class to train on, one to test."""
    random = np.random.RandomState(5)
    labels = {"train": np.tile(np.arange(10), 5), "test": np.arange(10)}
    return {k: (random.randint(0, 256, (len(n), 3, 32, 32)).astype(np.uint8), n) for k, n in labels.items()}


def binary_dir(folder: Path) -> Path:
    folder.mkdir()
    small = small_cifar()
    for split, names in (("train", [f"data_batch_{i}" for i in range(1, 6)]), ("test", ["test_batch"])):
        planes, labels = small[split]
        records = np.concatenate([labels[:, None].astype(np.uint8), planes.reshape(len(planes), -1)], axis=1)
        for name, part in zip(names, np.split(records, len(names)), strict=True):
            (folder / f"{name}.bin").write_bytes(part.tobytes())
    return folder


def python_dir(folder: Path) -> dict[str, str]:
    """The pickles' MD5 by name."""
    folder.mkdir()
    small = small_cifar()
    md5 = {}
    for split, names in (("train", [f"data_batch_{i}" for i in range(1, 6)]), ("test", ["test_batch"])):
        planes, labels = (np.split(part, len(names)) for part in small[split])
        for name, part, numbers in zip(names, planes, labels, strict=True):
            content = pickle.dumps({"data": part.reshape(len(part), -1), "labels": numbers.tolist()}, protocol=2)
            (folder / name).write_bytes(content)
            md5[name] = hashlib.md5(content).hexdigest()
    return md5


def folders_dir(folder: Path, suffix: str = ".png") -> Path:
    for split, (planes, labels) in small_cifar().items():
        for i, (pixels, label) in enumerate(zip(planes, labels, strict=True)):
            (folder / split / f"class{label}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / split / f"class{label}" / f"{i:04d}{suffix}")
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
    """A small copy is recognised in each layout, also from the folder above, and refused for its size."""
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
    """A file gone, cut off, with a label of 10, or with a class too often."""
    folder = binary_dir(tmp_path / "binary")
    path = folder / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[0] = {"label": 10, "count": 1}.get(damage, 0)
    path.write_bytes(content[:-1] if damage == "cut" else content)
    if damage == "missing":
        path.unlink()

    with pytest.raises(DataError, match="binary: train images per class" if damage == "count" else "data_batch_3.bin"):
        cifar10.read_binary_batches(folder, PER_CLASS)


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_python_batch_is_named_and_not_unpickled(tmp_path: Path, damage: str) -> None:
    """A pickle of another digest is never opened."""
    folder = tmp_path / "python"
    md5 = python_dir(folder)
    path = folder / "test_batch"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()

    with pytest.raises(DataError, match="test_batch"):
        cifar10.read_python_batches(folder, md5, PER_CLASS)


@pytest.mark.parametrize("damage", ["cut", "text", "size", "missing", "class", "split"])
def test_damaged_image_folder_is_named(tmp_path: Path, damage: str) -> None:
    """A damaged picture by its path; a lacking picture or class by its folder."""
    folder = folders_dir(tmp_path / "png")
    path = folder / "train" / "class4" / "0024.png"
    named = "0024.png"
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:600])
        case "text":
            path.write_text("no picture")
        case "size":
            Image.new("RGB", (31, 32)).save(path)
        case "missing":
            path.unlink()
            named = "class4: 4 images, expected 5"
        case "class":
            (folder / "test" / "class4").rename(folder / "test" / "classy")
            named = "test: expected 10 classes, the same as in train"
        case "split":
            (folder / "test").rename(folder / "exam")
            named = "test: expected 10 classes"

    with pytest.raises(DataError, match=named):
        cifar10.read_class_folders(folder, PER_CLASS)


def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    """A refused connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    with pytest.raises(DataError, match="could not be downloaded"):
        cifar10.download(tmp_path, f"http://127.0.0.1:{port}/cifar-10-python.tar.gz")


def test_archive_that_is_not_the_official_one_is_refused(tmp_path: Path) -> None:
    """The digest is checked before anything is unpacked."""
    (tmp_path / "some.tar.gz").write_bytes(b"not the archive")

    with pytest.raises(DataError, match="it was not kept"):
        cifar10.download(tmp_path / "downloads", (tmp_path / "some.tar.gz").as_uri())


@pytest.mark.parametrize(
    ("held", "named"),
    [({}, "contains no file cifar-10-batches-py/data_batch_1"), ({"data_batch_1": b"x"}, "data_batch_1: MD5 is")],
)
def test_archive_is_read_by_the_names_of_its_members(tmp_path: Path, held: dict[str, bytes], named: str) -> None:
    """Nothing is unpacked, and no pickle is read but the official ones."""
    archive = tmp_path / "some.tar.gz"
    with tarfile.open(archive, "w:gz") as members:
        for name, content in held.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            members.addfile(info, io.BytesIO(content))

    with pytest.raises(DataError, match=named):
        cifar10.download(tmp_path / "downloads", archive.as_uri(), hashlib.sha256(archive.read_bytes()).hexdigest())

    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["cifar-10-python.tar.gz"]


# ---- the standard suite


def test_whitened_patches_are_uncorrelated() -> None:
    """Over the images it was fitted on, the first layer's outputs have nearly the identity as covariance."""
    images = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 3
    images -= images.mean()
    whitening = Whitening(3, 3)

    whitening.fit(images, floor=0.0)

    flat = torch.nn.functional.conv2d(images, whitening.weight).transpose(0, 1).flatten(1)
    assert torch.allclose(flat @ flat.T / flat.shape[1], torch.eye(27), atol=1e-4)


def test_whitening_is_part_of_the_state_and_not_trained() -> None:
    """A buffer: kept with the weights, out of the optimiser's reach."""
    network = ResNet9(3, 10)

    assert "whitening.weight" in network.state_dict()
    assert "whitening.weight" not in dict(network.named_parameters())


@pytest.mark.slow
def test_standard_network_learns_and_starts_as_seeded(tmp_path: Path) -> None:
    """Two classes of colour: the loss falls within a few steps of ResNet-9."""
    random = np.random.RandomState(0)
    labels = np.arange(128, dtype=np.int64) % 10
    images = (labels[:, None, None, None] * 20 + random.randint(0, 30, (128, 32, 32, 3))).astype(np.uint8)
    data._write(tmp_path, "standard", {"train": (images, labels), "test": (images, labels)}, "ramps")
    session = started(tmp_path, suite="standard", opt_learning_rate_warmup_steps=0, opt_base_learning_rate=0.1)

    curve = losses(session, 8)

    assert curve[0] == pytest.approx(math.log(10), abs=0.4)
    assert curve[-1] < curve[0] - 0.3
    assert session.evaluate().num_examples == 128


@pytest.mark.slow
@pytest.mark.skipif(not CIFAR10_JPEG.is_file(), reason="no copy of CIFAR-10 in JPEG beside the repository")
def test_real_cifar_in_folders_is_converted(tmp_path: Path) -> None:
    """Sixty thousand JPEG files become the same four arrays as any other layout."""
    unpack(CIFAR10_JPEG, tmp_path / "source")
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path / "source")

    images, labels = data.read_split(tmp_path / "out", "train")
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert images.shape == (50000, 32, 32, 3)
    assert np.bincount(labels).tolist() == [5000] * 10
    # The published moments of CIFAR-10 are 0.4914, 0.4822, 0.4465; JPEG moves them little.
    assert metadata["channel_mean"] == pytest.approx([255 * m for m in (0.4914, 0.4822, 0.4465)], abs=0.5)


# ---- two processes

TWO_PROCESSES = """
import json, sys
from pathlib import Path
import torch
from tests.workloads.test_image_classification import indices, started
from workloads.image_classification.data import read_split
mini, ramp, out = (Path(p) for p in sys.argv[1:])
session = started(ramp, num_devices=2, global_batch_size=50)
batches = [indices(session, session._next_batch()[0]) for _ in range(6)]
session = started(mini, num_devices=2)
block = session.train_block(12000)
quality = session.evaluate()
alone = session._num_correct(*(torch.from_numpy(a) for a in read_split(mini, "test"))).item()
weights = sum(p.double().sum().item() for p in session.network.parameters())
(out / f"{session.rank}.json").write_text(json.dumps(dict(batches=batches, loss=block.mean_loss, value=quality.value,
    num_examples=quality.num_examples, num_samples=block.num_samples, alone=alone, weights=weights)))
session.close()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are shared, the count is exact, and the course is nearly that of one process."""
    ramp = ramp_dir(tmp_path / "ramp")
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(tmp_path / "two.py"), str(mini_dir), str(ramp), str(tmp_path)]

    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    alone = started(ramp, global_batch_size=50)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert both == indices(alone, alone._next_batch()[0])
        assert len(set(both)) == 50
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["value"] == ranks[1]["value"] == ranks[0]["alone"] / 5040
    assert [r["num_examples"] for r in ranks] == [5040, 5040]
    assert [r["num_samples"] for r in ranks] == [12032, 12032]
    single = started(mini_dir)
    assert ranks[0]["loss"] == pytest.approx(single.train_block(12000).mean_loss, rel=0.05)
    assert ranks[0]["value"] == pytest.approx(single.evaluate().value, abs=0.15)


def write_golden(folder: Path) -> None:
    """Regenerate what the golden tests compare with: `python -m tests.workloads.test_image_classification`."""
    WORKLOAD.prepare_data("mini", folder, None)
    torch.set_num_threads(1)
    golden = {
        "loss": [round(loss, 6) for loss in losses(started(folder), 50)],
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
    }
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        write_golden(Path(name))
