"""Reinforcement learning: a pole swung up on a short track (mini), LunarLander-v3 (standard), Atari's Pong (full).

The card is README.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.reinforcement_learning.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class ReinforcementLearning:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.reinforcement_learning.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        from workloads.reinforcement_learning.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.reinforcement_learning.evaluation import MeanReturn

        return MeanReturn(suite, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Mean return over the test episodes of policies that are not trained."""
        from workloads.reinforcement_learning.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = ReinforcementLearning(
    name=NAME,
    metric=Metric("mean_return", "return", "max"),
    labels=("test_starts.npy",),
    libraries=("gymnasium",),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "ddp_bucket_mb"),
        "standard": ("compile", "fused_optimizer", "ddp_bucket_mb"),
        "full": ("compile", "channels_last", "fused_optimizer", "ddp_bucket_mb"),
    },
)

__all__ = ["WORKLOAD"]
