"""The hyperparameters of image classification, full suite: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError
from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe
from workloads.image_classification.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class FullRecipe:
    """Hyperparameters with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int
    opt_name: str
    opt_base_learning_rate: float  # the peak; the loss is the mean over a global batch
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_decay_poly_power: float
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon, warm-up included
    opt_momentum: float
    opt_weight_decay: float
    label_smoothing: float
    batch_norm_group: int  # images whose statistics a batch normalisation takes together

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> FullRecipe:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("lars", "sgd"), has_own_optimizer)
        check_bounds(recipe, NAME, at_least={"global_batch_size": 2}, below_one=("opt_momentum", "label_smoothing"))
        if recipe.batch_norm_group < 2 or recipe.global_batch_size % recipe.batch_norm_group:
            raise UsageError(
                f"{NAME}: global_batch_size {recipe.global_batch_size} is not a multiple of batch_norm_group "
                f"{recipe.batch_norm_group}, which is at least 2"
            )
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the peak, a power of the rest down to the end rate, constant.

        The floor lets a run that has passed its horizon still reach the target.
        """
        warmup, horizon = self.opt_learning_rate_warmup_steps, self.opt_learning_rate_training_steps
        peak, end = self.opt_base_learning_rate, self.opt_end_learning_rate
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        rest = max(0.0, (horizon - step) / (horizon - warmup))
        return float(end + (peak - end) * rest**self.opt_learning_rate_decay_poly_power)
