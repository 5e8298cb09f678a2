"""Translation, English to German: dates and amounts (mini), Multi30k (standard), WMT17 (full). See README.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.translation.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class Translation:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        if suite == "full":
            from workloads.translation import wmt

            wmt.prepare(data_dir, source)
        else:
            from workloads.translation.data import prepare

            prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        if config.suite == "full":
            from workloads.translation.full import FullSession

            return FullSession(config)
        from workloads.translation.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.translation.evaluation import Bleu, FullBleu

        if suite == "full":
            return FullBleu(labels_dir)
        return Bleu(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Test BLEU of solutions that train no network."""
        if suite == "full":
            from workloads.translation import wmt

            return wmt.baselines(data_dir, labels_dir)
        from workloads.translation.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Translation(
    name=NAME,
    metric=Metric("bleu", "BLEU", "max"),
    labels=("test.de", "test_targets.npy"),
    libraries=("transformers", "sacrebleu", "babel", "num2words", "datasets", "tokenizers"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "ddp_bucket_mb"),
        "standard": ("compile", "cuda_graphs", "fused_optimizer", "ddp_bucket_mb"),
        "full": ("ddp_bucket_mb", "accumulation_steps", "loader_workers", "loader_prefetch"),
    },
)

__all__ = ["WORKLOAD"]
