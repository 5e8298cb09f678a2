"""Whether a module computes what the reference does: measured on a session of a few numbers."""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.run.equivalence import Layout, Measurement, Parts, Reference, differences, layout_of, reference_of
from harness.run.replay import Observer
from harness.workload import Block

torch = pytest.importorskip("torch")
functional = torch.nn.functional

BATCH, SEEDS = 32, [3, 4]


def build_model(width: int) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))


def build_optimizer(network: Any, rate: float) -> Any:
    return torch.optim.SGD(network.parameters(), rate, momentum=0.9, weight_decay=0.01)


class Tiny:
    """Eight numbers to three classes; `spoil` is applied to the batches."""

    def __init__(
        self, seed: int, observer: Observer, parts: Mapping[str, Any], spoil: Callable[[Any], Any] = lambda x: x
    ) -> None:
        self.seed, self.observer, self.parts, self.spoil = seed, observer, parts, spoil
        self.is_closed = False

    def prepare(self) -> None:
        build = self.parts.get("build_model", build_model)
        self.network = build(16)
        self.optimizer = self.parts.get("build_optimizer", build_optimizer)(self.network, 0.05)

    def initialise(self) -> None:
        self.network.load_state_dict(self.parts.get("build_model", build_model)(16).state_dict())
        self.draws = torch.Generator().manual_seed(self.seed)

    def weights(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.network.state_dict()
        return found

    def start(self, data_dir: Path) -> None:
        self.centres_38 = torch.randn(3, 8, generator=self.draws)

    def train_block(self, num_samples: int) -> Block:
        labels_N = torch.randint(0, 3, (num_samples,), generator=self.draws)
        inputs_N8 = self.spoil(self.centres_38[labels_N] + torch.randn(num_samples, 8, generator=self.draws))
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.network(inputs_N8), labels_N, label_smoothing=0.1)
        loss.backward()
        self.optimizer.step()
        self.observer([(inputs_N8, labels_N)], self.network)
        return Block(num_samples, loss.item(), 0.0)

    def predict(self, inputs: Any) -> Any: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Ranks:
    """A world of so many ranks that all say the same but for the last, which says `last` if that is given."""

    def __init__(self, num_ranks: int = 1) -> None:
        self.num_ranks = num_ranks

    def gather(self, item: object) -> list[Any]:
        return [item] * self.num_ranks


def measurement(world: Ranks | None = None, steps: int = 16) -> Measurement:
    return Measurement(torch.manual_seed, SEEDS, steps, Path("/nowhere"), BATCH, "fp32", world or Ranks())


@pytest.fixture(scope="module")
def reference() -> Reference:
    """The reference's steps: no test changes them."""
    return reference_of(measurement(), lambda seed, observer: Tiny(seed, observer, {}))


def broken(
    reference: Reference, parts: Mapping[str, Any], layout: Layout | None = None, spoil: Any = lambda x: x
) -> dict[str, Any]:
    """The quantities in which a module with these parts is too far from the reference."""

    def opened(seed: int, observer: Observer) -> tuple[Any, Layout]:
        return Tiny(seed, observer, Parts(parts), spoil), layout or Layout()

    found = differences(measurement(), reference, opened)
    return {name: item for name, item in found.items() if item["difference"] > item["tolerance"]}


def unchanged(network: Any) -> Any:
    return network


def own_network(network: Any) -> Any:
    """The first product in another order of summation."""
    first = network[0]
    first.forward = lambda x: first.bias + x[:, 4:] @ first.weight[:, 4:].t() + x[:, :4] @ first.weight[:, :4].t()
    return network


class _Momentum(torch.optim.Optimizer):  # type: ignore[name-defined,misc]
    """Momentum, written out."""

    def __init__(self, network: Any, decay: float) -> None:
        super().__init__(network.parameters(), {"decay": decay})

    @torch.no_grad()
    def step(self) -> None:
        for weight in self.param_groups[0]["params"]:
            mean = self.state[weight]
            gradient = weight.grad + self.param_groups[0]["decay"] * weight
            mean["mean"] = 0.9 * mean.get("mean", 0.0) + gradient
            weight -= 0.05 * mean["mean"]


@pytest.mark.parametrize(
    "parts",
    [
        {"build_model": unchanged},
        {"build_model": own_network},
        {"build_optimizer": lambda network, rate: _Momentum(network, 0.01)},
    ],
)
def test_same_mathematics_is_equivalent(reference: Reference, parts: dict[str, Any]) -> None:
    """Whatever the order of its sums."""
    assert broken(reference, parts) == {}


def without_bias(network: Any) -> Any:
    network[3].forward = lambda x: x @ network[3].weight.t() + 0 * network[3].bias
    return network


def rough(network: Any) -> Any:
    forward = network.forward
    network.forward = lambda x: forward(x.bfloat16().float())
    return network


def drawn_again(network: Any) -> Any:
    network[0].reset_parameters()
    return network


