"""A session of two layers, on a clock that only its parts move: what a measurement of it must say is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from harness.characterise.watching import Clock
from harness.workload import Arrays, Block

DATA_S, FORWARD_S, LOSS_S, BACKWARD_S, CLIP_S, OPTIMIZER_S, READ_S = 0.5, 2.0, 0.25, 4.0, 0.125, 1.0, 0.0625
INPUTS, HIDDEN, OUTPUTS = 4, 8, 3


class HandClock(Clock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def synchronise(self) -> None:
        pass

    def seconds(self, start: float, stop: float) -> float:
        return stop - start


class _Slow(torch.autograd.Function):
    """The identity; its backward moves the clock."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, move: Callable[[float], None]) -> torch.Tensor:
        ctx.move = move
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.move(BACKWARD_S)
        return gradients[0], None


class TwoLayers(nn.Module):
    """Linear, ReLU, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, OUTPUTS)
        self.pause: Callable[[float], None] = lambda seconds: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.pause(FORWARD_S)
        found: torch.Tensor = self.second(torch.relu(self.first(x)))
        return found


class PausingSGD(torch.optim.SGD):
    """SGD whose step moves the clock."""

    pause: Callable[[float], None]

    def step(self, closure: Any = None) -> Any:
        self.pause(OPTIMIZER_S)
        return super().step(closure)


class ToySession:
    """Trains `TwoLayers`, or another network. clock: moved by the parts of its steps. wrap: around the network: DDP."""

    def __init__(
        self,
        clock: HandClock | None = None,
        updates: int = 1,
        network: nn.Module | None = None,
        wrap: Callable[[nn.Module], nn.Module] = lambda network: network,
        batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]] | None = None,
    ) -> None:
        self.clock = clock
        self.network = network or TwoLayers()
        if isinstance(self.network, TwoLayers):
            self.network.pause = self.pause
        self.model = wrap(self.network)
        self.optimizer = PausingSGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.optimizer.pause = self.pause
        self.updates = updates
        self.execution = SimpleNamespace(step=self._update)
        self.batch = batch or (lambda n: (torch.randn(n, INPUTS), torch.randn(n, OUTPUTS)))

    def pause(self, seconds: float) -> None:
        if self.clock is not None:
            self.clock.at += seconds

    def train_block(self, num_samples: int) -> Block:
        loss, batch, waited_s = torch.zeros(()), self.batch(num_samples), 0.0
        for _ in range(self.updates):
            self.pause(DATA_S)
            waited_s += DATA_S if self.clock is not None else 0.0
            loss = self.execution.step(*batch)
        self.pause(READ_S)
        with torch.no_grad():
            self.model(batch[0])  # without gradients it is no part of training
        return Block(num_samples, loss.item(), waited_s)

    def _update(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        output = self.model(x)
        if self.clock is not None:
            output = _Slow.apply(output, self.pause)
        loss = nn.functional.mse_loss(output, y)
        self.pause(LOSS_S)
        loss.backward()
        self.pause(CLIP_S)
        self.optimizer.step()
        return loss

    def prepare(self) -> None: ...
    def initialise(self) -> None: ...
    def start(self, data_dir: Path) -> None: ...
    def close(self) -> None: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...

    def weights(self) -> Mapping[str, torch.Tensor]:
        return self.network.state_dict()

    def evaluated_weights(self) -> Mapping[str, torch.Tensor]:
        return self.network.state_dict()

    def predict(self, inputs: Arrays) -> Arrays:
        return {}
