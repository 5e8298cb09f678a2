"""What an expert reaches who knows how the mini data are made, without gradients: alternating least squares.

The items' vectors start as the leading eigenvectors of who is taken soon after whom by the same user. Given vectors,
the next item's depends linearly on the last one's and on that of the item before it, by a matrix for every context and
side; the matrices are estimated from counts and smoothed by a tensor of the generator's rank. Given matrices, an item's
vector is the mean of the pulls under which it was taken. And so on, in turn; three weights are chosen on validation.
Nothing of the generator's random stream is used, only its form.

Dimension letters: U users, I items, T steps of a user, N steps with two items before them, J numbers of an item, C
contexts, S sides, R rank, E numbers of a matrix (J * J).
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.recommendation.dataset import Interactions, Ints

Floats = npt.NDArray[np.floating[Any]]

NUM_NUMBERS, RANK = 8, 12
NUM_ROUNDS = 8
NUM_STEPS = 40  # of the tensor's own alternating least squares
NUM_LAGS = 6  # steps between two items that count as taken soon after each other
KEPT = 0.92  # of the history's mean at every step
WEIGHTS = ((0.5, 1.0, 1.6), (0.5, 1.0, 2.0), (0.7, 1.3))  # last item, item before, history


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """What the users took, step by step, and where they were when the target item was taken (step `length_U`)."""

    items_UT: Ints  # `num_items` from `length_U` on
    contexts_UT: Ints
    sides_U: Ints
    length_U: Ints
    target_U: Ints
    num_items: int
    num_contexts: int
    num_sides: int

    def hit_rate(self, scores_UI: Floats) -> float:
        scores_UI = np.array(scores_UI)
        user_N, step_N = np.nonzero(self.items_UT < self.num_items)
        scores_UI[user_N, self.items_UT[user_N, step_N]] = -np.inf
        wanted_U1 = np.take_along_axis(scores_UI, self.target_U[:, None], 1)
        return float(np.mean((~(scores_UI < wanted_U1)).sum(1) <= 10))


def course(data: Interactions, num_held: int) -> Course:
    """The course up to the validation item (`num_held` 2: two interactions are hidden) or the test item (1)."""
    num_users, num_items = len(data.user_sides), len(data.item_attributes)
    trained_U = np.diff(data.train_offsets)
    items_UT = np.full((num_users, int(trained_U.max()) + 3 - num_held), num_items, np.int64)
    contexts_UTF = np.zeros((*items_UT.shape, len(data.context_sizes)), np.int64)
    user_N = np.repeat(np.arange(num_users), trained_U)
    step_N = np.arange(len(user_N)) - data.train_offsets[user_N]
    items_UT[user_N, step_N], contexts_UTF[user_N, step_N] = data.train_items, data.train_contexts
    everyone = np.arange(num_users)
    target_U, asked_UF = data.held(num_held)
    contexts_UTF[everyone, trained_U + 2 - num_held] = asked_UF
    if num_held == 1:
        items_UT[everyone, trained_U] = data.validation_items
        contexts_UTF[everyone, trained_U] = data.validation_contexts
    contexts_UT: Ints = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(contexts_UTF, 2, 0)), data.context_sizes))
    return Course(
        items_UT,
        contexts_UT,
        np.ravel_multi_index(tuple(data.user_sides.T.astype(np.int64)), data.side_sizes).astype(np.int64),
        trained_U + 2 - num_held,
        target_U.astype(np.int64),
        num_items,
        int(np.prod(data.context_sizes)),
        int(np.prod(data.side_sizes)),
    )


def hit_rate(data: Interactions) -> float:
    """The hit rate on test of the round that is best on validation."""
    known, asked = (course(data, num_held) for num_held in (2, 1))
    share_I = np.bincount(known.items_UT.reshape(-1), minlength=known.num_items + 1)[:-1] + 0.5
    share_I /= share_I.sum()
    vectors_IJ = leading(known, share_I)
    user_N, step_N = np.nonzero(known.items_UT < known.num_items)
    user_N, step_N = user_N[step_N > 1], step_N[step_N > 1]
    next_N = known.items_UT[user_N, step_N]
    found = []
    for _ in range(NUM_ROUNDS):
        pulls = _fitted(known, vectors_IJ, user_N, step_N)
        on_validation, on_test = (pulls(each, np.arange(len(each.length_U)), each.length_U) for each in (known, asked))

        def scores(parts: Floats, weights: tuple[float, ...]) -> Floats:
            scored: Floats = np.log(share_I) + np.tensordot(weights, parts, 1) @ vectors_IJ.T  # noqa: B023
            return scored

        tried = {w: known.hit_rate(scores(on_validation, w)) for w in itertools.product(*WEIGHTS)}
        best = max(tried, key=lambda w: tried[w])
        found.append((tried[best], asked.hit_rate(scores(on_test, best))))
        pull_NJ = np.tensordot(best, pulls(known, user_N, step_N), 1)
        sums_IJ = np.stack([np.bincount(next_N, column, known.num_items) for column in pull_NJ.T], 1)
        vectors_IJ = _white(sums_IJ / (np.bincount(next_N, minlength=known.num_items) + 10)[:, None], share_I)
    return max(found)[1]


def leading(known: Course, share_I: Floats) -> Floats:
    """Item vectors (I, J): leading eigenvectors of the lifts of items taken within a few steps by the same user."""
    size = known.num_items + 1
    together_II = np.zeros((size, size))
    for lag in range(1, NUM_LAGS + 1):
        pair_UT = known.items_UT[:, :-lag] * size + known.items_UT[:, lag:]
        together_II += np.bincount(pair_UT.reshape(-1), minlength=size**2).reshape(size, size)
    together_II = (together_II + together_II.T)[:-1, :-1]
    scale_I = np.full(len(share_I), together_II.sum() ** -0.5)
    for _ in range(50):  # margins as the shares
        scale_I *= np.sqrt(share_I / (scale_I * (together_II @ scale_I) + 1e-12))
    root_I = np.sqrt(share_I)
    lift_II = together_II * np.outer(scale_I / root_I, scale_I / root_I) - np.outer(root_I, root_I)
    return _white(np.linalg.eigh(lift_II)[1][:, -NUM_NUMBERS:] / root_I[:, None], share_I)


def _white(vectors_IJ: Floats, share_I: Floats) -> Floats:
    """The vectors with mean 0 and covariance 1, items weighted by their share."""
    centred_IJ = vectors_IJ - share_I @ vectors_IJ
    values, axes = np.linalg.eigh((centred_IJ * share_I[:, None]).T @ centred_IJ)
    white_IJ: Floats = centred_IJ @ axes / np.sqrt(values + 1e-9)
    return white_IJ


def _fitted(known: Course, vectors_IJ: Floats, user_N: Ints, step_N: Ints) -> Callable[[Course, Ints, Ints], Floats]:
    """A function of users and steps: how the last item, the one before it and the history pull the next, (3, N, J)."""
    table = np.concatenate([vectors_IJ, np.zeros((1, NUM_NUMBERS))])
    next_NJ = table[known.items_UT[user_N, step_N]]
    size = known.num_contexts * known.num_sides
    cell_N = known.contexts_UT[user_N, step_N] * known.num_sides + known.sides_U[user_N]
    count_M = np.maximum(np.bincount(cell_N, minlength=size), 1)
    matrices = []
    for lag in (1, 2):
        before_NJ = table[known.items_UT[user_N, step_N - lag]]
        product_NE = (next_NJ[:, :, None] * before_NJ[:, None, :]).reshape(len(cell_N), -1)
        mean_ME = np.stack([np.bincount(cell_N, column, size) / count_M for column in product_NE.T], 1)
        smooth = min((smoothed(mean_ME.reshape(known.num_contexts, known.num_sides, -1), seed) for seed in range(2)),
                     key=lambda one: one[1])[0]  # fmt: skip
        matrices.append(smooth.reshape(size, NUM_NUMBERS, NUM_NUMBERS))

    def history(each: Course) -> Floats:
        mean_UTJ = np.zeros((*each.items_UT.shape, NUM_NUMBERS))
        for t in range(1, mean_UTJ.shape[1]):
            mean_UTJ[:, t] = KEPT * mean_UTJ[:, t - 1] + (1 - KEPT) * table[each.items_UT[:, t - 1]]
        return mean_UTJ

    history_NJ, context_N = history(known)[user_N, step_N], known.contexts_UT[user_N, step_N]
    taste_CJJ = []
    for context in range(known.num_contexts):
        there_NJ = history_NJ[context_N == context]
        gram_JJ = there_NJ.T @ there_NJ + 100 * np.eye(NUM_NUMBERS)
        taste_CJJ.append(np.linalg.solve(gram_JJ, there_NJ.T @ next_NJ[context_N == context]))

    def pulls(each: Course, users: Ints, steps: Ints) -> Floats:
        context = each.contexts_UT[users, steps]
        cell = context * each.num_sides + each.sides_U[users]
        by_items = [
            np.einsum("nij,nj->ni", matrix[cell], table[each.items_UT[users, steps - lag]])
            for lag, matrix in zip((1, 2), matrices, strict=True)
        ]
        return np.stack([*by_items, np.einsum("ni,nij->nj", history(each)[users, steps], np.stack(taste_CJJ)[context])])

    return pulls


def smoothed(tensor_CSE: Floats, seed: int) -> tuple[Floats, float]:
    """The tensor of rank `RANK` nearest to this one, by alternating least squares, and its squared distance."""
    random = np.random.RandomState(seed)
    factors = [random.randn(size, RANK) for size in tensor_CSE.shape]
    for _ in range(NUM_STEPS):
        for axis in range(3):
            one, other = (factors[k] for k in range(3) if k != axis)
            flat = np.moveaxis(tensor_CSE, axis, 0).reshape(tensor_CSE.shape[axis], -1)
            both = (one[:, None] * other).reshape(-1, RANK)
            factors[axis] = flat @ both @ np.linalg.pinv((one.T @ one) * (other.T @ other) + 1e-6 * np.eye(RANK))
            if axis < 2:
                factors[axis] /= np.linalg.norm(factors[axis], axis=0)
    near_CSE: Floats = np.einsum("cr,sr,er->cse", *factors)
    return near_CSE, float(((tensor_CSE - near_CSE) ** 2).sum())
