"""Detection: its data, loader, metric and network, and one training run as the referee drives it."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import sys
import zipfile
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
from workloads.detection import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("sklearn")
pytest.importorskip("torchvision")
pytest.importorskip("faster_coco_eval")

import torch
from PIL import Image
from torchvision.models.detection.fcos import FCOS

from workloads.detection import data, dataset, model, scenes, voc
from workloads.detection.boxes import flipped as flipped_pair
from workloads.detection.coco import TruthSet
from workloads.detection.muon import build_optimizer, orthogonal
from workloads.detection.recipe import Recipe
from workloads.detection.workload import TrainingSession

MINI = sessions.rules_of(WORKLOAD.name).defaults()
config = functools.partial(sessions.config, WORKLOAD.name)
started = functools.partial(sessions.started, WORKLOAD.name)


def ramp_dir(folder: Path) -> Path:
    """50 training and 13 test images; image i has grey level i and a box that starts at column i % 8."""
    folder.mkdir(exist_ok=True)
    splits = {}
    for name, count in (("train", 50), ("test", 13)):
        images = np.repeat(np.arange(count, dtype=np.uint8), 64 * 64).reshape(-1, 64, 64, 1)
        boxes = np.zeros((count, 2, 4), np.float32)
        boxes[:, 0] = [(i % 8, 10, i % 8 + 20, 30) for i in range(count)]
        labels = np.stack([np.arange(count) % 10, np.full(count, -1)], 1)
        splits[name] = images, boxes, labels
    data.write(folder, "mini", splits, [str(k) for k in range(10)], "ramp")
    return folder


def indices(session: TrainingSession, images: torch.Tensor) -> list[int]:
    """The images of a ramp that a batch consists of."""
    return (images[:, 0, 0, 0] * session.std_C + session.mean_C).round().int().tolist()


def detector(**changed: Any) -> model.Detector:
    torch.manual_seed(0)
    return model.Detector("mini", (64, 96, 1), 10, Recipe.parse({**MINI, **changed}))


def anchors_of(network: model.Detector) -> torch.Tensor:
    """The network's points as torchvision's squares of one stride."""
    half = model.STRIDE / 2
    return torch.cat([network.points_P2 - half, network.points_P2 + half], 1)


def some_boxes() -> tuple[torch.Tensor, torch.Tensor]:
    """Random boxes within 64x96 pixels and labels of four images; the second has no objects, others are not full."""
    draws = torch.Generator().manual_seed(0)
    near = torch.rand(4, 5, 2, generator=draws) * torch.tensor([60.0, 30.0])
    boxes = torch.cat([near, near + 6 + torch.rand(near.shape, generator=draws) * 28], -1)
    labels = torch.randint(0, 10, (4, 5), generator=draws)
    labels[0, 3:] = -1
    labels[1] = -1
    return boxes, labels


def test_mini_splits_draw_only_from_their_own_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scene is made only from the pictures of its split, torn ones included; no picture is in two splits."""
    from sklearn.datasets import load_digits

    given: list[np.ndarray] = []
    draw_scene = scenes._scene

    def watched(random: np.random.RandomState, digits: np.ndarray, labels: np.ndarray) -> dataset.Split:
        given.append(digits)
        return draw_scene(random, digits, labels)

    monkeypatch.setattr(scenes, "NUM_SCENES", {"train": 1, "validation": 1, "test": 1})
    monkeypatch.setattr(scenes, "_scene", watched)

    scenes.render()

    pictures, sources = load_digits().images, scenes.sources()
    assert [len(which) for which in sources.values()] == [1200, 237, 360]
    assert sorted(np.concatenate(list(sources.values()))) == list(range(1797))
    for digits, which in zip(given, sources.values(), strict=True):
        assert np.array_equal(digits, pictures[which])


