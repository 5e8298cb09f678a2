"""Image classification: digits in clutter (mini), CIFAR-10 (standard), ImageNet (full). The card is README.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.image_classification.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class ImageClassification:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        if suite == "full":
            from workloads.image_classification import imagenet

            imagenet.prepare(data_dir, source)
        else:
            from workloads.image_classification.data import prepare

            prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        if config.suite == "full":
            from workloads.image_classification.full import FullSession

            return FullSession(config)
        from workloads.image_classification.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.image_classification.evaluation import Accuracy

        return Accuracy(labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Test accuracy of solutions that train no network."""
        if suite == "full":
            from workloads.image_classification import imagenet

            return imagenet.baselines(labels_dir)
        from workloads.image_classification.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = ImageClassification(
    name=NAME,
    metric=Metric("top1_accuracy", "fraction", "max"),
    labels=("test_labels.npy",),
    libraries=("sklearn", "torchvision", "datasets", "PIL"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "channels_last", "ddp_bucket_mb"),
        "standard": ("compile", "channels_last", "cuda_graphs", "fused_optimizer", "ddp_bucket_mb"),
        "full": ("compile", "channels_last", "ddp_bucket_mb", "loader_workers", "loader_prefetch"),
    },
)

__all__ = ["WORKLOAD"]
