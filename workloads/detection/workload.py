"""Detection: one stage of FCOS until the COCO mAP on the test set is good enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N images, H rows, W columns, C channels, M places for objects, D detections; a batch is this
rank's share.
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
from workloads.detection.recipe import NAME, Recipe

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

SUITES = ("mini", "standard")
EVAL_BATCH = {"mini": 40, "standard": 12}  # images at once


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
        keys = ("image_shape", "classes", "channel_mean", "channel_std", "num_train", "num_test", "max_objects_train")
        for key in keys:
            if key not in metadata:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self._check_fits(int(metadata["num_train"]))
        height, width, channels = (int(n) for n in metadata["image_shape"])
        self.image_shape = (height, width, channels)
        self.num_classes = len(metadata["classes"])

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

        from workloads.detection import data  # noqa: F401  (loaded before the clock starts)
        from workloads.detection.model import build_model
        from workloads.detection.muon import build_optimizer
        from workloads.execution import Execution

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        torch.backends.cudnn.benchmark = True  # every shape of a run occurs in the warm-up
        recipe = self.recipe
        parts = self.config.parts
        self.build_model = partial(
            parts.get("build_model", build_model), self.config.suite, self.image_shape, self.num_classes, recipe
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
        places = int(str(self.config.metadata["max_objects_train"]))
        height, width, _ = self.image_shape
        images_NHWC = torch.randint(0, 256, (share, *self.image_shape), dtype=torch.uint8).to(self.device)
        labels_NM = torch.zeros(share, places, dtype=torch.int64, device=self.device)
        boxes_NM4 = torch.tensor([0.0, 0.0, width, height], device=self.device).expand(share, places, 4)
        self.execution.warm_up(self._loss, [[(self._normalised(images_NHWC), boxes_NM4, labels_NM)]])
        num_test = int(str(self.config.metadata["num_test"]))
        for size in batch_sizes(num_test, EVAL_BATCH[self.config.suite], self.rank, self.num_ranks):
            self._detections(torch.zeros((size, *self.image_shape), dtype=torch.uint8, device=self.device))

    def initialise(self) -> None:
        """Draw the weights, and return optimizer, scaler and generator to where they begin."""
        import torch

        self.execution.restart(self.build_model().state_dict())
        # Permutations and coin flips come from this generator alone, so every rank draws the same ones.
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

        from workloads.detection.data import read_images, read_split

        (images, boxes, labels), test_images = read_split(data_dir, "train"), read_images(data_dir, "test")
        if not -1 <= labels.min() <= labels.max() < self.num_classes:
            raise DataError(
                f"{data_dir}/train_labels.npy: labels {labels.min()} to {labels.max()}; metadata.json says "
                f"{self.num_classes} classes"
            )
        for split, shape in (("train", images.shape[1:]), ("test", test_images.shape[1:])):
            if shape != self.image_shape:
                raise DataError(
                    f"{data_dir}/{split}_images.npy: images of {shape}; metadata.json says {self.image_shape}"
                )
        self.images_NHWC, self.boxes_NM4, self.labels_NM = (
            torch.from_numpy(array).to(self.device) for array in (images, boxes, labels)
        )
        # Each rank takes every num_ranks-th test image: no padding, so no image is counted twice.
        self.test_images_NHWC = torch.from_numpy(test_images[self.rank :: self.num_ranks]).to(self.device)
        self.num_train = len(labels)
        self._check_fits(self.num_train)
        self._new_epoch()

    def _new_epoch(self) -> None:
        """Draw the order and flips of all training images; those that do not fill a last batch are dropped."""
        import torch

        self.cursor = 0
        self.order_N = torch.randperm(self.num_train, generator=self.draws).to(self.device)
        if self.recipe.data_flip:
            self.flips_2N = torch.randint(0, 2, (2, self.num_train), generator=self.draws).bool().to(self.device)

    def _next_batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """This rank's share of the next global batch: images_NCHW, boxes_NM4, labels_NM."""
        from workloads.detection.boxes import flipped

        batch = self.recipe.global_batch_size
        if self.cursor + batch > self.num_train:
            self._new_epoch()
        share = batch // self.num_ranks
        first = self.cursor + self.rank * share
        self.cursor += batch
        chosen_N = self.order_N[first : first + share]
        images_NHWC, boxes_NM4 = self.images_NHWC[chosen_N], self.boxes_NM4[chosen_N]
        if self.recipe.data_flip:
            down_N, across_N = self.flips_2N[:, first : first + share]
            images_NHWC, boxes_NM4 = flipped(images_NHWC, boxes_NM4, across_N, axis=2)
            images_NHWC, boxes_NM4 = flipped(images_NHWC, boxes_NM4, down_N, axis=1)
        return self._normalised(images_NHWC), boxes_NM4, self.labels_NM[chosen_N]

    def _normalised(self, images_NHWC: Tensor) -> Tensor:
        """uint8 NHWC to float NCHW of mean 0 and standard deviation 1; the permuted view is already channels-last."""
        images_NCHW = ((images_NHWC.float() - self.mean_C) / self.std_C).permute(0, 3, 1, 2)
        return images_NCHW if self.is_channels_last else images_NCHW.contiguous()

    def _loss(self, images_NCHW: Tensor, boxes_NM4: Tensor, labels_NM: Tensor) -> Tensor:
        """This rank's part of the global loss times the number of ranks."""
        loss: Tensor
        loss, num_points = self.network.loss(self.model(images_NCHW), boxes_NM4, labels_NM)
        # The loss of a global batch is the mean over its points with an object, on whichever rank they are. DDP
        # averages gradients over ranks; multiplying by the number of ranks makes that a sum.
        num_points = self.accelerator.reduce(num_points, reduction="sum")
        loss = loss * self.num_ranks / num_points.clamp(min=1)
        return loss

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
        """`detections` (D, 7), float32: the rows of all test images, gathered from all ranks."""
        import numpy as np
        from accelerate.utils import gather_object

        self.execution.average_statistics()
        rows_D7 = self._detections(self.test_images_NHWC)
        rows_D7[:, 0] = rows_D7[:, 0] * self.num_ranks + self.rank
        return {"detections": np.concatenate(gather_object([rows_D7]))}

    def _detections(self, images_NHWC: Tensor) -> npt.NDArray[Any]:
        """Detections (D, 7), float32: image index, left, top, width, height, score, class; only finite rows."""
        import torch

        size = EVAL_BATCH[self.config.suite]
        parts = []
        self.network.eval()
        with torch.inference_mode(), self.accelerator.autocast():
            for first in range(0, len(images_NHWC), size):
                outputs = self.network(self._normalised(images_NHWC[first : first + size]))
                boxes_ND4, scores_ND, labels_ND = self.network.detect(outputs)
                images_ND = torch.arange(first, first + len(scores_ND), device=self.device)[:, None].expand_as(
                    scores_ND
                )
                sizes_ND2 = boxes_ND4[..., 2:] - boxes_ND4[..., :2]
                rows = [images_ND[..., None], boxes_ND4[..., :2], sizes_ND2, scores_ND[..., None], labels_ND[..., None]]
                parts.append(torch.cat([row.float() for row in rows], -1).flatten(0, 1))
        self.network.train()
        rows_D7 = torch.cat(parts).cpu().numpy()
        kept: npt.NDArray[Any] = rows_D7[(rows_D7[:, 5] > 0) & (abs(rows_D7) < float("inf")).all(1)]
        return kept

    def save(self, folder: Path) -> None:
        """Keep network, optimizer, scaler and generator, and the place in the epoch."""
        position = ("cursor", "order_N", *(["flips_2N"] if self.recipe.data_flip else []))
        checkpoint.save(self, folder, position)

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        checkpoint.load(self, folder)

    def close(self) -> None:
        """Release the network and the data."""
        if hasattr(self, "execution"):
            self.execution.close()
        self.__dict__.clear()