def test_mini_other_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If scikit-learn changed its digits, the data would silently change too."""
    monkeypatch.setattr(scenes, "DIGITS_SHA256", "0" * 64)

    with pytest.raises(DataError, match="another data set"):
        scenes.render()


def test_mini_scenes_keep_their_promises(mini_dir: Path) -> None:
    """One to six digits per scene, boxes inside it that hardly overlap, all ten classes, no scene in two splits."""
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
    """A full picture of 24 pixels a side, not rotated: its soft edge adds one pixel of ink on each side."""
    still = np.zeros(1, np.int64)

    opacity = scenes._placed(np.full((1, 8, 8), 16), still, still, still + 24 * 16, still, scenes.PATCH, 0)[0]

    rows = np.flatnonzero((opacity >= scenes.INK).any(1))
    assert (rows[0], rows[-1] + 1) == (17, 43)
    assert opacity[20:40, 20:40].min() == 4096


def test_overlap_up_to_a_tenth_is_free() -> None:
    """Equal to the limit is allowed, one pixel more is not; without other boxes every place is free."""
    box = np.array([0, 0, 10, 10])

    assert scenes._is_free(box, np.array([[9, 0, 19, 10]]))
    assert not scenes._is_free(box, np.array([[8, 0, 18, 10]]))
    assert scenes._is_free(box, np.zeros((0, 4), np.int64))


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
        ([(1, 0, 0, 5, 5, 0.95, 1), (0, 10, 10, 10, 10, 0.9, 1)], 0.5),  # a better-rated detection is wrong
        ([(0, 10, 10, 10, 10, 0.9, 1), (1, 0, 0, 5, 5, 0.5, 1)], 1.0),  # a worse-rated wrong detection does not matter
        ([(0, 10, 10, 10, 10, 0.9, 1), (0, 10, 10, 10, 10, 0.8, 1)], 1.0),  # found twice
    ],
)
def test_metric_of_cases_made_by_hand(
    detections: list[tuple[float, ...]], expected: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """The mean over IoU thresholds, recalls and the classes that occur; the library's progress is not printed."""
    assert one_object().mean_average_precision(rows(*detections)) == pytest.approx(expected, abs=1e-9)
    assert capfd.readouterr() == ("", "")


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


def test_loss_is_that_of_torchvision() -> None:
    """With its constants, at the same points, every term is FCOS's: assignment, focal loss, GIoU, centerness."""
    network = detector(focal_alpha=0.25, focal_gamma=2.0, box_loss_weight=1.0, center_sampling_radius=1.5)
    boxes, labels = some_boxes()
    outputs = network(torch.randn(4, 1, 64, 96))
    outputs["bbox_regression"] = outputs["bbox_regression"] + torch.rand(outputs["bbox_regression"].shape)
    anchors = anchors_of(network)
    targets = [{"boxes": b[k >= 0], "labels": k[k >= 0]} for b, k in zip(boxes, labels, strict=True)]
    expected = FCOS.compute_loss(network, targets, outputs, [anchors] * 4, [len(anchors)])

    total, num_points = network.loss(outputs, boxes, labels)

    assert num_points > 20
    assert (total / num_points).item() == pytest.approx(sum(expected.values()).item(), rel=1e-5)


def test_detections_are_those_of_torchvision() -> None:
    """Scores, boxes, labels and their order are those of FCOS's post-processing, suppression included."""
    network = detector()
    draws = torch.Generator().manual_seed(1)
    outputs = {
        "cls_logits": torch.randn(3, 96, 10, generator=draws) * 2 - 3,
        "bbox_regression": torch.rand(3, 96, 4, generator=draws) * 3 + 6,  # large enough to overlap
        "bbox_ctrness": torch.randn(3, 96, 1, generator=draws),
    }
    levels = {name: [value] for name, value in outputs.items()}
    expected = network.postprocess_detections(levels, [[anchors_of(network)]] * 3, [(64, 96)] * 3)

    boxes, scores, labels = network.detect(outputs)

    for i, one in enumerate(expected):
        kept = scores[i] > 0
        assert torch.equal(labels[i][kept], one["labels"])
        assert torch.allclose(scores[i][kept], one["scores"])
        assert torch.allclose(boxes[i][kept], one["boxes"], atol=1e-4)


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


