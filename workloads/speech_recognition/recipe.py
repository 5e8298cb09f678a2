"""The hyperparameters of speech recognition: names, types, bounds, and the learning rate schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from harness.errors import UsageError
from harness.workload import HyperparameterValue, check_bounds, check_optimizer, read_recipe

NAME = "speech_recognition"


@dataclasses.dataclass(frozen=True, slots=True)
class BaseRecipe:
    """Hyperparameters of every suite, with MLPerf's names where MLPerf has one. A step is a global batch."""

    global_batch_size: int
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
    data_bucket_batches: int  # global batches sorted by length together; 1 sorts nothing

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Self:
        """Return the recipe that `values` describe; has_own_optimizer: see `check_optimizer`.

        Raises:
            UsageError: a name is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        recipe = read_recipe(cls, values, NAME)
        check_optimizer(recipe, NAME, ("adamw",), has_own_optimizer)
        check_bounds(
            recipe,
            NAME,
            at_least={"global_batch_size": 2, "data_bucket_batches": 1},
            below_one=("opt_adamw_beta_1", "opt_adamw_beta_2", "dropout"),
        )
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
class Recipe(BaseRecipe):
    """Hyperparameters of `mini` and `standard`."""

    data_frequency_shift: int  # bands of the log-mel spectrogram, in each direction


@dataclasses.dataclass(frozen=True, slots=True)
class FullRecipe(BaseRecipe):
    """Hyperparameters of `full`. Masks are SpecAugment's (Park et al., arXiv:1904.08779), of a random width each."""

    model_layers: int
    model_width: int  # four heads, and four times as many units in a feed-forward layer
    data_num_band_masks: int
    data_mask_bands: int  # of 80; the widest
    data_num_time_masks: int
    data_mask_time_fraction: float  # of the utterance; the widest

    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Self:
        """Return the recipe that `values` describe; see `BaseRecipe.parse`."""
        recipe = super(FullRecipe, cls).parse(values, has_own_optimizer)
        if recipe.model_layers < 1 or recipe.model_width < 4 or recipe.model_width % 4:
            raise UsageError(f"{NAME}: model_layers must be at least 1, and model_width a multiple of 4")
        if recipe.data_mask_bands > 80 or recipe.data_mask_time_fraction > 1:
            raise UsageError(f"{NAME}: data_mask_bands must be at most 80, and data_mask_time_fraction at most 1")
        return recipe
