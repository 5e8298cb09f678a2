"""Detection at full size: RetinaNet on COCO 2017, whose images are read and decoded while training.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N images, H rows, W columns, C channels, M places for objects, D detections; a batch is a part of
this rank's share.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, printable
from harness.workload import Arrays
from workloads.detection.recipe import FullRecipe
from workloads.streaming.session import StreamedSession

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Order


class FullSession(StreamedSession[FullRecipe]):
    """One run. A rank holds the batches that are being made, and nothing else of the data."""

    recipe_type = FullRecipe
    metadata_keys = ("classes",)
    eval_batch = 8  # images; the last batch of a kind is filled up

    def _build(self) -> None:
        import torch

        from workloads.detection import full_data  # noqa: F401  (loaded before the clock starts)
        from workloads.detection.full_images import MEAN, STD
        from workloads.detection.full_model import NUM_CLASSES, build_model, build_optimizer

        torch.backends.cudnn.benchmark = True  # every shape of a run occurs in the warm-up
        self._wrap(build_model, ((0, 0, 3), NUM_CLASSES, self.recipe), build_optimizer)
        self.is_channels_last = bool(self.execution.options["channels_last"])
        self.mean_C, self.std_C = (255 * torch.tensor(values, device=self.device) for values in (MEAN, STD))
        self.microbatch = -(-self.share // self.execution.num_parts)

    def _warm_up(self) -> None:
        """Run every shape of training and evaluation on noise."""
        import torch

        from workloads.detection.full_images import NUM_KINDS, shape
        from workloads.execution import batch_sizes

        for kind in range(NUM_KINDS):
            height, width = shape(kind, self.recipe.data_min_side, self.recipe.data_max_side)
            for size in batch_sizes(self.share, self.microbatch):
                images_NHWC = torch.randint(0, 256, (size, height, width, 3), dtype=torch.uint8).to(self.device)
                boxes_NM4 = torch.tensor([0.0, 0.0, width, height], device=self.device).expand(size, 1, 4)
                labels_NM = torch.ones(size, 1, dtype=torch.int64, device=self.device)
                self._step([(images_NHWC, boxes_NM4, labels_NM)], 0.0)
            images_NHWC = torch.zeros((self.eval_batch, height, width, 3), dtype=torch.uint8, device=self.device)
            sizes_N4 = torch.tensor([[height, width, height, width]] * self.eval_batch)
            self._detected(images_NHWC, sizes_N4)

    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """Images of one kind make a batch; the backbone's weights are loaded into the network, too."""
        import pickle

        import torch

        from workloads.detection.full_data import BACKBONE_FILE
        from workloads.detection.full_images import grouped, kinds, load_test, load_training
        from workloads.detection.full_model import load_backbone
        from workloads.streaming import loader, shards

        path = data_dir / BACKBONE_FILE
        try:
            load_backbone(self.network, torch.load(path, map_location="cpu", weights_only=True))
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise DataError(f"{path}: not the weights of this backbone: {printable(error)}") from None
        recipe = self.recipe
        sides = (recipe.data_min_side, recipe.data_max_side)
        table = shards.read(data_dir / "train").data
        kinds_N = kinds(*(table.column(side).to_numpy().astype("int64") for side in ("height", "width")))
        return (
            loader.Examples(data_dir / "train", partial(load_training, sides=sides, does_flip=recipe.data_flip)),
            grouped(kinds_N, recipe.global_batch_size, self.config.seed),
            loader.Examples(data_dir / "test", partial(load_test, sides=sides, batch_size=self.eval_batch)),
        )

    def _normalised(self, images_NHWC: Tensor) -> Tensor:
        """uint8 NHWC to float NCHW as the backbone was trained with; the permuted view is already channels-last."""
        images_NCHW = ((images_NHWC.float() - self.mean_C) / self.std_C).permute(0, 3, 1, 2)
        return images_NCHW if self.is_channels_last else images_NCHW.contiguous()

    def _loss(self, images_NHWC: Tensor, boxes_NM4: Tensor, labels_NM: Tensor) -> Tensor:
        """This part's share of the mean loss of a global batch's images, times the number of ranks."""
        loss: Tensor = self.network.loss(self.model(self._normalised(images_NHWC)), boxes_NM4, labels_NM)[0]
        part: Tensor = loss * (self.num_ranks / self.recipe.global_batch_size)
        return part

    def predict(self, inputs: Arrays) -> Arrays:
        """`detections` (D, 7), float32: the rows of all test images, gathered from all ranks."""
        import numpy as np
        from accelerate.utils import gather_object

        found = [np.zeros((0, 7), np.float32)]
        image = self.rank
        for groups in self.testing:
            for images_NHWC, sizes_N4 in groups:
                for rows_D7 in self._detected(images_NHWC, sizes_N4):
                    rows_D7[:, 0] = image
                    found.append(rows_D7)
                    image += self.num_ranks
        return {"detections": np.concatenate(gather_object([np.concatenate(found)]))}

    def _detected(self, images_NHWC: Tensor, sizes_N4: Tensor) -> list[npt.NDArray[Any]]:
        """For each image with a size: (D, 7), float32.

        A row: room for the image's number, left, top, width, height in the pixels of the file, score, class.
        """
        import torch

        sizes = [(height, width, *file) for height, width, *file in sizes_N4.tolist() if height]
        with self._evaluating():
            outputs = self.network(self._normalised(images_NHWC))
            height, width = images_NHWC.shape[1:3]
            found = self.network.detect(outputs, (height, width), [size[:2] for size in sizes])
        rows = []
        for each, (height, width, file_height, file_width) in zip(found, sizes, strict=False):
            boxes_D4 = each["boxes"].float() * torch.tensor(
                [file_width / width, file_height / height] * 2, device=self.device
            )
            parts = [boxes_D4[:, :2], boxes_D4[:, 2:] - boxes_D4[:, :2]]
            parts += [each[name].float()[:, None] for name in ("scores", "labels")]
            rows_D7 = torch.cat([torch.zeros_like(parts[-1]), *parts], 1).cpu().numpy()
            rows.append(rows_D7[abs(rows_D7).max(1, initial=0) < float("inf")])
        return rows
