"""The network of the full suite: the convolutions of Mnih et al. 2015 (Nature 518), with a policy and a value on top.

Dimension letters: B observations, D numbers of each (4 * 84 * 84), A actions.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import math

from torch import Tensor, nn

from workloads.reinforcement_learning.full_atari import FRAMES


class NatureCnn(nn.Module):
    """Policy and value share the convolutions and a layer of 512, as in PPO's own runs on Atari."""

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _orthogonal(nn.Conv2d(FRAMES[0], 32, 8, 4)), nn.ReLU(),
            _orthogonal(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(),
            _orthogonal(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(),
            _orthogonal(nn.Linear(64 * 7 * 7, 512)), nn.ReLU(),
        )  # fmt: skip
        self.actor = _orthogonal(nn.Linear(512, num_actions), gain=0.01)
        self.critic = _orthogonal(nn.Linear(512, 1), gain=1.0)

    def forward(self, observations_BD: Tensor) -> tuple[Tensor, Tensor]:
        seen = self._seen(observations_BD)
        return self.actor(seen), self.critic(seen).squeeze(-1)

    def logits(self, observations_BD: Tensor) -> Tensor:
        logits_BA: Tensor = self.actor(self._seen(observations_BD))
        return logits_BA

    def _seen(self, observations_BD: Tensor) -> Tensor:
        seen: Tensor = self.body(observations_BD.view(-1, *FRAMES).float() / 255)
        return seen


def _orthogonal(layer: nn.Conv2d | nn.Linear, gain: float = math.sqrt(2)) -> nn.Module:
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
