"""The hyperparameters of reinforcement learning: names, kinds, bounds, and the learning rate they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError, printable
from harness.workload import HyperparameterValue, read_recipe

NAME = "reinforcement_learning"
MAX_ENVS = 2**20  # as many seeds as a run has to itself (workload.py)


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """The hyperparameters of both suites, by MLPerf's names where MLPerf has one.

    A sample is one step of one environment; a step of the schedule is one global batch, the samples between two
    rounds of learning.
    """

    global_batch_size: int  # rollout_length steps of global_batch_size / rollout_length environments
    rollout_length: int
    minibatch_size: int  # samples of one optimiser step
    num_epochs: int  # passes over each global batch
    opt_name: str
    opt_base_learning_rate: float  # the peak
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float
    opt_gradient_clip_norm: float
    discount: float
    gae_lambda: float
    clip_range: float
    value_coefficient: float
    entropy_coefficient: float
    weight_average_decay: float  # of the judged weights, per global batch; 0 judges the trained ones
    reward_scale: float  # of rewards as the value network sees them; the metric is not scaled

    @property
    def num_envs(self) -> int:
        return self.global_batch_size // self.rollout_length

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Raises UsageError for a name unknown or missing, or a value of the wrong kind or out of bounds.

        has_own_optimizer: the open division brings one, so `opt_name` is a name for the log and decides nothing.
        """
        recipe = read_recipe(cls, values, NAME)
        if recipe.opt_name != "adam" and not has_own_optimizer:
            raise UsageError(f"{NAME}: opt_name is {printable(recipe.opt_name)!r}; there is: adam")
        for name in ("global_batch_size", "rollout_length", "minibatch_size", "num_epochs"):
            if getattr(recipe, name) < 1:
                raise UsageError(f"{NAME}: {name} is {getattr(recipe, name)}, expected at least 1")
        for name in ("rollout_length", "minibatch_size"):
            if recipe.global_batch_size % getattr(recipe, name):
                raise UsageError(
                    f"{NAME}: global_batch_size {recipe.global_batch_size} is not a multiple of "
                    f"{name} {getattr(recipe, name)}"
                )
        if recipe.num_envs > MAX_ENVS:
            raise UsageError(f"{NAME}: {recipe.num_envs} environments; there are seeds for {MAX_ENVS}")
        if not recipe.opt_learning_rate_warmup_steps < recipe.opt_learning_rate_training_steps:
            raise UsageError(f"{NAME}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")
        for name in ("opt_adam_beta_1", "opt_adam_beta_2"):
            if getattr(recipe, name) >= 1:
                raise UsageError(f"{NAME}: {name} must be below 1")
        for name in ("discount", "gae_lambda", "clip_range", "weight_average_decay"):
            if getattr(recipe, name) > 1:
                raise UsageError(f"{NAME}: {name} is {getattr(recipe, name)}, expected at most 1")
        return recipe

    def learning_rate(self, step: int) -> float:
        """Of global batch 0, 1, ...: a straight line up to the peak, another down to the end rate, which then stays.

        The floor is what lets a run that has passed the horizon still reach its target.
        """
        warmup, horizon = self.opt_learning_rate_warmup_steps, self.opt_learning_rate_training_steps
        peak, end = self.opt_base_learning_rate, self.opt_end_learning_rate
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        return end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
