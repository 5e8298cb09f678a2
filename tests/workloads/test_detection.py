"""Detection: its data, its loader, its metric, and one training run as the referee drives it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.workload import Metric, RunConfig, Workload
from tests.shared_files import unpack
from workloads.detection import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("sklearn")
pytest.importorskip("torchvision")
pytest.importorskip("faster_coco_eval")

import torch
from PIL import Image
from torchvision.models.detection.fcos import FCOS
from torchvision.ops import batched_nms

from workloads.detection import data, dataset, model, scenes, voc
from workloads.detection.boxes import flipped as flipped_pair
from workloads.detection.boxes import survivors
from workloads.detection.coco import TruthSet
from workloads.detection.muon import build_optimizer, orthogonal
from workloads.detection.recipe import Recipe
from workloads.detection.workload import TrainingSession

ROOT = Path(__file__).parents[2]
BCCD = Path(__file__).parents[3] / "shared" / "data" / "bccd_voc.tar"
GOLDEN = Path(__file__).with_name("detection_golden.json")
MINI = {
    "global_batch_size": 16,
    "opt_name": "muon",
    "opt_base_learning_rate": 0.3,
    "opt_end_learning_rate": 0.003,
    "opt_learning_rate_warmup_steps": 48,
    "opt_learning_rate_training_steps": 480,
    "opt_momentum": 0.9,
    "opt_weight_decay": 0.01,
    "opt_adamw_learning_rate_ratio": 0.015,
    "opt_adamw_beta_1": 0.9,
    "opt_adamw_beta_2": 0.99,
    "opt_adamw_epsilon": 1e-8,
    "focal_alpha": 0.5,
    "focal_gamma": 1.5,
    "box_loss_weight": 2.0,
    "center_sampling_radius": 1.0,
    "data_flip": False,
}
STANDARD = {**MINI, "global_batch_size": 2, "center_sampling_radius": 1.5, "data_flip": True}


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


def ramp_dir(folder: Path, num_train: int = 50, num_test: int = 13, size: int = 64, channels: int = 1) -> Path:
    """A data folder whose training image i is grey level i with a box that begins at column i % 8."""
    folder.mkdir(exist_ok=True)
    random = np.random.RandomState(0)
    splits = {}
    for name, count in (("train", num_train), ("test", num_test)):
        images = np.repeat(np.arange(count, dtype=np.uint8), size * size * channels).reshape(-1, size, size, channels)
        if name == "test":
            images = random.randint(0, 256, images.shape, dtype=np.uint8)
        boxes = np.zeros((count, 2, 4), np.float32)
        boxes[:, 0] = [(i % 8, 10, i % 8 + 20, 30) for i in range(count)]
        labels = np.stack([np.arange(count) % 10, np.full(count, -1)], 1)
        splits[name] = images, boxes, labels
    data.write(folder, "mini", splits, [str(k) for k in range(10)], "ramp")
    return folder


def indices(session: TrainingSession, images: torch.Tensor) -> list[int]:
    """Which images of a ramp a batch was made of."""
    return (images[:, 0, 0, 0] * session.std_C + session.mean_C).round().int().tolist()


def detector(**changed: Any) -> model.Detector:
    torch.manual_seed(0)
    return model.Detector("mini", (64, 96, 1), 10, Recipe.parse({**MINI, **changed}))


def some_boxes(num_images: int, places: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random boxes within 64x96 pixels and labels; the second image has no objects, others are not full."""
    draws = torch.Generator().manual_seed(seed)
    near = torch.rand(num_images, places, 2, generator=draws) * torch.tensor([60.0, 30.0])
    boxes = torch.cat([near, near + 6 + torch.rand(near.shape, generator=draws) * 28], -1)
    labels = torch.randint(0, 10, (num_images, places), generator=draws)
    labels[0, 3:] = -1
    labels[1] = -1
    return boxes, labels


# ---- what is imported, and the contract


def test_import_brings_no_machine_learning_library() -> None:
    """Naming the workload costs no second: torch and its like come with the session."""
    code = (
        "import sys; from workloads.detection import WORKLOAD; "
        "print([m for m in ('torch', 'sklearn', 'torchvision', 'accelerate', 'numpy', 'PIL', 'faster_coco_eval') "
        "if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_workload_meets_the_protocol() -> None:
    """The referee's view of it: a name, a metric whose direction is told."""
    assert isinstance(WORKLOAD, Workload)
    assert WORKLOAD.name == "detection"
    assert WORKLOAD.metric == Metric("map", "fraction", "max")


# ---- the mini data


def test_mini_data_have_the_golden_digests(mini_dir: Path) -> None:
    """Every byte of the contest is the same on every machine."""
    golden = json.loads(GOLDEN.read_text())["sha256"]

    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(mini_dir.iterdir())}

    assert found == golden


