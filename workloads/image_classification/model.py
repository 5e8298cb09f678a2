"""The networks: a small residual network for 28x28 frames, and airbench94 for 32x32 images, with its optimizer.

Dimension letters: N images, C channels, H rows, W columns, K classes.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from workloads.image_classification.recipe import Recipe

MINI_WIDTHS = (16, 32, 64)
# Of airbench94: how much faster biases after normalisation learn, and for which part of a run the whitening's does.
BIAS_SCALE = 64.0
WHITENING_BIAS_FRACTION = 3 / 9.9


def build_model(suite: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Build a freshly initialised network from images_NCHW to logits_NK; `image_shape` is (H, W, C).

    The weights are drawn from torch's global generator.
    """
    channels = image_shape[2]
    network = SmallResNet(channels, num_classes) if suite == "mini" else AirBench94(channels, num_classes)
    return network.to(memory_format=torch.channels_last)


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD over all parameters, airbench94's in groups; the session sets the learning rate before every step."""
    options: dict[str, Any] = {
        "lr": recipe.opt_base_learning_rate,
        "momentum": recipe.opt_momentum,
        "nesterov": recipe.opt_momentum > 0,
        "fused": True,
    }
    decay = recipe.opt_weight_decay
    if not isinstance(network, AirBench94):
        return torch.optim.SGD(network.parameters(), weight_decay=decay, **options)
    biases = [module.bias for module in network.modules() if isinstance(module, _BatchNorm)]
    special = {id(p) for p in (*biases, network.whitening.bias)}
    # The biases after normalisation learn 64 times as fast, and decay as slowly as the rest.
    groups = [
        {
            "params": [p for p in network.parameters() if p.requires_grad and id(p) not in special],
            "weight_decay": decay,
        },
        {"params": biases, "weight_decay": decay / BIAS_SCALE, "lr_scale": BIAS_SCALE},
        {"params": [network.whitening.bias], "weight_decay": decay},
    ]
    horizon = recipe.opt_learning_rate_training_steps
    return Lookahead(groups, horizon, round(horizon * WHITENING_BIAS_FRACTION), **options)


class SmallResNet(nn.Module):
    """A strided 5x5 stem and three residual blocks; 78 thousand parameters, 5.2 million forward FLOPs at 28x28."""

    def __init__(self, channels: int, num_classes: int, widths: tuple[int, int, int] = MINI_WIDTHS) -> None:
        super().__init__()
        first, second, third = widths
        # The stem halves the frame at once: at full resolution it would cost as much as everything else.
        self.stem = _conv_norm(channels, first, kernel=5, stride=2)
        self.blocks = nn.Sequential(Residual(first, first, 1), Residual(first, second, 2), Residual(second, third, 2))
        self.head = nn.Linear(third, num_classes)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        features_NCHW = self.blocks(functional.relu(self.stem(images_NCHW), inplace=True))
        logits_NK: Tensor = self.head(features_NCHW.mean((2, 3)))
        return logits_NK


class Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al. 2015); the shortcut is a projection where shapes differ."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _conv_norm(channels, width, kernel=3, stride=stride)
        self.second = _conv_norm(width, width, kernel=3, stride=1)
        same = channels == width and stride == 1
        self.shortcut = nn.Identity() if same else _conv_norm(channels, width, kernel=1, stride=stride)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        y_NCHW = self.second(functional.relu(self.first(x_NCHW), inplace=True))
        return functional.relu(y_NCHW + self.shortcut(x_NCHW), inplace=True)


class AirBench94(nn.Module):
    """Keller Jordan's network for 32x32 images (arXiv:2404.00498, "airbench94").

    A frozen whitening of 2x2 patches, then three groups of two convolutions. 1,971,352 parameters that are trained,
    0.24 billion forward FLOPs.
    """

    def __init__(self, channels: int, num_classes: int, widths: tuple[int, int, int] = (64, 256, 256)) -> None:
        super().__init__()
        self.whitening = Whitening(channels, kernel=2)
        self.groups = nn.Sequential(*map(_Group, (2 * 4 * channels, *widths[:2]), widths))
        self.head = nn.Linear(widths[-1], num_classes, bias=False)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        features_NCHW = self.groups(functional.gelu(self.whitening(images_NCHW)))
        # 1/9 is Jordan's: unscaled, the first logits of a max-pooled network saturate the softmax.
        logits_NK: Tensor = self.head(features_NCHW.amax((2, 3))) / 9
        return logits_NK


