"""How a step is executed: parts, ranks, seeds. A small network on noise, on one process and on two (gloo)."""

from __future__ import annotations

import dataclasses

# ruff: noqa: N803, N806 (dimension letters)
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.workload import RunConfig
from tests.workloads.sessions import on_processes

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from workloads import batch_norm  # noqa: E402
from workloads.execution import Execution, batch_sizes  # noqa: E402

BATCH = 12
TOY = RunConfig("toy", "mini", "closed", 3, {"global_batch_size": BATCH}, {})


class Toy:
    """Eight numbers to three classes, by two layers, with dropout and normalisation or without, on noise."""

    def __init__(self, config: RunConfig, dropout: float = 0.0, kind: type[Execution] = Execution) -> None:
        self.dropout, self.is_normalised = dropout, "batch_norm_group" in config.hyperparameters
        self.execution = kind(config)
        self.model, self.network = self.execution.wrap(self._network(), self._optimizer, 0.05)
        torch.manual_seed(config.seed)
        self.execution.restart(self._network().state_dict())
        draws = torch.Generator().manual_seed(config.seed)
        share = BATCH // self.execution.num_ranks
        own = slice(self.execution.rank * share, (self.execution.rank + 1) * share)
        self.inputs_N8 = torch.randn(BATCH, 8, generator=draws)[own]
        self.labels_N = torch.randint(0, 3, (BATCH,), generator=draws)[own]

    def _network(self) -> Any:
        nn = torch.nn
        norm = nn.BatchNorm1d(16) if self.is_normalised else nn.Identity()
        return nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Dropout(self.dropout), nn.Linear(16, 3))

    @staticmethod
    def _optimizer(network: Any, rate: float) -> Any:
        return torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)

    def _loss(self, inputs_N8: Any, labels_N: Any) -> Any:
        return torch.nn.functional.cross_entropy(self.model(inputs_N8), labels_N) / self.execution.num_parts

    def losses(self, num_steps: int, **options: Any) -> list[float]:
        parts = self.execution.parts(self.inputs_N8, self.labels_N)
        return [self.execution.step(self._loss, parts, **options).item() for _ in range(num_steps)]

    def weights(self) -> list[float]:
        self.execution.average_statistics()
        state = self.network.state_dict()
        return [v for name in state if "num_batches" not in name for v in state[name].flatten().tolist()]


def toy(dropout: float = 0.0, **execution: Any) -> Toy:
    return Toy(dataclasses.replace(TOY, execution=execution), dropout)


def grouped(group: int, num_devices: int = 1, **execution: Any) -> Toy:
    """One whose network normalises `group` examples together."""
    values = {"global_batch_size": BATCH, "batch_norm_group": group}
    return Toy(dataclasses.replace(TOY, hyperparameters=values, num_devices=num_devices, execution=execution))


def test_step_in_parts_is_the_step_of_the_whole() -> None:
    """Gradients of the parts are added up: the same weights but for rounding."""
    whole, divided = toy(), toy(accumulation_steps=4)

    assert divided.losses(5) == pytest.approx(whole.losses(5), rel=1e-5)
    assert divided.weights() == pytest.approx(whole.weights(), rel=1e-4, abs=1e-6)


def test_share_that_cannot_be_divided_into_the_parts_is_refused() -> None:
    """The sentence names the option, its value and what there is to divide."""
    with pytest.raises(UsageError, match=r"^accumulation_steps 5: a device's share of 12 examples cannot be divided$"):
        toy(accumulation_steps=5).losses(1)


def test_learning_rate_is_that_of_the_step_and_else_the_last() -> None:
    """At 0 nothing moves."""
    run = toy()
    before = run.weights()

    run.losses(1, learning_rate=0.0)
    run.losses(1)
    assert run.weights() == before
    run.losses(1, learning_rate=0.1)
    assert run.weights() != before


