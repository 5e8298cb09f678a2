"""Detection: digits in scenes (mini), blood cells (standard). The card is README.md."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.detection.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class Detection:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: tuple[str, ...]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.detection.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        from workloads.detection.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.detection.evaluation import MeanAveragePrecision

        return MeanAveragePrecision(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Test mAP of solutions that train no network."""
        from workloads.detection.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Detection(
    name=NAME,
    metric=Metric("map", "fraction", "max"),
    labels=("test_boxes.npy", "test_labels.npy"),
    libraries=("sklearn", "torchvision", "faster_coco_eval", "PIL"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution=("compile", "channels_last", "ddp_bucket_mb"),
)

__all__ = ["WORKLOAD"]
