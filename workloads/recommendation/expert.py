"""What an expert reaches who knows how the mini data are made, without gradients.

The signs of the items' codes come from the leading eigenvectors of who was taken by the same user, turned by ICA until
they are two-valued; the signed permutations from counts; the drifting taste from a filter; the nine weights (three per
device) from the likelihood of some users. Nothing of the generator's random stream is used, only its form.

Dimension letters: U users, I items, T steps of a user, N steps with an item before them, B bits of a code, C codes.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.recommendation.dataset import Interactions, Ints

Floats = npt.NDArray[np.floating[Any]]

NUM_BITS, NUM_KINDS = 6, 4
CODES_CB: Floats = 2.0 * (np.arange(2**NUM_BITS)[:, None] >> np.arange(NUM_BITS) & 1) - 1
FLIP = 1 / 48  # chance that a bit of the taste changes at a step
NUM_ROUNDS = 2
NUM_FITTED = 500  # users whose likelihood decides the weights


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """What the users took, step by step, and where they were when the target item was taken (step `length_U`)."""

    items_UT: Ints  # -1 from `length_U` on
    hours_UT: Ints
    devices_UT: Ints
    sides_U: Ints
    length_U: Ints
    num_hours: int
    num_sides: int

    def head(self, num: int) -> Course:
        rows = {name: getattr(self, name)[:num] for name in self.__slots__ if name[-1] in "UT"}
        return dataclasses.replace(self, **rows)


def course(data: Interactions, num_held: int) -> Course:
    """The course up to the validation item (`num_held` 2: two interactions are hidden) or the test item (1)."""
    num_users = len(data.held_items)
    length_U = np.diff(data.train_offsets) + 2 - num_held
    items_UT = np.full((num_users, int(length_U.max()) + 1), -1, np.int64)
    contexts_UTF = np.zeros((*items_UT.shape, 2), np.int64)
    user_N = np.repeat(np.arange(num_users), np.diff(data.train_offsets))
    step_N = np.arange(len(user_N)) - data.train_offsets[user_N]
    items_UT[user_N, step_N], contexts_UTF[user_N, step_N] = data.train_items, data.train_contexts
    everyone = np.arange(num_users)
    for k in range(3 - num_held):
        step_U = np.diff(data.train_offsets) + k
        contexts_UTF[everyone, step_U] = data.held_contexts[:, k]
        if k < 2 - num_held:
            items_UT[everyone, step_U] = data.held_items[:, k]
    return Course(
        items_UT,
        contexts_UTF[..., 0],
        contexts_UTF[..., 1],
        np.ravel_multi_index(tuple(data.user_sides.T.astype(np.int64)), data.side_sizes).astype(np.int64),
        length_U,
        data.context_sizes[0],
        int(np.prod(data.side_sizes)),
    )


def scores(data: Interactions) -> Floats:
    """Scores (U, I) for the test item. Everything is estimated from the interactions before it."""
    known = course(data, 1)
    genre_I = data.item_attributes.argmax(1)
    num_items = len(genre_I)
    has_UT = known.items_UT >= 0
    share_I = np.bincount(known.items_UT[has_UT], minlength=num_items) + 0.5
    share_I /= share_I.sum()
    taken_UI = np.zeros((len(has_UT), num_items))
    taken_UI[np.nonzero(has_UT)[0], known.items_UT[has_UT]] = 1
    codes_IB = np.where(independent(leading(taken_UI, share_I), share_I) > 0, 1.0, -1.0)
    weights_D3 = np.full((int(known.devices_UT.max()) + 1, 3), 0.6)
    for _ in range(NUM_ROUNDS):
        bias_B = np.arctanh(np.clip(share_I @ codes_IB, -0.9, 0.9))
        parts = _turned(known, codes_IB, share_I)
        weights_D3 = _likeliest(known.head(NUM_FITTED), [part[:NUM_FITTED] for part in parts], weights_D3, bias_B)
        pull_UTB = _pulls(known, parts, weights_D3, bias_B)
        codes_IB, share_I = _assigned(known, pull_UTB, codes_IB, share_I, genre_I)
    bias_B = np.arctanh(np.clip(share_I @ codes_IB, -0.9, 0.9))
    pull_UTB = _pulls(known, _turned(known, codes_IB, share_I), weights_D3, bias_B)
    found: Floats = pull_UTB[np.arange(len(has_UT)), known.length_U] @ codes_IB.T + np.log(share_I)
    return found


def leading(taken_UI: Floats, share_I: Floats) -> Floats:
    """Item vectors (I, B): leading eigenvectors of the lifts of items taken by the same user."""
    together_II = taken_UI.T @ taken_UI
    np.fill_diagonal(together_II, 0)
    scale_I = np.full(len(share_I), together_II.sum() ** -0.5)
    for _ in range(50):  # margins as the shares
        scale_I *= np.sqrt(share_I / (scale_I * (together_II @ scale_I)))
    root_I = np.sqrt(share_I)
    lift_II = together_II * np.outer(scale_I / root_I, scale_I / root_I) - np.outer(root_I, root_I)
    vectors: Floats = np.linalg.eigh(lift_II)[1][:, -NUM_BITS:] / root_I[:, None]
    return vectors


def independent(vectors_IB: Floats, share_I: Floats) -> Floats:
    """The vectors turned to the least kurtosis, items weighted by their share: FastICA, the best of ten starts."""
    random = np.random.RandomState(0)
    centred_IB = vectors_IB - share_I @ vectors_IB
    values, axes = np.linalg.eigh((centred_IB * share_I[:, None]).T @ centred_IB)
    white_IB = centred_IB @ axes / np.sqrt(values)
    found = []
    for _ in range(10):
        turn_BB = np.linalg.qr(random.randn(NUM_BITS, NUM_BITS))[0]
        for _ in range(100):
            turn_BB = (white_IB * share_I[:, None]).T @ (white_IB @ turn_BB) ** 3 - 3 * turn_BB
            left, _, right = np.linalg.svd(turn_BB)
            turn_BB = left @ right
        found.append(white_IB @ turn_BB)
    return min(found, key=lambda sources_IB: float((share_I @ sources_IB**4).sum()))


def _turned(known: Course, codes_IB: Floats, share_I: Floats) -> list[Floats]:
    """Codes of the items taken (U, T, B), of the last item as turned by hour and kind, and of the one before by hour.

    A kind is a cluster of sides in which the next code depends on the last one in the same way; each turn is the signed
    permutation that agrees best with the counts.
    """
    code_UTB = np.concatenate([codes_IB, np.zeros((1, NUM_BITS))])[known.items_UT]
    last_UTB, previous_UTB = (
        np.concatenate([np.zeros_like(code_UTB[:, :lag]), code_UTB[:, :-lag]], 1) for lag in (1, 2)
    )
    centred_UTB = code_UTB - share_I @ codes_IB
    has_UT = known.items_UT >= 0
    side_UT = np.broadcast_to(known.sides_U[:, None], has_UT.shape)

    def agreement(before_UTB: Floats, key_UT: Ints, size: int) -> Floats:
        product_NE = (centred_UTB[has_UT][:, :, None] * before_UTB[has_UT][:, None, :]).reshape(-1, NUM_BITS**2)
        return np.stack([np.bincount(key_UT[has_UT], column, size) for column in product_NE.T], 1)

    by_side = agreement(last_UTB, known.hours_UT * known.num_sides + side_UT, known.num_hours * known.num_sides)
    by_side = by_side.reshape(known.num_hours, known.num_sides, -1)
    count_S = np.bincount(side_UT[has_UT], minlength=known.num_sides) + 1.0
    kind_S = _clustered(by_side.transpose(1, 0, 2).reshape(known.num_sides, -1) / count_S[:, None], count_S)
    by_kind = np.stack([by_side[:, kind_S == kind].sum(1) for kind in range(NUM_KINDS)], 1)
    turns_HKBB = np.stack([[_signed_permutation(each) for each in kinds] for kinds in by_kind])
    turns_HBB = np.stack(
        [_signed_permutation(each) for each in agreement(previous_UTB, known.hours_UT, known.num_hours)]
    )
    return [
        code_UTB,
        (turns_HKBB[known.hours_UT, kind_S[side_UT]] @ last_UTB[..., None])[..., 0],
        (turns_HBB[known.hours_UT] @ previous_UTB[..., None])[..., 0],
    ]


def _clustered(points_SE: Floats, weight_S: Floats) -> Ints:
    """Clusters by Lloyd's algorithm, the best of twenty starts."""
    random = np.random.RandomState(0)
    best, kind_S = np.inf, np.zeros(len(points_SE), np.int64)
    for _ in range(20):
        middles_KE = points_SE[random.choice(len(points_SE), NUM_KINDS, replace=False)]
        for _ in range(30):
            distance_SK = ((points_SE[:, None] - middles_KE) ** 2).sum(2)
            is_in_SK = (distance_SK.argmin(1)[:, None] == np.arange(NUM_KINDS)) * (weight_S[:, None] + 0.0)
            middles_KE = is_in_SK.T @ points_SE / (is_in_SK.sum(0)[:, None] + 1e-9)
        if (cost := float(distance_SK.min(1) @ weight_S)) < best:
            best, kind_S = cost, distance_SK.argmin(1)
    return kind_S


