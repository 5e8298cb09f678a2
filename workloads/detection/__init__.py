"""Detection: digits in scenes (mini), blood cells (standard), COCO 2017 (full). The card is README.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.detection.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        if config.suite == "full":
            from workloads.detection.full_workload import FullSession

            return FullSession(config)
        from workloads.detection.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        if suite == "full":
            from workloads.detection.full_evaluation import FullMeanAveragePrecision

            return FullMeanAveragePrecision(data_dir, labels_dir)
        from workloads.detection.evaluation import MeanAveragePrecision

        return MeanAveragePrecision(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Test mAP of solutions that train no network."""
        if suite == "full":
            return {"nothing_detected": 0.0}
        from workloads.detection.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Detection(
    name=NAME,
    metric=Metric("map", "fraction", "max"),
    labels=("test_boxes.npy", "test_labels.npy"),
    libraries=("sklearn", "torchvision", "faster_coco_eval", "PIL", "datasets", "pyarrow"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "channels_last", "ddp_bucket_mb"),
        "standard": ("compile", "channels_last", "cuda_graphs", "ddp_bucket_mb"),
        "full": (
            "compile",
            "channels_last",
            "fused_optimizer",
            "ddp_bucket_mb",
            "accumulation_steps",
            "loader_workers",
            "loader_prefetch",
        ),
    },
)

__all__ = ["WORKLOAD"]
