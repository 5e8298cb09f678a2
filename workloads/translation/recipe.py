"""The hyperparameters of translation: names, kinds, bounds, and the learning rate they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError, printable
from harness.workload import HyperparameterValue, read_recipe

NAME = "translation"


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """The hyperparameters of both suites, by MLPerf's names where MLPerf has one. Steps are global batches."""

    global_batch_size: int  # sentence pairs
    opt_name: str
    opt_base_learning_rate: float  # the peak, per mean loss of a target piece
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon
    opt_adamw_beta_1: float
    opt_adamw_beta_2: float
    opt_adamw_epsilon: float
    opt_adamw_weight_decay: float
    label_smoothing: float
    dropout: float

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Raises UsageError for a name unknown or missing, or a value of the wrong kind or out of bounds.

        has_own_optimizer: the open division brings one, so `opt_name` is a name for the log and decides nothing.
        """
        recipe = read_recipe(cls, values, NAME)
        if recipe.opt_name != "adamw" and not has_own_optimizer:
            raise UsageError(f"{NAME}: opt_name is {printable(recipe.opt_name)!r}; there is: adamw")
        if recipe.global_batch_size < 1:
            raise UsageError(f"{NAME}: global_batch_size is {recipe.global_batch_size}, expected at least 1")
        if not recipe.opt_learning_rate_warmup_steps < recipe.opt_learning_rate_training_steps:
            raise UsageError(f"{NAME}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")
        for name in ("opt_adamw_beta_1", "opt_adamw_beta_2", "label_smoothing", "dropout"):
            if getattr(recipe, name) >= 1:
                raise UsageError(f"{NAME}: {name} is {getattr(recipe, name)}, expected below 1")
        return recipe

    def learning_rate(self, step: int) -> float:
        """Of step 0, 1, ...: a straight line up to the peak, a straight line down to the end rate, which then stays.

        The floor is what lets a run that has passed the horizon still reach its target.
        """
        warmup, horizon = self.opt_learning_rate_warmup_steps, self.opt_learning_rate_training_steps
        peak, end = self.opt_base_learning_rate, self.opt_end_learning_rate
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        return end + (peak - end) * max(0.0, (horizon - step) / (horizon - warmup))
