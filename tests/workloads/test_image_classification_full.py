"""Image classification at full size: the network against what is published, and sessions on a small ImageNet."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.log import keys, run_log
from harness.run import worker
from harness.run.replay import digest_of_weights
from tests.workloads import full_suites, sessions
from tests.workloads import imagenet as copies

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("datasets")

from torch import nn  # noqa: E402 (after the check that torch is there)

from harness.run.network import fingerprint  # noqa: E402
from workloads.image_classification import WORKLOAD, full, full_model, imagenet  # noqa: E402
from workloads.image_classification.full_recipe import FullRecipe  # noqa: E402

NAME = "image_classification"
RULES = sessions.rules_of(NAME, "full")
SMALL = {
    "global_batch_size": 8,
    "batch_norm_group": 4,
    "opt_name": "sgd",
    "opt_base_learning_rate": 0.2,
    "opt_learning_rate_warmup_steps": 2,
    "opt_learning_rate_training_steps": 100,
}


def tiny(suite: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """A convolution and a batch normalisation."""
    layers = (nn.Conv2d(3, 8, 16, stride=16), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(8, num_classes))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("imagenet")
    (place / "made").mkdir()
    imagenet.prepare(place / "made", copies.write_folders(place / "source", True))
    return place / "made"


def opened(data_dir: Path, seed: int = 3, num_devices: int = 1, workers: int = 0, **changed: Any) -> Any:
    """A session of the tiny network; the closed division would not permit these hyperparameters."""
    config = sessions.config(NAME, data_dir, "full", seed, num_devices, **{**SMALL, **changed})
    execution = {"loader_workers": workers}
    return WORKLOAD.open(dataclasses.replace(config, parts={"build_model": tiny}, execution=execution))


def started(data_dir: Path, **changed: Any) -> Any:
    session = sessions.initialised(opened(data_dir, **changed))
    session.start(data_dir)
    return session


def test_network_has_the_published_parameters_and_operations() -> None:
    """25,557,032 and 4.089 G multiplications at 224 pixels, as torchvision publishes them."""
    from torch.utils.flop_counter import FlopCounterMode
    from torchvision.models import ResNet50_Weights

    published = ResNet50_Weights.IMAGENET1K_V1.meta
    with torch.device("meta"):
        network = full_model.build_model("full", (224, 224, 3), 1000)
        counter = FlopCounterMode(display=False)
        with counter:
            network(torch.empty(1, 3, 224, 224))

    assert sum(parameter.numel() for parameter in network.parameters()) == published["num_params"] == 25_557_032
    assert counter.get_total_flops() / 2e9 == pytest.approx(published["_ops"], abs=0.0006)
    assert [network.layer2[0].conv1.stride, network.layer2[0].conv2.stride] == [(1, 1), (2, 2)]  # v1.5


def test_the_last_layers_begin_as_in_the_reference() -> None:
    """Every block begins as the identity; the last layer is small."""
    torch.manual_seed(0)
    network = full_model.build_model("full", (224, 224, 3), 1000)

    assert {block.bn3.weight.abs().max().item() for block in (*network.layer1, *network.layer4)} == {0.0}
    assert network.fc.weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert network.fc.bias.abs().max() == 0


def test_a_group_at_real_size_fits_where_the_card_says() -> None:
    """Forward and backward of 64 images in bf16, and the state of the optimizer, without computing anything."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    recipe = FullRecipe.parse(RULES.defaults())
    with FakeTensorMode():
        network = full_model.build_model("full", (224, 224, 3), 1000)
        optimizer = full_model.build_optimizer(network, recipe)
        tracker = MemTracker()
        tracker.track_external(network, optimizer)
        images = torch.empty(recipe.batch_norm_group, 3, 224, 224)
        with tracker:
            for _ in range(2):  # the first step makes the optimizer's state
                with torch.autocast("cpu", torch.bfloat16):
                    loss = nn.functional.cross_entropy(network(images), torch.zeros(64, dtype=torch.int64))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                peak = max(found["Total"] for found in tracker.get_tracker_snapshot("peak").values())
                tracker.reset_mod_stats()

    assert 2.8e9 < peak < 3.4e9


