"""The hyperparameters of recommendation in the full suite."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe
from workloads.recommendation.recipe import NAME, triangle


@dataclasses.dataclass(frozen=True, slots=True)
class FullRecipe:
    """Hyperparameters with MLPerf's names. A step is a global batch."""

    global_batch_size: int
    opt_name: str
    opt_base_learning_rate: float  # the peak; the loss is the mean over a global batch
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> FullRecipe:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("sgd",), has_own_optimizer)
        check_bounds(recipe, NAME, at_least={"global_batch_size": 1})
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the peak, linear down to the end rate, then constant."""
        return triangle(
            step,
            self.opt_base_learning_rate,
            self.opt_end_learning_rate,
            self.opt_learning_rate_warmup_steps,
            self.opt_learning_rate_training_steps,
        )
