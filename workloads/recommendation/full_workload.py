"""Recommendation in the full suite: DLRM on six days of clicks until it ranks those of the seventh well enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N rows (this rank's share of a batch, or a part of it), C columns of a row (13 counts and 26
categories).
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.workload import Arrays
from workloads.recommendation.full_recipe import FullRecipe
from workloads.streaming.session import StreamedSession

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Order


class FullSession(StreamedSession[FullRecipe]):
    """One run. Every rank reads its share of each global batch, and has all tables: they are averaged like the rest."""

    recipe_type = FullRecipe
    metadata_keys = ("num_counts", "vocabulary_sizes")
    eval_batch = 1 << 16  # rows

    def _build(self) -> None:
        from workloads.recommendation.full_model import build_model, build_optimizer

        self.microbatch = self.execution.part_size(self.share)
        self._wrap(build_model, (self.metadata, self.recipe), build_optimizer)

    def _warm_up(self) -> None:
        """Run the kernels of training and evaluation on rows of zeros, in every shape that this rank will see."""
        import torch

        from workloads.execution import batch_sizes

        num_columns = int(self.metadata["num_counts"]) + len(self.metadata["vocabulary_sizes"])

        def noise(num_rows: int) -> tuple[Tensor, Tensor]:
            zeros = torch.zeros(num_rows, num_columns, dtype=torch.int32, device=self.device)
            return zeros, torch.zeros(num_rows, device=self.device)

        self.execution.warm_up(self._loss, [[noise(self.microbatch)] * self.execution.num_parts])
        for num_rows in batch_sizes(self.num_test, self.eval_batch, self.rank, self.num_ranks):
            self._scores(noise(num_rows)[0])

    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """The examples for training are shuffled."""
        from workloads.streaming import loader
        from workloads.streaming.order import shuffled

        train = loader.Examples(data_dir / "train", train_batch)
        order = shuffled(len(train), self.recipe.global_batch_size, self.config.seed)
        return train, order, loader.Examples(data_dir / "test", test_batch)

    def _loss(self, rows_NC: Tensor, clicks_N: Tensor) -> Tensor:
        """This part's share of the mean loss of a batch: the cross entropy of clicks."""
        from torch.nn import functional

        odds_N = self.model(rows_NC).float()
        return functional.binary_cross_entropy_with_logits(odds_N, clicks_N) / self.execution.num_parts

    def predict(self, inputs: Arrays) -> Arrays:
        """`scores` (R,) float32: the log odds of a click for every test row, gathered from all ranks."""
        own = [np.zeros(0, np.float32), *map(self._scores, self.testing)]
        return {"scores": self._gathered(np.concatenate(own))}

    def _scores(self, rows_NC: Tensor) -> npt.NDArray[np.float32]:
        with self._evaluating():
            scores_N: npt.NDArray[np.float32] = self.network(rows_NC).float().cpu().numpy()
        return scores_N


def train_batch(rows: pa.Table, seeds: Any) -> tuple[Tensor, Tensor]:
    """(N, 39) int32 and (N,) float32 of the chosen rows."""
    import torch

    return test_batch(rows, seeds), torch.tensor(rows["click"].to_numpy(), dtype=torch.float32)


def test_batch(rows: pa.Table, seeds: Any) -> Tensor:
    """(N, 39) int32 of the chosen rows."""
    import torch

    values = rows["row"].combine_chunks().flatten().to_numpy()
    return torch.tensor(values).view(len(rows), -1)
