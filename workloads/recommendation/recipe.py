"""The hyperparameters of recommendation: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError, printable
from harness.workload import HyperparameterValue, read_recipe

NAME = "recommendation"


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of both suites, with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int  # interactions to predict
    opt_name: str
    opt_base_learning_rate: float  # the peak; the loss is the mean over a global batch
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon
    opt_adamw_beta_1: float
    opt_adamw_beta_2: float
    opt_adamw_epsilon: float
    opt_weight_decay: float
    dropout: float
    history_length: int  # interactions before the predicted one that the network sees

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Return the recipe that `values` describe.

        has_own_optimizer: a submission to the open division brings its own; `opt_name` is then only a label in the log.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        if recipe.opt_name != "adamw" and not has_own_optimizer:
            raise UsageError(f"{NAME}: opt_name is {printable(recipe.opt_name)!r}, expected adamw")
        if recipe.global_batch_size < 1:
            raise UsageError(f"{NAME}: global_batch_size is {recipe.global_batch_size}, expected at least 1")
        if not recipe.opt_learning_rate_warmup_steps < recipe.opt_learning_rate_training_steps:
            raise UsageError(f"{NAME}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")
        if max(recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2, recipe.dropout) >= 1:
            raise UsageError(f"{NAME}: opt_adamw_beta_1, opt_adamw_beta_2 and dropout must be below 1")
        if recipe.history_length < 3:  # the network reads the last three one by one
            raise UsageError(f"{NAME}: history_length is {recipe.history_length}, expected at least 3")
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the peak, linear down to the end rate, then constant.

        The floor lets a run that has passed its horizon still reach the target.
        """
        warmup, horizon = self.opt_learning_rate_warmup_steps, self.opt_learning_rate_training_steps
        peak, end = self.opt_base_learning_rate, self.opt_end_learning_rate
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        return end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