@pytest.mark.parametrize("name", ["opt_adamw_epsilon", "center_sampling_radius"])
def test_hyperparameter_that_must_not_be_zero(tmp_path: Path, name: str) -> None:
    """A denominator, and a radius within which points are assigned."""
    with pytest.raises(UsageError, match="must be above 0"):
        WORKLOAD.open(config(ramp_dir(tmp_path), **{name: 0.0}))


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Ten steps from seed 3: after that the rounding of another instruction set has grown to percents."""
    sessions.assert_golden_curve(WORKLOAD.name, losses(started(mini_dir), 10), {"rel": 2e-3}, rel=0.02)


def test_an_epoch_shows_no_image_twice_and_drops_the_rest(tmp_path: Path) -> None:
    """50 images in batches of 20: two batches an epoch, in another order each time, and 10 images dropped."""
    session = started(ramp_dir(tmp_path), global_batch_size=20)

    first, second = ([i for _ in range(2) for i in indices(session, session._next_batch()[0])] for _ in range(2))

    assert len(set(first)) == len(set(second)) == 40
    assert first != second
    assert session.train_block(90).num_samples == 100


@pytest.mark.parametrize("flip", [False, True])
def test_boxes_and_labels_belong_to_their_images(tmp_path: Path, flip: bool) -> None:
    """Selection and flips move an image together with its boxes and labels."""
    session = started(ramp_dir(tmp_path), global_batch_size=50, data_flip=flip)

    images, boxes, labels = session._next_batch()

    which = indices(session, images)
    assert labels[:, 0].tolist() == [i % 10 for i in which]
    for i, box in zip(which, boxes[:, 0].tolist(), strict=True):
        assert box[0] in ((i % 8, 44 - i % 8) if flip else (i % 8,))
    assert {box[1] for box in boxes[:, 0].tolist()} == ({10.0, 34.0} if flip else {10.0})


def test_flip_moves_pixels_and_boxes_alike() -> None:
    """The box of a bright patch still encloses it after either flip; the other image is unchanged."""
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
    """Batches that leave a remainder of 26 images give the same detections as batches without, and some are right."""
    session = started(mini_dir)
    session.train_block(1280)
    whole = sessions.quality(session, mini_dir)
    monkeypatch.setitem(sys.modules["workloads.detection.workload"].EVAL_BATCH, "mini", 42)

    parts = sessions.quality(session, mini_dir)

    assert whole.num_examples == parts.num_examples == 320
    assert whole.value == pytest.approx(parts.value, abs=1e-3)
    assert 0.05 < whole.value < 0.9


def test_perfect_outputs_have_a_quality_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From detections to the metric: a network that returns the true boxes of every test image scores 1."""
    session = started(ramp_dir(tmp_path))
    _, boxes, labels = data.read_split(tmp_path, "test")
    answers = iter([(torch.from_numpy(boxes), torch.from_numpy((labels >= 0) * 0.5), torch.from_numpy(labels))])
    monkeypatch.setattr(session.network, "detect", lambda outputs: next(answers))

    quality = sessions.quality(session, tmp_path)

    assert (quality.value, quality.num_examples) == (1.0, 13)


def test_no_detection_or_none_finite_scores_zero(tmp_path: Path) -> None:
    """A network that detects nothing, or nothing finite, has a quality of 0.0."""
    session = started(ramp_dir(tmp_path))
    torch.nn.init.constant_(session.network.head.classification_head.cls_logits.bias, -100.0)
    silent = sessions.quality(session, tmp_path)
    torch.nn.init.constant_(session.network.head.classification_head.cls_logits.bias, math.nan)

    assert silent.value == sessions.quality(session, tmp_path).value == 0.0


ROW = (12, 2, 10, 20, 20, 0.5, 9)


