"""The second of Deep500's levels, networks: parameters, FLOPs and logits of every mini suite's network are golden.

And the first, operators: `workloads/` has its own batch normalisation, whose gradients are checked here.
`tests.workloads.sessions` says how golden files are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from harness.checker import registry
from harness.checker.audit.rules import load_audit

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from harness.characterise.measuring import repeating  # noqa: E402
from harness.characterise.network import counted  # noqa: E402
from harness.characterise.watching import Clock, Exchange, Watch, network_of  # noqa: E402
from harness.run import data_cache, workloads  # noqa: E402
from harness.run.network import fingerprint  # noqa: E402
from tests.workloads import sessions  # noqa: E402
from workloads.batch_norm import GroupedBatchNorm, SharedBatchNorm  # noqa: E402
from workloads.detection import model as detector  # noqa: E402
from workloads.detection.recipe import Recipe as DetectionRecipe  # noqa: E402
from workloads.image_classification import full_model as resnet  # noqa: E402
from workloads.image_classification import model as images  # noqa: E402
from workloads.recommendation import full_model as dlrm  # noqa: E402
from workloads.reinforcement_learning import model as agents  # noqa: E402
from workloads.speech_recognition import model as speech  # noqa: E402
from workloads.translation import model as translation  # noqa: E402
from workloads.translation.recipe import Recipe  # noqa: E402

NAMES = workloads.workload_names()
every_workload = pytest.mark.parametrize("name", NAMES)
FLOPS = load_audit(registry.audit_file()).flops
OF_ANY_LENGTH = ("speech_recognition", "translation")


@pytest.fixture
def started(prepared: Callable[[str], data_cache.DataSet]) -> Iterator[Callable[[str], Any]]:
    """Sessions that can train, closed afterwards."""
    given: list[Any] = []

    def start(name: str) -> Any:
        given.append(sessions.started(name, prepared(name).path))
        return given[-1]

    yield start
    for session in given:
        session.close()


def batch_of(name: str) -> int:
    return int(sessions.rules_of(name).defaults()["global_batch_size"])


@every_workload
def test_golden_network(name: str, started: Callable[[str], Any]) -> None:
    """Its parameters, and the forward FLOPs of the second step, are the same on any machine, and nothing counts as 0.

    FLOPs depend on the shapes of the batch, which the seed decides.
    """
    session = started(name)
    network = network_of(lambda: session.train_block(1))
    with Watch(session, network, Exchange(network, Clock()), has_calls=True).watching() as step:
        calls = step(1).calls
    found = [counted(call) for call in calls]
    identity = fingerprint(network.modules, [one.operators for one in found])

    assert {one.device for one in found} == {"meta"}
    assert [one.uncounted for one in found] == [{}] * len(found)
    assert identity.num_parameters == sessions.golden(name, "parameters", identity.num_parameters)
    assert identity.parameters == sessions.rules_of(name).network_digest  # IDN008
    flops = sum(one.flops for one in found)
    assert flops == sessions.golden(name, "forward_flops", flops)
    if name not in OF_ANY_LENGTH:
        passes = sessions.rules_of(name).defaults().get("num_epochs", 1)
        assert FLOPS[f"{name}_mini"] * batch_of(name) * passes == flops


def on_meta(build: Callable[[], nn.Module], *shapes: tuple[int, ...], kind: torch.dtype = torch.float32) -> int:
    """FLOPs of a forward pass with inputs of these shapes."""
    with torch.device("meta"):
        network, given = build(), [torch.ones(shape, dtype=kind) for shape in shapes]
        with FlopCounterMode(display=False) as counter:
            network(*given)
    return int(counter.get_total_flops())


def defaults(name: str) -> Mapping[str, Any]:
    """Hyperparameters of the standard suite."""
    return sessions.rules_of(name, "standard").defaults()


SIZES = {"num_counts": 13, "vocabulary_sizes": [100] * 26}
OF_LARGER_SUITES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = {
    "detection_standard": (
        lambda: detector.build_model("standard", (240, 320, 3), 3, DetectionRecipe.parse(defaults("detection"))),
        (1, 3, 240, 320), torch.float32,
    ),
    "image_classification_standard": (
        lambda: images.build_model("standard", (32, 32, 3), 10), (1, 3, 32, 32), torch.float32,
    ),
    "image_classification_full": (
        lambda: resnet.build_model("full", (224, 224, 3), 1000), (1, 3, 224, 224), torch.float32,
    ),
    "recommendation_full": (lambda: dlrm.build_model("full", SIZES, None), (1, 39), torch.int32),
    "reinforcement_learning_standard": (lambda: agents.build_model("standard", 8, 4), (1, 8), torch.float32),
    "reinforcement_learning_full": (lambda: agents.build_model("full", 0, 6), (1, 4 * 84 * 84), torch.uint8),
}  # fmt: skip


@pytest.mark.parametrize("benchmark", OF_LARGER_SUITES)
def test_audit_knows_the_flops_of_larger_suites(benchmark: str) -> None:
    """A forward pass of one sample."""
    build, shape, kind = OF_LARGER_SUITES[benchmark]
    assert FLOPS[benchmark] == on_meta(build, shape, kind=kind)


@pytest.mark.parametrize("benchmark", [name for name in OF_LARGER_SUITES if name != "recommendation_full"])
def test_rules_know_the_networks_of_larger_suites(benchmark: str) -> None:
    """Those whose layers do not depend on the data. The tests of each workload compare them with a session's."""
    build, _, _ = OF_LARGER_SUITES[benchmark]
    with torch.device("meta"):
        found = fingerprint([build()], []).parameters

    assert sessions.RULESET.benchmarks[benchmark].network_digest == found


