"""The data of reinforcement learning: where evaluated episodes start, and what the environments are.

The environments are the only training data. The data folder holds `<split>_starts.npy` for test and validation (`mini`:
states, float64, N x 4; else seeds, int64, N) and `metadata.json`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.reinforcement_learning.environments import EPISODE_STEPS, LANDER, TRACK_M, check_dynamics, draw
from workloads.reinforcement_learning.full_atari import FRAMES
from workloads.reinforcement_learning.recipe import NAME, SUITES

NUM_EPISODES = 100
NUM_ACTIONS = {"mini": 2, "standard": 4, "full": 6}
NUM_OBSERVATIONS = {"mini": 5, "standard": 8, "full": math.prod(FRAMES)}
SOURCES = {
    "mini": "CartPole-v1 of gymnasium, swung up on a short track",
    "standard": LANDER,
    "full": "Pong of ale-py, with sticky actions",
}
FIRST_SEED = {"test": 0, "validation": 1000}  # training seeds begin at FIRST_TRAINING_SEED
# Every run has 2**20 seeds of its own, one per environment; the first 2**20 belong to no run.
FIRST_TRAINING_SEED = 2**20


def training_seeds(run_seed: int, num_envs: int) -> list[int]:
    """One seed per environment over all devices, so the environments do not depend on the number of devices.

    Runs with different seeds (modulo 2**32) share none, and none is below `FIRST_TRAINING_SEED`.
    """
    first = FIRST_TRAINING_SEED * (1 + run_seed % 2**32)
    return list(range(first, first + num_envs))


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Write the starts and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source, for which there is no use.
        DataError: the installed Gymnasium or ALE does not behave like the benchmark's.
        MissingDependencyError: the suite needs ale-py.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name(f"suite of {NAME}", suite, SUITES))
    if source is not None:
        raise UsageError(f"{NAME}_{suite} needs no data beyond its environments; leave the source out")
    check_dynamics(suite)
    metadata: dict[str, object] = {
        "suite": suite,
        "source": SOURCES[suite],
        "num_observations": NUM_OBSERVATIONS[suite],
        "num_actions": NUM_ACTIONS[suite],
        "max_episode_steps": EPISODE_STEPS[suite],
    }
    if suite == "mini":
        metadata["x_threshold"] = TRACK_M
    for split, first in FIRST_SEED.items():
        starts = np.arange(first, first + NUM_EPISODES)
        if suite == "mini":
            starts = np.stack([draw(np.random.RandomState(seed)) for seed in starts])
        np.save(data_dir / f"{split}_starts.npy", starts)
        metadata[f"num_{split}"] = len(starts)
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_starts(folder: Path, suite: str, split: str) -> npt.NDArray[Any]:
    """Read the prepared starts of a split.

    Raises:
        DataError: the file is missing, damaged, or not as prepared; the message names it.
    """
    path = folder / f"{split}_starts.npy"
    dtype, shape = (np.float64, (NUM_EPISODES, 4)) if suite == "mini" else (np.int64, (NUM_EPISODES,))
    try:
        starts: npt.NDArray[Any] = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if suite == "full":
        shape = (max(starts.size, 1),)  # the rules say how many: an evaluation takes minutes
    if starts.dtype != dtype or starts.shape != shape:
        raise DataError(f"{path}: expected {np.dtype(dtype)} of {shape}, found {starts.dtype} of {starts.shape}")
    if not np.isfinite(starts).all() or (suite != "mini" and starts.min() < 0):
        raise DataError(f"{path}: a start that is not a {'state' if suite == 'mini' else 'seed'}")
    return starts