@pytest.mark.gpu
def test_a_group_on_an_accelerator_fits_where_the_card_says() -> None:
    """The same with everything computed, cuDNN's buffers included; the loss is that of a thousand equal classes."""
    recipe = FullRecipe.parse(RULES.defaults())
    network = full_model.build_model("full", (224, 224, 3), 1000).to("cuda", memory_format=torch.channels_last)
    optimizer = full_model.build_optimizer(network, recipe)
    images = torch.rand(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    torch.cuda.reset_peak_memory_stats()

    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(network(images), torch.zeros(64, dtype=torch.int64, device="cuda"))
        loss.backward()  # type: ignore[no-untyped-call]
        if not optimizer.state:
            assert loss.item() == pytest.approx(math.log(1000), abs=0.2)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    assert torch.cuda.max_memory_allocated() < 8e9


def test_lars_is_its_formula() -> None:
    """Two steps, against the formula written out; vectors and what has no norm are not adapted."""
    random = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False), nn.Linear(1, 1))
    nn.init.zeros_(network[1].weight)
    changes = {"opt_momentum": 0.9, "opt_weight_decay": 0.1, "opt_base_learning_rate": 2.0}
    optimizer = full_model.build_optimizer(network, FullRecipe.parse({**RULES.defaults(), **changes}))
    frozen = network[2].weight.clone()
    expected = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    moved = {name: torch.zeros_like(weight) for name, weight in expected.items()}

    for rate in (2.0, 0.5):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, weight in network.named_parameters():
            if name == "2.weight":
                continue  # it has no gradient
            weight.grad = torch.randn(weight.shape, generator=random)
            old, step = expected[name], weight.grad
            if weight.ndim > 1:
                trust = 0.001 * old.norm() / (weight.grad.norm() + 0.1 * old.norm())
                step = (trust if old.norm() > 0 else 1.0) * (weight.grad + 0.1 * old)
            moved[name] = 0.9 * moved[name] + rate * step
            expected[name] = old - moved[name]
        optimizer.step()

    for name, weight in network.named_parameters():
        assert torch.allclose(weight, expected[name], rtol=1e-6), name
    assert torch.equal(network[2].weight, frozen)


def test_learning_rate_rises_falls_and_stays() -> None:
    """MLPerf's: linear up to the peak in 5 epochs, with the square of the rest to 0.0001 at 42, and then constant."""
    recipe = FullRecipe.parse(RULES.defaults())
    middle = (1560 + 13104) // 2

    assert recipe.learning_rate(0) == pytest.approx(10 / 1561)
    assert recipe.learning_rate(1560) == 10.0
    assert recipe.learning_rate(middle) == pytest.approx(0.0001 + 9.9999 / 4)
    assert [recipe.learning_rate(step) for step in (13_104, 10**6)] == [0.0001, 0.0001]


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_recipes_of_the_rules_are_accepted(size: int) -> None:
    """On as many devices as the groups of a batch permit."""
    recipe = RULES.reference_recipes[size]
    values = RULES.resolve({**recipe.hyperparameters, "global_batch_size": recipe.global_batch_size}, "closed")

    parsed = FullRecipe.parse(values)

    assert parsed.global_batch_size // parsed.batch_norm_group >= 8
    assert recipe.global_batch_size in {point.global_batch_size for point in RULES.reference_convergence}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opt_name": "adam"}, "opt_name is 'adam', expected lars or sgd"),
        ({"global_batch_size": 4000}, "global_batch_size 4000 is not a multiple of batch_norm_group 64"),
        ({"batch_norm_group": 1}, "batch_norm_group 1, which is at least 2"),
        ({"opt_learning_rate_warmup_steps": 13104}, "must be below opt_learning_rate_training_steps"),
        ({"opt_momentum": 1.0}, "expected below 1"),
        ({"label_smoothing": 1.0}, "expected below 1"),
    ],
)
def test_impossible_recipe_is_one_sentence(changes: dict[str, Any], message: str) -> None:
    """In the open division, too."""
    with pytest.raises(UsageError, match=message):
        FullRecipe.parse({**RULES.defaults(), **changes})


