"""Stands in for `workloads/toy` of a tree of its own: 300 examples to train on, 50 to test, read by worker processes.

Where the hyperparameter `fault` is `killed`, no block is good enough, and a worker process is killed in the second.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.workload import Arrays, Block, Metric, Quality, RunConfig

BATCH, NUM_TRAIN, NUM_TEST = 100, 300, 50


def read_part(part: range) -> Iterator[dict[str, Any]]:
    for index in part:
        yield {"index": index, "data": bytes([index % 256]) * 10_000}


def load(rows: Any, seeds: Any) -> Any:
    """The index of each example if its data are right, the seeds, and the process that made the batch."""
    import torch

    indices = [
        index if data == bytes([index % 256]) * 10_000 else -1
        for index, data in zip(rows["index"].to_pylist(), rows["data"].to_pylist(), strict=True)
    ]
    return torch.tensor(indices), torch.from_numpy(seeds), torch.tensor(os.getpid())


class Session:
    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def prepare(self) -> None:
        import torch
        from accelerate import PartialState

        from workloads.streaming import loader

        state = PartialState(cpu=True)
        self.place = loader.Place(state.process_index, state.num_processes, torch.device("cpu"), num_workers=2)

    def initialise(self) -> None:
        self.step = 0
        self.makers: set[int] = set()

    def weights(self) -> Mapping[str, Any]:
        import torch

        return {"weights": torch.zeros(1)}

    def start(self, data_dir: Path) -> None:
        from workloads.streaming import loader, order

        examples = loader.Examples(data_dir / "train", load)
        self.order = order.shuffled(len(examples), BATCH, self.config.seed)
        self.training = loader.TrainingLoader(examples, self.order, self.config.seed, self.place, microbatch=7)
        self.testing = loader.EvaluationLoader(loader.Examples(data_dir / "test", load), 8, self.place)

    def train_block(self, num_samples: int) -> Block:
        from workloads.streaming.order import seeds, share

        if self.step == 1 and self.config.hyperparameters["fault"] == "killed":
            os.kill(min(self.makers), signal.SIGKILL)
        for _ in range(num_samples // BATCH):
            epoch, number = self.training.position
            expected = share(self.order(epoch)[number], self.place.rank, self.place.num_ranks)
            pieces = list(self.training.next_batch())
            assert np.concatenate([indices for indices, _, _ in pieces]).tolist() == expected.tolist()
            drawn = np.concatenate([numbers for _, numbers, _ in pieces])
            assert drawn.tolist() == seeds(self.config.seed, epoch, expected).tolist()
            self.makers |= {int(maker) for _, _, maker in pieces}
            self.step += 1
        assert os.getpid() not in self.makers
        assert len(self.makers) == 2
        return Block(num_samples, 0.5, self.training.waited_s())

    def predict(self, inputs: Arrays) -> Arrays:
        from accelerate.utils import gather_object

        found = np.zeros(NUM_TEST, np.int32)
        for rank, own in enumerate(gather_object([np.concatenate([batch[0] for batch in self.testing]).tolist()])):
            found[rank :: self.place.num_ranks] = own
        is_good = self.step and self.config.hyperparameters["fault"] == "none"
        return {"found": found if is_good else np.zeros(NUM_TEST, np.int32)}

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    def load(self, folder: Path) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if hasattr(self, "training"):
            self.training.close()
            self.testing.close()


class Evaluator:
    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        return Quality(float(np.mean(predict({})["found"] == np.arange(NUM_TEST))), NUM_TEST)


class Streamed:
    name = "toy"
    metric = Metric("accuracy", "fraction", "max")
    labels = ("labels.txt",)
    libraries = ("datasets",)
    parts = ()
    execution: Mapping[str, tuple[str, ...]] = {}

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        import datasets

        from workloads.streaming.shards import Shards

        features = datasets.Features({"index": datasets.Value("int32"), "data": datasets.Value("binary")})
        with Shards(data_dir, num_processes=1) as shards:
            for split, number in (("train", NUM_TRAIN), ("test", NUM_TEST)):
                shards.write(split, features, [range(first, first + 10) for first in range(0, number, 10)], read_part)
        (data_dir / "metadata.json").write_text("{}")
        (data_dir / "labels.txt").write_text("secret")

    def open(self, config: RunConfig) -> Session:
        return Session(config)

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        return Evaluator()

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        return {}


WORKLOAD = Streamed()