def test_mini_scenes_twice_are_the_same(mini_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the seed decides: not the random state of the process, nor how many scenes are made."""
    np.random.seed(99)
    monkeypatch.setattr(scenes, "NUM_SCENES", {"train": 20, "validation": 20, "test": 20})

    again = scenes.render()

    for split, arrays in again.items():
        for kind, array in zip(("images", "boxes", "labels"), arrays, strict=True):
            assert np.array_equal(array, np.load(mini_dir / f"{split}_{kind}.npy")[:20])


def test_mini_source_digits_are_disjoint() -> None:
    """No digit is drawn both for training and for testing."""
    sources = scenes.sources()

    assert {name: len(which) for name, which in sources.items()} == {"train": 1200, "validation": 237, "test": 360}
    assert sorted(np.concatenate(list(sources.values()))) == list(range(1797))


def test_mini_splits_draw_only_from_their_own_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scene is made from the pictures of its split and no others, torn ones included."""
    from sklearn.datasets import load_digits

    given: list[np.ndarray] = []
    draw_scene = scenes._scene

    def watched(random: np.random.RandomState, digits: np.ndarray, labels: np.ndarray) -> dataset.Split:
        given.append(digits)
        return draw_scene(random, digits, labels)

    monkeypatch.setattr(scenes, "NUM_SCENES", {"train": 1, "validation": 1, "test": 1})
    monkeypatch.setattr(scenes, "_scene", watched)

    scenes.render()

    pictures = load_digits().images
    for digits, which in zip(given, scenes.sources().values(), strict=True):
        assert np.array_equal(digits, pictures[which])


def test_mini_other_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If scikit-learn changed its digits the contest would silently be another."""
    monkeypatch.setattr(scenes, "DIGITS_SHA256", "0" * 64)

    with pytest.raises(DataError, match="another data set"):
        scenes.render()


def test_mini_scenes_keep_their_promises(mini_dir: Path) -> None:
    """One to six digits a scene, boxes within it and hardly overlapping, all ten classes, no scene in two splits."""
    seen: set[bytes] = set()
    total = 0
    for split in ("train", "validation", "test"):
        images, boxes, labels = data.read_split(mini_dir, split)
        total += len(images)
        seen |= {image.tobytes() for image in images}
        counts = (labels >= 0).sum(1)
        assert (counts.min(), counts.max()) == (1, 6)
        assert len(np.unique(labels[labels >= 0])) == 10
        for found, real in zip(boxes, labels >= 0, strict=True):
            for i, box in enumerate(found[real]):
                assert scenes._is_free(box.astype(np.int64), found[real][:i].astype(np.int64))
    assert len(seen) == total


def test_box_is_tight_on_a_picture_drawn_straight() -> None:
    """A full picture of 24 pixels a side, not turned: its soft edge is ink for one pixel more each way."""
    still = np.zeros(1, np.int64)

    opacity = scenes._placed(np.full((1, 8, 8), 16), still, still, still + 24 * 16, still, scenes.PATCH, 0)[0]

    rows = np.flatnonzero((opacity >= scenes.INK).any(1))
    assert (rows[0], rows[-1] + 1) == (17, 43)
    assert opacity[20:40, 20:40].min() == 4096


def test_overlap_up_to_a_tenth_is_free() -> None:
    """Equal to the limit is allowed, one pixel more is not; no other box at all is free."""
    box = np.array([0, 0, 10, 10])

    assert scenes._is_free(box, np.array([[9, 0, 19, 10]]))
    assert not scenes._is_free(box, np.array([[8, 0, 18, 10]]))
    assert scenes._is_free(box, np.zeros((0, 4), np.int64))


def test_metadata_moments_are_those_of_the_training_images(mini_dir: Path) -> None:
    """What is known before the clock is right."""
    metadata = json.loads((mini_dir / "metadata.json").read_text())
    images = np.load(mini_dir / "train_images.npy")

    assert (metadata["num_train"], metadata["num_test"]) == (2000, 320)
    assert metadata["image_shape"] == [128, 128, 1]
    assert metadata["classes"] == [str(k) for k in range(10)]
    assert metadata["max_objects_train"] == 6
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


# ---- the metric


def rows(*detections: tuple[float, ...]) -> np.ndarray:
    return np.array(detections, np.float64).reshape(-1, 7)


def one_object() -> TruthSet:
    """Image 0 has a box of 10x10 of class 1; image 1 has nothing; class 0 does not occur."""
    boxes = np.zeros((2, 1, 4), np.float32)
    boxes[0, 0] = (10, 10, 20, 20)
    return TruthSet(boxes, np.array([[1], [-1]]), 2)


@pytest.mark.parametrize(
    ("detections", "expected"),
    [
        ([], 0.0),
        ([(0, 10, 10, 10, 10, 0.9, 1)], 1.0),
        ([(0, 10, 10, 10, 10, 0.9, 0)], 0.0),  # the wrong class
        ([(1, 10, 10, 10, 10, 0.9, 1)], 0.0),  # the wrong image
        ([(0, 10, 10, 10, 7.5, 0.9, 1)], 0.6),  # IoU 0.75 holds at six of ten thresholds
        ([(1, 0, 0, 5, 5, 0.95, 1), (0, 10, 10, 10, 10, 0.9, 1)], 0.5),  # something better rated is wrong
        ([(0, 10, 10, 10, 10, 0.9, 1), (1, 0, 0, 5, 5, 0.5, 1)], 1.0),  # something worse rated does not matter
        ([(0, 10, 10, 10, 10, 0.9, 1), (0, 10, 10, 10, 10, 0.8, 1)], 1.0),  # found twice
    ],
)
def test_metric_of_cases_made_by_hand(detections: list[tuple[float, ...]], expected: float) -> None:
    """A mean over IoU thresholds of precision at the recalls, over the classes that occur."""
    assert one_object().mean_average_precision(rows(*detections)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_metric_agrees_with_pycocotools(seed: int) -> None:
    """The reference implementation's AP on random scenes, with all area ranges and its own bookkeeping."""
    pytest.importorskip("pycocotools")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    random = np.random.RandomState(seed)
    boxes = np.zeros((12, 6, 4), np.float32)
    boxes[..., :2] = random.randint(0, 80, (12, 6, 2))
    boxes[..., 2:] = boxes[..., :2] + random.randint(4, 45, (12, 6, 2))
    labels = np.where(random.rand(12, 6) < 0.7, random.randint(0, 3, (12, 6)), -1)
    truth = TruthSet(boxes, labels, 4)
    found = [
        (
            i,
            *(box[:2] + random.randint(-2, 3, 2)),
            *(box[2:] - box[:2] + random.randint(-2, 3, 2)),
            random.rand(),
            label,
        )
        for i in range(12)
        for box, label in zip(boxes[i], labels[i], strict=True)
        if label >= 0 and random.rand() < 0.8
    ]
    found += [
        (random.randint(12), *random.randint(0, 60, 2), 20, 20, random.rand(), random.randint(4)) for _ in range(30)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO()
        reference.dataset = json.loads(json.dumps(truth.coco.dataset))
        reference.createIndex()
        evaluation = COCOeval(reference, reference.loadRes(rows(*found)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()

    value = truth.mean_average_precision(rows(*found))

    assert value == pytest.approx(evaluation.stats[0], abs=1e-9)
    assert 0.1 < value < 0.9


def test_metric_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """The library's progress stays out of the log."""
    one_object().mean_average_precision(rows((0, 10, 10, 10, 10, 0.9, 1)))

    assert capfd.readouterr() == ("", "")


# ---- the network is torchvision's FCOS


def test_loss_is_that_of_torchvision() -> None:
    """With its constants, and at our points, every term is FCOS's: assignment, focal loss, GIoU, centerness."""
    network = detector(focal_alpha=0.25, focal_gamma=2.0, box_loss_weight=1.0, center_sampling_radius=1.5)
    boxes, labels = some_boxes(4)
    outputs = network(torch.randn(4, 1, 64, 96))
    outputs["bbox_regression"] = outputs["bbox_regression"] + torch.rand(outputs["bbox_regression"].shape)
    half = model.STRIDE / 2
    anchors = torch.cat([network.points_P2 - half, network.points_P2 + half], 1)
    targets = [{"boxes": b[k >= 0], "labels": k[k >= 0]} for b, k in zip(boxes, labels, strict=True)]
    expected = FCOS.compute_loss(network, targets, outputs, [anchors] * 4, [len(anchors)])

    total, num_points = network.loss(outputs, boxes, labels)

    assert num_points > 20
    assert (total / num_points).item() == pytest.approx(sum(expected.values()).item(), rel=1e-5)


def test_detections_are_those_of_torchvision() -> None:
    """Scores, boxes, labels and their order are what FCOS's post-processing gives, for all images at once."""
    network = detector()
    draws = torch.Generator().manual_seed(1)
    outputs = {
        "cls_logits": torch.randn(3, 96, 10, generator=draws) * 2 - 3,
        "bbox_regression": torch.rand(3, 96, 4, generator=draws) * 3,
        "bbox_ctrness": torch.randn(3, 96, 1, generator=draws),
    }
    half = model.STRIDE / 2
    anchors = torch.cat([network.points_P2 - half, network.points_P2 + half], 1)
    levels = {name: [value] for name, value in outputs.items()}
    expected = network.postprocess_detections(levels, [[anchors]] * 3, [(64, 96)] * 3)

    boxes, scores, labels = network.detect(outputs)

    for i, one in enumerate(expected):
        kept = scores[i] > 0
        assert torch.equal(labels[i][kept], one["labels"])
        assert torch.allclose(scores[i][kept], one["scores"])
        assert torch.allclose(boxes[i][kept], one["boxes"], atol=1e-4)


def test_suppression_is_that_of_torchvision() -> None:
    """The batched greedy suppression keeps what `batched_nms` keeps."""
    draws = torch.Generator().manual_seed(2)
    near = torch.rand(5, 60, 2, generator=draws) * 30
    boxes = torch.cat([near, near + 10 + torch.rand(near.shape, generator=draws) * 10], -1)
    scores = torch.rand(5, 60, generator=draws).sort(1, descending=True).values
    labels = torch.randint(0, 3, (5, 60), generator=draws)

    survives = survivors(boxes, scores, labels, 0.5)

    assert 0 < survives.sum() < survives.numel()
    for i in range(5):
        assert survives[i].nonzero().flatten().tolist() == sorted(
            batched_nms(boxes[i], scores[i], labels[i], 0.5).tolist()
        )


def test_orthogonal_brings_singular_values_near_one() -> None:
    """Tall and wide matrices, whatever their scale."""
    draws = torch.Generator().manual_seed(0)
    for shape in ((2, 6, 40), (2, 40, 6)):
        matrices = torch.randn(shape, generator=draws) * torch.tensor([1e-3, 1e3])[:, None, None]

        values = torch.linalg.svdvals(orthogonal(matrices))

        assert 0.6 < values.min() <= values.max() < 1.3


def test_optimiser_moves_every_parameter_once() -> None:
    """Each parameter is in one group, Muon has the backbone's inner convolutions, and AdamW's part is torch's AdamW."""
    network = detector()
    recipe = Recipe.parse(MINI)
    optimiser = build_optimizer(network, recipe)
    grouped = [p for group in optimiser.param_groups for p in group["params"]]
    group = optimiser.param_groups[1]
    copies = [p.detach().clone().requires_grad_() for p in group["params"]]
    reference = torch.optim.AdamW(copies, lr=0.3 * 0.015, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    for _ in range(3):
        for p, copy in zip(group["params"], copies, strict=True):
            p.grad = torch.randn(p.shape)
            copy.grad = p.grad.clone()
        optimiser.step()
        reference.step()

    assert sorted(map(id, grouped)) == sorted(map(id, network.parameters()))
    assert len(optimiser.param_groups[0]["params"]) == 7
    for p, copy in zip(group["params"], copies, strict=True):
        assert torch.allclose(p, copy, atol=1e-6)


# ---- hyperparameters and configuration


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"global_batchsize": 3}, "did you mean 'global_batch_size'"),
        ({"global_batch_size": 16.0}, "expected int"),
        ({"global_batch_size": True}, "expected int"),
        ({"global_batch_size": 0}, "at least 1"),
        ({"global_batch_size": 2001}, "larger than the training set of 2000"),
        ({"data_flip": 1}, "expected bool"),
        ({"opt_name": "adam"}, "expected muon"),
        ({"opt_base_learning_rate": -0.1}, "finite number"),
        ({"opt_base_learning_rate": math.nan}, "finite number"),
        ({"opt_momentum": 1.0}, "below 1"),
        ({"opt_adamw_epsilon": 0.0}, "above 0"),
        ({"opt_learning_rate_warmup_steps": 480}, "must be below"),
    ],
)
def test_wrong_hyperparameter_is_a_usage_error(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """One sentence that says what was given and what may be."""
    run = config(ramp_dir(tmp_path), **changed)

    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(dataclasses.replace(run, metadata={**run.metadata, "num_train": 2000}))


def test_missing_hyperparameter_is_named() -> None:
    """There are no defaults in code."""
    with pytest.raises(UsageError, match="missing: data_flip"):
        Recipe.parse({key: value for key, value in MINI.items() if key != "data_flip"})


def test_batch_that_devices_cannot_share_is_refused(tmp_path: Path) -> None:
    """Every rank has the same share of every batch."""
    with pytest.raises(UsageError, match="16 cannot be shared by 3 devices"):
        WORKLOAD.open(config(ramp_dir(tmp_path), num_devices=3))


def test_world_that_is_not_the_one_declared_is_refused(tmp_path: Path) -> None:
    """One process cannot stand for two devices."""
    session = WORKLOAD.open(config(ramp_dir(tmp_path), num_devices=2))

    with pytest.raises(UsageError, match="1 processes were started for 2 devices"):
        session.prepare()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="has an accelerator")
def test_half_precision_on_a_cpu_is_refused(tmp_path: Path) -> None:
    """Gradient scaling needs an accelerator; the sentence says what there is instead."""
    run = dataclasses.replace(config(ramp_dir(tmp_path)), precision="fp16")

    with pytest.raises(UsageError, match="a CPU supports fp32 and bf16"):
        WORKLOAD.open(run).prepare()


def test_metadata_that_lack_a_key_are_refused(tmp_path: Path) -> None:
    """An old data folder is told apart."""
    run = config(ramp_dir(tmp_path))
    metadata = {key: value for key, value in run.metadata.items() if key != "classes"}

    with pytest.raises(DataError, match="lacks 'classes'"):
        WORKLOAD.open(dataclasses.replace(run, metadata=metadata))


def test_learning_rate_rises_falls_and_stays() -> None:
    """A triangle with a floor: a run past its horizon still learns."""
    recipe = Recipe.parse({**MINI, "opt_learning_rate_warmup_steps": 2, "opt_learning_rate_training_steps": 5})

    rates = [recipe.learning_rate(step) for step in range(7)]

    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.201, 0.102, 0.003, 0.003])


