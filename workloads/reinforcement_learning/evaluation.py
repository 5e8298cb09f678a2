"""The quality of reinforcement learning: the mean return of greedy episodes. N episodes, D numbers per observation."""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.workload import Arrays, Quality
from workloads.reinforcement_learning.data import NUM_ACTIONS, read_starts
from workloads.reinforcement_learning.environments import Actions, Evaluation, Observations, check_dynamics


class MeanReturn:
    """Plays one episode from each test start, and asks in every step for the actions.

    Asked with `observations` (N, D), float32 (Pong: uint8), the session answers with `actions` (N,), whole numbers.
    """

    def __init__(self, suite: str, labels_dir: Path) -> None:
        """Raises DataError if the starts are missing or damaged, or the environment is not the benchmark's."""
        check_dynamics(suite)
        self._starts = read_starts(labels_dir, suite, "test")
        self._evaluation = Evaluation(suite, len(self._starts))
        self._num_actions = NUM_ACTIONS[suite]

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return the mean undiscounted return.

        Raises:
            ValueError: an answer is not one action for each observation.
        """

        def policy(observations_ND: Observations) -> Actions:
            actions_N = predict({"observations": observations_ND}).get("actions")
            count, most = len(observations_ND), self._num_actions - 1
            if (
                actions_N is None
                or actions_N.shape != (count,)
                or actions_N.dtype.kind not in "iu"
                or not 0 <= actions_N.min() <= actions_N.max() <= most
            ):
                raise ValueError(f"expected an action for each of {count} observations, whole numbers from 0 to {most}")
            return actions_N.astype(np.int64)

        returns_N = self._evaluation.returns(self._starts, policy)
        return Quality(float(returns_N.mean()), len(returns_N))
