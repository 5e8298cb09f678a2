"""Detection at full size, in small: COCO's layouts, the loader, the network, and runs as they are driven."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.run import worker
from harness.run.replay import digest_of_weights
from tests.workloads import coco_folder, full_suites, sessions
from tests.workloads.coco_folder import NUM_IMAGES
from tests.workloads.sessions import losses, on_two_processes
from workloads.detection import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("torchvision")
pytest.importorskip("faster_coco_eval")
pytest.importorskip("datasets")

import torch
from torchvision.models import resnet18, resnet50
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.transform import GeneralizedRCNNTransform

from workloads.detection import coco2017, full_data, full_images
from workloads.detection.full_evaluation import FullMeanAveragePrecision
from workloads.detection.full_model import build_model, build_optimizer, load_backbone
from workloads.detection.recipe import FullRecipe
from workloads.streaming.order import share

TINY = {
    "model_depth": 18, "data_min_side": 32, "data_max_side": 50, "global_batch_size": 2,
    "opt_learning_rate_warmup_steps": 2, "opt_learning_rate_first_decay_step": 500,
    "opt_learning_rate_second_decay_step": 500,
}  # fmt: skip

started = functools.partial(full_suites.started, WORKLOAD.name, TINY)
config = functools.partial(full_suites.config, WORKLOAD.name, TINY)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return coco_folder.write(tmp_path_factory.mktemp("source") / "coco", resnet18().state_dict())


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The small folder, prepared, with the labels in the same folder."""
    return prepared(tmp_path_factory.mktemp("toy"), source)


def prepared(folder: Path, source: Path, **arguments: Any) -> Path:
    data_dir = folder / "data"
    data_dir.mkdir()
    fill(data_dir, source, **arguments)
    return data_dir


def fill(data_dir: Path, source: Path, **arguments: Any) -> None:
    given = {"num_images": NUM_IMAGES, "backbone_sha256": coco_folder.backbone_digest(source), **arguments}
    full_data.prepare(data_dir, source, **given)


def recipe(**changed: Any) -> FullRecipe:
    return FullRecipe.parse({**sessions.rules_of(WORKLOAD.name, "full").defaults(), **changed})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def instances(source: Path, official: str) -> Any:
    return json.loads((source / "annotations" / f"instances_{official}.json").read_text())


def test_both_layouts_give_the_same_bytes(source: Path, toy: Path, tmp_path: Path) -> None:
    """The folders, and the archives, which are checked by digest."""
    copy = tmp_path / "archives"
    shutil.copytree(source, copy)
    digests = coco_folder.pack(copy)
    (tmp_path / "packed").mkdir()

    packed = prepared(tmp_path / "packed", copy, md5=digests)

    assert contents(packed) == contents(toy)


def test_prepared_data_are_the_images_and_boxes(source: Path, toy: Path) -> None:
    """Every byte of the images; boxes to train on are clipped, without crowds and empty ones; the test set has all."""
    train, test = (full_suites.table(toy / split) for split in ("train", "test"))
    found = {row["image"]: row for row in train}
    names = {(source / "train2017" / image["file_name"]): image for image in instances(source, "train2017")["images"]}
    annotations = instances(source, "train2017")["annotations"]

    assert len(found) == NUM_IMAGES["train"] == len(names) - 3
    for path, image in names.items():
        wanted = []
        for each in annotations:
            left, top, width, height = each["bbox"]
            if each["image_id"] == image["id"] and not each["iscrowd"] and width:
                wanted.append([left, top, min(left + width, image["width"]), min(top + height, image["height"])])
        row = found.get(path.read_bytes())
        assert (row is None) == (not wanted)
        assert row is None or np.allclose(row["boxes"], wanted)
    assert set(test[0]) == {"image", "height", "width"}
    assert len(test) == NUM_IMAGES["test"]
    kinds = full_images.kinds(*(np.array([row[side] for row in test]) for side in ("height", "width")))
    assert set(kinds) == {0, 1, 2, 3}
    assert (np.diff(kinds) >= 0).all()
    labels = np.load(toy / "test_labels.npy")
    assert (labels[..., 0] >= 0).sum() == len(instances(source, "val2017")["annotations"])
    assert labels[..., 1].sum() == 1
    assert ((labels[..., 0] >= 0).sum(1) == 0).any(), "an image without an object"


