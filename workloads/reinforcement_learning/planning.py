"""A planner for the swing-up that knows the equations of motion: dynamic programming on a grid of states, no network.

Dimension letters: N states, C corners of a grid cell (16), S states of the grid.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.reinforcement_learning.environments import TRACK_M, Actions, Floats, Observations, Policy

GRAVITY, CART_KG, POLE_KG, HALF_LENGTH_M, FORCE_N, STEP_S = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # CartPole-v1's
NUM_POINTS = (17, 21, 72, 41)  # position, velocity, angle (periodic), angular velocity
REACH = (TRACK_M, 3.0, math.pi, 9.0)  # to either side of 0; faster states are valued as the outermost
DISCOUNT = 0.99
TOLERANCE = 0.05  # of the values, which go up to 100
DEPTH = 3  # steps looked ahead before the values of the grid are used


def moved(states_4N: Floats, pushes_right: npt.NDArray[np.bool_] | bool) -> Floats:
    """The states one step later: the equations of `CartPoleEnv.step` (Euler)."""
    x, speed, angle, turning = states_4N
    cos, sin = np.cos(angle), np.sin(angle)
    mass = CART_KG + POLE_KG
    push = (np.where(pushes_right, FORCE_N, -FORCE_N) + POLE_KG * HALF_LENGTH_M * turning**2 * sin) / mass
    twist = (GRAVITY * sin - cos * push) / (HALF_LENGTH_M * (4 / 3 - POLE_KG * cos**2 / mass))
    pull = push - POLE_KG * HALF_LENGTH_M * twist * cos / mass
    return np.stack([x + STEP_S * speed, speed + STEP_S * pull, angle + STEP_S * turning, turning + STEP_S * twist])


def rewards(states_4N: Floats) -> Floats:
    """Height of the tip, 0 off the track."""
    height_N: Floats = np.where(np.abs(states_4N[0]) <= TRACK_M, (1 + np.cos(states_4N[2])) / 2, 0.0)
    return height_N


def corners(states_4N: Floats, num_points: tuple[int, ...]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The grid points around each state, (N, C), and their weights; all weights are 0 off the track."""
    index_NC = np.zeros((states_4N.shape[1], 16), np.int32)
    weight_NC = np.repeat((np.abs(states_4N[0]) <= TRACK_M).astype(np.float32)[:, None], 16, 1)
    is_upper_C = np.arange(16)[:, None] >> np.arange(4) & 1 == 1
    for axis, (values_N, num, reach) in enumerate(zip(states_4N, num_points, REACH, strict=True)):
        if axis == 2:
            place_N = (values_N + reach) / (2 * reach) * num
        else:
            place_N = np.clip((values_N / reach + 1) / 2 * (num - 1), 0, num - 1 - 1e-9)
        below_N = np.floor(place_N)
        part_N1 = (place_N - below_N).astype(np.float32)[:, None]
        index_NC = index_NC * num + (below_N.astype(np.int32)[:, None] + is_upper_C[:, axis]) % num
        weight_NC *= np.where(is_upper_C[:, axis], part_N1, 1 - part_N1)
    return index_NC, weight_NC


def values(num_points: tuple[int, ...] = NUM_POINTS) -> npt.NDArray[np.float32]:
    """Value of every grid point (S,) under the best of two pushes at every step: value iteration."""
    from scipy import sparse

    axes = [
        np.linspace(-reach, reach, num, endpoint=axis != 2)
        for axis, (num, reach) in enumerate(zip(num_points, REACH, strict=True))
    ]
    states_4S = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(4, -1)
    num_states = states_4S.shape[1]
    gains: list[npt.NDArray[np.float32]] = []
    steps: list[Any] = []
    for pushes_right in (False, True):
        next_4S = moved(states_4S, pushes_right)
        index_NC, weight_NC = corners(next_4S, num_points)
        ends = np.arange(0, 16 * num_states + 1, 16)
        weights = (DISCOUNT * weight_NC).astype(np.float32).reshape(-1)
        steps.append(sparse.csr_array((weights, index_NC.reshape(-1), ends), shape=(num_states, num_states)))
        gains.append(rewards(next_4S).astype(np.float32))
    value_S = np.zeros(num_states, np.float32)
    change = math.inf
    while change > TOLERANCE:
        better_S = np.maximum(*(gain + step @ value_S for gain, step in zip(gains, steps, strict=True)))
        change = float(np.abs(better_S - value_S).max())
        value_S = better_S
    return value_S


def planner(num_points: tuple[int, ...] = NUM_POINTS) -> Policy:
    """Push where the rewards of the next steps and the value of where they lead are higher."""
    value_S = values(num_points)

    def worth(states_4N: Floats, pushes_right: bool, depth: int) -> Floats:
        next_4N = moved(states_4N, pushes_right)
        if depth == 1:
            index_NC, weight_NC = corners(next_4N, num_points)
            later_N: Floats = (value_S[index_NC] * weight_NC).sum(1)
        else:
            later_N = np.maximum(*(worth(next_4N, push, depth - 1) for push in (False, True)))
        gained: Floats = rewards(next_4N) + np.where(np.abs(next_4N[0]) <= TRACK_M, DISCOUNT * later_N, 0.0)
        return gained

    def policy(seen_ND: Observations) -> Actions:
        x, speed, cos, sin, turning = seen_ND.T.astype(np.float64)
        states_4N = np.stack([x, speed, np.arctan2(sin, cos), turning])
        chosen: Actions = (worth(states_4N, True, DEPTH) > worth(states_4N, False, DEPTH)).astype(np.int64)
        return chosen

    return policy
