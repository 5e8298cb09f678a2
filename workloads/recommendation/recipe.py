"""The hyperparameters of recommendation: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe

NAME = "recommendation"
SUITES = ("mini", "standard", "full")


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of mini and standard, with MLPerf's names where MLPerf has one. A step is a global batch."""

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
    history_length: int  # interactions before the predicted one that the network sees; it reads three one by one

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("adamw",), has_own_optimizer)
        check_bounds(
            recipe,
            NAME,
            at_least={"global_batch_size": 1, "history_length": 3},
            below_one=("opt_adamw_beta_1", "opt_adamw_beta_2", "dropout"),
        )
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the peak, linear down to the end rate, then constant.

        The floor lets a run that has passed its horizon still reach the target.
        """
        return triangle(
            step,
            self.opt_base_learning_rate,
            self.opt_end_learning_rate,
            self.opt_learning_rate_warmup_steps,
            self.opt_learning_rate_training_steps,
        )


def triangle(step: int, peak: float, end: float, warmup: int, horizon: int) -> float:
    """Linear from 0 up to `peak` in `warmup` steps, linear down to `end` at `horizon`, then constant."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
