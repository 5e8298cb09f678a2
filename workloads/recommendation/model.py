"""The network: recent items and pooled history, gated by context and side information, scored against all items.

Dimension letters: N interactions to predict, L items before each, I items, A attributes, D width, H hidden units,
F context fields, S side fields.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.recommendation.recipe import Recipe

WIDTHS = {"mini": (64, 256), "standard": (64, 512)}  # D, H
NUM_RECENT = 3  # items read one by one; the whole history is pooled besides


def build_model(suite: str, sizes: Mapping[str, Any], recipe: Recipe) -> nn.Module:
    """Build a freshly initialised network; `sizes` is the data's metadata.

    forward(history_NL, contexts_NF, sides_NS, attributes_IA) -> logits_NI: history holds item numbers, latest last,
    and `num_items` where there is none; attributes are float. The weights are drawn from torch's global generator.
    """
    return GatedTower(sizes, recipe, *WIDTHS[suite])


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW over all parameters; the session sets the learning rate before every step."""
    return torch.optim.AdamW(
        network.parameters(),
        lr=recipe.opt_base_learning_rate,
        betas=(recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2),
        eps=recipe.opt_adamw_epsilon,
        weight_decay=recipe.opt_weight_decay,
        fused=True,
    )


class GatedTower(nn.Module):
    """Hidden units of recent items and pooled history, each multiplied by a context gate and a side gate: what follows
    an item depends on the hour and on the kind of user.

    An item is read as its embedding plus one per attribute; to be predicted it has a further embedding on top.
    """

    gate_strides_F: Tensor
    gate_strides_S: Tensor

    def __init__(self, sizes: Mapping[str, Any], recipe: Recipe, width: int, hidden: int) -> None:
        super().__init__()
        num_items, length = int(sizes["num_items"]), recipe.history_length
        context_sizes, side_sizes = ([int(n) for n in sizes[name]] for name in ("context_sizes", "side_sizes"))
        self.items = nn.Parameter(torch.randn(num_items, width) * 0.1)
        self.predicted = nn.Parameter(torch.randn(num_items, width) * 0.1)
        self.bias = nn.Parameter(torch.zeros(num_items))
        self.attributes = nn.Parameter(torch.randn(int(sizes["num_attributes"]), width) * 0.1)
        self.ages = nn.Parameter(torch.zeros(length))  # log weight of an item in the pool, by age
        self.context_gates = nn.Parameter(torch.randn(math.prod(context_sizes), hidden) * 0.5)
        self.side_gates = nn.Parameter(torch.randn(math.prod(side_sizes), hidden) * 0.5)
        self.read = nn.Linear(width * (NUM_RECENT + 1), hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.query = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(recipe.dropout)
        for name, fields in (("gate_strides_F", context_sizes), ("gate_strides_S", side_sizes)):
            strides = [math.prod(fields[k + 1 :]) for k in range(len(fields))]
            self.register_buffer(name, torch.tensor(strides, dtype=torch.int64), persistent=False)

    def forward(self, history_NL: Tensor, contexts_NF: Tensor, sides_NS: Tensor, attributes_IA: Tensor) -> Tensor:
        items_ID = self.items + attributes_IA @ self.attributes
        table = functional.pad(items_ID, (0, 0, 0, 1))  # the row of "no item" is zeros
        history_NLD = functional.embedding(history_NL, table)
        weight_NL = (history_NL < len(items_ID)) * self.ages.exp()
        weight_NL = weight_NL / weight_NL.sum(1, keepdim=True).clamp_min(1e-6)
        pooled_ND = torch.bmm(weight_NL[:, None], history_NLD)[:, 0]
        seen = torch.cat([history_NLD[:, -NUM_RECENT:].flatten(1), pooled_ND], 1)
        contexts_N = (contexts_NF * self.gate_strides_F).sum(1)
        sides_N = (sides_NS * self.gate_strides_S).sum(1)
        # On a CPU, the backward of indexing is slower than that of embedding.
        gates_NH = (1 + functional.embedding(contexts_N, self.context_gates)) * (
            1 + functional.embedding(sides_N, self.side_gates)
        )
        hidden_NH = self.dropout(self.read(seen) * gates_NH)
        query_ND = self.query(hidden_NH + functional.gelu(self.mix(hidden_NH)))
        # Half precision would round scores to three digits, and ties count against the model.
        with torch.autocast(query_ND.device.type, enabled=False):
            return torch.addmm(self.bias, query_ND.float(), (items_ID.float() + self.predicted).T)