def test_backbone_is_the_one_whose_digest_is_known(source: Path, tmp_path: Path) -> None:
    """torchvision's file, by its SHA-256, which begins as its name ends; the message says where it is."""
    assert f"resnet50-{coco2017.BACKBONE_SHA256[:8]}.pth" == coco2017.BACKBONE
    with pytest.raises(DataError, match=r"resnet50-0676ba61\.pth: SHA-256 is .*, expected 0676ba61"):
        coco2017.backbone(source)
    with pytest.raises(DataError, match=r"is missing: fetch https://download\.pytorch\.org/models/resnet50-0676ba61"):
        coco2017.backbone(tmp_path)


def test_layout_that_is_none_or_another_archive_is_refused(source: Path, tmp_path: Path) -> None:
    """What is missing is named; an archive is checked by digest, and its members by name."""
    with pytest.raises(DataError, match=r"neither train2017/ nor train2017\.zip is there"):
        coco2017.pictures(tmp_path)
    copy = tmp_path / "archives"
    shutil.copytree(source, copy)
    digests = coco_folder.pack(copy)
    with pytest.raises(DataError, match=r"train2017\.zip: MD5 is .*, expected 0;"):
        coco2017.pictures(copy, NUM_IMAGES, {**digests, "train2017.zip": "0"})
    place, some = coco2017.pictures(copy, NUM_IMAGES, digests)[0]["train"]
    shutil.copy(copy / "val2017.zip", copy / "train2017.zip")
    with pytest.raises(DataError, match="contains no file train2017/"):
        list(coco2017.jpegs(place, some))
    (copy / "train2017.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"train2017\.zip is damaged"):
        list(coco2017.jpegs(place, some))
    annotations = copy / "annotations_trainval2017.zip"
    shutil.copy(copy / "val2017.zip", annotations)
    digest = hashlib.md5(annotations.read_bytes()).hexdigest()
    with pytest.raises(DataError, match=r"contains no file annotations/instances_train2017\.json"):
        coco2017.pictures(
            copy, NUM_IMAGES, {**digests, annotations.name: digest, "train2017.zip": _md5(copy / "train2017.zip")}
        )


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_annotations_that_make_no_sense_are_refused(source: Path, tmp_path: Path) -> None:
    """Not JSON, a box without an image, a name that would leave the folder, too few images, other categories."""
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    path = copy / "annotations" / "instances_train2017.json"
    good = json.loads(path.read_text())
    images, annotations = good["images"], good["annotations"]
    for changed, message in (
        ({"images": [{**images[0], "file_name": "../../etc/passwd"}, *images[1:]]}, "image '../../etc/passwd' of"),
        ({"images": [{**images[0], "height": 0}, *images[1:]]}, "of .*x0 pixels"),
        ({"images": [*images, {**images[0], "id": 1}]}, "two images have the same name"),
        ({"annotations": [{**annotations[0], "image_id": 3}]}, "an annotation of image 3 has no image"),
        ({"annotations": [{**annotations[0], "bbox": [0, 0, -1, 5]}]}, "no box"),
        ({"annotations": annotations[:4]}, "images of train2017 are usable, expected 17"),
        ({"categories": good["categories"][1:]}, "not COCO's 80"),
        ({"images": 3}, r"instances_train2017\.json is damaged"),
    ):
        path.write_text(json.dumps({**good, **changed}))
        with pytest.raises(DataError, match=message):
            coco2017.pictures(copy, NUM_IMAGES)
    with pytest.raises(DataError, match="17 images of train2017 are usable, expected 117,266"):
        coco2017.pictures(source)


def test_image_that_is_damaged_is_refused(source: Path, tmp_path: Path) -> None:
    """Missing, cut off, of another size, no JPEG, or too large: before anything is trained on it."""
    place, some = coco2017.pictures(source, NUM_IMAGES)[0]["test"]
    good = (place.path / some[0].name).read_bytes()
    other = (place.path / some[1].name).read_bytes()
    path = tmp_path / some[0].name
    for content, message in (
        (None, "cannot be read: No such file"),
        (good[:-200], "is damaged"),
        (other, "pixels; the annotations say"),
        (b"GIF89a", "is damaged"),
        (good + bytes(coco2017.MAX_JPEG_BYTES), "more than 8,388,608 bytes"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            list(coco2017.jpegs(coco2017.Place(tmp_path), some[:1]))


def test_without_a_source_it_says_what_to_fetch(tmp_path: Path) -> None:
    """Nothing is downloaded, the backbone included."""
    with pytest.raises(DataError, match=r"train2017\.zip.*models/resnet50-0676ba61\.pth"):
        WORKLOAD.prepare_data("full", tmp_path, None)


def test_batches_have_images_of_one_shape() -> None:
    """Each kind's images, in the order of a permutation; a function of seed and epoch; ranks share each batch."""
    random = np.random.RandomState(0)
    heights, widths = random.randint(200, 641, (2, 1003))
    kinds = full_images.kinds(heights, widths)
    epochs = [full_images.grouped(kinds, 16, seed=5)(epoch) for epoch in range(2)]

    for epoch in epochs:
        indices = np.concatenate(epoch)
        assert len(indices) == len(np.unique(indices)) == sum(np.bincount(kinds) // 16 * 16)
        assert all(len(set(kinds[batch])) == 1 for batch in epoch)
        assert len({kinds[batch[0]] for batch in epoch[:12]}) > 1, "the kinds take turns"
    assert not np.array_equal(epochs[0][0], epochs[1][0])
    assert np.array_equal(np.stack(full_images.grouped(kinds, 16, seed=5)(1)), np.stack(epochs[1]))
    for num_ranks in (1, 2, 3, 16):
        parts = [np.concatenate([share(batch, rank, num_ranks) for batch in epochs[0]]) for rank in range(num_ranks)]
        assert sorted(np.concatenate(parts)) == sorted(np.concatenate(epochs[0]))


def test_images_are_scaled_as_by_torchvision_and_fit_their_shape() -> None:
    """The shorter side has 800 pixels, or the longer 1,333; the four shapes hold every image of their kind."""
    transform = GeneralizedRCNNTransform(800, 1333, [0.0] * 3, [1.0] * 3).eval()
    assert [full_images.shape(kind, 800, 1333) for kind in range(4)] == [
        (800, 1088),
        (800, 1344),
        (1088, 800),
        (1344, 800),
    ]
    for height, width in (
        (480, 640),
        (640, 480),
        (427, 640),
        (640, 426),
        (333, 500),
        (612, 612),
        (51, 640),
        (640, 471),
    ):
        (found,) = transform([torch.zeros(3, height, width)])[0].image_sizes
        scaled = full_images.scaled(height, width, 800, 1333)
        (kind,) = full_images.kinds(np.array([height]), np.array([width]))
        shape = full_images.shape(kind, 800, 1333)

        assert max(abs(a - b) for a, b in zip(found, scaled, strict=True)) <= 1
        assert scaled[0] <= shape[0]
        assert scaled[1] <= shape[1]


def test_loaded_boxes_are_around_what_is_in_the_image(source: Path, toy: Path) -> None:
    """Scaled and mirrored together, in every kind; grey and CMYK images have three channels; the seed mirrors."""
    from workloads.streaming import shards

    rows = shards.read(toy / "train")
    mirrored = set()
    for index in range(NUM_IMAGES["train"]):
        for seed in (0, 1):
            table = rows[np.array([index])]
            images, boxes, labels = full_images.load_training(table, np.array([seed]), sides=(64, 100), does_flip=True)
            plain = full_images.load_training(table, np.array([1]), sides=(64, 100), does_flip=False)[0]
            mirrored.add((seed, bool((images == plain).all())))
            assert images.shape[1:] == (*full_images.shape(int(full_images.kinds(*_size(table))[0]), 64, 100), 3)
            colours = coco_folder.COLOURS[int(labels[0, 0])]
            left, top, right, bottom = (round(float(edge)) for edge in boxes[0, 0])
            inside = images[0, top + 3 : bottom - 3, left + 3 : right - 3].float().mean((0, 1))
            is_coloured = inside.max() - inside.min() > 60
            assert not is_coloured or int(inside.argmax()) == int(np.argmax(colours))
    assert {(0, True), (1, False)} <= mirrored


def _size(table: Any) -> tuple[Any, Any]:
    return table["height"].to_numpy(), table["width"].to_numpy()


def test_network_is_torchvisions() -> None:
    """Parameters, and multiplications at 800x800, as torchvision publishes them; the backbone's weights fit."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode
    from torchvision.models.detection import RetinaNet_ResNet50_FPN_Weights as Published

    published = Published.COCO_V1.meta
    with FakeTensorMode():
        network: Any = build_model("full", (0, 0, 3), 91, recipe())
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, 3, 800, 800))
        load_backbone(network, resnet50().state_dict())

    assert sum(p.numel() for p in network.parameters()) == published["num_params"] == 34_014_999
    assert counter.get_total_flops() / 2e9 == pytest.approx(published["_ops"], abs=0.01)
    assert sum(p.numel() for p in network.parameters() if not p.requires_grad) == 222_400, "stem and first stage"
    with pytest.raises(RuntimeError, match="Missing key"):
        load_backbone(network, resnet18().state_dict())


def test_loss_and_detections_are_torchvisions() -> None:
    """With several objects, one around everything, and an image without any; anchors, matching, both losses, boxes."""
    torch.manual_seed(0)
    network: Any = build_model("full", (0, 0, 3), 91, recipe(**TINY))
    boxes = torch.tensor(
        [[[3, 4, 40, 60], [50, 10, 90, 30]], [[0, 0, 96, 64], [0, 0, 0, 0]], [[0, 0, 0, 0]] * 2]
    ).float()
    labels = torch.tensor([[5, 90], [1, -1], [-1, -1]])
    images = torch.randn(3, 3, 64, 96)
    with torch.no_grad():
        network.head.classification_head.cls_logits.bias += 0.5 * torch.randn(9 * 91)
        outputs = network(images)

    loss, count = network.loss(outputs, boxes, labels)
    targets = [{"boxes": b[k >= 0], "labels": k[k >= 0]} for b, k in zip(boxes, labels, strict=True)]
    heads = {name: outputs[name] for name in ("cls_logits", "bbox_regression")}
    expected = network.compute_loss(targets, heads, [outputs["anchors"]] * 3)
    assert loss.item() == pytest.approx(3 * sum(expected.values()).item(), rel=1e-5)
    assert count == 3
    network.eval()
    network.transform = GeneralizedRCNNTransform(64, 96, [0.0] * 3, [1.0] * 3)  # leaves these images as they are
    wanted = RetinaNet.forward(network, list(images))
    found = network.detect(outputs, (64, 96), [(64, 96)] * 3)
    for one, other in zip(found, wanted, strict=True):
        assert len(one["boxes"]) > 10
        assert all(torch.allclose(one[name], other[name], atol=1e-4) for name in ("boxes", "scores", "labels"))
    (lower,) = network.detect(outputs, (64, 96), [(50, 96)])
    assert lower["boxes"][:, 3].max() <= 50


@pytest.mark.slow
def test_memory_at_real_size_fits_an_accelerator() -> None:
    """A step of four images at 800x1344, without allocating any of it."""

    def loss(network: Any) -> Any:
        boxes = torch.tensor([10.0, 10.0, 200.0, 300.0]).expand(4, 20, 4)
        return network.loss(network(torch.zeros(4, 3, 800, 1344)), boxes, torch.ones(4, 20, dtype=torch.int64))[0]

    found = full_suites.bytes_of_a_step(
        lambda: build_model("full", (0, 0, 3), 91, recipe()), lambda network: build_optimizer(network, recipe()), loss
    )

    assert 5e9 < found < 70e9, f"{found / 1e9:.1f} GB"


def test_golden_losses(toy: Path) -> None:
    """Five steps at tiny size, as they have always been; also with two parts a step."""
    curve = losses(started(toy), 5)
    in_parts = losses(started(toy, execution={"accumulation_steps": 2}), 5)

    sessions.assert_golden_curve(f"{WORKLOAD.name}_full", curve, {"rel": 1e-3}, rel=1e-2)
    assert in_parts == pytest.approx(curve, rel=1e-3)


def test_what_is_frozen_stays_as_the_backbone_has_it(source: Path, toy: Path) -> None:
    """The stem, the first stage and the statistics; the other stages begin with its weights and learn."""
    weights = torch.load(source / coco2017.BACKBONE)
    session = started(toy)
    body = session.network.backbone.body
    assert torch.equal(body.layer4[0].conv1.weight, weights["layer4.0.conv1.weight"])

    losses(session, 3)

    assert torch.equal(body.conv1.weight, weights["conv1.weight"])
    assert torch.equal(body.layer1[0].conv1.weight, weights["layer1.0.conv1.weight"])
    assert torch.equal(body.layer4[0].bn1.running_mean, weights["layer4.0.bn1.running_mean"])
    assert not torch.equal(body.layer4[0].conv1.weight, weights["layer4.0.conv1.weight"])


def build_adamw(network: Any, recipe: Any) -> torch.optim.Optimizer:
    """A submission's optimizer: it learns a backbone that was never trained faster than SGD does."""
    return torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], 0.001)


def overfit(toy: Path, num_steps: int, **changed: Any) -> list[float]:
    """The losses of one batch of two images."""
    session = started(
        toy, division="open", parts={"build_optimizer": build_adamw}, data_min_side=64, data_max_side=100, **changed
    )
    batch = list(session.training.next_batch())
    return [session.execution.step(session._loss, batch, 0.001).item() for _ in range(num_steps)]


@pytest.mark.slow
def test_one_batch_can_be_learnt(toy: Path) -> None:
    """The loss of two images falls to a half, unsteadily, and on another processor in another way."""
    curve = overfit(toy, 80)

    assert min(curve) < curve[0] / 2


def test_every_test_image_is_detected_in_once_and_in_its_own_pixels(toy: Path) -> None:
    """Seven images of four kinds in batches of eight; the rows are those of each image alone."""
    session = started(toy)
    with torch.no_grad():
        bias = session.network.head.classification_head.cls_logits.bias
        bias += 0.7 * torch.randn(len(bias), generator=torch.manual_seed(0))
    rows = session.predict({})["detections"]
    alone = []
    for index, row in enumerate(full_suites.table(toy / "test")):
        kind = int(full_images.kinds(np.array([row["height"]]), np.array([row["width"]]))[0])
        size = full_images.scaled(row["height"], row["width"], 32, 50)
        image = np.full((1, *full_images.shape(kind, 32, 50), 3), full_images.PADDING, np.uint8)
        image[0, : size[0], : size[1]] = full_images.decoded(row["image"], size)
        (some,) = session._detected(torch.from_numpy(image), torch.tensor([[*size, row["height"], row["width"]]]))
        some[:, 0] = index
        alone.append(some)
        assert 0 < len(some) <= 100
        assert (some[:, 1] + some[:, 3]).max() <= row["width"] + 0.01
        assert (some[:, 2] + some[:, 4]).max() <= row["height"] + 0.01

    assert np.allclose(np.concatenate(alone), rows, atol=1e-2)
    assert sessions.quality(session, toy).num_examples == NUM_IMAGES["test"]


def test_quality_is_that_of_the_official_evaluation(source: Path, toy: Path) -> None:
    """Boxes near the objects, and others, against pycocotools on the official file, crowd included."""
    pycocotools = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    official = instances(source, "val2017")
    numbers = {(source / "val2017" / image["file_name"]).read_bytes(): image["id"] for image in official["images"]}
    index_of = {numbers[row["image"]]: index for index, row in enumerate(full_suites.table(toy / "test"))}
    random = np.random.RandomState(0)
    rows, found = [], []
    for each in official["annotations"]:
        for _ in range(4):
            box = np.float32(each["bbox"]) + random.randint(-3, 4, 4).astype(np.float32)
            score, category = random.rand(), each["category_id"] if random.rand() < 0.8 else 90
            rows.append([index_of[each["image_id"]], *box, score, category])
            row = np.float32(rows[-1])
            found.append({
                "image_id": each["image_id"], "category_id": category,
                "bbox": row[1:5].tolist(), "score": float(row[5]),
            })  # fmt: skip
    truth = pycocotools.COCO()
    truth.dataset = official
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()

    quality = FullMeanAveragePrecision(toy, toy).quality(lambda _: {"detections": np.array(rows, np.float32)})

    assert quality.value == pytest.approx(evaluation.stats[0], abs=1e-9)
    assert 0.05 < quality.value < 0.95


def test_evaluator_ignores_crowds_and_refuses_other_labels(toy: Path, tmp_path: Path) -> None:
    """The boxes themselves have an AP of 1.0, whether or not the crowd is detected; files that do not fit are named."""
    boxes, labels = np.load(toy / "test_boxes.npy"), np.load(toy / "test_labels.npy")
    evaluator = FullMeanAveragePrecision(toy, toy)
    places = np.argwhere(labels[..., 0] >= 0)
    rows = np.array([
        [n, *boxes[n, m, :2], *(boxes[n, m, 2:] - boxes[n, m, :2]), 0.9, labels[n, m, 0]] for n, m in places
    ], np.float32)  # fmt: skip
    is_crowd = np.array([labels[n, m, 1] == 1 for n, m in places])

    for some in (rows, rows[~is_crowd]):
        assert evaluator.quality(lambda _, some=some: {"detections": some}).value == pytest.approx(1.0)
    nothing = {"detections": np.zeros((0, 7), np.float32)}
    assert evaluator.quality(lambda _: nothing).value == WORKLOAD.baselines("full", toy, toy)["nothing_detected"] == 0.0
    with pytest.raises(ValueError, match="class of a detection as a whole number from 0 to 90"):
        evaluator.quality(lambda _: {"detections": rows + np.float32([0, 0, 0, 0, 0, 0, 90])})
    with pytest.raises(DataError, match=r"metadata\.json: cannot be used"):
        FullMeanAveragePrecision(tmp_path, toy)
    for name, array, message in (
        ("test_boxes.npy", None, r"test_boxes\.npy is missing"),
        ("test_boxes.npy", boxes.astype(np.float32), "expected 3-d float64"),
        ("test_labels.npy", labels[1:], "boxes of shape"),
        ("test_labels.npy", np.where(labels == 44, 12, labels), "metadata.json says 7 and 80 categories"),
    ):
        shutil.rmtree(tmp_path)
        shutil.copytree(toy, tmp_path)
        (tmp_path / name).unlink()
        if array is not None:
            np.save(tmp_path / name, array)
        with pytest.raises(DataError, match=message):
            FullMeanAveragePrecision(toy, tmp_path)
    (tmp_path / "test_boxes.npy").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"test_boxes\.npy is damaged"):
        FullMeanAveragePrecision(toy, tmp_path)


@pytest.mark.slow
def test_run_that_goes_on_from_a_checkpoint_equals_one_without_interruption(toy: Path, tmp_path: Path) -> None:
    """Bit by bit, across the end of an epoch, with worker processes."""

    def course(session: Any) -> list[Any]:
        return [*losses(session, 6), digest_of_weights(session), session.predict({})["detections"].tobytes()]

    session = started(toy, execution={"loader_workers": 1})
    losses(session, 2)
    worker.save(session, tmp_path)
    expected = course(session)
    other = started(toy, execution={"loader_workers": 1})
    losses(other, 1)

    worker.load(other, tmp_path)

    assert course(other) == expected
    session.close()
    other.close()


TWO_RANKS = """
from tests.workloads import full_suites
from tests.workloads.test_detection_full import TINY
session = full_suites.started("detection", TINY, folders[0], num_devices=2)
result = course(session, 12, folders[0])
"""


@pytest.mark.slow
def test_two_devices_train_and_evaluate_as_one(toy: Path, tmp_path: Path) -> None:
    """Loss, weights and box AP of two processes are those of one."""
    single = sessions.course(started(toy), 12, toy)

    ranks = on_two_processes(TWO_RANKS, tmp_path, toy)

    assert ranks[0]["course"]["loss"] == pytest.approx(single["course"]["loss"], rel=1e-4)
    assert ranks[0]["course"]["value"] == pytest.approx(single["course"]["value"], abs=0.02)
    assert ranks[0]["course"]["weights"] == pytest.approx(single["course"]["weights"], abs=0.05)
    assert ranks[0]["counts"] == single["counts"]


def test_data_that_are_not_as_announced_are_refused(toy: Path, tmp_path: Path) -> None:
    """A key that is missing, another number of images, another backbone, a batch that is too large."""
    metadata = json.loads((toy / "metadata.json").read_text())
    for key in ("classes", "num_train", "num_test"):
        with pytest.raises(DataError, match=f"lacks '{key}'"):
            WORKLOAD.open(config(toy, metadata={k: v for k, v in metadata.items() if k != key}))
    with pytest.raises(DataError, match=r"num_test is 7; metadata\.json says 8"):
        started(toy, metadata={**metadata, "num_test": 8})
    with pytest.raises(UsageError, match="larger than the training set of 17"):
        WORKLOAD.open(config(toy, global_batch_size=18))
    with pytest.raises(UsageError, match="cannot be shared by 3 devices"):
        WORKLOAD.open(config(toy, num_devices=3))
    session = sessions.initialised(WORKLOAD.open(config(toy)))
    shutil.copytree(toy, tmp_path / "data")
    path = tmp_path / "data" / "backbone.pth"
    for content in (b"nonsense", b"", None):
        path.write_bytes(content) if content is not None else path.unlink()
        with pytest.raises(DataError, match=r"backbone\.pth: not the weights of this backbone"):
            session.start(tmp_path / "data")
    session.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"opt_name": "adamw"}, "opt_name is 'adamw', expected sgd"),
        ({"global_batch_size": 0}, "expected at least 1"),
        ({"opt_learning_rate_first_decay_step": 90_000}, "must not be after the second"),
        ({"opt_momentum": 1.0}, "opt_momentum is 1.0, expected below 1"),
        ({"model_depth": 51}, "must be that of a ResNet"),
        ({"model_trainable_stages": 6}, "at most 5"),
        ({"data_min_side": 16}, "at least 32"),
        ({"data_min_side": 2000}, "at most data_max_side"),
    ],
)
def test_wrong_hyperparameters_are_one_sentence(changed: dict[str, Any], message: str) -> None:
    """Those of this suite."""
    with pytest.raises(UsageError, match=message):
        recipe(**changed)


