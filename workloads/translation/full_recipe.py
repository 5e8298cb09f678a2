"""The hyperparameters of the full suite of translation: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe
from workloads.translation.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class FullRecipe:
    """Hyperparameters with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int  # sentence pairs
    opt_name: str
    opt_base_learning_rate: float  # the peak; the loss is the mean over target pieces
    opt_learning_rate_warmup_steps: int
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float
    label_smoothing: float
    dropout: float  # also of attention and within the feed-forward networks

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> FullRecipe:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("adam",), has_own_optimizer)
        check_bounds(
            recipe,
            NAME,
            at_least={"global_batch_size": 1, "opt_learning_rate_warmup_steps": 1},
            below_one=("opt_adam_beta_1", "opt_adam_beta_2", "label_smoothing", "dropout"),
        )
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the peak, then falling with the square root of the step."""
        warmup = self.opt_learning_rate_warmup_steps
        return self.opt_base_learning_rate * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
