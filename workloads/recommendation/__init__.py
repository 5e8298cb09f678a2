"""Recommendation: generated drifting tastes (mini), MovieLens (standard). The card is README.md."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.recommendation.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class Recommendation:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: tuple[str, ...]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.recommendation.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        from workloads.recommendation.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.recommendation.evaluation import HitRate

        return HitRate(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Hit rate of solutions that train no network."""
        from workloads.recommendation.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Recommendation(
    name=NAME,
    metric=Metric("hit_rate_at_10", "fraction", "max"),
    labels=("test_items.npy",),
    libraries=("sklearn",),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution=("compile", "ddp_bucket_mb"),
)

__all__ = ["WORKLOAD"]