# ---- one run


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty steps from seed 3, twice bit for bit; the tolerance is for other processors' order of summation."""
    golden = json.loads(GOLDEN.read_text())["loss"]

    curve = losses(started(mini_dir), len(golden))

    assert losses(started(mini_dir), len(golden)) == curve
    assert curve == pytest.approx(golden, rel=0.05)
    assert curve[:5] == pytest.approx(golden[:5], rel=2e-3)


def test_warm_up_leaves_no_trace(mini_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the warm-up the losses are the same to the last bit."""
    warm = losses(started(mini_dir), 6)
    monkeypatch.setattr(TrainingSession, "_warm_up", lambda self: None)

    cold = losses(started(mini_dir), 6)

    assert warm == cold


def test_evaluation_does_not_change_training(mini_dir: Path) -> None:
    """Evaluating between steps leaves the curve as it was, and so does evaluating twice."""
    plain = losses(started(mini_dir), 5)
    session = started(mini_dir)

    evaluated = []
    for _ in range(5):
        evaluated += losses(session, 1)
        assert session.evaluate() == session.evaluate()

    assert evaluated == plain


def test_seeds_differ(mini_dir: Path) -> None:
    """The seed reaches the weights and the order."""
    assert losses(started(mini_dir, seed=1), 1) != losses(started(mini_dir, seed=2), 1)


def test_block_counts_whole_batches_over_the_end_of_an_epoch(tmp_path: Path) -> None:
    """50 images in batches of 20: two batches an epoch, 10 images dropped, and what was used is what is counted."""
    session = started(ramp_dir(tmp_path), global_batch_size=20)

    block = session.train_block(90)
    empty = session.train_block(0)

    assert block.num_samples == 100
    assert session.step == 5
    assert math.isfinite(block.mean_loss)
    assert block.data_wait_s > 0
    assert empty.num_samples == 0


def test_an_epoch_shows_no_image_twice_and_shuffles(tmp_path: Path) -> None:
    """Two epochs of a ramp: each a set without doubles, in another order."""
    session = started(ramp_dir(tmp_path), global_batch_size=10)

    first, second = ([i for _ in range(5) for i in indices(session, session._next_batch()[0])] for _ in range(2))

    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


@pytest.mark.parametrize("flip", [False, True])
def test_boxes_and_labels_belong_to_their_images(tmp_path: Path, flip: bool) -> None:
    """Selection and flips move an image together with its boxes and labels."""
    session = started(ramp_dir(tmp_path), global_batch_size=50, data_flip=flip)

    images, boxes, labels = session._next_batch()

    which = indices(session, images)
    assert labels[:, 0].tolist() == [i % 10 for i in which]
    begins = {(i % 8, 64 - 20 - i % 8) if flip else (i % 8,) for i in which}
    assert all(box[0] in (i % 8, 44 - i % 8) for i, box in zip(which, boxes[:, 0].tolist(), strict=True))
    assert {box[1] for box in boxes[:, 0].tolist()} == ({10.0, 34.0} if flip else {10.0})
    assert len(begins) == 8


def test_flip_moves_pixels_and_boxes_alike() -> None:
    """What the box of a bright patch encloses is bright after either flip; the other image stays."""
    images = torch.zeros(2, 6, 8, 1, dtype=torch.uint8)
    images[:, 1:3, 2:5] = 9
    boxes = torch.tensor([[[2.0, 1.0, 5.0, 3.0]]]).repeat(2, 1, 1)
    which = torch.tensor([True, False])

    for axis, expected in ((2, [3.0, 1.0, 6.0, 3.0]), (1, [2.0, 3.0, 5.0, 5.0])):
        flipped, moved = flipped_pair(images, boxes, which, axis)

        left, top, right, bottom = (int(edge) for edge in moved[0, 0])
        assert moved[0, 0].tolist() == expected
        assert (flipped[0, top:bottom, left:right] == 9).all()
        assert flipped[0].sum() == images[0].sum()
        assert torch.equal(flipped[1], images[1])
        assert torch.equal(moved[1], boxes[1])


def test_quality_does_not_depend_on_the_evaluation_batch(mini_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that leave a rest of 26 images give the detections of batches without, and some are right."""
    session = started(mini_dir)
    session.train_block(1280)
    whole = session.evaluate()
    monkeypatch.setitem(sys.modules["workloads.detection.workload"].EVAL_BATCH, "mini", 42)

    parts = session.evaluate()

    assert whole.num_examples == parts.num_examples == 320
    assert whole.value == pytest.approx(parts.value, abs=1e-3)
    assert 0.05 < whole.value < 0.9


def test_perfect_outputs_have_a_quality_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From detections to the metric: a network that says the truth of every test image scores 1."""
    session = started(ramp_dir(tmp_path))
    _, boxes, labels = data.read_split(tmp_path, "test")
    asked = iter([(torch.from_numpy(boxes), torch.from_numpy((labels >= 0) * 0.5), torch.from_numpy(labels))])
    monkeypatch.setattr(session.network, "detect", lambda outputs: next(asked))

    quality = session.evaluate()

    assert (quality.value, quality.num_examples) == (1.0, 13)


def test_no_detections_are_zero_and_not_a_number_is_no_detection(tmp_path: Path) -> None:
    """A network that says nothing, or nothing finite, has a quality of 0.0."""
    session = started(ramp_dir(tmp_path))
    torch.nn.init.constant_(session.network.head.classification_head.cls_logits.bias, -100.0)
    silent = session.evaluate()
    torch.nn.init.constant_(session.network.head.classification_head.cls_logits.bias, math.nan)

    assert silent.value == session.evaluate().value == 0.0


def test_diverged_run_returns_a_loss_that_is_not_finite(mini_dir: Path) -> None:
    """The session does not judge: the referee sees the loss and ends the run."""
    session = started(mini_dir, opt_base_learning_rate=1e8, opt_learning_rate_warmup_steps=0)

    loss = session.train_block(20 * 16).mean_loss

    assert not math.isfinite(loss)
    assert session.evaluate().value == 0.0


def test_parts_of_the_open_division_are_used(tmp_path: Path) -> None:
    """A submitter's model, optimiser and schedule take the places of ours."""
    used = []

    def build_model(suite: str, shape: tuple[int, int, int], num_classes: int, recipe: Recipe) -> torch.nn.Module:
        used.append((suite, shape, num_classes))
        return model.build_model(suite, shape, num_classes, recipe)

    def sgd(network: torch.nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
        used.append(recipe.global_batch_size)
        return torch.optim.SGD(network.parameters(), lr=1.0)

    parts = {
        "build_model": build_model,
        "build_optimizer": sgd,
        "learning_rate": lambda recipe, step: 0.25 + step,
    }
    session = WORKLOAD.open(dataclasses.replace(config(ramp_dir(tmp_path)), division="open", parts=parts))
    session.prepare()
    session.start(tmp_path)

    session.train_block(32)

    assert used == [("mini", (64, 64, 1), 10), 16]
    assert type(session.optimizer) is torch.optim.SGD
    assert session.optimizer.param_groups[0]["lr"] == 1.25
    assert set(parts) == set(WORKLOAD.parts)


def test_start_refuses_data_that_are_not_as_announced(tmp_path: Path) -> None:
    """Images of another size than the metadata's."""
    ramp_dir(tmp_path)
    session = WORKLOAD.open(config(tmp_path))
    session.prepare()
    ramp_dir(tmp_path, size=72)

    with pytest.raises(DataError, match=r"train_images\.npy"):
        session.start(tmp_path)


def test_closed_session_can_be_closed_unprepared(tmp_path: Path) -> None:
    """A run that failed early is still put away."""
    WORKLOAD.open(config(ramp_dir(tmp_path))).close()


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "dtype", "count", "outside", "empty"])
def test_damaged_array_is_named(tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with a file, the sentence says which."""
    ramp_dir(tmp_path)
    path = tmp_path / "train_boxes.npy"
    whole = path.read_bytes()
    boxes = np.load(path)
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(whole[:-5])
        case "text":
            path.write_text("boxes")
        case "dtype":
            np.save(path, boxes.astype(np.float64))
        case "count":
            np.save(path, boxes[:-1])
        case "outside":
            boxes[7, 0, 2] = 65
            np.save(path, boxes)
        case "empty":
            boxes[7, 0, 2] = boxes[7, 0, 0]
            np.save(path, boxes)

    with pytest.raises(DataError, match="train"):
        data.read_split(tmp_path, "train")


# ---- baselines


@pytest.mark.slow
def test_baselines_solve_what_is_easy(tmp_path: Path) -> None:
    """Where every image shows the same bright square, copies and constants are right, and blobs find it."""
    images = np.random.RandomState(0).randint(0, 20, (30, 64, 64, 1)).astype(np.uint8)
    images[:, 20:40, 24:44] = 200
    boxes = np.tile(np.array([24, 20, 44, 40], np.float32), (30, 1, 1))
    split = images, boxes, np.zeros((30, 1), np.int64)
    data.write(tmp_path, "mini", {"train": split, "test": split}, ["0"], "squares")

    scores = WORKLOAD.baselines("mini", tmp_path)

    assert scores["constant_boxes"] == scores["nearest_scene"] == scores["nearest_scenes_5"] == pytest.approx(1.0)
    assert scores["blobs_and_neighbours"] > 0.6
    assert all(0.0 <= score <= 1.0 for score in scores.values())


# ---- BCCD's layout, small

COUNTS = {"train": 2, "validation": 1, "test": 1}
NAMES = {"train": ("cell_0", "cell_2"), "val": ("cell_1",), "test": ("cell_3",)}
OBJECT = "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"


def annotation(*objects: tuple[Any, ...], size: tuple[int, int] = (640, 480), head: str = "") -> str:
    inside = "".join(OBJECT.format(*each) for each in objects)
    return (
        f"{head}<annotation><filename>another_name</filename><size><width>{size[0]}</width><height>{size[1]}</height>"
        f"<depth>3</depth></size>{inside}</annotation>"
    )


@pytest.fixture
def bccd_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four pictures, of grey level 10 times their number, with one red cell each, in the official layout."""
    monkeypatch.setattr(voc, "NUM_IMAGES", COUNTS)
    root = tmp_path / "source" / "BCCD"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    for split, names in NAMES.items():
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in reversed(names)))
    for i in range(4):
        (root / "Annotations" / f"cell_{i}.xml").write_text(annotation(("RBC", 101 + i, 1, 200, 480)))
        Image.new("RGB", (640, 480), (10 * i,) * 3).save(root / "JPEGImages" / f"cell_{i}.jpg")
    return tmp_path / "source"


