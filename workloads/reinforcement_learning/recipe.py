"""The hyperparameters of reinforcement learning: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError
from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe

NAME = "reinforcement_learning"
SUITES = ("mini", "standard", "full")
MAX_ENVS = 2**20  # the number of seeds reserved for a run (data.py)


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of all suites, with MLPerf's names where MLPerf has one.

    A sample is one step of one environment. A step of the schedule is one global batch: the samples collected between
    two rounds of learning.
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
    weight_average_decay: float  # of the evaluated weights, per global batch; 0 evaluates the trained ones
    reward_scale: float  # for the rewards that the value network sees; the metric is not scaled

    @property
    def num_envs(self) -> int:
        return self.global_batch_size // self.rollout_length

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("adam",), has_own_optimizer)
        check_bounds(
            recipe,
            NAME,
            at_least=dict.fromkeys(("global_batch_size", "rollout_length", "minibatch_size", "num_epochs"), 1),
            below_one=("opt_adam_beta_1", "opt_adam_beta_2"),
        )
        for name in ("rollout_length", "minibatch_size"):
            if recipe.global_batch_size % getattr(recipe, name):
                raise UsageError(
                    f"{NAME}: global_batch_size {recipe.global_batch_size} is not a multiple of "
                    f"{name} {getattr(recipe, name)}"
                )
        if recipe.num_envs > MAX_ENVS:
            raise UsageError(f"{NAME}: {recipe.num_envs} environments, expected at most {MAX_ENVS}")
        for name in ("discount", "gae_lambda", "clip_range", "weight_average_decay"):
            if getattr(recipe, name) > 1:
                raise UsageError(f"{NAME}: {name} is {getattr(recipe, name)}, expected at most 1")
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of global batch 0, 1, ...: linear up to the peak, linear down to the end rate, then constant.

        The floor lets a run that has passed its horizon still reach the target.
        """
        warmup, horizon = self.opt_learning_rate_warmup_steps, self.opt_learning_rate_training_steps
        peak, end = self.opt_base_learning_rate, self.opt_end_learning_rate
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        return end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