def test_audit_knows_the_flops_of_what_differs_in_length(prepared: Callable[[str], data_cache.DataSet]) -> None:
    """Speech and sentences of `mini`: the mean over the training set without padding. Nothing else is known."""
    hops = np.load(prepared("speech_recognition").path / "train_hops.npy")
    names = ("sources", "targets")
    pieces = [np.load(prepared("translation").path / f"train_{name}.npy") for name in names]
    lengths = [round(float((array != translation.PAD).sum(1).mean())) for array in pieces]
    recipe = Recipe.parse(sessions.rules_of("translation").defaults())

    def recogniser() -> nn.Module:
        network = speech.build_model("mini", speech.NUM_BANDS, 44, 0.0)
        network.register_forward_pre_hook(lambda module, args: (*args, torch.ones(1, dtype=torch.int64)))
        return network

    of_speech = on_meta(recogniser, (1, round(float(hops.mean())), speech.NUM_BANDS))
    shapes = ((1, lengths[0]), (1, lengths[1] - 1))  # all pieces but the last are given
    of_sentences = on_meta(lambda: translation.build_model("mini", 800, 64, recipe), *shapes, kind=torch.int64)

    assert FLOPS["speech_recognition_mini"] == pytest.approx(of_speech, rel=0.02)
    assert FLOPS["translation_mini"] == pytest.approx(of_sentences, rel=0.02)
    assert set(FLOPS) == {*OF_LARGER_SUITES, *(f"{name}_mini" for name in NAMES)}


@every_workload
def test_fingerprint_of_parameters_does_not_depend_on_the_batch(
    name: str, prepared: Callable[[str], data_cache.DataSet]
) -> None:
    """Batches of several groups are normalised by other modules, with sums of their own; the network is the same."""
    sizes = sessions.rules_of(name).hyperparameters["global_batch_size"]
    for size in sizes.range or sizes.one_of or ():
        config = sessions.config(name, prepared(name).path, global_batch_size=int(size))
        session: Any = workloads.workload(name).open(config)
        session.prepare()

        assert fingerprint([session.network], []).parameters == sessions.rules_of(name).network_digest
        session.close()


@every_workload
def test_golden_logits(name: str, started: Callable[[str], Any]) -> None:
    """Of the weights that the seed draws, on the first batch: what the network computes before it has learnt."""
    session = started(name)
    found: list[torch.Tensor] = []

    def keep(module: nn.Module, args: Any, result: Any) -> None:
        if torch.is_grad_enabled() and not found and module is session.network:
            leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            found.append(leaves[0].detach().float().flatten()[:6].clone())

    handle = nn.modules.module.register_module_forward_hook(keep)
    session.train_block(1)
    handle.remove()

    logits = [round(float(value), 5) for value in found[0]]
    assert logits == pytest.approx(sessions.golden(name, "logits", logits), abs=2e-3, rel=1e-3)


@every_workload
def test_steps_can_be_repeated(name: str, started: Callable[[str], Any]) -> None:
    """Every session makes its updates by the `step` of its `execution`, so that `tta sweep` has synthetic data."""
    session = started(name)
    again = repeating(session, batch_of(name))
    before = {key: tensor.clone() for key, tensor in session.weights().items()}

    again()

    assert any(not torch.equal(tensor, before[key]) for key, tensor in session.weights().items())


def double(module: nn.Module) -> nn.Module:
    """In double precision, with weights that are not all one."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    return module.double()


def test_gradients_of_grouped_batch_norm() -> None:
    """Of its input, its weight and its bias, against finite differences."""
    module = double(GroupedBatchNorm(nn.BatchNorm2d(3), 2))
    x = torch.randn(4, 3, 2, 2, dtype=torch.float64, requires_grad=True)

    def normalised(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(normalised, (x, module.weight, module.bias))


def test_grouped_batch_norm_is_batch_norm_of_each_group() -> None:
    module, plain = double(GroupedBatchNorm(nn.BatchNorm2d(3), 2)), double(nn.BatchNorm2d(3))
    x = torch.randn(4, 3, 2, 2, dtype=torch.float64)

    torch.testing.assert_close(module(x), torch.cat([plain(x[:2]), plain(x[2:])]))


def test_gradients_of_shared_batch_norm_are_those_of_batch_norm() -> None:
    """In a world of one; that two ranks have the gradients of one is in `test_execution`."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        source = nn.BatchNorm2d(3)
        nn.init.uniform_(source.weight, 0.5, 1.5)
        module = SharedBatchNorm(source, None, 1)
        x, weights = torch.randn(4, 3, 5, 5), torch.randn(4, 3, 5, 5)
        gradients = []
        for one in (module, source):
            given = x.clone().requires_grad_(True)
            source.zero_grad()
            (one(given) * weights).sum().backward()
            gradients.append([given.grad, source.weight.grad.clone(), source.bias.grad.clone()])

        for own, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)
    finally:
        torch.distributed.destroy_process_group()
