"""The network of the full suite, torchvision's ResNet-50, and its optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import resnet50

from workloads.image_classification.full_recipe import FullRecipe

LARS_COEFFICIENT = 0.001  # eta of You et al. 2017, as in MLPerf's reference


def build_model(suite: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Build a freshly initialised ResNet-50 v1.5 (a block's stride is in its 3x3 convolution).

    The last batch normalisation of a block begins with zero, and the weights of the last layer with a standard
    deviation of 0.01 (Goyal et al. 2017, arXiv:1706.02677), as in MLPerf's reference. The weights are drawn from
    torch's global generator.
    """
    network: Any = resnet50(num_classes=num_classes, zero_init_residual=True)
    nn.init.normal_(network.fc.weight, std=0.01)
    nn.init.zeros_(network.fc.bias)
    found: nn.Module = network
    return found


def build_optimizer(network: nn.Module, recipe: FullRecipe) -> torch.optim.Optimizer:
    """LARS or SGD; biases and batch normalisations are neither decayed nor adapted.

    The session sets the learning rate before every step.
    """
    parameters = list(network.parameters())
    matrices = {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.opt_weight_decay}
    vectors = {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}
    rate, momentum = recipe.opt_base_learning_rate, recipe.opt_momentum
    if recipe.opt_name == "lars":
        return Lars([{**matrices, "is_adapted": True}, {**vectors, "is_adapted": False}], rate, momentum)
    return torch.optim.SGD([matrices, vectors], lr=rate, momentum=momentum, fused=True)


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, arXiv:1708.03888), in MLPerf's form.

    v = momentum * v + rate * trust * (gradient + weight_decay * weight); weight -= v, where trust is
    LARS_COEFFICIENT * |weight| / (|gradient| + weight_decay * |weight|), or 1 in a group that is not adapted and where
    either is zero.
    """

    def __init__(self, groups: list[dict[str, object]], lr: float, momentum: float) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": 0.0, "is_adapted": True})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Do one update of the parameters that have a gradient."""
        for group in self.param_groups:
            weights: list[Tensor] = [p for p in group["params"] if p.grad is not None]
            if not weights:
                continue
            gradients = [p.grad for p in weights if p.grad is not None]
            updates = list(torch._foreach_add(gradients, weights, alpha=group["weight_decay"]))
            if group["is_adapted"]:
                rates = group["lr"] * _trust(weights, gradients, group["weight_decay"])
                torch._foreach_mul_(updates, list(rates.unbind()))
            else:
                torch._foreach_mul_(updates, group["lr"])
            moved = [self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in weights]
            torch._foreach_mul_(moved, group["momentum"])
            torch._foreach_add_(moved, updates)
            torch._foreach_sub_(weights, moved)


def _trust(weights: list[Tensor], gradients: list[Tensor], weight_decay: float) -> Tensor:
    """The ratio for each of `weights`, on their device."""
    weight_norms = torch.stack(torch._foreach_norm(weights))
    gradient_norms = torch.stack(torch._foreach_norm(gradients))
    ratios = LARS_COEFFICIENT * weight_norms / (gradient_norms + weight_decay * weight_norms)
    return torch.where((weight_norms > 0) & (gradient_norms > 0), ratios, 1.0)
