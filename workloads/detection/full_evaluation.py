"""The quality of the full suite: COCO's box AP on val2017."""

from __future__ import annotations

import json
from pathlib import Path

from harness.errors import DataError, printable
from workloads.detection.coco import TruthSet
from workloads.detection.evaluation import MeanAveragePrecision
from workloads.detection.full_data import read_truth


class FullMeanAveragePrecision(MeanAveragePrecision):
    """Compares `detections` (D, 7) with the objects of val2017; the boxes of crowds count neither way."""

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the labels are missing, damaged, or not what `metadata.json` says."""
        try:
            metadata = json.loads((data_dir / "metadata.json").read_bytes())
            categories, self._num_test = {int(number) for number in metadata["classes"]}, int(metadata["num_test"])
            self._num_classes = 1 + max(categories)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{data_dir}/metadata.json: cannot be used: {printable(error)}") from None
        boxes_NM4, labels_NM2 = read_truth(labels_dir)  # noqa: N806
        labels_NM, is_crowd_NM = labels_NM2[..., 0], labels_NM2[..., 1]  # noqa: N806
        if len(labels_NM) != self._num_test or not set(labels_NM.flat) - {-1} <= categories:
            raise DataError(
                f"{labels_dir}/test_labels.npy: {len(labels_NM)} images, or other categories; metadata.json says "
                f"{self._num_test} and {len(categories)} categories"
            )
        self._truth = TruthSet(boxes_NM4, labels_NM, self._num_classes, is_crowd_NM)
