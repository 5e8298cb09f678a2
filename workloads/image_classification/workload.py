"""Image classification: SGD on a residual network until top-1 accuracy on the test set is good enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N images, H rows, W columns, C channels, K classes; a batch is this rank's share.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, UsageError, unknown_name
from harness.workload import Arrays, Block, RunConfig
from workloads import checkpoint
from workloads.image_classification.recipe import NAME, Recipe

if TYPE_CHECKING:
    from torch import Tensor

SUITES = ("mini", "standard")
EVAL_BATCH = {"mini": 252, "standard": 2000}  # images at once; without gradients memory is not a concern
NUM_WHITENING_IMAGES = 5000


class TrainingSession:
    """One run. Every rank holds all the data, draws the same epochs, and computes its share of each batch."""

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid suite or hyperparameter, DataError for incomplete metadata."""
        if config.suite not in SUITES:
            raise UsageError(unknown_name(f"suite of {NAME}", config.suite, SUITES))
        self.config = config
        self.recipe = Recipe.parse(config.hyperparameters, "build_optimizer" in config.parts)
        batch = self.recipe.global_batch_size
        if batch % config.num_devices:
            raise UsageError(f"{NAME}: global_batch_size {batch} cannot be shared by {config.num_devices} devices")
        metadata: Mapping[str, Any] = config.metadata
        for key in ("image_shape", "num_classes", "channel_mean", "channel_std", "num_train", "num_test"):
            if key not in metadata:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self._check_fits(int(metadata["num_train"]))
        height, width, channels = (int(n) for n in metadata["image_shape"])
        self.image_shape = (height, width, channels)
        self.num_classes = int(metadata["num_classes"])
        if self.recipe.data_translation >= min(height, width):
            raise UsageError(f"{NAME}: data_translation must be smaller than the image's {min(height, width)} pixels")

    def _check_fits(self, num_train: int) -> None:
        batch = self.recipe.global_batch_size
        if batch > num_train:
            raise UsageError(f"{NAME}: global_batch_size {batch} is larger than the training set of {num_train}")

    def prepare(self) -> None:
        """Build and warm up.

        Raises:
            UsageError: the number of processes started is not the number of devices declared.
        """
        import torch

        from workloads.execution import Execution
        from workloads.image_classification.model import build_model, build_optimizer

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        torch.backends.cudnn.benchmark = True  # every shape of a run occurs in the warm-up
        recipe = self.recipe
        parts = self.config.parts
        self.build_model = partial(
            parts.get("build_model", build_model), self.config.suite, self.image_shape, self.num_classes
        )
        self.is_channels_last = self.execution.options["channels_last"]
        optimizer = parts.get("build_optimizer", build_optimizer)
        self.learning_rate = parts.get("learning_rate", Recipe.learning_rate)
        self.model, self.network = self.execution.wrap(self.build_model(), optimizer, recipe)
        self.mean_C = torch.tensor(self.config.metadata["channel_mean"], device=self.device, dtype=torch.float32)
        self.std_C = torch.tensor(self.config.metadata["channel_std"], device=self.device, dtype=torch.float32)
        self._warm_up()

    def _warm_up(self) -> None:
        """Run every shape of training and evaluation on noise."""
        import torch

        from workloads.execution import batch_sizes

        share = self.recipe.global_batch_size // self.num_ranks
        images_NHWC = torch.randint(0, 256, (share, *self.image_shape), dtype=torch.uint8).to(self.device)
        labels_N = torch.randint(0, self.num_classes, (share,)).to(self.device)
        self.execution.warm_up(self._loss, [[(self._normalised(images_NHWC), labels_N)]])
        num_test = int(str(self.config.metadata["num_test"]))
        for size in batch_sizes(num_test, EVAL_BATCH[self.config.suite], self.rank, self.num_ranks):
            self._classes(torch.zeros((size, *self.image_shape), dtype=torch.uint8, device=self.device))

    def initialise(self) -> None:
        """Draw the weights, and return optimizer, scaler and generator to where they begin."""
        import torch

        self.execution.restart(self.build_model().state_dict())
        # Permutations, shifts and coin flips come from this generator alone, so every rank draws the same ones.
        self.draws = torch.Generator().manual_seed(self.config.seed)
        self.step = 0

    def weights(self) -> Mapping[str, Tensor]:
        """The network's parameters and buffers."""
        weights: Mapping[str, Tensor] = self.network.state_dict()
        return weights

    def evaluated_weights(self) -> Mapping[str, Tensor]:
        """Those of `weights`: they are evaluated as they are trained."""
        return self.weights()

    def start(self, data_dir: Path) -> None:
        """Read both splits onto the device.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says.
            UsageError: the training set is smaller than one global batch.
        """
        import torch

        from workloads.image_classification.data import read_images, read_split

        (images, labels), test_images = read_split(data_dir, "train"), read_images(data_dir, "test")
        if not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise DataError(
                f"{data_dir}/train_labels.npy: labels {labels.min()} to {labels.max()}; metadata.json says "
                f"{self.num_classes} classes"
            )
        for split, shape in (("train", images.shape[1:]), ("test", test_images.shape[1:])):
            if shape != self.image_shape:
                raise DataError(
                    f"{data_dir}/{split}_images.npy: images of {shape}; metadata.json says {self.image_shape}"
                )
        self.train_images_NHWC = torch.from_numpy(images).to(self.device)
        self.train_labels_N = torch.from_numpy(labels).to(self.device)
        # Each rank takes every num_ranks-th test image: no padding, so no image is classified twice.
        self.num_test = len(test_images)
        self.test_images_NHWC = torch.from_numpy(test_images[self.rank :: self.num_ranks]).to(self.device)
        self.num_train = len(self.train_labels_N)
        self._check_fits(self.num_train)
        whitening = getattr(self.network, "whitening", None)
        if whitening is not None:
            whitening.fit(self._normalised(self.train_images_NHWC[:NUM_WHITENING_IMAGES]))
        self.coins_N = torch.randint(0, 2, (self.num_train,), generator=self.draws)
        self.epoch = -1
        self._new_epoch()

    def _new_epoch(self) -> None:
        """Draw the order, shifts and flips of all training images; those that do not fill a last batch are dropped."""
        import torch

        shift = self.recipe.data_translation
        self.epoch += 1
        self.cursor = 0
        self.order_N = torch.randperm(self.num_train, generator=self.draws).to(self.device)
        self.shifts_N2 = torch.randint(-shift, shift + 1, (self.num_train, 2), generator=self.draws).to(self.device)
        # Alternating flip (Jordan 2024, arXiv:2404.00498): a coin flip in the first epoch, then alternating.
        self.flips_N = ((self.coins_N + self.epoch) % 2 == 1).to(self.device)

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        """This rank's share of the next global batch: augmented images_NCHW, labels_N."""
        import torch

        batch = self.recipe.global_batch_size
        if self.cursor + batch > self.num_train:
            self._new_epoch()
        share = batch // self.num_ranks
        first = self.cursor + self.rank * share
        self.cursor += batch
        chosen_N = self.order_N[first : first + share]
        shifts_N2 = self.shifts_N2[first : first + share]
        height, width, _ = self.image_shape
        rows_NH = _mirrored(torch.arange(height, device=self.device) + shifts_N2[:, :1], height)
        columns_NW = _mirrored(torch.arange(width, device=self.device) + shifts_N2[:, 1:], width)
        if self.recipe.data_flip:
            columns_NW = torch.where(self.flips_N[chosen_N][:, None], width - 1 - columns_NW, columns_NW)
        # One gather does selection, shift and flip.
        images_NHWC = self.train_images_NHWC[chosen_N[:, None, None], rows_NH[:, :, None], columns_NW[:, None, :]]
        return self._normalised(images_NHWC), self.train_labels_N[chosen_N]

    def _normalised(self, images_NHWC: Tensor) -> Tensor:
        """uint8 NHWC to float NCHW of mean 0 and standard deviation 1; the permuted view is already channels-last."""
        images_NCHW = ((images_NHWC.float() - self.mean_C) / self.std_C).permute(0, 3, 1, 2)
        return images_NCHW if self.is_channels_last else images_NCHW.contiguous()

    def _loss(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """The mean loss of this rank's share of a batch."""
        from torch.nn import functional

        smoothing = self.recipe.label_smoothing
        return functional.cross_entropy(self.model(images_NCHW), labels_N, label_smoothing=smoothing)

    def train_block(self, num_samples: int) -> Block:
        """Train on whole global batches until `num_samples` are consumed; wait for the device once, at the end."""
        import torch

        steps = -(-num_samples // self.recipe.global_batch_size)
        total_loss = torch.zeros((), device=self.device)
        data_wait_s = 0.0
        self.model.train()
        for _ in range(steps):
            waiting_since = perf_counter()
            batch = self._next_batch()
            data_wait_s += perf_counter() - waiting_since
            total_loss += self.execution.step(self._loss, [batch], self.learning_rate(self.recipe, self.step))
            self.step += 1
        mean_loss = self.accelerator.reduce(total_loss, reduction="mean").item() / max(steps, 1)
        return Block(steps * self.recipe.global_batch_size, mean_loss, data_wait_s)

    def predict(self, inputs: Arrays) -> Arrays:
        """`classes` (N,) int32: the likeliest class of every test image, gathered from all ranks."""
        import numpy as np
        from accelerate.utils import gather_object

        self.execution.average_statistics()
        classes_N = np.empty(self.num_test, np.int32)
        for rank, own_N in enumerate(gather_object([self._classes(self.test_images_NHWC).cpu().numpy()])):
            classes_N[rank :: self.num_ranks] = own_N
        return {"classes": classes_N}

    def _classes(self, images_NHWC: Tensor) -> Tensor:
        """The likeliest class of each image: int64 (N,), on the device; `standard` looks at six views of each."""
        import torch

        from workloads.image_classification.model import logits_of_views

        size = EVAL_BATCH[self.config.suite]
        logits = self.network if self.config.suite == "mini" else partial(logits_of_views, self.network)
        self.network.eval()
        with torch.inference_mode():
            parts = [
                logits(self._normalised(images_NHWC[first : first + size])).argmax(1)
                for first in range(0, len(images_NHWC), size)
            ]
            classes_N = torch.cat(parts)
        self.network.train()
        return classes_N

    def save(self, folder: Path) -> None:
        """Keep network, optimizer, scaler and generator, and the place in the epoch."""
        checkpoint.save(self, folder, ("epoch", "cursor", "coins_N", "order_N", "shifts_N2", "flips_N"))

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        checkpoint.load(self, folder)

    def close(self) -> None:
        """Release the network and the data."""
        if hasattr(self, "execution"):
            self.execution.close()
        self.__dict__.clear()


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Indices outside 0..size-1 reflected at the border: -1 reads 1, size reads size - 2."""
    return (size - 1) - ((size - 1) - index.abs()).abs()