def test_what_cannot_be_trained_is_refused_before_the_clock_starts(data_dir: Path) -> None:
    """Groups that devices cannot share, a batch beyond the training set, metadata of something else."""
    config = sessions.config(NAME, data_dir, "full", **SMALL)

    so = " so that each has whole groups of 4 or an equal part of one"
    for devices, batch, group, more in ((3, 8, 4, ""), (2, 12, 4, so), (16, 8, 4, "")):  # shares of 2 2/3, 6 and 1/2
        message = f"^image_classification: global_batch_size {batch} cannot be shared by {devices} devices{more}$"
        with pytest.raises(UsageError, match=message):
            opened(data_dir, num_devices=devices, global_batch_size=batch, batch_norm_group=group)
    with pytest.raises(UsageError, match="24 is larger than the training set of 20"):
        opened(data_dir, global_batch_size=24)
    for key in ("num_classes", "num_train", "num_test"):
        lacking = {name: value for name, value in config.metadata.items() if name != key}
        with pytest.raises(DataError, match=f"lacks '{key}'"):
            WORKLOAD.open(dataclasses.replace(config, metadata=lacking))
    session = sessions.initialised(opened(data_dir))
    session.metadata = {**session.metadata, "num_test": 8}
    with pytest.raises(DataError, match=r"num_test is 7; metadata\.json says 8"):
        session.start(data_dir)


def test_losses_are_the_golden_ones(data_dir: Path) -> None:
    """Five steps of the tiny network; with worker processes they are the same to the bit."""
    found = sessions.losses(started(data_dir), 5)

    expected = sessions.golden(NAME, "full_loss", [round(loss, 6) for loss in found])
    assert found == pytest.approx(expected, abs=2e-4)
    session = started(data_dir, workers=2)
    assert sessions.losses(session, 5) == found
    session.close()


def test_every_test_image_is_classified_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 images in batches of 3: the quality is that of a network applied to each image alone."""
    monkeypatch.setattr(full.FullSession, "eval_batch", 3)
    session = started(data_dir)
    session.train_block(40)
    labels = np.load(data_dir / "test_labels.npy")

    found = sessions.quality(session, data_dir)

    session.network.eval()
    with torch.inference_mode():
        alone = [
            session.network(session._normalised(images[i : i + 1])).argmax().item()
            for images in session.testing
            for i in range(len(images))
        ]
    assert session.predict({})["classes"].tolist() == alone
    assert (found.value, found.num_examples) == (np.mean(labels == alone), 7)


def test_the_baseline_is_the_most_frequent_class(data_dir: Path) -> None:
    """Three of the four classes have two of the seven images."""
    assert WORKLOAD.baselines("full", data_dir, data_dir) == {"majority_class": 2 / 7}


def test_one_batch_can_be_learned(data_dir: Path) -> None:
    """Brightness tells the class: the loss falls from ln 4 to less than a third, and the test set is classified."""
    session = started(data_dir, global_batch_size=20, batch_norm_group=20, label_smoothing=0.0)

    first = session.train_block(20).mean_loss
    session.train_block(20 * 100)

    assert first == pytest.approx(math.log(4), abs=0.5)
    assert session.train_block(20).mean_loss < first / 3
    assert sessions.quality(session, data_dir).value >= 6 / 7


def test_a_run_that_goes_on_equals_one_without_interruption(data_dir: Path, tmp_path: Path) -> None:
    """Bit by bit, across the end of an epoch; and saving changes nothing."""

    def course(session: Any) -> list[Any]:
        found = sessions.losses(session, 3)
        return [*found, sessions.quality(session, data_dir).value, digest_of_weights(session)]

    session = started(data_dir)
    session.train_block(8)
    worker.save(session, tmp_path)
    expected = course(session)
    other = started(data_dir)
    other.train_block(24)  # it has been somewhere else

    worker.load(other, tmp_path)

    assert course(other) == expected


@pytest.mark.parametrize(("num_devices", "num_images"), [(1, 64), (8, 64), (64, 64), (128, 32), (256, 16)])
def test_device_has_whole_groups_or_a_part_of_one(data_dir: Path, num_devices: int, num_images: int) -> None:
    """The recipe of the rules, 4,096 images in groups of 64, on up to 32 nodes of eight accelerators."""
    config = sessions.config(NAME, data_dir, "full", num_devices=num_devices)
    metadata = {**config.metadata, "num_train": RULES.train_examples}

    session: Any = WORKLOAD.open(dataclasses.replace(config, metadata=metadata))

    assert session.microbatch == num_images
    assert session.microbatch * session.num_microbatches * num_devices == 4096


def test_groups_have_the_same_images_on_any_number_of_devices(data_dir: Path) -> None:
    """Of two batches of 16 in groups of 8, ranks one after the other have what one device has, in the same order."""
    from workloads.image_classification.full_images import load_training
    from workloads.streaming import loader
    from workloads.streaming.order import shuffled

    def groups(num_devices: int) -> list[Any]:
        values = {"global_batch_size": 16, "batch_norm_group": 8}
        microbatch = opened(data_dir, num_devices=num_devices, **values).microbatch
        loaders = [
            loader.TrainingLoader(
                loader.Examples(data_dir / "train", load_training), shuffled(20, 16, 3), 3,
                loader.Place(rank, num_devices, torch.device("cpu"), 0), microbatch,
            )
            for rank in range(num_devices)
        ]  # fmt: skip
        images = [images for _ in range(2) for own in loaders for images, _ in own.next_batch()]
        assert {len(each) for each in images} == {microbatch}
        return list(torch.cat(images).split(8))

    single = groups(1)
    assert not torch.equal(single[0], single[1])
    for num_devices in (2, 4, 8, 16):
        for expected, found in zip(single, groups(num_devices), strict=True):
            assert torch.equal(found, expected)


TWO = """
from tests.workloads import sessions
from tests.workloads.test_image_classification_full import opened
runs = []
for group in (4, 8):
    session = sessions.initialised(opened(folders[0], num_devices=2, batch_norm_group=group))
    session.start(folders[0])
    runs.append([course(session, 8, folders[0]) for _ in range(5)])
