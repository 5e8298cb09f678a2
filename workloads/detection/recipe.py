"""The hyperparameters of detection: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from harness.errors import UsageError
from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe

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
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("muon",), has_own_optimizer)
        check_bounds(
            recipe,
            NAME,
            at_least={"global_batch_size": 1},
            below_one=("opt_momentum", "opt_adamw_beta_1", "opt_adamw_beta_2", "focal_alpha"),
        )
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


@dataclasses.dataclass(frozen=True, slots=True)
class FullRecipe:
    """Hyperparameters of `full`, with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int
    opt_name: str
    opt_base_learning_rate: float  # from the end of the warm-up to the first decay
    opt_learning_rate_warmup_steps: int
    opt_learning_rate_decay_factor: float
    opt_learning_rate_first_decay_step: int
    opt_learning_rate_second_decay_step: int
    opt_momentum: float
    opt_weight_decay: float  # of everything that is trained
    focal_alpha: float
    focal_gamma: float
    model_depth: int  # of the ResNet
    model_trainable_stages: int  # of its five, from the last one; the others stay as they are
    data_min_side: int  # pixels of an image's shorter side, unless its longer one would have more than data_max_side
    data_max_side: int
    data_flip: bool  # a coin flip from left to right, per image and epoch

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> FullRecipe:
        """Return the recipe that `values` describe; see `Recipe.parse`."""
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("sgd",), has_own_optimizer)
        check_bounds(recipe, NAME, at_least={"global_batch_size": 1}, below_one=("opt_momentum", "focal_alpha"))
        if recipe.opt_learning_rate_first_decay_step > recipe.opt_learning_rate_second_decay_step:
            raise UsageError(f"{NAME}: opt_learning_rate_first_decay_step must not be after the second")
        if recipe.model_depth not in (18, 34, 50, 101, 152) or recipe.model_trainable_stages > 5:
            raise UsageError(f"{NAME}: model_depth must be that of a ResNet, and model_trainable_stages at most 5")
        if not 32 <= recipe.data_min_side <= recipe.data_max_side:
            raise UsageError(f"{NAME}: data_min_side must be at least 32 and at most data_max_side")
        return recipe

    def learning_rate(self, step: int) -> float:
        """Return the rate of step 0, 1, ...: linear up to the base rate, then divided at each of the two decays."""
        if step < self.opt_learning_rate_warmup_steps:
            return self.opt_base_learning_rate * (step + 1) / (self.opt_learning_rate_warmup_steps + 1)
        decays = (self.opt_learning_rate_first_decay_step, self.opt_learning_rate_second_decay_step)
        return float(
            self.opt_base_learning_rate * self.opt_learning_rate_decay_factor ** sum(step >= at for at in decays)
        )
