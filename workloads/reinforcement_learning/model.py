"""The network, a separate actor and critic, and the arithmetic of PPO.

Dimension letters: T steps of a rollout, N environments, B rows of a minibatch, D numbers per observation, A actions.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import math

import torch
from torch import Tensor, nn

from workloads.reinforcement_learning.full_model import NatureCnn
from workloads.reinforcement_learning.recipe import Recipe

WIDTHS = {"mini": 64, "standard": 64}
# The cart-pole's observation in the network's units: centimetres and a few degrees decide whether a pole is caught, and
# tanh cannot distinguish values near 0 or far above 1.
SWING_UP_SCALES = (10.0, 4.0, 8.0, 8.0, 2.0)
# The mirror image of the observation (x, x_dot, cosine, sine, theta_dot); left and right change places.
SWING_UP_MIRROR = (-1.0, -1.0, 1.0, -1.0, -1.0)


def build_model(suite: str, num_observations: int, num_actions: int) -> nn.Module:
    """Build a freshly initialised network from observations_BD to (logits_BA, values_B).

    Its method `logits` leaves the values out, which evaluation has no use for. The weights are drawn from torch's
    global generator.
    """
    if suite == "full":
        return NatureCnn(num_actions)
    if suite == "mini":
        return MirroredActorCritic(SWING_UP_SCALES, SWING_UP_MIRROR, WIDTHS[suite])
    return ActorCritic(num_observations, num_actions, WIDTHS[suite])


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam over all parameters; the session sets the learning rate before every global batch."""
    betas = (recipe.opt_adam_beta_1, recipe.opt_adam_beta_2)
    return torch.optim.Adam(
        network.parameters(), lr=recipe.opt_base_learning_rate, betas=betas, eps=recipe.opt_adam_epsilon, fused=True
    )


class ActorCritic(nn.Module):
    """Two perceptrons with two hidden layers each and no shared weights."""

    def __init__(self, num_observations: int, num_actions: int, width: int) -> None:
        super().__init__()
        # Engstrom et al. 2020 (arXiv:2005.12729): orthogonal weights; a last layer near 0 gives a uniform first policy.
        self.actor = _perceptron(num_observations, width, num_actions, gain=0.01)
        self.critic = _perceptron(num_observations, width, 1, gain=1.0)

    def forward(self, observations_BD: Tensor) -> tuple[Tensor, Tensor]:
        return self.logits(observations_BD), self.critic(observations_BD).squeeze(-1)

    def logits(self, observations_BD: Tensor) -> Tensor:
        logits_BA: Tensor = self.actor(observations_BD)
        return logits_BA


class MirroredActorCritic(nn.Module):
    """Two perceptrons for an environment whose mirror image has the same dynamics with its two actions swapped.

    What is learnt on one side applies to the other: one perceptron rates action 1 and, given the mirrored
    observation, action 0; the value is the mean over both sides.
    """

    scales: Tensor
    mirror: Tensor

    def __init__(self, scales: tuple[float, ...], mirror: tuple[float, ...], width: int) -> None:
        super().__init__()
        self.actor = _perceptron(len(scales), width, 1, gain=0.01)
        self.critic = _perceptron(len(scales), width, 1, gain=1.0)
        self.register_buffer("scales", torch.tensor(scales), persistent=False)
        self.register_buffer("mirror", torch.tensor(mirror), persistent=False)

    def forward(self, observations_BD: Tensor) -> tuple[Tensor, Tensor]:
        both_RD = self._both(observations_BD)
        return self._rated(both_RD), self.critic(both_RD).view(2, -1).mean(0)

    def logits(self, observations_BD: Tensor) -> Tensor:
        return self._rated(self._both(observations_BD))

    def _both(self, observations_BD: Tensor) -> Tensor:
        """The observations in the network's units, mirrored and as they are: R = 2B rows."""
        seen_BD = observations_BD * self.scales
        return torch.cat((seen_BD * self.mirror, seen_BD))

    def _rated(self, both_RD: Tensor) -> Tensor:
        logits_AB: Tensor = self.actor(both_RD).view(2, -1)
        return logits_AB.t()


def _perceptron(num_inputs: int, width: int, num_outputs: int, gain: float) -> nn.Sequential:
    def linear(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
        layer = nn.Linear(fan_in, fan_out)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        return layer

    return nn.Sequential(
        linear(num_inputs, width, math.sqrt(2)), nn.Tanh(), linear(width, width, math.sqrt(2)), nn.Tanh(),
        linear(width, num_outputs, gain),
    )  # fmt: skip


def sample_actions(logits_NA: Tensor, uniforms_N: Tensor) -> Tensor:
    """Actions_N drawn from softmax(logits_NA) by inverting its distribution; 0 where the logits are NaN.

    Never an invalid action and never an exception, so a network that has diverged plays on.
    """
    cumulative_NA = logits_NA.softmax(-1).cumsum(-1)
    return (uniforms_N[:, None] >= cumulative_NA[:, :-1]).sum(-1)


def log_probabilities(logits_BA: Tensor, actions_B: Tensor) -> Tensor:
    return logits_BA.log_softmax(-1).gather(-1, actions_B[:, None]).squeeze(-1)


def advantages(
    rewards_TN: Tensor,
    values_TN: Tensor,
    terminated_TN: Tensor,
    is_over_TN: Tensor,
    is_step_TN: Tensor,
    discount: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv:1506.02438), (T, N).

    values_TN has T + 1 rows: values_TN[t + 1] is the value of the observation after step t, which is the last one of
    an episode that has just ended. So an episode that was only cut off (`is_over`, not `terminated`) is valued by what
    it would still have earned. Where `is_step` is false the environment was being reset: no transition, advantage 0.
    """
    deltas_TN = rewards_TN + discount * values_TN[1:] * ~terminated_TN - values_TN[:-1]
    estimates_TN = torch.zeros_like(rewards_TN)
    later_N = torch.zeros_like(rewards_TN[0])
    for t in reversed(range(len(rewards_TN))):
        later_N = torch.where(is_step_TN[t], deltas_TN[t] + discount * gae_lambda * later_N * ~is_over_TN[t], 0)
        estimates_TN[t] = later_N
    return estimates_TN


def loss_of_rows(
    logits_BA: Tensor,
    values_B: Tensor,
    actions_B: Tensor,
    log_probs_B: Tensor,
    advantages_B: Tensor,
    returns_B: Tensor,
    recipe: Recipe,
) -> Tensor:
    """One loss per row: PPO's clipped objective (Schulman et al. 2017, arXiv:1707.06347), squared value error, entropy.

    log_probs_B are those under the policy that acted.
    """
    log_policy_BA = logits_BA.log_softmax(-1)
    ratio_B = (log_policy_BA.gather(-1, actions_B[:, None]).squeeze(-1) - log_probs_B).exp()
    clipped_B = ratio_B.clamp(1 - recipe.clip_range, 1 + recipe.clip_range)
    policy_loss_B = -torch.minimum(ratio_B * advantages_B, clipped_B * advantages_B)
    entropy_B = -(log_policy_BA.exp() * log_policy_BA).sum(-1)
    value_loss_B = (values_B - returns_B).square()
    return policy_loss_B + recipe.value_coefficient * value_loss_B - recipe.entropy_coefficient * entropy_B