def test_detections_of_the_last_image_and_class_are_evaluated(tmp_path: Path) -> None:
    """As many as COCO counts, with the largest index of an image and the largest of a class."""
    evaluator = WORKLOAD.evaluator("mini", ramp_dir(tmp_path), tmp_path)

    quality = evaluator.quality(lambda _: {"detections": rows(*[ROW] * 100).astype(np.float32)})

    assert (quality.value, quality.num_examples) == (0.0, 13)


@pytest.mark.parametrize(
    ("detections", "expected"),
    [
        (None, "rows of 7 numbers"),
        (rows(ROW)[:, :6], "rows of 7 numbers"),
        (rows(ROW)[0], "rows of 7 numbers"),
        (rows((12, math.nan, *ROW[2:])), "finite"),
        (rows((12, -math.inf, *ROW[2:])), "finite"),
        (rows((13, *ROW[1:])), "the image of a detection as a whole number from 0 to 12"),
        (rows((-1, *ROW[1:])), "the image of a detection"),
        (rows((0.5, *ROW[1:])), "the image of a detection"),
        (rows((*ROW[:6], 10)), "the class of a detection as a whole number from 0 to 9"),
        (rows((*ROW[:5], 0, 9)), "a score above 0"),
        (rows(*[ROW] * 101), "at most 100 detections"),
    ],
)  # fmt: skip
def test_what_is_not_a_detection_is_refused(tmp_path: Path, detections: np.ndarray | None, expected: str) -> None:
    """What the training process sends is foreign input."""
    evaluator = WORKLOAD.evaluator("mini", ramp_dir(tmp_path), tmp_path)

    with pytest.raises(ValueError, match=expected):
        evaluator.quality(lambda _: {} if detections is None else {"detections": detections.astype(np.float32)})