def test_bccd_is_halved_and_counted_from_zero(bccd_dir: Path) -> None:
    """Corners 101 to 200, both inside and counted from 1, are the edges 100 to 200, and 50 to 100 when halved."""
    splits = voc.read(bccd_dir)

    images, boxes, labels = splits["train"]
    assert images.shape == (2, 240, 320, 3)
    assert images[:, 5, 5, 0].tolist() == [0, 20]  # sorted by name, whatever the list's order
    assert boxes[:, 0].tolist() == [[50, 0, 100, 240], [51, 0, 100, 240]]
    assert labels.tolist() == [[1], [1]]
    assert [len(splits[name][0]) for name in ("validation", "test")] == [1, 1]


def test_bccd_arrays_are_written_and_read(bccd_dir: Path, tmp_path: Path) -> None:
    """From the official layout to what a session reads, the folder itself or its parent given."""
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", bccd_dir / "BCCD")

    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert metadata["classes"] == ["Platelets", "RBC", "WBC"]
    assert (metadata["num_train"], metadata["num_validation"], metadata["num_test"]) == (2, 1, 1)
    assert data.read_split(tmp_path / "out", "test")[1].tolist() == [[[51.5, 0, 100, 240]]]


def test_bccd_odd_boxes_are_cut_or_left_out(bccd_dir: Path) -> None:
    """A box over the edge ends there; one whose corners coincide, as two of BCCD's do, marks nothing."""
    objects = ("WBC", 0, -3, 640, 481), ("RBC", 504, 337, 504, 337), ("Platelets", 1, 1, 2, 2)
    (bccd_dir / "BCCD" / "Annotations" / "cell_3.xml").write_text(annotation(*objects))

    _, boxes, labels = voc.read(bccd_dir)["test"]

    assert boxes.tolist() == [[[0, 0, 320, 240], [0, 0, 1, 1]]]
    assert labels.tolist() == [[2, 0]]


