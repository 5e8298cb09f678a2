"""Speech recognition: spoken commands (mini), digit strings (standard), LibriSpeech (full). The card is README.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.speech_recognition.recipe import NAME


@dataclasses.dataclass(frozen=True, slots=True)
class SpeechRecognition:
    """The workload as the referee and the data command see it; importing it loads no machine-learning library."""

    name: str
    metric: Metric
    labels: tuple[str, ...]
    libraries: tuple[str, ...]
    parts: tuple[str, ...]
    execution: Mapping[str, tuple[str, ...]]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.speech_recognition.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        if config.suite == "full":
            from workloads.speech_recognition.full_workload import FullSession

            return FullSession(config)
        from workloads.speech_recognition.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        if suite == "full":
            from workloads.speech_recognition.full_evaluation import FullWordErrorRate

            return FullWordErrorRate(data_dir, labels_dir)
        from workloads.speech_recognition.evaluation import WordErrorRate

        return WordErrorRate(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Word error rate on the test set of solutions that train no network."""
        if suite == "full":
            return {"nothing_said": 1.0}
        from workloads.speech_recognition.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = SpeechRecognition(
    name=NAME,
    metric=Metric("word_error_rate", "fraction", "min"),
    labels=("test_words.npy",),
    libraries=("espeakng_loader", "sklearn", "torchaudio", "datasets", "pyarrow"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution={
        "mini": ("compile", "ddp_bucket_mb"),
        "standard": ("compile", "fused_optimizer", "ddp_bucket_mb"),
        "full": (
            "compile",
            "fused_optimizer",
            "ddp_bucket_mb",
            "accumulation_steps",
            "loader_workers",
            "loader_prefetch",
        ),
    },
)

__all__ = ["WORKLOAD"]
