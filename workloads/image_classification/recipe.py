"""The hyperparameters of image classification: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError, printable
from harness.workload import HyperparameterValue, read_recipe

NAME = "image_classification"


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of both suites, with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int
    opt_name: str
    opt_base_learning_rate: float  # the peak; the loss is the mean over a global batch
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon
    opt_momentum: float
    opt_weight_decay: float
    label_smoothing: float
    data_translation: int  # pixels, in each direction
    data_flip: bool  # horizontal, alternating by epoch

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Return the recipe that `values` describe.

        has_own_optimizer: a submission to the open division brings its own; `opt_name` is then only a label in the log.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        if recipe.opt_name != "sgd" and not has_own_optimizer:
            raise UsageError(f"{NAME}: opt_name is {printable(recipe.opt_name)!r}, expected sgd")
        if recipe.global_batch_size < 2:
            raise UsageError(f"{NAME}: global_batch_size is {recipe.global_batch_size}, expected at least 2")
        if not recipe.opt_learning_rate_warmup_steps < recipe.opt_learning_rate_training_steps:
            raise UsageError(f"{NAME}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")
        if recipe.opt_momentum >= 1 or recipe.label_smoothing >= 1:
            raise UsageError(f"{NAME}: opt_momentum and label_smoothing must be below 1")
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