def test_rate_rises_and_falls_twice() -> None:
    """As in Detectron's schedule: 1,000 steps of warm-up, a tenth from step 60,000, a hundredth from 80,000."""
    rates = [recipe().learning_rate(step) for step in (0, 999, 1000, 59_999, 60_000, 80_000, 10**6)]

    assert rates == pytest.approx([0.01 / 1001, 0.01 * 1000 / 1001, 0.01, 0.01, 0.001, 0.0001, 0.0001])


@pytest.mark.slow
def test_an_epoch_through_tta_run(source: Path, tmp_path: Path) -> None:
    """Two processes, a referee, an evaluator and a ruleset of the tests; the log has the run and its quality."""
    cache = tmp_path / "cache"
    full_suites.prepare(WORKLOAD, cache, lambda data_dir: fill(data_dir, source))

    rules = sessions.rules_of(WORKLOAD.name, "full")
    small = full_suites.small_rules(rules, TINY, (NUM_IMAGES["train"], NUM_IMAGES["test"]))

    quality = full_suites.run_an_epoch(tmp_path, small, cache)

    assert small.eval_every_samples == 16
    assert 0 <= quality < 1


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_one_batch_can_be_learnt_on_an_accelerator(toy: Path, precision: str) -> None:
    """As on a CPU."""
    with sessions.in_precision(precision):
        curve = overfit(toy, 80, precision=precision)

    assert curve[-1] < curve[0] / 3