def _signed_permutation(agreement_E: Floats) -> Floats:
    from scipy.optimize import linear_sum_assignment

    agreement_BB = agreement_E.reshape(NUM_BITS, NUM_BITS)
    rows, columns = linear_sum_assignment(-np.abs(agreement_BB))
    turn_BB = np.zeros_like(agreement_BB)
    turn_BB[rows, columns] = np.sign(agreement_BB[rows, columns])
    return turn_BB


def _pulls(known: Course, parts: list[Floats], weights_D3: Floats, bias_B: Floats) -> Floats:
    """Half the log odds of every bit of the next code (U, T, B), popularity aside.

    The taste is filtered forward, bit by bit: what it may be before a step, then what the item taken says about it.
    """
    code_UTB, last_UTB, previous_UTB = parts
    weight_UT3 = weights_D3[known.devices_UT]
    pull_UTB = weight_UT3[..., :1] * last_UTB + weight_UT3[..., 2:] * previous_UTB
    chance_UB = np.full(code_UTB.shape[::2], 0.5)  # that the bit of the taste is +1
    for t in range(code_UTB.shape[1]):
        taste_U1 = weight_UT3[:, t, 1:2]
        rest_UB = pull_UTB[:, t] + bias_B
        up_U1 = np.exp(taste_U1)
        pull_UTB[:, t] += 0.5 * np.log(
            (chance_UB * up_U1 + (1 - chance_UB) / up_U1) / (chance_UB / up_U1 + (1 - chance_UB) * up_U1)
        )
        high_UB, low_UB = (
            1 / (1 + np.exp(-2 * code_UTB[:, t] * (rest_UB + sign * taste_U1))) * odds
            for sign, odds in ((1, chance_UB), (-1, 1 - chance_UB))
        )
        chance_UB = np.where(known.items_UT[:, t, None] >= 0, high_UB / (high_UB + low_UB), chance_UB)
        chance_UB = chance_UB * (1 - 2 * FLIP) + FLIP
    return pull_UTB


