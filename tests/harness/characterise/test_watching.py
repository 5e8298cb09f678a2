"""Steps under watch, on a clock that the session's own parts move: every second is where it belongs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from harness.characterise.watching import Exchange, Watch, network_of  # noqa: E402
from tests.harness.characterise.toys import (  # noqa: E402
    BACKWARD_S,
    CLIP_S,
    DATA_S,
    FORWARD_S,
    LOSS_S,
    OPTIMIZER_S,
    READ_S,
    HandClock,
    ToySession,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("updates", [1, 3])
def test_every_phase_of_a_known_step(updates: int) -> None:
    """The wait for data, the forward pass with the loss, backward, the optimizer with the clipping, and the rest; a
    forward pass without gradients is no phase of its own."""
    clock = HandClock()
    session = ToySession(clock, updates)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # from now on torch calls hooks for the base class, too
    network = network_of(lambda: session.train_block(4))

    with Watch(session, network, Exchange(network, clock), clock=clock).watching() as step:
        found = step(4)

    assert found.phases == {
        "data": updates * DATA_S,
        "forward": updates * (FORWARD_S + LOSS_S),
        "backward": updates * BACKWARD_S,
        "optimizer": updates * (CLIP_S + OPTIMIZER_S),
        "other": READ_S + FORWARD_S,
    }
    assert found.seconds == sum(found.phases.values())
    assert (found.num_updates, found.waited_s) == (updates, updates * DATA_S)
    assert (found.exchanged_bytes, found.exchange_s) == (0, 0.0)


def test_network_is_what_trains() -> None:
    """The outermost module that runs with gradients, and the optimizer that steps."""
    session = ToySession()

    network = network_of(lambda: session.train_block(4))

    assert network.roots == network.modules == (session.network,)
    assert network.optimizers == (session.optimizer,)


def test_watching_leaves_nothing_behind() -> None:
    """Afterwards backward passes are torch's own, and a forward pass calls no hook."""
    session = ToySession()
    backward = torch.autograd.backward
    network = network_of(lambda: session.train_block(4))
    watch = Watch(session, network, Exchange(network, HandClock()))

    with watch.watching() as step:
        step(4)
        assert torch.autograd.backward is not backward

    assert torch.autograd.backward is backward
    assert not session.network._forward_pre_hooks
    session.train_block(4)


@pytest.mark.slow
def test_bytes_of_an_exchange_are_those_of_the_gradients() -> None:
    """Two processes over loopback: ResNet-18 with ten classes has 11,181,642 parameters, so 44,726,568 bytes a step; a
    sum of 1,000 numbers in the loss is counted apart."""
    pytest.importorskip("torchvision")
    program = [sys.executable, "-m", "tests.harness.characterise.two_ranks"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["44726568", "4000", "1"] * 2