def test_detections_of_another_type_are_refused(tmp_path: Path) -> None:
    """Rows have one type, so that the same detections have the same digest."""
    evaluator = WORKLOAD.evaluator("mini", ramp_dir(tmp_path), tmp_path)

    with pytest.raises(ValueError, match="float32"):
        evaluator.quality(lambda _: {"detections": rows(ROW)})


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("metadata.json", b"{}", r"metadata\.json: cannot be used"),
        ("metadata.json", b'{"image_shape": [64, 64, 1], "classes": ["0"]}', "labels -1 to 9; metadata.json says 1 "),
        ("test_boxes.npy", b"", r"test_boxes\.npy is damaged"),
    ],
)
def test_evaluator_names_what_is_damaged(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    """Before the clock starts."""
    (ramp_dir(tmp_path) / name).write_bytes(content)

    with pytest.raises(DataError, match=expected):
        WORKLOAD.evaluator("mini", tmp_path, tmp_path)


@pytest.mark.parametrize("right", [65, 7], ids=["outside", "empty"])
def test_impossible_box_is_refused(tmp_path: Path, right: int) -> None:
    """A box outside its image of 64 pixels, or without area."""
    path = ramp_dir(tmp_path) / "train_boxes.npy"
    boxes = np.load(path)
    boxes[7, 0, 2] = right
    np.save(path, boxes)

    with pytest.raises(DataError, match=r"train_boxes\.npy: a box is empty or outside"):
        data.read_split(tmp_path, "train")


def test_baselines_solve_what_is_easy(tmp_path: Path) -> None:
    """Where every image shows the same bright square, copies and constants are right, and blobs find it."""
    images = np.random.RandomState(0).randint(0, 20, (30, 64, 64, 1)).astype(np.uint8)
    images[:, 20:40, 24:44] = 200
    boxes = np.tile(np.array([24, 20, 44, 40], np.float32), (30, 1, 1))
    split = images, boxes, np.zeros((30, 1), np.int64)
    data.write(tmp_path, "mini", {"train": split, "test": split}, ["0"], "squares")

    scores = WORKLOAD.baselines("mini", tmp_path, tmp_path)

    assert scores["constant_boxes"] == scores["nearest_scene"] == scores["nearest_scenes_5"] == pytest.approx(1.0)
    assert scores["blobs_and_neighbours"] > 0.6
    assert scores["patches_and_ridge"] > 0.6
    assert all(0.0 <= score <= 1.0 for score in scores.values())


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
    """Four pictures with one red cell each, of grey level 10 times their number, in the official layout."""
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
    """Corners 101 to 200, inclusive and counted from 1, are edges 100 to 200, and 50 to 100 when halved."""
    splits = voc.read(bccd_dir)

    images, boxes, labels = splits["train"]
    assert images.shape == (2, 240, 320, 3)
    assert images[:, 5, 5, 0].tolist() == [0, 20]  # sorted by name, whatever the list's order
    assert boxes[:, 0].tolist() == [[50, 0, 100, 240], [51, 0, 100, 240]]
    assert labels.tolist() == [[1], [1]]
    assert [len(splits[name][0]) for name in ("validation", "test")] == [1, 1]


def test_bccd_arrays_are_written_and_read(bccd_dir: Path, tmp_path: Path) -> None:
    """From the official layout to what a session reads, given the folder itself or its parent."""
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", bccd_dir / "BCCD")

    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert metadata["classes"] == ["Platelets", "RBC", "WBC"]
    assert (metadata["num_train"], metadata["num_validation"], metadata["num_test"]) == (2, 1, 1)
    assert data.read_split(tmp_path / "out", "test")[1].tolist() == [[[51.5, 0, 100, 240]]]


def test_bccd_odd_boxes_are_clipped_or_dropped(bccd_dir: Path) -> None:
    """A box over the edge is clipped; one whose corners coincide, as two of BCCD's do, is dropped."""
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
    """Whatever is wrong with an annotation, the message names the file, and no entity is ever expanded."""
    (bccd_dir / "BCCD" / "Annotations" / "cell_2.xml").write_text(text)

    with pytest.raises(DataError, match=rf"cell_2\.xml.*{named}"):
        voc.read(bccd_dir)


def claim_size(path: Path, pixels: int) -> None:
    """Make the header of a picture state that many pixels a side."""
    content = bytearray(path.read_bytes())
    head = content.index(b"\xff\xc0") + 5
    content[head : head + 4] = pixels.to_bytes(2, "big") * 2
    path.write_bytes(content)


PICTURES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:900]),
    "text": lambda path: path.write_text("no picture"),
    "size": Image.new("RGB", (480, 640)).save,
    "bomb": lambda path: Image.new("L", (9000, 11000)).save(path),
    "lie, and Pillow warns": lambda path: claim_size(path, 12_000),
    "lie, and Pillow refuses": lambda path: claim_size(path, 60_000),
    "png": lambda path: Image.new("RGB", (640, 480)).save(path, format="PNG"),
    "large": lambda path: path.write_bytes(bytes(voc.MAX_JPEG_BYTES + 1)),
}


@pytest.mark.parametrize("damage", PICTURES.values(), ids=PICTURES)
def test_damaged_picture_is_named(bccd_dir: Path, damage: Callable[[Path], object]) -> None:
    """Missing, truncated, not a picture, of another size or format, or larger than any of BCCD's."""
    damage(bccd_dir / "BCCD" / "JPEGImages" / "cell_1.jpg")

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
    """No image is in two splits or missing, and no name leads out of the folder."""
    for split, text in lists.items():
        (bccd_dir / "BCCD" / "ImageSets" / "Main" / f"{split}.txt").write_text(text)

    with pytest.raises(DataError, match=named):
        voc.read(bccd_dir)


def zipped(root: Path, archive: Path) -> Path:
    """The layout as GitHub packs it."""
    with zipfile.ZipFile(archive, "w") as members:
        for path in sorted(root.rglob("*.*")):
            members.write(path, f"{voc.IN_ARCHIVE}/{path.relative_to(root)}")
    return archive


