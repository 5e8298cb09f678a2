"""Speech recognition: spoken commands and digits (mini), digit strings of FSDD (standard). The card is README.md."""

from __future__ import annotations

import dataclasses
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
    execution: tuple[str, ...]

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        from workloads.speech_recognition.data import prepare

        prepare(suite, data_dir, source)

    def open(self, config: RunConfig) -> Session:
        from workloads.speech_recognition.workload import TrainingSession

        return TrainingSession(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        from workloads.speech_recognition.evaluation import WordErrorRate

        return WordErrorRate(data_dir, labels_dir)

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Word error rate on the test set of solutions that train no network."""
        from workloads.speech_recognition.baselines import baselines

        return baselines(suite, data_dir, labels_dir)


WORKLOAD = SpeechRecognition(
    name=NAME,
    metric=Metric("word_error_rate", "fraction", "min"),
    labels=("test_words.npy",),
    libraries=("espeakng_loader", "sklearn", "torchaudio"),
    parts=("build_model", "build_optimizer", "learning_rate"),
    execution=("compile", "ddp_bucket_mb"),
)

__all__ = ["WORKLOAD"]