BOMB = '<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]>'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (annotation(("RBC", 1, 1, 9, 9))[:-9], "is not XML"),
        ("", "is not XML"),
        (annotation(head=BOMB), "has a document type"),
        (annotation(("RBC", 1, 1, 9, 9), head='<!DOCTYPE a SYSTEM "file:///etc/passwd">'), "has a document type"),
        (annotation(("&x;", 1, 1, 9, 9)), "is not XML"),
        (annotation(("Parasite", 1, 1, 9, 9)), "unknown class 'Parasite', expected one of Platelets, RBC, WBC"),
        (annotation(("RBC", 9, 1, 1, 9)), r"a box from \(9, 1\) to \(1, 9\)"),
        (annotation(("RBC", 700, 1, 710, 9)), r"a box from \(700, 1\)"),
        (annotation(("RBC", "1.5", 1, 10, 9)), "xmin is '1.5', expected a whole number"),
        (annotation(("RBC", "", 1, 10, 9)), "xmin is ''"),
        (annotation(("RBC", 1, 1, "9" * 5000, 9)), "xmax is '9999"),
        (annotation(size=(320, 240)), "size/width is 320, expected 640"),
        ("<annotation/>", "size/width is ''"),
        (annotation() + " " * voc.MAX_XML_BYTES, "more than 65,536 bytes"),
    ],
)
def test_damaged_annotation_is_named(bccd_dir: Path, text: str, named: str) -> None:
    """Whatever is wrong with an annotation, the sentence says in which file, and no entity is ever expanded."""
    (bccd_dir / "BCCD" / "Annotations" / "cell_2.xml").write_text(text)

    with pytest.raises(DataError, match=rf"cell_2\.xml.*{named}"):
        voc.read(bccd_dir)


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "size", "bomb", "lie", "great lie", "png", "large"])
def test_damaged_picture_is_named(bccd_dir: Path, damage: str) -> None:
    """Gone, cut off, no picture, of another size or kind, or larger than any of BCCD's."""
    path = bccd_dir / "BCCD" / "JPEGImages" / "cell_1.jpg"
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:900])
        case "text":
            path.write_text("no picture")
        case "size":
            Image.new("RGB", (480, 640)).save(path)
        case "bomb":
            Image.new("L", (9000, 11000)).save(path)
        case "lie" | "great lie":
            # The head says 12,000 or 60,000 pixels a side: beyond what Pillow warns of, and beyond what it opens.
            content = bytearray(path.read_bytes())
            head = content.index(b"\xff\xc0") + 5
            content[head : head + 4] = (12_000 if damage == "lie" else 60_000).to_bytes(2, "big") * 2
            path.write_bytes(content)
        case "png":
            Image.new("RGB", (640, 480)).save(path, format="PNG")
        case "large":
            path.write_bytes(bytes(voc.MAX_JPEG_BYTES + 1))

    with pytest.raises(DataError, match=r"cell_1\.jpg"):
        voc.read(bccd_dir)


