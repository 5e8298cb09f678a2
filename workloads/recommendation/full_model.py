"""The network of the full suite: DLRM (Naumov et al. 2019, arXiv:1906.00091), as its script for Criteo Kaggle has it.

Counts go through a perceptron to a vector, each category has a vector of its own; the dot products of all pairs of them
and the first vector go through a second perceptron to the log odds of a click.

Dimension letters: N rows, D counts (13), F categories (26), W width, V vectors (1 + F), P pairs of them.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from workloads.recommendation.full_recipe import FullRecipe

# DLRM's bench/dlrm_s_criteo_kaggle.sh: --arch-sparse-feature-size=16 --arch-mlp-bot="13-512-256-64-16"
# --arch-mlp-top="512-256-1"
WIDTH = 16
BOTTOM, TOP = (512, 256, 64), (512, 256)


def build_model(suite: str, sizes: Mapping[str, Any], recipe: FullRecipe) -> nn.Module:
    """Build a freshly initialised network from rows (N, 39), int32, to log odds (N,).

    sizes: the data's metadata. The weights are drawn from torch's global generator.
    """
    return Dlrm(int(sizes["num_counts"]), [int(size) for size in sizes["vocabulary_sizes"]], WIDTH, BOTTOM, TOP)


def build_optimizer(network: nn.Module, recipe: FullRecipe) -> torch.optim.Optimizer:
    """Stochastic gradient descent without momentum, as in MLPerf's and the paper's runs; the session sets the rate."""
    return torch.optim.SGD(network.parameters(), lr=recipe.opt_base_learning_rate, fused=True)


class Dlrm(nn.Module):
    """One table has the vectors of all categories: a batch is looked up at once."""

    firsts_F: Tensor
    pairs_P: Tensor

    def __init__(
        self, num_counts: int, vocabulary: Sequence[int], width: int, bottom: Sequence[int], top: Sequence[int]
    ) -> None:
        super().__init__()
        num_vectors = 1 + len(vocabulary)
        self.num_counts = num_counts
        self.table = nn.EmbeddingBag(sum(vocabulary), width, mode="sum")
        self.bottom = _perceptron([num_counts, *bottom, width], is_last_linear=False)
        self.top = _perceptron([width + math.comb(num_vectors, 2), *top, 1], is_last_linear=True)
        firsts = [0, *itertools.accumulate(vocabulary)][:-1]
        self.register_buffer("firsts_F", torch.tensor(firsts), persistent=False)
        above = torch.tril_indices(num_vectors, num_vectors, -1)
        self.register_buffer("pairs_P", above[0] * num_vectors + above[1], persistent=False)
        with torch.no_grad():
            # As in DLRM, by the size of a category's own table.
            for first, size in zip(firsts, vocabulary, strict=True):
                self.table.weight[first : first + size].uniform_(-(size**-0.5), size**-0.5)

    def forward(self, rows_NC: Tensor) -> Tensor:
        counts_ND, categories_NF = rows_NC[:, : self.num_counts], rows_NC[:, self.num_counts :]
        dense_NW = self.bottom(counts_ND.clamp(min=0).float().log1p())
        places_NF = categories_NF + self.firsts_F
        vectors = self.table(places_NF.view(-1, 1)).view(len(rows_NC), -1, dense_NW.shape[1])
        vectors_NVW = torch.cat([dense_NW[:, None], vectors.to(dense_NW.dtype)], 1)
        products_NP = (vectors_NVW @ vectors_NVW.mT).flatten(1).index_select(1, self.pairs_P)
        odds_N: Tensor = self.top(torch.cat([dense_NW, products_NP.to(dense_NW.dtype)], 1))[:, 0]
        return odds_N


def _perceptron(widths: Sequence[int], is_last_linear: bool) -> nn.Sequential:
    """Linear layers with ReLU between and, unless the last one is linear, behind them; initialised as in DLRM."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        layer = nn.Linear(fan_in, fan_out)
        nn.init.normal_(layer.weight, std=math.sqrt(2 / (fan_in + fan_out)))
        nn.init.normal_(layer.bias, std=math.sqrt(1 / fan_out))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if is_last_linear else layers))
