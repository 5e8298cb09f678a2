"""What policies that are not trained reach on the test episodes. A target must be well above all of them.

`dynamic_programming` is the exception: it knows the equations of motion and solves them, which leaves nothing to learn.

Every rule sees what the network sees: the whole state.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.reinforcement_learning.data import NUM_ACTIONS, NUM_EPISODES, read_starts
from workloads.reinforcement_learning.environments import Actions, Evaluation, Observations, Policy, make_lander
from workloads.reinforcement_learning.full_atari import FRAMES, Pixels
from workloads.reinforcement_learning.planning import planner

GRAVITY, HALF_LENGTH_M = 9.8, 0.5  # CartPole-v1's
# Pong's pixels: the rows of the court, the columns of the own paddle and of the court between the paddles, and the grey
# that is brighter than the court; two of the actions.
COURT, PADDLE, BETWEEN_PADDLES, COURT_GREY = slice(14, 77), slice(73, 76), slice(12, 73), 95
UP, DOWN = 2, 3
NUM_TRIED = 300  # sets of gains; the best one on the validation episodes is reported


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Mean return by name: chance, constants, hand-written rules, and the best of 300 draws of a rule's gains.

    Raises:
        DataError: the data are missing or damaged.
    """
    test = read_starts(labels_dir, suite, "test")
    evaluation = Evaluation(suite, NUM_EPISODES)
    random = np.random.RandomState(0)
    num_actions = NUM_ACTIONS[suite]
    policies: dict[str, Policy] = {"random": lambda seen_ND: random.randint(0, num_actions, len(seen_ND))}
    for action in range(num_actions if suite != "full" else 1):  # in Pong whoever does not follow the ball loses
        policies[f"always_{action}"] = _constant(action)
    if suite == "mini":
        validation = read_starts(data_dir, suite, "validation")
        policies |= {
            "push_where_the_pole_leans": lambda seen_ND: _pushed(seen_ND[:, 3]),
            "push_where_the_pole_leans_and_turns": lambda seen_ND: _pushed(seen_ND[:, 3] + seen_ND[:, 4]),
            "hold": lambda seen_ND: _pushed(seen_ND @ np.array([1, 2, 0, 20, 4])),
            "pump": lambda seen_ND: _pushed(_pumping(seen_ND)),
            "keep_to_the_middle": lambda seen_ND: _pushed(-seen_ND[:, 0] - 0.3 * seen_ND[:, 1]),
            "pump_and_hold": _pump_and_hold(np.array([1, 2, 20, 4]), reach=0.3, damping=0.3, eagerness=5, upright=0.9),
            "dynamic_programming": planner(),
            f"pump_and_hold_best_of_{NUM_TRIED}": _tuned(lambda p: float(evaluation.returns(validation, p).mean())),
        }
    elif suite == "standard":
        policies["heuristic_of_gymnasium"] = _heuristic()
    else:
        policies["follow_the_ball"] = follow_the_ball
    scores = {name: float(evaluation.returns(test, policy).mean()) for name, policy in policies.items()}
    evaluation.close()
    return scores


def _constant(action: int) -> Policy:
    return lambda seen_ND: np.full(len(seen_ND), action)


def _pushed(wish_N: npt.NDArray[Any]) -> Actions:
    """Push right where the wish is positive, left elsewhere."""
    return (wish_N > 0).astype(np.int64)


def _pumping(seen_ND: Observations) -> npt.NDArray[Any]:
    """Positive where a push to the right moves the pole's energy towards that of standing upright at rest.

    Astroem and Furuta 2000 ("Swinging up a pendulum by energy control"), for a cart that may go anywhere.
    """
    _, _, cos_N, _, turning_N = seen_ND.T
    energy_N = 2 / 3 * HALF_LENGTH_M / GRAVITY * turning_N**2 + cos_N - 1
    wish_N: npt.NDArray[Any] = energy_N * turning_N * cos_N
    return wish_N


def _pump_and_hold(gains_4: npt.NDArray[Any], reach: float, damping: float, eagerness: float, upright: float) -> Policy:
    """Pole low: drive the cart to a place at most `reach` from the middle, on the side where pumping wants it.

    Pole near the top (cosine above `upright`): push with the sign of a linear control law, with gains for position,
    velocity, sine of the angle, and angular velocity.
    """

    def policy(seen_ND: Observations) -> Actions:
        place_N = np.clip(eagerness * _pumping(seen_ND), -reach, reach)
        swinging_N = place_N - seen_ND[:, 0] - damping * seen_ND[:, 1]
        return _pushed(np.where(seen_ND[:, 2] > upright, seen_ND[:, [0, 1, 3, 4]] @ gains_4, swinging_N))

    return policy


def _tuned(score: Callable[[Policy], float]) -> Policy:
    """The best of `NUM_TRIED` rules by score on the validation episodes: a search of 15 million steps."""
    random = np.random.RandomState(0)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    tried = []
    for _ in range(NUM_TRIED):
        gains_4 = np.array([between(0.1, 5), between(0.2, 5), between(3, 30), between(0.5, 6)])
        reach, damping = random.uniform(0.1, 0.4), between(0.05, 1)
        tried.append(_pump_and_hold(gains_4, reach, damping, between(0.1, 30), random.uniform(0.5, 0.98)))
    return max(tried, key=score)


def follow_the_ball(pixels_ND: Pixels) -> Actions:
    """Pong: move the paddle to the height of the ball in the last frame, or to the middle if there is none."""
    court_NYX = pixels_ND.reshape(-1, *FRAMES)[:, -1, COURT]
    heights_Y = np.arange(court_NYX.shape[1])

    def height(is_there_NYX: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        there_NY = is_there_NYX.sum(2)
        found_N: npt.NDArray[Any] = (there_NY * heights_Y).sum(1) / np.maximum(there_NY.sum(1), 1)
        return np.where(there_NY.any(1), found_N, heights_Y.mean())

    below_N = height(court_NYX[:, :, BETWEEN_PADDLES] > COURT_GREY) - height(court_NYX[:, :, PADDLE] > COURT_GREY)
    return np.where(below_N > 1, DOWN, np.where(below_N < -1, UP, 0))


def _heuristic() -> Policy:
    """The controller of about twenty lines that Gymnasium ships with LunarLander."""
    env = make_lander()  # it is only asked whether its engines are continuous
    from gymnasium.envs.box2d.lunar_lander import heuristic

    return lambda seen_ND: np.array([heuristic(env, seen) for seen in seen_ND])  # type: ignore[no-untyped-call]
