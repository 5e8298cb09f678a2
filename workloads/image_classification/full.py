"""The full suite of image classification: LARS on ResNet-50 until top-1 accuracy on ImageNet's validation set.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N images, H rows, W columns, C channels, K classes; a microbatch is one group of batch normalisation,
or a device's part of one.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.workload import Arrays, RunConfig
from workloads.image_classification.full_recipe import FullRecipe
from workloads.image_classification.imagenet import CHANNEL_MEAN, CHANNEL_STD
from workloads.image_classification.recipe import NAME
from workloads.streaming.session import StreamedSession

if TYPE_CHECKING:
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Order


class FullSession(StreamedSession[FullRecipe]):
    """One run. Every rank decodes its share of each batch, one microbatch after the other."""

    recipe_type = FullRecipe
    metadata_keys = ("num_classes",)
    eval_batch = 500  # images

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid hyperparameter or number of devices, DataError for incomplete metadata."""
        super().__init__(config)
        group = self.recipe.batch_norm_group
        if self.share % group and group % self.share:
            raise UsageError(
                f"{NAME}: global_batch_size {self.recipe.global_batch_size} cannot be shared by {config.num_devices} "
                f"devices so that each has whole groups of {group} or an equal part of one"
            )
        self.microbatch = min(group, self.share)
        self.num_microbatches = self.share // self.microbatch
        self.num_classes = int(self.metadata["num_classes"])

    def _build(self) -> None:
        import torch

        from workloads.image_classification.full_images import SIDE
        from workloads.image_classification.full_model import build_model, build_optimizer

        torch.backends.cudnn.benchmark = True  # every shape of a run occurs in the warm-up
        self.image_shape = (SIDE, SIDE, 3)
        self._wrap(build_model, (self.image_shape, self.num_classes), build_optimizer)
        self.mean_C = torch.tensor(CHANNEL_MEAN, device=self.device) * 255
        self.std_C = torch.tensor(CHANNEL_STD, device=self.device) * 255

    def _warm_up(self) -> None:
        """Run the kernels of training and evaluation on noise, in every shape of this rank."""
        import torch

        from workloads.execution import batch_sizes

        def noise(num_images: int) -> Tensor:
            return torch.randint(0, 256, (num_images, *self.image_shape), dtype=torch.uint8).to(self.device)

        labels_N = torch.randint(0, self.num_classes, (self.microbatch,)).to(self.device)
        self.execution.warm_up(self._loss, [[(noise(self.microbatch), labels_N)] * min(2, self.num_microbatches)])
        for size in batch_sizes(self.num_test, self.eval_batch, self.rank, self.num_ranks):
            self._classes([noise(size)])

    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """The examples for training are shuffled."""
        from workloads.image_classification.full_images import load_test, load_training
        from workloads.streaming import loader
        from workloads.streaming.order import shuffled

        train = loader.Examples(data_dir / "train", load_training)
        order = shuffled(len(train), self.recipe.global_batch_size, self.config.seed)
        return train, order, loader.Examples(data_dir / "test", load_test)

    def _normalised(self, images_NHWC: Tensor) -> Tensor:
        """uint8 NHWC to float NCHW of mean 0 and standard deviation 1; the permuted view is already channels-last."""
        images_NCHW = ((images_NHWC.float() - self.mean_C) / self.std_C).permute(0, 3, 1, 2)
        return images_NCHW if self.execution.options["channels_last"] else images_NCHW.contiguous()

    def _loss(self, images_NHWC: Tensor, labels_N: Tensor) -> Tensor:
        """This microbatch's part of the mean loss of this rank's share of a batch."""
        from torch.nn import functional

        logits_NK = self.model(self._normalised(images_NHWC))
        mean = functional.cross_entropy(logits_NK, labels_N, label_smoothing=self.recipe.label_smoothing)
        loss: Tensor = mean / self.num_microbatches
        return loss

    def predict(self, inputs: Arrays) -> Arrays:
        """`classes` (N,) int32: the likeliest class of every test image, gathered from all ranks."""
        import numpy as np

        self.execution.average_statistics()
        return {"classes": self._gathered(self._classes(self.testing)).astype(np.int32)}

    def _classes(self, batches: Any) -> Any:
        """The likeliest class of each image in the batches images_NHWC, as a numpy array."""
        import torch

        with self._evaluating():
            classes = [self.network(self._normalised(images_NHWC)).argmax(1) for images_NHWC in batches]
        return torch.cat([torch.zeros(0, dtype=torch.int64, device=self.device), *classes]).cpu().numpy()
