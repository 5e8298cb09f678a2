"""Atari's Pong through the Arcade Learning Environment, whose own threads step a rank's environments.

What an agent sees is what Mnih et al. 2015 (Nature 518) showed theirs: every fourth frame, the brighter of it and the
one before, in grey, 84 x 84, the last four of them; up to 30 no-ops at the start. Pong's six actions; an episode ends
when one side has 21 points, or after 108,000 frames. An action is ignored with probability 0.25 and the one before is
repeated: sticky actions, as Machado et al. 2018 (arXiv:1709.06009) recommend. Without them the emulator is
deterministic: after the no-ops 100 starts show two different screens, and a policy without chance would play the same
few episodes again and again.

The environments are vectorised with Gymnasium's default autoreset (NEXT_STEP), as those of the other suites.

Dimension letters: N environments or episodes, D numbers per observation (4 * 84 * 84).
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import importlib.util
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv

from harness.errors import MissingDependencyError

Pixels = npt.NDArray[np.uint8]

FRAMES = (4, 84, 84)
SETTINGS: dict[str, Any] = {
    "frameskip": 4,
    "maxpool": True,
    "grayscale": True,
    "stack_num": FRAMES[0],
    "img_height": FRAMES[1],
    "img_width": FRAMES[2],
    "noop_max": 30,
    "use_fire_reset": True,
    "repeat_action_probability": 0.25,
    "max_num_frames_per_episode": 108_000,
    "episodic_life": False,  # Pong has no lives
    "reward_clipping": False,  # its rewards are -1, 0 and 1
    "full_action_space": False,
}
LEAST_SEED, MOST_SEED = 2**20, 2**31  # of ALE in training; those below the least are for evaluations


def check_installed() -> None:
    """Raises MissingDependencyError if ale-py is not installed."""
    if importlib.util.find_spec("ale_py") is None:
        raise MissingDependencyError(
            "reinforcement_learning_full needs 'ale_py', which is not installed: pip install 'tta-harness[atari]' "
            "(its licence is the GPL, so it is no part of the other extras; Pong comes with it)"
        )


class Pong(VectorEnv[Pixels, Any, Any]):
    """Environments whose every episode has a seed of its own, so that their state can be reached again.

    ALE goes on with its random stream where an episode ends, and cannot be saved. Here an episode is determined by the
    seed of its environment, its number, and the actions in it.

    num_threads: that step them; by default this process's share of the cores.
    """

    def __init__(self, num_envs: int, num_threads: int | None = None) -> None:
        check_installed()
        from ale_py.vector_env import AtariVectorEnv

        if num_threads is None:
            num_threads = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.num_envs = num_envs
        self.ale = AtariVectorEnv("pong", num_envs, num_threads=max(1, min(num_envs, num_threads)), **SETTINGS)
        self.single_action_space = self.ale.single_action_space
        self.single_observation_space = Box(0, 255, (math.prod(FRAMES),), np.uint8)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Start the first episode of every environment, each of which has its own entry of `seed`."""
        assert isinstance(seed, Sequence), "Pong: one seed for each environment"
        self.seeds = list(seed)
        self.episodes = [0] * self.num_envs
        self.actions: list[list[int]] = [[] for _ in seed]  # of the present episodes
        self.is_over_N = np.zeros(self.num_envs, np.bool_)
        return self._begin(np.ones(self.num_envs, np.bool_)), {}

    def step(
        self, actions: npt.NDArray[np.integer[Any]]
    ) -> tuple[Pixels, npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        is_reset_N = self.is_over_N
        pixels_N, rewards_N, terminated_N, truncated_N, _ = self.ale.step(np.asarray(actions, np.int64))
        for n in np.flatnonzero(~is_reset_N):
            self.actions[n].append(int(actions[n]))
        self.is_over_N = terminated_N | truncated_N
        if not is_reset_N.any():
            return pixels_N.reshape(self.num_envs, -1), rewards_N, terminated_N, truncated_N, {}
        for n in np.flatnonzero(is_reset_N):
            self.episodes[n] += 1
            self.actions[n] = []
        return self._begin(is_reset_N), rewards_N, terminated_N, truncated_N, {}

    def _begin(self, is_new_N: npt.NDArray[np.bool_]) -> Pixels:
        """Begin the present episode of the chosen environments; return what all of them show."""
        seeds = [episode_seed(self.seeds[n], self.episodes[n]) for n in np.flatnonzero(is_new_N)]
        pixels_N, _ = self.ale.reset(seed=np.array(seeds), options={"reset_mask": is_new_N})
        shown_ND: Pixels = pixels_N.reshape(self.num_envs, -1)
        return shown_ND

    def kept(self) -> dict[str, Any]:
        """What determines the state of all environments, in plain values."""
        return {"episodes": list(self.episodes), "actions": [list(actions) for actions in self.actions]}

    def bring_to(self, kept: dict[str, Any]) -> None:
        """Return to the state that `kept` described, by playing the present episodes again.

        They begin at different times, so that all of them come to the present at once.
        """
        self.episodes, self.actions = list(kept["episodes"]), [list(actions) for actions in kept["actions"]]
        lengths_N = np.array([len(actions) for actions in self.actions])
        for t in range(-max(lengths_N), 1):
            if (is_new_N := lengths_N == -t).any():
                self._begin(is_new_N)
            if t < 0:
                now = [actions[t] if len(actions) >= -t else 0 for actions in self.actions]
                _, _, terminated_N, truncated_N, _ = self.ale.step(np.array(now))
                self.is_over_N = (terminated_N | truncated_N) & (lengths_N > 0)


def episode_seed(seed: int, episode: int) -> int:
    """ALE's seed for an episode of the environment that has this seed.

    A seed of an evaluation is ALE's own; in training it is never one of those.
    """
    if seed < LEAST_SEED:
        return seed
    (state,) = np.random.SeedSequence([seed, episode]).generate_state(1)
    return LEAST_SEED + int(state) % (MOST_SEED - LEAST_SEED)


def trajectory() -> npt.NDArray[np.float64]:
    """What 300 steps of all six actions in turn lead to: points lost, and the mean grey of each of the last frames."""
    pong = Pong(1, num_threads=1)
    pixels_1D, _ = pong.reset(seed=[0])
    points = 0.0
    for t in range(300):
        pixels_1D, rewards_1, *_ = pong.step(np.array([t // 4 % 6]))
        points += float(rewards_1[0])
    return np.array([points, *pixels_1D.reshape(FRAMES).mean((1, 2))])
