"""The fingerprint that a replay takes of the network that a session trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from harness.characterise.measuring import profiled  # noqa: E402
from harness.log.replay import parse_replay  # noqa: E402
from harness.run.network import Calls  # noqa: E402
from harness.run.replay import Observer, replay  # noqa: E402
from harness.workload import Block  # noqa: E402
from tests.harness.characterise.toys import INPUTS, ToySession, TwoLayers  # noqa: E402

BATCH = 5


class Told(ToySession):
    """Tells the observer the network, if it is to, as `workloads.execution` does."""

    def __init__(self, observer: Observer, is_told: bool) -> None:
        super().__init__(updates=2)
        self._observer = observer
        self._is_told = is_told

    def train_block(self, num_samples: int) -> Block:
        block = super().train_block(num_samples)
        if self._is_told:
            self._observer([()], self.network)
        return block


class OneRank:
    def gather(self, item: object) -> Sequence[Any]:
        return [item]


def replayed(is_told: bool = True, num_steps: int = 3) -> dict[str, Any]:
    def initialise(session: Any) -> None:
        torch.manual_seed(7)
        session.network.load_state_dict(TwoLayers().state_dict())

    def opened(observer: Observer) -> Any:
        return Told(observer, is_told)

    return replay(opened, initialise, Path(), BATCH, num_steps, 60.0, OneRank())


def test_replay_names_its_network() -> None:
    """4-8-3: as many parameters by hand; and the log can be read."""
    network = parse_replay(replayed()).network

    assert network is not None
    assert (network.num_parameters, network.num_trainable, network.num_buffers) == (67, 67, 0)


@pytest.mark.parametrize(("is_told", "num_steps"), [(False, 3), (True, 1)], ids=["not_told", "one_step"])
def test_replay_of_an_unknown_network(is_told: bool, num_steps: int) -> None:
    """Of a session that does not tell it, and of a single step, after which it is told."""
    record = replayed(is_told, num_steps)

    assert "network" not in record
    assert parse_replay(record).network is None


def test_naming_the_network_changes_no_bit() -> None:
    with_network, without = replayed(), replayed(is_told=False)

    assert with_network["losses"] == without["losses"]
    assert with_network["weights"] == without["weights"]


def test_log_and_profile_have_the_same_fingerprint() -> None:
    session = ToySession(updates=2)

    of_profile = profiled(session, OneRank(), BATCH, 1, 1)["network"]["fingerprint"]

    assert replayed()["network"] == of_profile


def test_only_training_counts() -> None:
    """A pass without gradients is not one of the network's."""
    network = TwoLayers()
    calls = Calls(network)
    with calls.noting(), torch.no_grad():
        network(torch.randn(2, INPUTS))
    without = calls.fingerprint()
    with calls.noting():
        network(torch.randn(2, INPUTS))
    network(torch.randn(2, INPUTS))  # after it

    assert without["forward"] != calls.fingerprint()["forward"]
    assert without["parameters"] == calls.fingerprint()["parameters"]
