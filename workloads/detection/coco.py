"""The metric: COCO's mAP@[.50:.95] computed by faster-coco-eval from arrays, without files or output.

Dimension letters: N images, M places for objects, D detections, 4 edges of a box.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from typing import Any

import numpy as np
import numpy.typing as npt
from faster_coco_eval import COCO, COCOeval_faster

ANY_AREA = [[0.0, 1e10]]
MAX_DETECTIONS = 100  # of an image; COCO counts as many per class


class TruthSet:
    """The objects of a test set, against which detections are scored."""

    def __init__(
        self,
        boxes_NM4: npt.NDArray[Any],
        labels_NM: npt.NDArray[Any],
        num_classes: int,
        is_crowd_NM: npt.NDArray[Any] | None = None,
    ) -> None:
        """boxes: left, top, right, bottom; labels: -1 where there is no object.

        is_crowd: where a box is around several objects of its class; what is detected in it is neither right nor wrong.
        """
        if is_crowd_NM is None:
            is_crowd_NM = np.zeros_like(labels_NM)
        annotations: list[dict[str, Any]] = []
        for image, place in zip(*np.nonzero(labels_NM >= 0), strict=True):
            left, top, right, bottom = (float(edge) for edge in boxes_NM4[image, place])
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": int(image),
                    "category_id": int(labels_NM[image, place]),
                    "bbox": [left, top, right - left, bottom - top],
                    "area": (right - left) * (bottom - top),
                    "iscrowd": int(is_crowd_NM[image, place]),
                }
            )
        images = [{"id": image} for image in range(len(labels_NM))]
        categories = [{"id": label, "name": str(label)} for label in range(num_classes)]
        self.coco = COCO(
            {"images": images, "annotations": annotations, "categories": categories}, print_function=_quiet
        )

    def mean_average_precision(self, rows_D7: npt.NDArray[Any]) -> float:
        """Mean average precision at 101 recalls, over the classes that occur and IoU thresholds 0.50, 0.55, ... 0.95.

        rows: image index, left, top, width, height, score, class; at most 100 per image and class count.
        Without any detection the result is 0.0, since every precision is 0.
        """
        if len(rows_D7) == 0:
            return 0.0
        evaluation = COCOeval_faster(self.coco, self.coco.loadRes(rows_D7), "bbox", print_function=_quiet)
        # COCO's mAP is over objects of any size; its breakdown into small, medium and large is skipped.
        evaluation.params.areaRng, evaluation.params.areaRngLbl = ANY_AREA, ["all"]
        evaluation.params.maxDets = [MAX_DETECTIONS]
        evaluation.evaluate()
        evaluation.accumulate()
        precisions = evaluation.eval["precision"]
        return float(precisions[precisions > -1].mean())


def _quiet(*_: object, **__: object) -> None:
    """Discard the library's progress messages, which do not belong in a log."""