@pytest.mark.parametrize(
    ("lists", "named"),
    [
        ({"val": "cell_3\n"}, "cell_3 is listed twice, in validation and in test"),
        ({"train": "cell_0\n"}, "train has 1 images, expected 2"),
        ({"test": "../../secret\n"}, "'../../secret' is not an image name"),
        ({"test": ""}, "test has 0 images"),
        ({"test": "cell_9\n"}, "cell_9.jpg cannot be read"),
        ({"test": "x" * 70_000}, "test.txt: more than 65,536 bytes"),
    ],
)
def test_damaged_list_is_named(bccd_dir: Path, lists: dict[str, str], named: str) -> None:
    """No image in two splits, none missing, and no name that leads out of the folder."""
    for split, text in lists.items():
        (bccd_dir / "BCCD" / "ImageSets" / "Main" / f"{split}.txt").write_text(text)

    with pytest.raises(DataError, match=named):
        voc.read(bccd_dir)


def test_folder_without_bccd_is_refused(tmp_path: Path) -> None:
    """The sentence says what was looked for."""
    with pytest.raises(DataError, match="BCCD not found; expected BCCD/ImageSets/Main"):
        voc.read(tmp_path)


def zipped(root: Path, archive: Path) -> str:
    """The layout as GitHub packs it; the archive's digest."""
    with zipfile.ZipFile(archive, "w") as members:
        for path in sorted(root.rglob("*.*")):
            members.write(path, f"{voc.IN_ARCHIVE}/{path.relative_to(root)}")
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def test_archive_holds_what_the_folder_holds(bccd_dir: Path, tmp_path: Path) -> None:
    """Downloaded, verified, read by the names of its members, and kept."""
    digest = zipped(bccd_dir / "BCCD", tmp_path / "some.zip")

    splits = voc.download(tmp_path / "downloads", (tmp_path / "some.zip").as_uri(), digest)

    for name, arrays in voc.read(bccd_dir).items():
        assert all(np.array_equal(a, b) for a, b in zip(arrays, splits[name], strict=True))
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["BCCD_Dataset-1.0.zip"]


