"""Translation, English to German: dates and amounts in words (mini), Multi30k (standard). The card is README.md."""

from __future__ import annotations

import dataclasses
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
    execution: tuple[str, ...]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.translation.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        from workloads.translation.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.translation.evaluation import Bleu

        return Bleu(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Test BLEU of solutions that train no network."""
        from workloads.translation.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Translation(
    name=NAME,
    metric=Metric("bleu", "BLEU", "max"),
    labels=("test.de", "test_targets.npy"),
    libraries=("transformers", "sacrebleu", "babel", "num2words"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution=("compile", "ddp_bucket_mb"),
)

__all__ = ["WORKLOAD"]