@pytest.mark.parametrize(
    ("parts", "quantity"),
    [
        ({"build_model": without_bias}, "loss"),
        ({"build_model": rough}, "loss"),
        ({"build_model": drawn_again}, "initial_weights"),
        ({"build_optimizer": lambda network, rate: _Momentum(network, 0.0)}, "update"),
        ({"build_optimizer": lambda network, rate: _Momentum(network, 0.009)}, "update"),
        ({"build_optimizer": lambda network, rate: torch.optim.SGD(network[3:].parameters(), 0.05)}, "tensor_update"),
    ],
)
def test_other_mathematics_is_not(reference: Reference, parts: dict[str, Any], quantity: str) -> None:
    """A dropped bias, inputs in bf16, weights drawn again, no decay, a tenth less, an optimiser of one layer."""
    assert quantity in broken(reference, parts)


def test_tensor_that_is_not_updated_is_named(reference: Reference) -> None:
    """With the seed, the step, and that all of its update is missing."""
    frozen = {"build_optimizer": lambda network, rate: build_optimizer(network[:3], rate)}

    found = broken(reference, frozen)["tensor_update"]

    assert found["tensor"] in ("3.weight", "3.bias")
    assert found["seed"] in SEEDS
    assert found["difference"] == pytest.approx(1.0, rel=0.5)


def test_other_batches_are_found(reference: Reference) -> None:
    """In the first step, and however little they differ."""
    found = broken(reference, {"build_model": unchanged}, spoil=lambda x: x * (1 + 1e-6))

    assert (found["batches"]["difference"], found["batches"]["tolerance"]) == (1.0, 0.0)


def test_loss_that_a_module_replaces_in_torch_is_found(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference was done before the module was there: 0.09 in place of 0.1."""
    exact = functional.cross_entropy
    monkeypatch.setattr(functional, "cross_entropy", lambda x, y, label_smoothing: exact(x, y, label_smoothing=0.09))

    assert {"loss", "gradient_norm"} <= set(broken(reference, {"build_model": unchanged}))


def turned(network: Any) -> Any:
    """The first weight as columns."""
    first = network[0]
    first.weight = torch.nn.Parameter(first.weight.detach().t().contiguous())
    first.forward = lambda x: x @ first.weight + first.bias
    return network


def turn(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.t() if name == "0.weight" else tensor for name, tensor in state.items()}


def test_weights_in_another_layout_are_converted(reference: Reference) -> None:
    """By the functions of the module."""
    layout = layout_of({"build_model": turned, "to_reference": turn, "from_reference": turn})

    assert broken(reference, {"build_model": turned}, layout) == {}


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, r"weights '0\.weight': the reference has \[16, 8\], to_reference gives \[8, 16\]; define to_reference"),
        (
            {"to_reference": turn},
            r"weights '0\.weight': the module's network has \[8, 16\], from_reference gives \[16, 8\]",
        ),
        ({"to_reference": lambda state: {}}, r"weights '0\.bias': the reference has \[16\], to_reference gives none"),
        (
            {"to_reference": lambda state: {**turn(state), "x": 1}},
            r"weights 'x': the reference has none, to_reference gives int",
        ),
        ({"to_reference": lambda state: None}, "to_reference returns NoneType, not a mapping"),
    ],
)
def test_weights_that_cannot_be_compared_are_refused(
    reference: Reference, functions: dict[str, Any], message: str
) -> None:
    """With what is expected, by the names of both."""
    with pytest.raises(UsageError, match=message):
        broken(reference, {"build_model": turned}, layout_of(functions))


def test_reference_that_diverges_cannot_be_compared_with() -> None:
    """Every module would be as near to it as to any other."""
    with pytest.raises(
        UsageError, match=r"^at step 0 of the seed 3 the reference's own loss or gradients are not finite"
    ):
        reference_of(measurement(), lambda seed, observer: Tiny(seed, observer, {}, lambda x: x * float("nan")))


def test_module_whose_loss_is_no_number_is_as_far_as_can_be(reference: Reference) -> None:
    """NaN is not less than any tolerance."""
    found = broken(reference, {"build_model": unchanged}, spoil=lambda x: x * float("nan"))

    assert found["loss"]["difference"] == found["update"]["difference"] == 1e9


def test_of_several_ranks_the_farthest_counts(reference: Reference) -> None:
    """Each has statistics of its own."""

    class Last(Ranks):
        def gather(self, item: Any) -> list[Any]:
            if not isinstance(item, dict):
                return [item]  # digests of batches are those of one rank here
            return [item, {**item, "loss": {**item["loss"], "difference": 0.5}}, item]

    parts = Parts({"build_model": unchanged})

    found = differences(measurement(Last()), reference, lambda seed, seen: (Tiny(seed, seen, parts), Layout()))

    assert found["loss"]["difference"] == 0.5


def test_what_a_module_draws_changes_nothing_for_the_reference() -> None:
    """`build_model` gets the reference's network; the generator is then where the reference leaves it."""
    given = []

    def build(network: Any) -> Any:
        given.append(network[0].weight.clone())
        torch.randn(100)
        return network

    parts = Parts({"build_model": build, "to_reference": turn})
    torch.manual_seed(5)
    parts.get("build_model", build_model)(16)
    after = torch.randn(1)

    torch.manual_seed(5)
    assert torch.equal(build_model(16)[0].weight, given[0])
    assert torch.equal(torch.randn(1), after)
    assert (list(parts), len(parts), parts.get("loss", 7)) == (["build_model"], 1, 7)
    assert parts["build_model"] is build