def test_archive_that_lacks_a_file_is_named(bccd_dir: Path, tmp_path: Path) -> None:
    """An archive with the right digest and the wrong content, as after a slip of ours."""
    (bccd_dir / "BCCD" / "Annotations" / "cell_2.xml").unlink()
    digest = zipped(bccd_dir / "BCCD", tmp_path / "some.zip")

    with pytest.raises(DataError, match=r"contains no file BCCD_Dataset-1.0/BCCD/Annotations/cell_2\.xml"):
        voc.download(tmp_path / "downloads", (tmp_path / "some.zip").as_uri(), digest)


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    """Also when its digest is the expected one."""
    (tmp_path / "some.zip").write_bytes(b"no archive")
    digest = hashlib.sha256(b"no archive").hexdigest()

    with pytest.raises(DataError, match="is damaged"):
        voc.download(tmp_path / "downloads", (tmp_path / "some.zip").as_uri(), digest)


def test_archive_that_is_not_the_official_one_is_refused(tmp_path: Path) -> None:
    """The digest is checked before anything is unpacked."""
    (tmp_path / "some.zip").write_bytes(b"not the archive")

    with pytest.raises(DataError, match="it was not kept"):
        voc.download(tmp_path / "downloads", (tmp_path / "some.zip").as_uri())