def test_gradients_are_limited_to_a_norm() -> None:
    """Without momentum yet, the first step is as long as the rate times that norm."""
    run = toy()
    before = torch.tensor(run.weights())

    run.losses(1, learning_rate=1.0, clip_norm=0.01)

    assert (torch.tensor(run.weights()) - before).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_restart_leaves_nothing_of_the_steps_before() -> None:
    """Weights, momentum and gradients are those of a new session, to the last bit."""
    used, fresh = toy(), toy()
    used.losses(3)

    torch.manual_seed(TOY.seed)
    used.execution.restart(used._network().state_dict())

    assert used.losses(3) == fresh.losses(3)
    assert used.weights() == fresh.weights()


def test_unknown_precision_is_refused() -> None:
    """With the names that there are."""
    with pytest.raises(UsageError, match="unknown precision 'fp8'"):
        Execution(dataclasses.replace(TOY, precision="fp8"))


def test_graphs_are_replayed_on_the_data_of_their_step() -> None:
    """One for each shape of the warm-up, on copies of its tensors; a shape that is new later is not captured.

    The recording itself needs CUDA; here what is recorded is called again.
    """
    captured: list[Any] = []

    class Replayed(Execution):
        def _capture(self, run: Any) -> Any:
            total = run()
            captured.append(run)
            return lambda: total.copy_(run()), total

    plain, replayed = toy(), Toy(TOY, kind=Replayed)
    replayed.execution.options = {**replayed.execution.options, "cuda_graphs": True}
    inputs_N8, labels_N = torch.randn(6, 8), torch.zeros(6, dtype=torch.int64)
    replayed.execution.warm_up(replayed._loss, [[(inputs_N8, labels_N)], [(replayed.inputs_N8, replayed.labels_N)]])
    replayed.execution.restart(plain.network.state_dict())

    for size in (BATCH, 6, 5, BATCH):
        losses = []
        for run in (plain, replayed):
            part = run.inputs_N8[:size] + size, run.labels_N[:size]
            losses.append(run.execution.step(run._loss, [part], 0.1).item())
        assert losses[0] == losses[1]

    assert len(captured) == 2
    assert replayed.weights() == plain.weights()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_graphs_without_cuda_are_refused() -> None:
    """Before anything is built."""
    with pytest.raises(UsageError, match=r"^cuda_graphs: there is no CUDA device$"):
        toy(cuda_graphs=True)


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_optimizer_that_is_not_fused_does_the_same_update(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several kernels instead of one, and the gradient scaler leaves unscaling to none of them."""
    made = {"AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}[kind]
    monkeypatch.setattr(
        Toy, "_optimizer", staticmethod(lambda network, rate: made(network.parameters(), rate, fused=True))
    )
    fused, divided = toy(), toy(fused_optimizer=False)

    assert not divided.execution.optimizer.param_groups[0]["fused"]
    assert not divided.execution.optimizer._step_supports_amp_scaling
    assert divided.losses(3) == pytest.approx(fused.losses(3), rel=1e-5)
    assert divided.weights() == pytest.approx(fused.weights(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("num_examples", "batch", "rank", "num_ranks", "sizes"),
    [(10_000, 500, 0, 1, [500]), (10_000, 500, 7, 8, [500, 250]), (7, 500, 1, 2, [3]), (1001, 500, 0, 1, [500, 1])],
)
def test_sizes_of_evaluation_batches(
    num_examples: int, batch: int, rank: int, num_ranks: int, sizes: list[int]
) -> None:
    """The full one and the last one, if it is smaller."""
    assert batch_sizes(num_examples, batch, rank, num_ranks) == sizes


@pytest.mark.parametrize("num_parts", [1, 2, 4])
def test_groups_do_not_depend_on_the_parts(num_parts: int) -> None:
    """Four groups of three in one part, in two and in four: the same losses, weights and running statistics."""
    one, divided = grouped(3), grouped(3, accumulation_steps=num_parts)

    assert divided.losses(4) == pytest.approx(one.losses(4), rel=1e-4)
    assert divided.weights() == pytest.approx(one.weights(), rel=1e-3, abs=1e-5)


def test_group_is_what_torch_normalises() -> None:
    """Each group as torch does by itself; the running statistics move once, towards the mean over the groups."""
    torch.manual_seed(0)
    network, alone = torch.nn.Sequential(torch.nn.BatchNorm2d(5)), torch.nn.BatchNorm2d(5)
    (module,) = batch_norm.group_statistics(network, 4, 8, 1, 0, 1)
    images_NCHW = torch.randn(8, 5, 3, 3)

    outputs = network(images_NCHW)
    module.settle()
    halves = [alone(half) for half in images_NCHW.split(4)]

    assert torch.equal(outputs, torch.cat(halves))
    variances = [half.transpose(0, 1).reshape(5, -1).var(1) for half in images_NCHW.split(4)]
    assert torch.allclose(module.running_var, 0.9 + 0.1 * torch.stack(variances).mean(0))
    assert torch.allclose(module.running_mean, 0.1 * images_NCHW.mean((0, 2, 3)))
    assert torch.equal(network.eval()(images_NCHW), module(images_NCHW))
    assert network.state_dict().keys() == torch.nn.Sequential(alone).state_dict().keys()


def test_whole_share_as_a_group_leaves_the_network_alone() -> None:
    """On one device the statistics of torch's module are those of the global batch."""
    assert type(grouped(BATCH).network[1]) is torch.nn.BatchNorm1d


def test_groups_that_do_not_fit_are_refused() -> None:
    """A group that a share is no multiple of; one on several devices, of a share that is divided."""
    for group, options in ((5, {}), (24, {"accumulation_steps": 2})):
        with pytest.raises(
            UsageError, match=rf"^batch_norm_group {group}: a share of 12 examples on each of 1 devices, in parts of"
        ):
            grouped(group, **options)


TWO = """
import dataclasses, json, sys
from pathlib import Path
from tests.workloads.test_execution import TOY, Toy, grouped
found = {}
runs = {f"parts {n}": Toy(dataclasses.replace(TOY, num_devices=2, execution={"accumulation_steps": n})) for n in (1, 2)}
runs |= {f"group {n}": grouped(n, 2) for n in (3, 6, 12)} | {"group 3 in parts": grouped(3, 2, accumulation_steps=2)}
for name, run in runs.items():
    found[name] = {"losses": run.losses(4), "weights": run.weights()}
run = Toy(dataclasses.replace(TOY, num_devices=2), dropout=0.5)
found["dropped"] = run.network[3](run.inputs_N8.new_ones(64)).tolist()
Path(sys.argv[1], f"{run.execution.rank}.json").write_text(json.dumps(found))
run.execution.close()
"""


def test_two_devices_do_the_step_of_one(tmp_path: Path) -> None:
    """In one part or in two, with any group of batch statistics; only what dropout leaves out differs between ranks."""
    first, second = on_processes(TWO, tmp_path)

    assert first.pop("dropped") != second.pop("dropped")
    for name, found in first.items():
        one = grouped(int(name.split()[1])) if "group" in name else toy()
        means = [sum(pair) / 2 for pair in zip(found["losses"], second[name]["losses"], strict=True)]
        assert means == pytest.approx(one.losses(4), rel=1e-4), name
        assert found["weights"] == second[name]["weights"] == pytest.approx(one.weights(), rel=1e-3, abs=1e-5), name


def test_shares_and_groups_that_a_group_does_not_fit_are_refused() -> None:
    """On four devices, of 16 examples each: 24 are neither groups nor a part of one, and 128 are on more devices."""
    for group in (24, 128):
        with pytest.raises(UsageError, match=r"is neither whole groups nor an equal part of one$"):
            batch_norm.group_statistics(torch.nn.Sequential(torch.nn.BatchNorm2d(5)), group, 16, 1, 0, 4)


IMAGES, CHANNELS = 16, 5


def normalised(images_NCHW: Any, pull_NCHW: Any, network: Any) -> dict[str, Any]:
    """What a batch normalisation makes of images, and the gradients of the outputs' sum weighted by `pull_NCHW`."""
    images_NCHW = images_NCHW.clone().requires_grad_()
    outputs_NCHW = network(images_NCHW)
    (outputs_NCHW * pull_NCHW).sum().backward()
    (module,) = network
    return {
        "outputs": outputs_NCHW.flatten().tolist(),
        "images": images_NCHW.grad.flatten().tolist(),
        "scales": torch.cat([module.weight.grad, module.bias.grad]).tolist(),
        "running": torch.cat([module.running_mean, module.running_var]).tolist(),
    }


def noise() -> tuple[Any, Any, Any]:
    """Images far from zero, weights of their outputs, and a batch normalisation with scales that are not one."""
    draws = torch.Generator().manual_seed(1)
    images_NCHW, pull_NCHW = (torch.randn(IMAGES, CHANNELS, 3, 3, generator=draws) for _ in range(2))
    network = torch.nn.Sequential(torch.nn.BatchNorm2d(CHANNELS))
    with torch.no_grad():
        network[0].weight.copy_(torch.linspace(0.5, 2, CHANNELS))
        network[0].bias.copy_(torch.linspace(-1, 1, CHANNELS))
    return 100 + 3 * images_NCHW, pull_NCHW, network


FOUR = """
import json, sys
from pathlib import Path
from tests.workloads.test_execution import IMAGES, grouped, noise, normalised
from workloads import batch_norm
run = grouped(6, 4)
rank = run.execution.rank
found = {"losses": run.losses(4), "weights": run.weights()}
own = slice(rank * IMAGES // 4, (rank + 1) * IMAGES // 4)
for group in (IMAGES // 2, IMAGES):
    images_NCHW, pull_NCHW, network = noise()
    batch_norm.group_statistics(network, group, IMAGES // 4, 1, rank, 4)
    found[str(group)] = normalised(images_NCHW[own], pull_NCHW[own], network)
Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(found))
run.execution.close()
"""


def test_group_on_several_devices_is_that_of_one(tmp_path: Path) -> None:
    """Of four devices, two and two share a group, or all four: outputs, gradients and running statistics of torch's
    module on the whole group; and a network that trains with it has the losses and weights of one device."""
    ranks = on_processes(FOUR, tmp_path, num_processes=4)

    for num_sharing in (2, 4):
        group = num_sharing * IMAGES // 4
        for first in range(0, 4, num_sharing):
            images_NCHW, pull_NCHW, network = noise()
            own = slice(first * IMAGES // 4, first * IMAGES // 4 + group)
            expected = normalised(images_NCHW[own], pull_NCHW[own], network)
            sharing = [rank[str(group)] for rank in ranks[first : first + num_sharing]]
            for name in ("outputs", "images"):
                found = [value for rank in sharing for value in rank[name]]
                assert found == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
            scales = [sum(parts) for parts in zip(*(rank["scales"] for rank in sharing), strict=True)]
            assert scales == pytest.approx(expected["scales"], rel=1e-4, abs=1e-4)
            for rank in sharing:
                assert rank["running"] == pytest.approx(expected["running"], rel=1e-5)
    one = grouped(6)
    assert [sum(step) / 4 for step in zip(*(rank["losses"] for rank in ranks), strict=True)] == pytest.approx(
        one.losses(4), rel=1e-4
    )
    for rank in ranks:
        assert rank["weights"] == pytest.approx(one.weights(), rel=1e-3, abs=1e-5)


COMPILED = """
import json, sys
from pathlib import Path
from tests.workloads.test_execution import grouped
run = grouped(6, 4, compile=True)
found = {"losses": run.losses(4), "weights": run.weights()}
Path(sys.argv[1], f"{run.execution.rank}.json").write_text(json.dumps(found))
run.execution.close()
"""


@pytest.mark.slow
def test_group_on_several_devices_can_be_compiled(tmp_path: Path) -> None:
    """Two and two of four devices share a group: the losses and weights of one device, which is not compiled."""
    ranks = on_processes(COMPILED, tmp_path, num_processes=4)
    one = grouped(6)

    assert [sum(step) / 4 for step in zip(*(rank["losses"] for rank in ranks), strict=True)] == pytest.approx(
        one.losses(4), rel=1e-4
    )
    for rank in ranks:
        assert rank["weights"] == pytest.approx(one.weights(), rel=1e-3, abs=1e-5)
