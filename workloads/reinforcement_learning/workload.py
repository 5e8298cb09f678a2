"""Reinforcement learning: PPO on a vectorised environment until the mean greedy return is high enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: T steps of a rollout, N environments of this rank, D numbers per observation, A actions, R rows.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import copy
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, UsageError, unknown_name
from harness.workload import Arrays, Block, RunConfig
from workloads import checkpoint
from workloads.reinforcement_learning.recipe import NAME, SUITES, Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn

NUM_WARM_UP_MINIBATCHES = 3
# A row of a global batch: observation, action, its log probability, advantage, return, weight.
Rows = tuple["Tensor", "Tensor", "Tensor", "Tensor", "Tensor", "Tensor"]


class TrainingSession:
    """One run. Every rank steps its share of the environments and computes its rows of each minibatch."""

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid suite or hyperparameter, DataError for incomplete metadata."""
        if config.suite not in SUITES:
            raise UsageError(unknown_name(f"suite of {NAME}", config.suite, SUITES))
        self.config = config
        self.recipe = Recipe.parse(config.hyperparameters, "build_optimizer" in config.parts)
        if self.recipe.num_envs % config.num_devices:
            raise UsageError(
                f"{NAME}: {self.recipe.num_envs} environments cannot be shared by {config.num_devices} devices"
            )
        metadata: Mapping[str, Any] = config.metadata
        for key in ("num_observations", "num_actions"):
            if key not in metadata:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self.num_observations, self.num_actions = int(metadata["num_observations"]), int(metadata["num_actions"])

    def prepare(self) -> None:
        """Build network and environments, and warm up.

        Raises:
            UsageError: the number of processes started is not the number of devices declared.
            DataError: the installed Gymnasium or ALE does not behave like the benchmark's.
            MissingDependencyError: the suite needs ale-py.
        """

        from workloads.execution import Execution
        from workloads.reinforcement_learning.environments import check_dynamics, make_training
        from workloads.reinforcement_learning.model import build_model, build_optimizer

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        check_dynamics(self.config.suite)
        recipe, suite, parts = self.recipe, self.config.suite, self.config.parts
        self.build_model = partial(
            parts.get("build_model", build_model), suite, self.num_observations, self.num_actions
        )
        optimizer = parts.get("build_optimizer", build_optimizer)
        self.learning_rate = parts.get("learning_rate", Recipe.learning_rate)
        self.model, self.network = self.execution.wrap(self.build_model(), optimizer, recipe)
        self.share = recipe.num_envs // self.num_ranks
        self.first_env = self.rank * self.share
        self.envs = make_training(suite, self.share)
        # Evaluate a running mean of the weights: the policies themselves fall and rise by a fifth between two
        # evaluations, while their mean hardly ever falls.
        self.averaged = copy.deepcopy(self.network).requires_grad_(False)
        self._warm_up()

    def _warm_up(self) -> None:
        """Run the kernels of acting and learning on noise."""
        import numpy as np
        import torch

        from workloads.reinforcement_learning.data import NUM_EPISODES

        kind = self.envs.single_observation_space.dtype
        self._act(self.network, torch.from_numpy(np.zeros((self.share, self.num_observations), kind)).to(self.device))
        self.predict({"observations": np.zeros((NUM_EPISODES, self.num_observations), kind)})
        size = self.recipe.minibatch_size // self.num_ranks
        noise_R = torch.rand(size).to(self.device)
        observations_RD = torch.from_numpy(np.zeros((size, self.num_observations), kind)).to(self.device)
        actions_R = torch.zeros(size, dtype=torch.int64, device=self.device)
        for _ in range(NUM_WARM_UP_MINIBATCHES):
            self._learn((observations_RD, actions_R, -noise_R, noise_R, noise_R, noise_R), learning_rate=0.0)

    def initialise(self) -> None:
        """Draw the weights, and return their mean, optimizer, scaler and generator to where they begin."""
        import torch

        weights = self.build_model().state_dict()
        self.execution.restart(weights)
        self.averaged.load_state_dict(weights)
        # Action sampling and the order of rows use this generator alone, so every rank draws the same numbers.
        self.draws = torch.Generator().manual_seed(self.config.seed)
        self.step = 0

    def weights(self) -> Mapping[str, Tensor]:
        """The network's parameters and buffers."""
        weights: Mapping[str, Tensor] = self.network.state_dict()
        return weights

    def evaluated_weights(self) -> Mapping[str, Tensor]:
        """The mean of the network's weights."""
        weights: Mapping[str, Tensor] = self.averaged.state_dict()
        return weights

    def start(self, data_dir: Path) -> None:
        """Start the training environments, each from its own seed; there is nothing to read.

        Raises:
            DataError: the environments are not what `metadata.json` says.
        """
        import numpy as np
        from gymnasium.spaces import flatdim

        from workloads.reinforcement_learning.data import training_seeds

        spaces = self.envs.single_observation_space, self.envs.single_action_space
        num_observations, num_actions = map(flatdim, spaces)
        if (num_observations, num_actions) != (self.num_observations, self.num_actions):
            raise DataError(
                f"{data_dir}: the environment has {num_observations} observations and {num_actions} actions; "
                f"metadata.json says {self.num_observations} and {self.num_actions}"
            )
        seeds = training_seeds(self.config.seed, self.recipe.num_envs)[self.first_env : self.first_env + self.share]
        options = {"is_staggered": True} if self.config.suite == "mini" else None
        # Gymnasium's vector environments take a seed per environment; the type says one for all.
        self.observations_ND, _ = self.envs.reset(seed=seeds, options=options)  # type: ignore[arg-type]
        self.is_over_N = np.zeros(self.share, np.bool_)

    def _act(self, network: nn.Module, observations_ND: Tensor) -> tuple[Tensor, Tensor]:
        """logits_NA and values_N in fp32, without a gradient."""
        import torch

        with torch.no_grad(), self.accelerator.autocast():
            logits_NA, values_N = network(observations_ND)
        return logits_NA.float(), values_N.float()

    def _collect(self) -> tuple[Rows, float]:
        """The next rollout of this rank's environments as rows of one global batch (t * N + n), and the seconds for
        which the network waited for the environments."""
        import numpy as np
        import torch

        from workloads.reinforcement_learning.model import advantages, log_probabilities, sample_actions

        recipe, (T, N) = self.recipe, (self.recipe.rollout_length, self.share)
        own = slice(self.first_env, self.first_env + N)
        uniforms_TN = torch.rand(T, recipe.num_envs, generator=self.draws)[:, own].to(self.device)
        kind = torch.from_numpy(self.observations_ND).dtype  # pixels stay bytes until the network sees them
        observations_TND = torch.empty(T, N, self.num_observations, dtype=kind, device=self.device)
        logits_TNA = torch.empty(T, N, self.num_actions, device=self.device)
        values_TN = torch.empty(T + 1, N, device=self.device)
        actions_TN = torch.empty(T, N, dtype=torch.int64, device=self.device)
        rewards_TN = np.empty((T, N), np.float32)
        flags_3TN = np.empty((3, T, N), np.bool_)  # terminated, over, a step rather than a reset
        data_wait_s = 0.0
        for t in range(T):
            observations_TND[t] = torch.from_numpy(self.observations_ND)
            logits_TNA[t], values_TN[t] = self._act(self.network, observations_TND[t])
            actions_TN[t] = sample_actions(logits_TNA[t], uniforms_TN[t])
            actions_N = actions_TN[t].cpu().numpy()
            waiting_since = perf_counter()
            flags_3TN[2, t] = ~self.is_over_N
            self.observations_ND, rewards_TN[t], terminated_N, truncated_N, _ = self.envs.step(actions_N)
            self.is_over_N = terminated_N | truncated_N
            flags_3TN[0, t], flags_3TN[1, t] = terminated_N, self.is_over_N
            data_wait_s += perf_counter() - waiting_since
        _, values_TN[T] = self._act(self.network, torch.from_numpy(self.observations_ND).to(self.device))
        terminated_TN, is_over_TN, is_step_TN = torch.from_numpy(flags_3TN).to(self.device)
        scaled_TN = torch.from_numpy(rewards_TN).to(self.device) * recipe.reward_scale
        advantages_TN = advantages(
            scaled_TN, values_TN, terminated_TN, is_over_TN, is_step_TN, recipe.discount, recipe.gae_lambda
        )
        # Mean and deviation over the transitions of all ranks; weights turn a mean over rows into one over transitions.
        sums = torch.stack([is_step_TN.sum(), advantages_TN.sum(), advantages_TN.square().sum()])
        count, total, squares = self.accelerator.reduce(sums, reduction="sum")
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        rows = (
            observations_TND.flatten(0, 1),
            actions_TN.flatten(),
            log_probabilities(logits_TNA.flatten(0, 1), actions_TN.flatten()),
            ((advantages_TN - mean) / (deviation + 1e-8)).flatten(),
            (advantages_TN + values_TN[:-1]).flatten(),
            (is_step_TN * (recipe.global_batch_size / count)).flatten(),
        )
        return rows, data_wait_s

    def _minibatches(self, rows: Rows) -> Iterator[tuple[Tensor, ...]]:
        """This rank's part of each minibatch of one pass. The order is drawn over the rows of all ranks, so a
        minibatch is the same set of rows for any number of ranks."""
        import torch

        order = torch.randperm(self.recipe.global_batch_size, generator=self.draws)
        own = [self._own_rows(chosen) for chosen in torch.split(order, self.recipe.minibatch_size)]
        index = torch.cat(own).to(self.device)
        # One gather per pass and array, not per minibatch.
        return zip(*(torch.split(x[index], [len(rows) for rows in own]) for x in rows), strict=True)

    def _own_rows(self, chosen: Tensor) -> Tensor:
        """Those of the global rows (t * num_envs + env) that this rank has, in its own numbering (t * N + n)."""
        if self.num_ranks == 1:
            return chosen
        t, env = chosen // self.recipe.num_envs, chosen % self.recipe.num_envs - self.first_env
        own_rows: Tensor = (t * self.share + env)[(env >= 0) & (env < self.share)]
        return own_rows

    def _learn(self, part: tuple[Tensor, ...], learning_rate: float) -> Tensor:
        """Do one optimiser step on this rank's part of a minibatch; return its part of the mean loss, on the device."""
        clip_norm = self.recipe.opt_gradient_clip_norm
        loss: Tensor = self.execution.step(self._loss, [part], learning_rate, clip_norm) / self.num_ranks
        return loss

    def _loss(
        self,
        observations_RD: Tensor,
        actions_R: Tensor,
        log_probs_R: Tensor,
        advantages_R: Tensor,
        returns_R: Tensor,
        weights_R: Tensor,
    ) -> Tensor:
        """This rank's part of a minibatch's mean loss times the number of ranks.

        Gradients are averaged over the ranks, so they become those of the minibatch's mean.
        """
        from workloads.reinforcement_learning.model import loss_of_rows

        logits_RA, values_R = self.model(observations_RD)
        losses_R = loss_of_rows(
            logits_RA.float(), values_R.float(), actions_R, log_probs_R, advantages_R, returns_R, self.recipe
        )
        loss: Tensor = (losses_R * weights_R).sum() / self.recipe.minibatch_size * self.num_ranks
        return loss

    def _average(self) -> None:
        """Move the averaged weights towards the trained ones."""
        import torch

        share = 1 - self.recipe.weight_average_decay
        with torch.no_grad():
            new_values = self.network.state_dict().values()
            for value, new in zip(self.averaged.state_dict().values(), new_values, strict=True):
                value.lerp_(new, share) if value.is_floating_point() else value.copy_(new)

    def train_block(self, num_samples: int) -> Block:
        """Train on whole global batches until `num_samples` environment steps are taken; wait for the device at the end
        (and, since the environments run on the host, in every step of a rollout)."""
        import torch

        steps = -(-num_samples // self.recipe.global_batch_size)
        total_loss = torch.zeros((), device=self.device)
        num_minibatches = 0
        data_wait_s = 0.0
        for _ in range(steps):
            rows, waited_s = self._collect()
            data_wait_s += waited_s
            learning_rate = self.learning_rate(self.recipe, self.step)
            for _ in range(self.recipe.num_epochs):
                for part in self._minibatches(rows):
                    total_loss += self._learn(part, learning_rate)
                    num_minibatches += 1
            self._average()
            self.step += 1
        mean_loss = self.accelerator.reduce(total_loss, reduction="sum").item() / max(num_minibatches, 1)
        return Block(steps * self.recipe.global_batch_size, mean_loss, data_wait_s)

    def predict(self, inputs: Arrays) -> Arrays:
        """`actions` (N,), uint8: the likeliest under the averaged network for each of the `observations` (N, D)."""
        import numpy as np
        import torch

        observations_ND = torch.tensor(inputs["observations"], device=self.device)
        with torch.no_grad(), self.accelerator.autocast():
            logits_NA = self.averaged.logits(observations_ND).float().cpu().numpy()
        return {"actions": np.argmax(logits_NA, -1).astype(np.uint8)}  # 2 us in numpy, 10 in torch

    def save(self, folder: Path) -> None:
        """Keep the network, the mean of its weights, optimizer, scaler and generator, and the environments."""
        import torch

        from workloads.reinforcement_learning.environments import state_of

        checkpoint.save(
            self,
            folder,
            (),
            averaged=self.averaged.state_dict(),
            observations_ND=torch.from_numpy(self.observations_ND),
            is_over_N=torch.from_numpy(self.is_over_N),
            envs=state_of(self.envs),
        )

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        from workloads.reinforcement_learning.environments import bring_to

        more = checkpoint.load(self, folder)
        self.averaged.load_state_dict(more["averaged"])
        self.observations_ND, self.is_over_N = more["observations_ND"].numpy(), more["is_over_N"].numpy()
        bring_to(self.envs, more["envs"], self.is_over_N)

    def close(self) -> None:
        """Close the environments and release everything."""
        if "envs" in self.__dict__:
            self.envs.close()
        if "execution" in self.__dict__:
            self.execution.close()
        self.__dict__.clear()
