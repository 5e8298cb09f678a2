"""Recommendation: generated drifting tastes (mini), MovieLens (standard), clicks (full). The card is README.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.recommendation.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class Recommendation:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library.

    metric: of mini and standard; the rules have another one for full.
    """

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        if suite == "full":
            from workloads.recommendation import full_data

            full_data.prepare(data_dir, source)
        else:
            from workloads.recommendation import data

            data.prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        if config.suite == "full":
            from workloads.recommendation.full_workload import FullSession

            return FullSession(config)
        from workloads.recommendation.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        if suite == "full":
            from workloads.recommendation.full_evaluation import AreaUnderCurve

            return AreaUnderCurve(data_dir, labels_dir)
        from workloads.recommendation.evaluation import HitRate

        return HitRate(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """The metric of solutions that train no network."""
        if suite == "full":
            from workloads.recommendation import full_baselines

            return full_baselines.baselines(data_dir, labels_dir)
        from workloads.recommendation.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = Recommendation(
    name=NAME,
    metric=Metric("hit_rate_at_10", "fraction", "max"),
    labels=("test_items.npy", "test_clicks.npy"),
    libraries=("sklearn",),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "ddp_bucket_mb"),
        "standard": ("compile", "cuda_graphs", "fused_optimizer", "ddp_bucket_mb"),
        "full": ("compile", "ddp_bucket_mb", "accumulation_steps", "loader_workers", "loader_prefetch"),
    },
)

__all__ = ["WORKLOAD"]