def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    """A refused connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    with pytest.raises(DataError, match="could not be downloaded"):
        voc.download(tmp_path / "downloads", f"http://127.0.0.1:{port}/v1.0.zip")


@pytest.mark.slow
@pytest.mark.skipif(not BCCD.is_file(), reason="no copy of BCCD beside the repository")
def test_real_bccd_is_converted_and_learned_from(tmp_path: Path) -> None:
    """Its 364 pictures and 4,886 boxes that enclose something; a few steps bring the loss down."""
    unpack(BCCD, tmp_path / "source")
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path / "source")

    splits = [data.read_split(tmp_path / "out", name) for name in ("train", "validation", "test")]
    assert [len(images) for images, _, _ in splits] == [205, 87, 72]
    assert sum((labels >= 0).sum() for _, _, labels in splits) == 4886
    assert sum(np.bincount(labels[labels >= 0], minlength=3) for _, _, labels in splits).tolist() == [361, 4153, 372]
    session = started(tmp_path / "out", suite="standard", opt_learning_rate_warmup_steps=0)
    curve = losses(session, 12)
    assert np.mean(curve[-3:]) < 0.8 * np.mean(curve[:3])
    assert session.evaluate().num_examples == 72


# ---- two processes

TWO_PROCESSES = """
import json, sys
from pathlib import Path
import torch
from tests.workloads.test_detection import indices, started
from workloads.detection.coco import TruthSet
from workloads.detection.data import read_split
torch.set_num_threads(1)
mini, ramp, out = (Path(p) for p in sys.argv[1:])
session = started(ramp, num_devices=2, global_batch_size=10)
batches = [indices(session, session._next_batch()[0]) for _ in range(6)]
session = started(mini, num_devices=2)
block = session.train_block(1280)
quality = session.evaluate()
again = session.evaluate()
images, boxes, labels = read_split(mini, "test")
alone = TruthSet(boxes, labels, 10).mean_average_precision(session._detections(torch.from_numpy(images)))
weights = sum(p.double().sum().item() for p in session.network.parameters())
(out / f"{session.rank}.json").write_text(json.dumps(dict(batches=batches, loss=block.mean_loss, value=quality.value,
    again=again.value, num_examples=quality.num_examples, num_samples=block.num_samples, alone=alone, weights=weights)))
session.close()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are shared, every detection counts once, and the course is nearly that of one."""
    ramp = ramp_dir(tmp_path / "ramp")
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(tmp_path / "two.py"), str(mini_dir), str(ramp), str(tmp_path)]

    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    alone = started(ramp, global_batch_size=10)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert both == indices(alone, alone._next_batch()[0])
        assert len(set(both)) == 10
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["value"] == ranks[1]["value"] == ranks[0]["again"] == pytest.approx(ranks[0]["alone"], abs=1e-3)
    assert [r["num_examples"] for r in ranks] == [320, 320]
    assert [r["num_samples"] for r in ranks] == [1280, 1280]
    single = started(mini_dir)
    assert ranks[0]["loss"] == pytest.approx(single.train_block(1280).mean_loss, rel=0.05)
    assert ranks[0]["value"] > 0.1


def write_golden(folder: Path) -> None:
    """Regenerate what the golden tests compare with: `python -m tests.workloads.test_detection`."""
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