def _likeliest(known: Course, parts: list[Floats], start_D3: Floats, bias_B: Floats) -> Floats:
    """The weights under which the codes of the items taken are likeliest, bit by bit (Powell's search)."""
    from scipy.optimize import minimize

    has_UT = known.items_UT >= 0

    def surprise(weights: Floats) -> float:
        pull_UTB = _pulls(known, parts, weights.reshape(start_D3.shape), bias_B) + bias_B
        return float(np.log1p(np.exp(-2 * parts[0] * pull_UTB))[has_UT].mean())

    done = minimize(surprise, start_D3.ravel(), method="Powell", options={"maxiter": 2, "xtol": 0.02, "ftol": 1e-4})
    weights_D3: Floats = done.x.reshape(start_D3.shape)
    return weights_D3


def _assigned(
    known: Course, pull_UTB: Floats, codes_IB: Floats, share_I: Floats, genre_I: Ints
) -> tuple[Floats, Floats]:
    """The likeliest code of every item, given its genre and the pulls under which it was taken; and the shares."""
    has_UT = known.items_UT >= 0
    pull_NB, item_N = pull_UTB[has_UT], known.items_UT[has_UT]
    attraction_NC = np.exp(pull_NB @ CODES_CB.T)
    num_items, num_codes = len(codes_IB), len(CODES_CB)
    count_I = np.bincount(item_N, minlength=num_items)
    pulls_IB = np.stack([np.bincount(item_N, column, num_items) for column in pull_NB.T], 1)
    code_I = (codes_IB > 0) @ (1 << np.arange(NUM_BITS))
    # A code has one genre, as far as its items agree.
    genres_CG = np.full((num_codes, int(genre_I.max()) + 1), 1e-4)
    np.add.at(genres_CG, (code_I, genre_I), share_I)
    genres_CG = np.log(genres_CG / genres_CG.sum(1, keepdims=True))
    for _ in range(4):
        mass_C = np.bincount(code_I, share_I, num_codes)
        expected_C = (attraction_NC / (attraction_NC @ mass_C)[:, None]).sum(0)
        fit_IC = pulls_IB @ CODES_CB.T - count_I[:, None] * np.log(expected_C) + genres_CG[:, genre_I].T
        code_I = fit_IC.argmax(1)
        share_I = (count_I + 0.5) / expected_C[code_I]
    return CODES_CB[code_I], share_I / share_I.sum()