result = {"course": [[step["course"] for step in run] for run in runs], "counts": runs[0][0]["counts"]}
"""


def test_two_devices_train_as_one(data_dir: Path, tmp_path: Path) -> None:
    """Batch statistics are of a device's four images, and of the eight on both: the course of one device, each time."""
    ranks = sessions.on_two_processes(TWO, tmp_path, data_dir)

    for group, steps in zip((4, 8), ranks[0]["course"], strict=True):
        session = started(data_dir, batch_norm_group=group)
        for found in steps:
            single = sessions.course(session, 8, data_dir)
            assert ranks[0]["counts"] == single["counts"]
            assert found["value"] == single["course"]["value"]
            assert found["weights"] == pytest.approx(single["course"]["weights"], rel=1e-4, abs=2e-5)
            assert found["loss"] == pytest.approx(single["course"]["loss"], abs=1e-5)


def test_full_says_that_it_is_provisional() -> None:
    """With MLPerf's points and their source; the card has the numbers."""
    card = (sessions.ROOT / "workloads" / NAME / "README.md").read_text()

    assert RULES.provisional
    assert RULES.data_digest is None
    assert [point.global_batch_size for point in RULES.reference_convergence] == [1632, 4096, 8192, 32768]
    assert all(point.source is not None and "MLPerf" in point.source for point in RULES.reference_convergence)
    assert {samples % 1_281_167 for point in RULES.reference_convergence for samples in point.samples_to_target} == {0}
    for number in ("25,557,032", "0.759", "1,281,167"):
        assert number in card


MODULE = '''"""A network that a processor trains in no time."""

from torch import nn


def build_model(suite, image_shape, num_classes):
    layers = nn.Conv2d(3, 8, 16, stride=16), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8, num_classes))
'''


def test_the_referee_runs_an_epoch_on_two_devices(tmp_path: Path) -> None:
    """From tar files and the command line to a result that the checks accept; the network is a part of a submission,
    and the devices have one group between them."""
    rules = full_suites.small_rules(RULES, {**SMALL, "batch_norm_group": 8}, (20, 7))

    full_suites.assert_one_epoch(tmp_path, rules, copies.write_tars(tmp_path / "source"), MODULE)


@pytest.mark.slow
def test_the_referee_runs_resnet_50(tmp_path: Path) -> None:
    """The same in the closed division, with LARS, where the network is the workload's: the one whose digest the rules
    have, but for the number of classes."""
    small = {**SMALL, "global_batch_size": 4, "batch_norm_group": 2, "opt_name": "lars"}
    rules = full_suites.small_rules(RULES, small, (20, 7))

    full_suites.assert_one_epoch(tmp_path, rules, copies.write_parquet(tmp_path / "source"), None)

    (metadata,) = (tmp_path / "data").rglob("metadata.json")
    with torch.device("meta"):
        network = full_model.build_model("full", (224, 224, 3), json.loads(metadata.read_text())["num_classes"])
    log = run_log.read(tmp_path / "result" / "result_0.txt")
    assert log.value(keys.TTA_REPLAY)["network"]["parameters"] == fingerprint([network], []).parameters
