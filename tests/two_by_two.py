"""A small real training for the toy's place: four ranks of one node and two times two must do the same, bit by bit.

What a session predicts has, besides the classes, the weights and the last samples of every rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.log import run_log
from tests.killing import ROOT, toy_tree

SEEDS = (3, 4, 5)
COMMAND = ("--runs", str(len(SEEDS)), "--seed", str(SEEDS[0]), "--devices")
NUM_EVALUATIONS = 4
WORKLOAD = """
import numpy as np

from harness.workload import Block, Metric, Quality

BATCH, NUM_INPUTS, NUM_CLASSES = 20, 16, 4


class Session:
    def __init__(self, config):
        self.config = config

    def prepare(self):
        import torch

        from workloads.execution import Execution

        self.execution = Execution(self.config)
        self.model, self.network = self.execution.wrap(
            self._build(), lambda network, recipe: torch.optim.SGD(network.parameters(), 0.1, momentum=0.9), None
        )

    def _build(self):
        from torch import nn

        return nn.Sequential(nn.Linear(NUM_INPUTS, 32), nn.Tanh(), nn.Linear(32, NUM_CLASSES))

    def initialise(self):
        import torch

        self.execution.restart(self._build().state_dict())
        self.draws = torch.Generator().manual_seed(self.config.seed)
        self.last = torch.zeros(BATCH // self.execution.num_ranks, dtype=torch.int64)

    def weights(self):
        return self.network.state_dict()

    def start(self, data_dir):
        import torch

        names = ("train_inputs", "train_labels", "test_inputs")
        self.inputs, self.labels, self.test = (torch.from_numpy(np.load(data_dir / f"{name}.npy")) for name in names)

    def _loss(self, inputs, labels):
        from torch.nn import functional

        return functional.cross_entropy(self.model(inputs), labels)

    def train_block(self, num_samples):
        import torch

        losses = []
        for _ in range(num_samples // BATCH):
            chosen = torch.randint(len(self.labels), (BATCH,), generator=self.draws)
            self.last = chosen.chunk(self.execution.num_ranks)[self.execution.rank]
            parts = self.execution.parts(self.inputs[self.last], self.labels[self.last])
            losses.append(self.execution.accelerator.reduce(self.execution.step(self._loss, parts), "mean").item())
        return Block(num_samples, sum(losses) / len(losses), 0.0)

    def predict(self, inputs):
        import torch

        gather = self.execution.accelerator.gather
        own = torch.cat([tensor.flatten() for tensor in self.network.state_dict().values()])
        with torch.inference_mode():
            classes = self.network(self.test).argmax(1)
        found = {"classes": classes, "weights": gather(own[None]), "samples": gather(self.last)}
        return {name: tensor.numpy() for name, tensor in found.items()}

    def close(self):
        self.execution.close()


class Evaluator:
    def __init__(self, labels):
        self.labels = labels

    def quality(self, predict):
        return Quality(float((predict({})["classes"] == self.labels).mean()), len(self.labels))


class Toy:
    name = "toy"
    metric = Metric("accuracy", "fraction", "max")
    labels = ("test_labels.npy",)
    libraries = ()
    parts = ()
    execution = {"mini": ()}

    def prepare_data(self, suite, data_dir, source):
        random = np.random.RandomState(7)
        network = random.normal(size=(NUM_INPUTS, NUM_CLASSES))
        for name in ("train", "test"):
            inputs = random.normal(size=(400, NUM_INPUTS)).astype(np.float32)
            # A third of the labels is noise, so that no run reaches the target of 0.9.
            noise, random_labels = random.randint(3, size=400) == 0, random.randint(NUM_CLASSES, size=400)
            np.save(data_dir / f"{name}_inputs.npy", inputs)
            np.save(data_dir / f"{name}_labels.npy", np.where(noise, random_labels, (inputs @ network).argmax(1)))
        (data_dir / "metadata.json").write_text("{}")

    def open(self, config):
        return Session(config)

    def evaluator(self, suite, data_dir, labels_dir):
        return Evaluator(np.load(labels_dir / "test_labels.npy"))

    def baselines(self, suite, data_dir, labels_dir):
        return {}


WORKLOAD = Toy()
"""


def training_tree(folder: Path) -> Path:
    """Create a source tree whose only workload trains."""
    tree = toy_tree(folder)
    (tree / "workloads" / "toy" / "__init__.py").write_text(WORKLOAD)
    for name in ("execution.py", "batch_norm.py"):
        (tree / "workloads" / name).symlink_to(ROOT / "workloads" / name)
    rules = tree / "toy_rules" / "toy.yaml"
    rules.write_text(rules.read_text().replace("max_seconds: 30", "max_seconds: 300"))
    return tree


def trained(out: Path) -> list[dict[str, Any]]:
    """Return what each run did: initial weights, samples, qualities and digests of all predictions.

    The predictions of an evaluation have the weights of all ranks. Those of the last one are looked at, too.
    """
    found = []
    for number, seed in enumerate(SEEDS):
        log = run_log.read(out / f"result_{number}.txt")
        assert log.defects == ()
        evaluations = log.all("eval_accuracy")
        assert len(evaluations) == NUM_EVALUATIONS
        kept = np.load(out / f"predictions_{number}.npz")
        assert len(kept["weights"]) == 4
        assert (kept["weights"] == kept["weights"][0]).all(), "the ranks have different weights"
        found.append(
            {
                "seed": (seed, log.value("seed")),
                "initial weights": log.one("run_start").metadata["weights_digest"],
                "samples": [event.samples_count for event in evaluations],
                "qualities": [event.value for event in evaluations],
                "predictions": [event.metadata["predictions"] for event in evaluations],
                "last samples": kept["samples"].tolist(),
                "final weights": kept["weights"][0].tobytes(),
            }
        )
    assert all(one["seed"][0] == one["seed"][1] for one in found)
    assert len({one["final weights"] for one in found}) == len(SEEDS)
    assert all(len(set(one["predictions"])) == NUM_EVALUATIONS for one in found)
    return found