class _Group(nn.Module):
    """Convolution, halving, normalisation, GELU; convolution, normalisation, GELU."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first, self.first_norm = _identity_conv(channels, width), _bias_norm(width)
        self.second, self.second_norm = _identity_conv(width, width), _bias_norm(width)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = functional.gelu(self.first_norm(functional.max_pool2d(self.first(x_NCHW), 2)))
        return functional.gelu(self.second_norm(self.second(x_NCHW)))


def _identity_conv(channels: int, width: int) -> nn.Conv2d:
    """A 3x3 convolution whose first filters pass their input on, so that the network begins nearly linear."""
    conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight[:channels].detach())
    return conv


def _bias_norm(width: int) -> nn.BatchNorm2d:
    """Normalisation with a bias that is trained and no scale; its running statistics follow nearly the last batch."""
    norm = nn.BatchNorm2d(width, eps=1e-12, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm


class Whitening(nn.Module):
    """A fixed convolution whose outputs on patches of the training images are uncorrelated, each with both signs.

    The weight is a buffer (no gradient, equal on every rank); until `fit`, each filter picks one input. The bias is
    trained.
    """

    weight: Tensor

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        size = channels * kernel * kernel
        filters = torch.eye(size).reshape(size, channels, kernel, kernel)
        self.register_buffer("weight", torch.cat([filters, -filters]))
        self.bias = nn.Parameter(torch.zeros(2 * size))

    @torch.no_grad()
    def fit(self, images_NCHW: Tensor, floor: float = 5e-4) -> None:
        """Set the weight from the patch covariance of normalised images; `floor` is added to its eigenvalues."""
        num_filters, channels, kernel, _ = self.weight.shape
        size = num_filters // 2
        patches = functional.unfold(images_NCHW.float(), kernel).transpose(1, 2).reshape(-1, size).double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        # An eigenvector's sign is the library's choice; fix it, so that a run is the same everywhere.
        vectors = vectors * torch.where(vectors.sum(0) < 0, -1.0, 1.0)
        filters = (vectors / (values + floor).sqrt()).T.reshape(size, channels, kernel, kernel)
        self.weight.copy_(torch.cat([filters, -filters]))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return functional.conv2d(images_NCHW, self.weight, self.bias)


class Lookahead(torch.optim.SGD):
    """SGD whose weights every 5 steps move back to a running mean of theirs (Zhang et al., arXiv:1907.08610).

    As in airbench94 the mean moves all the way at first, and by a quarter at the end of `num_steps`. The last group,
    the bias of the whitening, is trained for the first `num_bias_steps` only.
    """

    def __init__(self, groups: list[dict[str, Any]], num_steps: int, num_bias_steps: int, **options: Any) -> None:
        super().__init__(groups, **options)
        self.num_steps, self.num_bias_steps = num_steps, num_bias_steps

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        weights = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        slow = [self.state[p].setdefault("slow", p.clone()) for p in weights]
        state = self.state[weights[0]]
        if state.get("num_done", 0) >= self.num_bias_steps:
            self.param_groups[-1]["lr"] = 0.0
        super().step()
        state["num_done"] = num_done = state.get("num_done", 0) + 1
        if num_done % 5 == 0:
            torch._foreach_lerp_(slow, weights, 1 - 0.95**5 * min(1.0, num_done / self.num_steps) ** 3)
            torch._foreach_copy_(weights, slow)


def logits_of_views(network: nn.Module, images_NCHW: Tensor) -> Tensor:
    """Mean logits of an image, its mirror image, and both moved by a pixel along each diagonal (airbench94's)."""
    height, width = images_NCHW.shape[2:]
    padded = functional.pad(images_NCHW, (1, 1, 1, 1), "reflect")
    moved = [padded[:, :, :height, :width], padded[:, :, 2:, 2:]]
    views = [(images_NCHW, 0.25), *((view, 0.125) for view in moved)]
    logits = [weight * (network(view) + network(view.flip(-1))) for view, weight in views]
    return torch.stack(logits).sum(0)


def _conv_norm(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))
