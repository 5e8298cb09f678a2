"""The optimiser: Muon on the backbone's convolutions, AdamW on the rest.

Dimension letters: B matrices of one shape, R rows, C columns.
"""

from __future__ import annotations

# ruff: noqa: N803 (dimension letters)
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from workloads.detection.recipe import Recipe


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Muon on the backbone's convolutions but the first, AdamW on the rest; see `Muon` for their learning rates."""
    backbone = [p for name, p in network.named_parameters() if p.ndim == 4 and name.startswith("backbone.")]
    matrices = backbone[1:]
    rest = [p for p in network.parameters() if all(p is not matrix for matrix in matrices)]
    kernels, vectors = [p for p in rest if p.ndim > 1], [p for p in rest if p.ndim <= 1]
    adamw = {"is_matrix": False, "rate_ratio": recipe.opt_adamw_learning_rate_ratio}
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": recipe.opt_weight_decay},
        {"params": kernels, "weight_decay": recipe.opt_weight_decay, **adamw},
        {"params": vectors, "weight_decay": 0.0, **adamw},
    ]
    return Muon(groups, recipe)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for convolutions; AdamW for groups that are not `is_matrix`.

    K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024. A group's `lr` is Muon's;
    AdamW uses `rate_ratio` times that. torch's own Muon takes only matrices, one at a time, in bf16.
    """

    def __init__(self, groups: list[dict[str, Any]], recipe: Recipe) -> None:
        self.momentum, self.eps = recipe.opt_momentum, recipe.opt_adamw_epsilon
        self.betas = recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2
        defaults = {"lr": recipe.opt_base_learning_rate, "weight_decay": 0.0, "is_matrix": True, "rate_ratio": 1.0}
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            rate = group["lr"] * group["rate_ratio"]
            if params:
                torch._foreach_mul_(params, 1 - rate * group["weight_decay"])
                (self._muon if group["is_matrix"] else self._adamw)(params, rate)

    def _kept(self, params: list[Tensor], name: str) -> list[Tensor]:
        for p in params:
            self.state[p].setdefault(name, torch.zeros_like(p))
        return [self.state[p][name] for p in params]

    def _muon(self, params: list[Tensor], rate: float) -> None:
        grads, averages = _gradients(params), self._kept(params, "average")
        torch._foreach_lerp_(averages, grads, 1 - self.momentum)
        updates = torch._foreach_lerp(grads, averages, self.momentum)  # Nesterov momentum
        by_shape: dict[torch.Size, list[int]] = {}
        for i, p in enumerate(params):
            by_shape.setdefault(p.shape, []).append(i)
        for indices in by_shape.values():  # equal shapes together: fewer, larger products
            directions = orthogonal(torch.stack([updates[i].flatten(1) for i in indices]))
            for i, direction in zip(indices, directions, strict=True):
                params[i].add_(
                    direction.view(params[i].shape),
                    alpha=-rate * max(1.0, direction.shape[0] / direction.shape[1]) ** 0.5,
                )

    def _adamw(self, params: list[Tensor], rate: float) -> None:
        grads, (beta_1, beta_2) = _gradients(params), self.betas
        averages, squares = self._kept(params, "average"), self._kept(params, "square")
        state = self.state[params[0]]
        state["step"] = step = state.get("step", 0) + 1
        torch._foreach_lerp_(averages, grads, 1 - beta_1)
        torch._foreach_mul_(squares, beta_2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - beta_2)
        deviations = torch._foreach_sqrt(squares)
        torch._foreach_div_(deviations, (1 - beta_2**step) ** 0.5)
        torch._foreach_add_(deviations, self.eps)
        torch._foreach_addcdiv_(params, averages, deviations, -rate / (1 - beta_1**step))


def _gradients(params: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in params if p.grad is not None]


def orthogonal(matrices_BRC: Tensor, num_steps: int = 5) -> Tensor:
    """Bring the singular values of each matrix near one, by Newton-Schulz with Jordan's coefficients."""
    wide = matrices_BRC.mT if matrices_BRC.shape[1] > matrices_BRC.shape[2] else matrices_BRC
    x = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(num_steps):
        gram = x @ x.mT
        x = 3.4445 * x + (2.0315 * gram @ gram - 4.7750 * gram) @ x
    result: Tensor = x.mT if matrices_BRC.shape[1] > matrices_BRC.shape[2] else x
    return result
