"""The networks: a small residual network for 28x28 frames, and ResNet-9 with a whitening first layer.

Dimension letters: N images, C channels, H rows, W columns, K classes.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.image_classification.recipe import Recipe

MINI_WIDTHS = (16, 32, 64)


def build_model(suite: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Build a freshly initialised network from images_NCHW to logits_NK; `image_shape` is (H, W, C).

    The weights are drawn from torch's global generator.
    """
    channels = image_shape[2]
    network = SmallResNet(channels, num_classes) if suite == "mini" else ResNet9(channels, num_classes)
    return network.to(memory_format=torch.channels_last)


def build_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD over all parameters; the session sets the learning rate before every step."""
    return torch.optim.SGD(
        network.parameters(),
        lr=recipe.opt_base_learning_rate,
        momentum=recipe.opt_momentum,
        weight_decay=recipe.opt_weight_decay,
        nesterov=recipe.opt_momentum > 0,
        fused=True,
    )


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


class ResNet9(nn.Module):
    """David Page's ResNet-9 for 32x32 images (myrtle.ai, "How to train your ResNet", 2018-2019).

    As in part 8 of that series ("Bag of tricks"), the first convolution is replaced by a frozen whitening of
    3x3 patches and a 1x1 convolution. 6.6 million parameters, 0.76 billion forward FLOPs.
    """

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.whitening = Whitening(channels, kernel=3)
        self.layers = nn.Sequential(
            _conv_norm(channels * 9, 64, kernel=1), nn.ReLU(inplace=True),
            _conv_norm(64, 128, kernel=3), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            Residual9(128),
            _conv_norm(128, 256, kernel=3), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            _conv_norm(256, 512, kernel=3), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            Residual9(512),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(512, num_classes, bias=False)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        # 0.125 is Page's: unscaled, the first logits of a max-pooled network saturate the softmax.
        logits_NK: Tensor = 0.125 * self.head(self.layers(self.whitening(images_NCHW)))
        return logits_NK


class Residual9(nn.Module):
    """x + relu(conv(relu(conv(x)))): Page's block has its activation inside the branch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _conv_norm(width, width, kernel=3), nn.ReLU(inplace=True),
            _conv_norm(width, width, kernel=3), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return x_NCHW + self.branch(x_NCHW)  # type: ignore[no-any-return]


class Whitening(nn.Module):
    """A fixed convolution whose outputs on patches of the training images are uncorrelated.

    The weight is a buffer (no gradient, equal on every rank); until `fit`, each filter picks one input.
    """

    weight: Tensor

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        size = channels * kernel * kernel
        self.register_buffer("weight", torch.eye(size).reshape(size, channels, kernel, kernel))

    @torch.no_grad()
    def fit(self, images_NCHW: Tensor, floor: float = 1e-2) -> None:
        """Set the weight from the patch covariance of normalised images; `floor` is added to its eigenvalues."""
        size, channels, kernel, _ = self.weight.shape
        patches = functional.unfold(images_NCHW.float(), kernel).transpose(1, 2).reshape(-1, size).double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        # An eigenvector's sign is the library's choice; fix it, so that a run is the same everywhere.
        vectors = vectors * torch.where(vectors.sum(0) < 0, -1.0, 1.0)
        filters = (vectors / (values + floor).sqrt()).T
        self.weight.copy_(filters.reshape(size, channels, kernel, kernel))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return functional.conv2d(images_NCHW, self.weight, padding=self.weight.shape[-1] // 2)


def _conv_norm(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))
