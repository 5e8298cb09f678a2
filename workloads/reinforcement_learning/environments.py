"""The environments: Gymnasium's cart-pole, swung up on a short track, its LunarLander-v3, and Atari's Pong.

All are vectorised with Gymnasium's default autoreset (NEXT_STEP): the call of `step` after an episode's end
resets that environment, ignores its action and gives reward 0. Such a call is not a transition.

Dimension letters: N environments or episodes, D numbers per observation.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import math
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box
from gymnasium.utils import seeding
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from harness.errors import DataError
from workloads.reinforcement_learning.full_atari import Pong, trajectory

Floats = npt.NDArray[np.float64]
Observations = npt.NDArray[np.float32]
Actions = npt.NDArray[np.int64]
Policy = Callable[[Any], Actions]  # observations_ND (float32; of Pong uint8) to actions_N

LANDER = "LunarLander-v3"
ENVIRONMENTS = {"mini": "CartPole-v1", "standard": LANDER, "full": "Pong"}
# CartPole-v1's and LunarLander-v3's own limits; for Pong 108,000 frames
EPISODE_STEPS = {"mini": 500, "standard": 1000, "full": 27_000}
TRACK_M = 0.4  # to either side of the middle; on CartPole-v1's 2.4 m, pumping energy by a fixed rule is enough


class SwingUp(CartPoleVectorEnv):
    """CartPole-v1 on a track of 0.4 m to either side; the pole starts at any angle and is to be swung up and held.

    The dynamics are `CartPoleVectorEnv.step`, unchanged. What differs: the track's length; no angle ends an
    episode; the start (`draw`); the observation (position, velocity, cosine and sine of the angle, angular
    velocity); and the reward, which is the height of the pole's tip from 0 (hanging) to 1 (upright), 0 off the track.
    Every environment has its own random stream, as in a `SyncVectorEnv`.
    """

    state: Any  # (4, N); None until the first reset

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, max_episode_steps=EPISODE_STEPS["mini"])
        self.x_threshold = TRACK_M
        self.theta_threshold_radians = math.inf
        high = np.array([2 * TRACK_M, np.inf, 1, 1, np.inf], np.float32)
        self.single_observation_space = Box(-high, high)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.streams: list[np.random.Generator] = []

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Start every environment from its seed (`seed` + its number, or its entry in a list) or from a given state.

        options: `states_4N` are the initial states; `is_staggered` makes the first episodes end at different times, as
        if they had started in the past.
        """
        options = options or {}
        super().reset()
        if seed is not None or not self.streams:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
            self.streams = [seeding.np_random(None if seeds is None else seeds[i])[0] for i in range(self.num_envs)]
        self.state = np.stack([draw(stream) for stream in self.streams], axis=1)
        if "states_4N" in options:
            self.state[:] = options["states_4N"]
        if options.get("is_staggered"):
            # Otherwise all episodes have the same age: the poles all hang in one rollout and all stand in another.
            self.steps[:] = [stream.integers(self.max_episode_steps) for stream in self.streams]
        return self._seen(), {}

    def step(
        self, action: npt.NDArray[np.integer[Any]]
    ) -> tuple[Observations, Observations, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        is_reset_N = self.prev_done
        _, _, terminated_N, truncated_N, info = super().step(action)
        for i in np.flatnonzero(is_reset_N):
            self.state[:, i] = draw(self.streams[i])
        observations_ND = self._seen()
        height_N = (1 + observations_ND[:, 2]) / 2
        return observations_ND, np.where(terminated_N | is_reset_N, 0, height_N), terminated_N, truncated_N, info

    def kept(self) -> dict[str, Any]:
        """The state of all environments in plain values: floats survive JSON and pickle exactly."""
        return {
            "state": self.state.tolist(),
            "steps": self.steps.tolist(),
            "prev_done": self.prev_done.tolist(),
            "streams": [stream.bit_generator.state for stream in self.streams],
        }

    def bring_to(self, kept: dict[str, Any]) -> None:
        """Return to the state that `kept` described."""
        self.state = np.array(kept["state"], self.state.dtype)
        self.steps[:], self.prev_done = kept["steps"], np.array(kept["prev_done"], np.bool_)
        for stream, state in zip(self.streams, kept["streams"], strict=True):
            stream.bit_generator.state = state

    def _seen(self) -> Observations:
        x, x_dot, theta, theta_dot = self.state
        return np.stack((x, x_dot, np.cos(theta), np.sin(theta), theta_dot), axis=1).astype(np.float32)


def draw(random: np.random.Generator | np.random.RandomState) -> Floats:
    """Draw an initial state (x, x_dot, theta, theta_dot): the cart near the middle, the pole at any angle, slow."""
    state_4: Floats = random.uniform(-1, 1, size=4) * np.array([TRACK_M / 4, 0, math.pi, 0.05])
    return state_4


def make_lander() -> gymnasium.Env[Observations, int]:
    """LunarLander-v3 with its time limit, without Gymnasium's checks on every call."""
    with warnings.catch_warnings():
        # Box2D's binding warns on import, which is fatal in a process that turns warnings into errors.
        warnings.simplefilter("ignore", DeprecationWarning)
        import gymnasium.envs.box2d.lunar_lander  # so that the warning is raised here
    return gymnasium.make(LANDER, disable_env_checker=True)


class Replayable(gymnasium.Wrapper[Observations, int, Observations, int]):
    """An environment whose state can be reached again: by the start of its episode and the actions since.

    The state of a Box2D world cannot be saved, but every reset makes a new world from the random stream alone.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        self.seed = seed
        self.stream = None if seed is not None else self.unwrapped.np_random.bit_generator.state
        self.actions: list[int] = []
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> tuple[Observations, Any, bool, bool, dict[str, Any]]:
        self.actions.append(int(action))
        return super().step(action)

    def kept(self) -> dict[str, Any]:
        return {"seed": self.seed, "stream": self.stream, "actions": self.actions}

    def bring_to(self, kept: dict[str, Any]) -> None:
        if kept["stream"] is not None:
            self.unwrapped.np_random.bit_generator.state = kept["stream"]
        self.reset(seed=kept["seed"])
        for action in kept["actions"]:
            self.step(action)


def make_training(suite: str, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """The environments a rank trains on; `reset(seed=[...])` starts them."""
    if suite == "standard":
        return SyncVectorEnv([lambda: Replayable(make_lander())] * num_envs)
    return SwingUp(num_envs) if suite == "mini" else Pong(num_envs)


def state_of(envs: VectorEnv[Any, Any, Any]) -> Any:
    """The state of training environments, in plain values."""
    return envs.kept() if isinstance(envs, SwingUp | Pong) else [env.kept() for env in envs.envs]  # type: ignore[attr-defined]


def bring_to(envs: VectorEnv[Any, Any, Any], state: Any, is_over_N: npt.NDArray[np.bool_]) -> None:
    """Bring training environments that were started to a state; `is_over_N`: whose episode is over there."""
    if isinstance(envs, SwingUp | Pong):
        envs.bring_to(state)
        return
    assert isinstance(envs, SyncVectorEnv)
    for env, kept in zip(envs.envs, state, strict=True):
        env.bring_to(kept)  # type: ignore[attr-defined]
    envs._autoreset_envs = is_over_N.copy()  # which of them the next call of `step` resets


class Evaluation:
    """Environments separate from the training ones, for one episode from each start."""

    def __init__(self, suite: str, num_episodes: int) -> None:
        self.swing_up = SwingUp(num_episodes) if suite == "mini" else None
        self.pong = Pong(num_episodes) if suite == "full" else None
        self.landers = [make_lander() for _ in range(num_episodes)] if suite == "standard" else []

    def returns(self, starts: npt.NDArray[Any], policy: Policy) -> Floats:
        """Undiscounted return of each episode (N,). starts: states (N, 4) for `mini`, else seeds (N,)."""
        if self.swing_up is not None:
            observations_ND, _ = self.swing_up.reset(options={"states_4N": starts.T})
            return self._returns_together(self.swing_up, observations_ND, policy)
        if self.pong is not None:
            pixels_ND, _ = self.pong.reset(seed=starts.tolist())
            return self._returns_together(self.pong, pixels_ND, policy)
        observations_ND = np.stack([env.reset(seed=int(s))[0] for env, s in zip(self.landers, starts, strict=True)])
        returns_N = np.zeros(len(starts))
        alive = np.arange(len(starts))
        while len(alive):
            actions = policy(observations_ND[alive])
            is_over = np.zeros(len(alive), np.bool_)
            for j, i in enumerate(alive):
                observations_ND[i], reward, terminated, truncated, _ = self.landers[i].step(int(actions[j]))
                returns_N[i] += float(reward)
                is_over[j] = terminated or truncated
            alive = alive[~is_over]
        return returns_N

    @staticmethod
    def _returns_together(env: VectorEnv[Any, Any, Any], observations_ND: Any, policy: Policy) -> Floats:
        """All are stepped until the last episode has ended, so that the network sees batches of one size."""
        returns_N = np.zeros(len(observations_ND))
        is_alive_N = np.ones(len(observations_ND), np.bool_)
        while is_alive_N.any():
            observations_ND, rewards_N, terminated_N, truncated_N, _ = env.step(policy(observations_ND))
            returns_N += np.where(is_alive_N, rewards_N, 0)
            is_alive_N &= ~(terminated_N | truncated_N)
        return returns_N

    def close(self) -> None:
        for env in self.landers:
            env.close()


# ---- whether the installed physics are the benchmark's

SWING_UP_AFTER = (-0.3643, 0.0719, 3.1262, 1.5779)
LANDER_AFTER = (0.3776, 0.0765, 0.7320, -1.3990, -0.2950, -0.1983)
PONG_AFTER = (-7.0, 106.3238, 106.3522, 106.3424, 106.3566)


def check_dynamics(suite: str) -> None:
    """Raises DataError unless the installed library moves a fixed trajectory as it did when the target was set.

    The tolerance covers the last digits of sines on other processors.
    """
    name, follow, expected = {
        "mini": ("gymnasium", _swing_up_trajectory, SWING_UP_AFTER),
        "standard": ("gymnasium", _lander_trajectory, LANDER_AFTER),
        "full": ("ale-py", trajectory, PONG_AFTER),
    }[suite]
    found = follow()
    if not np.allclose(found, expected, rtol=0, atol=1e-3):
        raise DataError(
            f"{name} {version(name)} moves {ENVIRONMENTS[suite]} to {np.round(found, 4).tolist()}, "
            f"expected {list(expected)}: this version would be another benchmark"
        )


def _swing_up_trajectory() -> Floats:
    """The state after 40 steps from a hanging pole, pushed five times to each side in turn."""
    env = SwingUp(1)
    env.reset(options={"states_4N": np.array([[0.0], [0.0], [math.pi], [0.0]])})
    for t in range(40):
        env.step(np.array([t // 5 % 2]))
    return np.array(env.state[:, 0])


def _lander_trajectory() -> Floats:
    """Position, velocity, angle and spin after 60 steps of all four actions in turn."""
    env = make_lander()
    observation, _ = env.reset(seed=0)
    for t in range(60):
        observation, *_ = env.step(t // 3 % 4)
    env.close()
    return np.array(observation[:6], np.float64)