def test_archive_holds_what_the_folder_holds(bccd_dir: Path, tmp_path: Path) -> None:
    """Downloaded, verified, read by the names of its members, and kept."""
    archive = zipped(bccd_dir / "BCCD", tmp_path / "some.zip")

    splits = voc.download(tmp_path / "downloads", archive.as_uri(), sha256_of(archive))

    for name, arrays in voc.read(bccd_dir).items():
        assert all(np.array_equal(a, b) for a, b in zip(arrays, splits[name], strict=True))
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["BCCD_Dataset-1.0.zip"]


def test_damaged_archive_is_refused(bccd_dir: Path, tmp_path: Path) -> None:
    """An archive that lacks a file and a file that is not an archive, both with the expected digest."""
    (bccd_dir / "BCCD" / "Annotations" / "cell_2.xml").unlink()
    archive = zipped(bccd_dir / "BCCD", tmp_path / "some.zip")

    with pytest.raises(DataError, match=r"contains no file BCCD_Dataset-1.0/BCCD/Annotations/cell_2\.xml"):
        voc.download(tmp_path / "a", archive.as_uri(), sha256_of(archive))
    archive.write_bytes(b"no archive")
    with pytest.raises(DataError, match="is damaged"):
        voc.download(tmp_path / "b", archive.as_uri(), sha256_of(archive))


@pytest.mark.slow
def test_real_bccd_is_converted_and_learned_from(tmp_path: Path) -> None:
    """364 pictures and 4,886 non-empty boxes; a few steps reduce the loss."""
    unpack(shared("data/bccd_voc.tar"), tmp_path / "source")
    (tmp_path / "out").mkdir()

    WORKLOAD.prepare_data("standard", tmp_path / "out", tmp_path / "source")

    splits = [data.read_split(tmp_path / "out", name) for name in ("train", "validation", "test")]
    assert [len(images) for images, _, _ in splits] == [205, 87, 72]
    assert sum((labels >= 0).sum() for _, _, labels in splits) == 4886
    assert sum(np.bincount(labels[labels >= 0], minlength=3) for _, _, labels in splits).tolist() == [361, 4153, 372]
    recipe = {"global_batch_size": 2, "opt_base_learning_rate": 0.3, "opt_learning_rate_warmup_steps": 0}
    session = started(tmp_path / "out", suite="standard", **recipe)
    curve = losses(session, 12)
    assert np.mean(curve[-3:]) < 0.8 * np.mean(curve[:3])
    assert sessions.quality(session, tmp_path / "out").num_examples == 72
    assert sessions.network_digest(session) == sessions.rules_of(WORKLOAD.name, "standard").network_digest


SCRIPT = """
from tests.workloads.sessions import quality
from tests.workloads.test_detection import data, indices, started
from workloads.detection.coco import TruthSet
mini, ramp = folders
session = started(ramp, num_devices=2, global_batch_size=10)
batches = [indices(session, session._next_batch()[0]) for _ in range(6)]
session = started(mini, num_devices=2)
result = course(session, 1280, mini)
again = quality(session, mini).value
images, boxes, labels = data.read_split(mini, "test")
alone = TruthSet(boxes, labels, 10).mean_average_precision(session._detections(torch.from_numpy(images)).astype(float))
result |= dict(batches=batches, again=again, alone=alone)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are shared, every detection counts once, and the course is nearly that of one."""
    ramp = ramp_dir(tmp_path / "ramp")

    ranks = on_two_processes(SCRIPT, tmp_path, mini_dir, ramp)

    alone = started(ramp, global_batch_size=10)
    for step in range(6):
        both = ranks[0]["batches"][step] + ranks[1]["batches"][step]
        assert both == indices(alone, alone._next_batch()[0])
        assert len(set(both)) == 10
    value = ranks[0]["course"]["value"]
    assert value == ranks[0]["again"] == pytest.approx(ranks[0]["alone"], abs=1e-3)
    assert value > 0.1
    assert ranks[0]["counts"] == [1280, 320]
    assert ranks[0]["course"]["loss"] == pytest.approx(started(mini_dir).train_block(1280).mean_loss, rel=0.05)
