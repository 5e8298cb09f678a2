"""What a network is: published numbers, numbers by hand, and fingerprints that tell two networks of one name apart."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from harness.characterise.network import Kept, counted, memory  # noqa: E402
from harness.characterise.watching import Exchange, Watch, network_of  # noqa: E402
from harness.log.replay import Fingerprint  # noqa: E402
from harness.run.network import Call, fingerprint  # noqa: E402
from tests.harness.characterise.toys import HandClock, ToySession  # noqa: E402

BATCH = 5


def call(module: nn.Module, *args: torch.Tensor) -> Call:
    return Call(module, args, {})


def identity(module: nn.Module, *args: torch.Tensor) -> Fingerprint:
    return fingerprint([module], [counted(call(module, *args)).operators])


def resnet(name: str = "resnet50", **changed: object) -> nn.Module:
    models = pytest.importorskip("torchvision.models")
    module: nn.Module = getattr(models, name)(**changed)
    return module


def test_published_numbers_of_resnet_50() -> None:
    """25,557,032 parameters and 8.178 GFLOP at 224 x 224: version 1.5, with 2 FLOPs a multiply-add."""
    network = resnet()

    found = counted(call(network, torch.empty(1, 3, 224, 224, device="meta")))

    assert fingerprint([network], [found.operators]).num_parameters == 25_557_032
    assert found.flops == 8_178_368_512
    assert (found.device, found.uncounted) == ("meta", {})


def test_version_1_of_resnet_50_is_another_network() -> None:
    """With the stride in the first convolution of a block: the same parameters, fewer FLOPs, another fingerprint."""
    images = torch.empty(1, 3, 64, 64, device="meta")
    one, other = resnet(), resnet()
    for module in other.modules():
        if hasattr(module, "conv1") and hasattr(module, "conv3") and module.conv2.stride == (2, 2):
            module.conv1.stride, module.conv2.stride = (2, 2), (1, 1)

    found, of_other = counted(call(one, images)), counted(call(other, images))

    assert of_other.flops < found.flops
    assert identity(one, images).parameters == identity(other, images).parameters
    assert identity(one, images).network != identity(other, images).network


def test_fingerprint_of_a_network_does_not_depend_on_the_batch_or_the_weights() -> None:
    """That of the forward pass depends on the batch."""
    one, other = (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)) for _ in range(2))
    small, large = (identity(m, torch.randn(n, 3, 4, 4)) for m, n in ((one, 2), (other, 7)))

    assert small.network == large.network
    assert small.forward != large.forward


@pytest.mark.parametrize(
    "changed",
    [
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).to(torch.bfloat16),
    ],
    ids=["width", "activation", "bias", "type"],
)
def test_fingerprint_tells_networks_apart(changed: nn.Module) -> None:
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    kinds = (next(network.parameters()).dtype for network in (plain, changed))
    one, other = (
        identity(network, torch.randn(3, 4, dtype=kind)) for network, kind in zip((plain, changed), kinds, strict=True)
    )

    assert one.network != other.network


@pytest.mark.parametrize(
    ("module", "args", "flops"),
    [
        # 4 gates of (input 8 + hidden 16) x 16, 5 steps, 3 sequences, 2 FLOPs.
        (nn.LSTM(8, 16, batch_first=True), (torch.randn(3, 5, 8),), 2 * 3 * 5 * 4 * 16 * (8 + 16)),
        # 4 projections of 16 x 16, and two products of 6 x 6 with 16: of 2 sequences of 6.
        (
            nn.MultiheadAttention(16, 4, batch_first=True),
            (torch.randn(2, 6, 16),) * 3,
            2 * 2 * 6 * 4 * 16 * 16 + 2 * 2 * 2 * 6 * 6 * 16,
        ),
    ],
    ids=["lstm", "attention"],
)
def test_what_counts_as_nothing_on_a_cpu_is_counted(
    module: nn.Module, args: tuple[torch.Tensor, ...], flops: int
) -> None:
    """On the meta device these layers are products."""
    found = counted(call(module, *args))

    assert (found.flops, found.device) == (flops, "meta")


class ReadsValues(nn.Module):
    """A network that reads a value, and then has an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[: int(x.abs().sum().item() > 0) + 1])[0]


def test_network_that_needs_values_says_what_was_not_counted() -> None:
    """It is counted on its own device, where an LSTM is an operator without a formula."""
    found = counted(call(ReadsValues(), torch.ones(3, 5, 8)))

    assert found.device == "cpu"
    assert found.reason is not None
    assert found.flops == 0
    assert list(found.uncounted) == ["aten.mkldnn_rnn_layer"]


def test_counting_leaves_a_network_alone() -> None:
    """Neither its statistics nor its weights change, and nothing of it is on another device."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    counted(call(network, torch.randn(2, 3, 8, 8)))

    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_memory_of_two_layers_by_hand() -> None:
    """4-8-3 in float32: (4 x 8 + 8) + (8 x 3 + 3) = 67 parameters, as many gradients and momenta. Kept for backward of
    a batch of 5: its inputs (20 numbers), the output of ReLU once though two operators need it (40), prediction and
    target of the squared error (15 each)."""
    session = ToySession()
    network = network_of(lambda: session.train_block(BATCH))
    kept = Kept(network.modules)

    with Watch(session, network, Exchange(network, HandClock()), kept=kept).watching() as step:
        step(BATCH)
    found = memory(network.modules, network.optimizers, max(kept.totals))

    assert (found.parameters, found.gradients, found.optimizer, found.buffers) == (268, 268, 268, 0)
    assert found.activations == 4 * (20 + 40 + 15 + 15)
    assert found.total == 3 * 268 + 360


def test_activations_grow_with_the_batch_and_nothing_else_does() -> None:
    session = ToySession(updates=2)
    network = network_of(lambda: session.train_block(BATCH))
    found = []
    for batch in (BATCH, 2 * BATCH):
        kept = Kept(network.modules)
        with Watch(session, network, Exchange(network, HandClock()), kept=kept).watching() as step:
            step(batch)
        assert len(kept.totals) == 2  # one an update
        found.append(memory(network.modules, network.optimizers, max(kept.totals)))

    assert found[1].activations == 2 * found[0].activations
    assert found[1].total - found[1].activations == found[0].total - found[0].activations
