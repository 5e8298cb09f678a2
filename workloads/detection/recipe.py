"""The hyperparameters of detection: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError, printable
from harness.workload import HyperparameterValue, read_recipe

NAME = "detection"


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of both suites, with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int
    opt_name: str
    opt_base_learning_rate: float  # the peak, for the matrices that Muon orthogonalises
    opt_end_learning_rate: float  # from the horizon on
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_training_steps: int  # the horizon
    opt_momentum: float  # of Muon, Nesterov
    opt_weight_decay: float  # decoupled; convolutions only
    opt_adamw_learning_rate_ratio: float  # AdamW's learning rate as a fraction of Muon's
    opt_adamw_beta_1: float
    opt_adamw_beta_2: float
    opt_adamw_epsilon: float
    focal_alpha: float
    focal_gamma: float
    box_loss_weight: float
    center_sampling_radius: float  # in strides: points this near the centre of a box are assigned to it
    data_flip: bool  # a coin flip per axis, image and epoch

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Recipe:
        """Return the recipe that `values` describe.

        has_own_optimizer: a submission to the open division brings its own; `opt_name` is then only a label in the log.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        if recipe.opt_name != "muon" and not has_own_optimizer:
            raise UsageError(f"{NAME}: opt_name is {printable(recipe.opt_name)!r}, expected muon")
        if recipe.global_batch_size < 1:
            raise UsageError(f"{NAME}: global_batch_size is {recipe.global_batch_size}, expected at least 1")
        if not recipe.opt_learning_rate_warmup_steps < recipe.opt_learning_rate_training_steps:
            raise UsageError(f"{NAME}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")
        for name in ("opt_momentum", "opt_adamw_beta_1", "opt_adamw_beta_2", "focal_alpha"):
            if getattr(recipe, name) >= 1:
                raise UsageError(f"{NAME}: {name} must be below 1")
        if recipe.opt_adamw_epsilon == 0 or recipe.center_sampling_radius == 0:
            raise UsageError(f"{NAME}: opt_adamw_epsilon and center_sampling_radius must be above 0")
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
