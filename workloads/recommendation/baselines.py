"""What solutions without gradients reach on the test set. A target must be well above all of them.

Every parameter is chosen on the validation interaction; for the test, that interaction is counted too.

Dimension letters: U users, I items, J items, T interactions, N pairs of one and the next, G groups or classes.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.recommendation import expert
from workloads.recommendation.data import read_interactions
from workloads.recommendation.dataset import Interactions, Ints
from workloads.recommendation.evaluation import NUM_BEST

Floats = npt.NDArray[np.floating[Any]]
MAX_CROSSED = 8000  # columns of one crossed feature; the Gram matrix over all of them is held in memory


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What is known when the target item is predicted, and that item (target_U).

    last_U, previous_U: the two latest items, `num_items` where there is none. Pairs (N): for every interaction except a
    user's first, the two items before it, its own item, and the groups (context, side, both) in which it happened.
    """

    num_items: int
    users_T: Ints
    items_T: Ints
    ages_T: Ints
    last_U: Ints
    previous_U: Ints
    last_N: Ints
    previous_N: Ints
    next_N: Ints
    groups_U: Mapping[str, Ints]
    groups_N: Mapping[str, Ints]
    num_groups: Mapping[str, int]
    genre_I: Ints
    target_U: Ints

    def recent(self, decay: float) -> Floats:
        """(U, I): decay ** age where the user took the item, else 0."""
        recent_UI = np.zeros((len(self.target_U), self.num_items), np.float32)
        recent_UI[self.users_T, self.items_T] = np.power(np.float32(decay), self.ages_T)
        return recent_UI

    def hit_rate(self, scores_UI: Floats) -> float:
        """The workload's metric: over all items not taken, with ties against the target."""
        scores_UI = np.where(self.recent(1.0) > 0, -np.inf, scores_UI)
        target_score_U = scores_UI[np.arange(len(scores_UI)), self.target_U]
        return float(np.mean((~(scores_UI < target_score_U[:, None])).sum(1) <= NUM_BEST))


def view(data: Interactions, num_held: int) -> View:
    """The view for validation (`num_held` 2: two interactions are hidden) or for test (1)."""
    num_users, num_items = len(data.user_sides), len(data.item_attributes)
    lengths_U = np.diff(data.train_offsets) + 2 - num_held
    offsets = np.concatenate([[0], np.cumsum(lengths_U)])
    users_T = np.repeat(np.arange(num_users), lengths_U)
    ages_T = offsets[1:][users_T] - 1 - np.arange(len(users_T))
    items_T, contexts_TF = data.train_items.astype(np.int64), data.train_contexts.astype(np.int64)
    if num_held == 1:
        items_T = np.insert(items_T, data.train_offsets[1:], data.validation_items)
        contexts_TF = np.insert(contexts_TF, data.train_offsets[1:], data.validation_contexts, axis=0)
    target_U, contexts_UF = (held.astype(np.int64) for held in data.held(num_held))
    line = np.concatenate([[num_items, num_items], items_T])
    is_next = ages_T < lengths_U[users_T] - 1
    is_third = ages_T < lengths_U[users_T] - 2
    previous_T = np.where(is_third, line[:-2], num_items)
    sides_US = data.user_sides.astype(np.int64)
    context_size, side_size = int(np.prod(data.context_sizes)), int(np.prod(data.side_sizes))
    context_T, context_U = (_joint(x, data.context_sizes) for x in (contexts_TF, contexts_UF))
    side_U = _joint(sides_US, data.side_sizes)
    side_N, context_N = side_U[users_T[is_next]], context_T[is_next]
    return View(
        num_items=num_items,
        users_T=users_T,
        items_T=items_T,
        ages_T=ages_T,
        last_U=items_T[offsets[1:] - 1],
        previous_U=np.where(lengths_U > 1, items_T[offsets[1:] - 2], num_items),
        last_N=line[1:-1][is_next],
        previous_N=previous_T[is_next],
        next_N=items_T[is_next],
        groups_U={
            "first_field": contexts_UF[:, 0],
            "context": context_U,
            "side": side_U,
            "both": context_U * side_size + side_U,
        },
        groups_N={
            "first_field": contexts_TF[is_next, 0],
            "context": context_N,
            "side": side_N,
            "both": context_N * side_size + side_N,
        },
        num_groups={
            "first_field": data.context_sizes[0],
            "context": context_size,
            "side": side_size,
            "both": context_size * side_size,
        },
        # An item with several attributes counts under its rarest one, which is the most informative.
        genre_I=np.argmax(data.item_attributes / (data.item_attributes.sum(0) + 1.0), axis=1),
        target_U=target_U,
    )


def _joint(values: Ints, sizes: Sequence[int]) -> Ints:
    joint: Ints = np.ravel_multi_index(tuple(values.T), tuple(sizes)).astype(np.int64)
    return joint


def baselines(suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
    """Hit rate at 10 by name.

    Raises:
        DataError: the data are missing or damaged.
    """
    data = read_interactions(data_dir, labels_dir)
    views = [view(data, num_held) for num_held in (2, 1)]
    scores = {}
    for name, (score, grid) in METHODS.items():
        scores[name] = tuned(score, grid, *views)
    if suite == "mini":
        scores["alternating_least_squares"] = expert.hit_rate(data)
    return scores


def tuned(score: Callable[..., Floats], grid: Mapping[str, Sequence[Any]], validation: View, test: View) -> float:
    """The hit rate on test with the grid values that are best on validation."""
    choices = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    best = (
        max(choices, key=lambda chosen: validation.hit_rate(score(validation, **chosen))) if choices[1:] else choices[0]
    )
    return test.hit_rate(score(test, **best))


def popularity(seen: View) -> Floats:
    """Share of each item among all interactions, (I,)."""
    counts = np.bincount(seen.items_T, minlength=seen.num_items) + 0.5
    shares: Floats = (counts / counts.sum()).astype(np.float32)
    return shares


def most_popular(seen: View) -> Floats:
    return np.tile(popularity(seen), (len(seen.target_U), 1))


def conditional(given_N: Ints, next_N: Ints, size: int, prior_GI: Floats, strength: float) -> Floats:
    """P(item | given) from counts, smoothed towards `prior_GI` as if that had been seen `strength` times."""
    num_items = prior_GI.shape[-1]
    counts = np.bincount(given_N * num_items + next_N, minlength=size * num_items).reshape(size, num_items)
    totals = counts.sum(1, keepdims=True)
    chance_GI: Floats = ((counts + strength * prior_GI) / (totals + strength)).astype(np.float32)
    return chance_GI


def most_popular_in(seen: View, group: str, strength: float) -> Floats:
    groups_N, groups_U = seen.groups_N[group], seen.groups_U[group]
    return _sparse_conditional(groups_N, seen.next_N, groups_U, most_popular(seen), strength)


def item_knn(seen: View, neighbours: int, shrink: float, decay: float) -> Floats:
    history_UI = seen.recent(1.0)
    together_IJ = history_UI.T @ history_UI
    norms = np.sqrt(np.diag(together_IJ))
    cosine_IJ = together_IJ / (norms[:, None] * norms[None] + shrink + 1e-9)
    np.fill_diagonal(cosine_IJ, 0)
    if neighbours < seen.num_items:
        floor = np.partition(cosine_IJ, -neighbours, axis=0)[-neighbours]
        cosine_IJ[cosine_IJ < floor] = 0
    scores: Floats = seen.recent(decay) @ cosine_IJ
    return scores


def user_knn(seen: View, neighbours: int, decay: float) -> Floats:
    history_UI, recent_UI = seen.recent(1.0), seen.recent(decay)
    units_UI = recent_UI / np.linalg.norm(recent_UI, axis=1, keepdims=True)
    scores = []
    for first in range(0, len(units_UI), 1000):
        similar = units_UI[first : first + 1000] @ units_UI.T
        similar[np.arange(len(similar)), first + np.arange(len(similar))] = 0
        floor = np.partition(similar, -neighbours, axis=1)[:, -neighbours, None]
        scores.append(np.where(similar >= floor, similar, 0) @ history_UI)
    return np.concatenate(scores)


def ease(seen: View, strength: float, decay: float) -> Floats:
    """Steck 2019 (arXiv:1905.03375): the linear autoencoder with a zero diagonal, in closed form."""
    history_UI = seen.recent(1.0)
    inverse_IJ = np.linalg.inv(history_UI.T @ history_UI + strength * np.eye(seen.num_items, dtype=np.float32))
    weights_IJ = -inverse_IJ / np.diag(inverse_IJ)
    np.fill_diagonal(weights_IJ, 0)
    scores: Floats = seen.recent(decay) @ weights_IJ
    return scores


def markov(seen: View, strength: float) -> Floats:
    prior = popularity(seen)[None]
    scores: Floats = conditional(seen.last_N, seen.next_N, seen.num_items, prior, strength)[seen.last_U]
    return scores


def markov_in(seen: View, group: str, strength: float, context_strength: float) -> Floats:
    """P(item | last item, group), smoothed towards P(item | last item), which is smoothed towards popularity."""
    size = seen.num_groups[group]
    plain_JI = conditional(seen.last_N, seen.next_N, seen.num_items, popularity(seen)[None], strength)
    return _sparse_conditional(
        seen.last_N * size + seen.groups_N[group],
        seen.next_N,
        seen.last_U * size + seen.groups_U[group],
        plain_JI[seen.last_U],
        context_strength,
    )


def _sparse_conditional(given_N: Ints, next_N: Ints, given_U: Ints, prior_UI: Floats, strength: float) -> Floats:
    """As `conditional`, for too many keys to tabulate: only the rows that are needed."""
    keys, rows_U = np.unique(given_U, return_inverse=True)
    place_N = np.minimum(np.searchsorted(keys, given_N), len(keys) - 1)
    is_needed_N = keys[place_N] == given_N
    counts = np.zeros((len(keys), prior_UI.shape[1]), np.float32)
    np.add.at(counts, (place_N[is_needed_N], next_N[is_needed_N]), 1)
    counts_UI = counts[rows_U]
    scores: Floats = (counts_UI + strength * prior_UI) / (counts_UI.sum(1, keepdims=True) + strength)
    return scores


def markov_second(seen: View, strength: float, pair_strength: float, weight: float, group: str) -> Floats:
    """P(item | both items before), smoothed towards the product of both chains, the last item's within the group."""
    prior = popularity(seen)[None]
    has = seen.previous_N < seen.num_items
    lag_2 = conditional(seen.previous_N[has], seen.next_N[has], seen.num_items + 1, prior, strength)
    first_UI = markov_in(seen, group, strength, strength) if group else markov(seen, strength)
    both_UI = first_UI * (lag_2[seen.previous_U] / prior) ** weight
    both_UI /= both_UI.sum(1, keepdims=True)
    size = seen.num_items + 1
    return _sparse_conditional(
        seen.previous_N * size + seen.last_N, seen.next_N, seen.previous_U * size + seen.last_U, both_UI, pair_strength
    )


def group_markov(seen: View, strength: float, weight: float, classes: str) -> Floats:
    """P(class of next | class of last, context, side) * P(item | class), times a power of the item chain's lift.

    Classes are the visible genres, or 64 found by clustering items by what precedes and follows them.
    """
    class_I = seen.genre_I if classes == "genre" else latent_classes(seen)
    size = int(class_I.max()) + 1
    prior = popularity(seen)
    share_G = np.bincount(class_I, prior, minlength=size).astype(np.float32)
    last_N, next_N, last_U = class_I[seen.last_N], class_I[seen.next_N], class_I[seen.last_U]
    plain_GG = conditional(last_N, next_N, size, share_G[None], strength)
    chance_UG = plain_GG[last_U]
    for group in ("first_field", "side", "both"):
        count = seen.num_groups[group]
        chance_UG = _sparse_conditional(
            last_N * count + seen.groups_N[group], next_N, last_U * count + seen.groups_U[group], chance_UG, strength
        )
    lift_UI = markov(seen, 100.0) / prior
    scores: Floats = chance_UG[:, class_I] * (prior / share_G[class_I]) * lift_UI**weight
    return scores


def latent_classes(seen: View, count: int = 64) -> Ints:
    """Items clustered by k-means on the leading singular vectors of their pair lifts, in both directions."""
    size = seen.num_items
    counts = np.bincount(seen.last_N * size + seen.next_N, minlength=size * size).reshape(size, size) + 0.0
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum() + 1.0
    left, values, right = np.linalg.svd((counts - expected) / np.sqrt(expected))
    points = np.concatenate([left[:, :24] * values[:24], right[:24].T * values[:24]], axis=1)
    points /= np.linalg.norm(points, axis=1, keepdims=True) + 1e-9
    from sklearn.cluster import KMeans

    found: Ints = KMeans(min(count, size), n_init=4, random_state=0).fit_predict(points).astype(np.int64)
    return found


def linear(seen: View, strength: float) -> Floats:
    """Closed-form ridge regression to the next item.

    Features: the two items before, each crossed with the first context field; the last item; the side; and the last
    item's genre crossed with first context field and side.
    """
    from scipy import sparse

    num_items, hours = seen.num_items, seen.num_groups["first_field"]
    num_genres = int(seen.genre_I.max()) + 1

    def crossed(one: Ints, size: int, other: Ints, count: int) -> tuple[Ints, int]:
        """The crossed feature, or only the first where crossing makes too many columns to solve for."""
        return (one * count + other, size * count) if size * count <= MAX_CROSSED else (one, size)

    def columns(last: Ints, previous: Ints, groups: Mapping[str, Ints]) -> sparse.csr_array:
        hour, side, sides = groups["first_field"], groups["side"], seen.num_groups["side"]
        genre, genres = crossed(seen.genre_I[last], num_genres, hour, hours)
        parts = [
            crossed(last, num_items, hour, hours),
            crossed(previous, num_items + 1, hour, hours),
            (last, num_items),
            (side, sides),
            crossed(genre, genres, side, sides),
        ]
        ones = np.ones(len(last), np.float32)
        return sparse.hstack(
            [sparse.csr_array((ones, (np.arange(len(last)), i)), shape=(len(last), n)) for i, n in parts], format="csr"
        )

    fitted = columns(seen.last_N, seen.previous_N, seen.groups_N)
    tested = columns(seen.last_U, seen.previous_U, seen.groups_U)
    targets = sparse.csr_array(
        (np.ones(len(seen.next_N), np.float32), (np.arange(len(seen.next_N)), seen.next_N)),
        shape=(len(seen.next_N), num_items),
    )
    gram = (fitted.T @ fitted).toarray()
    gram[np.diag_indices_from(gram)] += strength
    from scipy.linalg import cho_factor, cho_solve

    weights = cho_solve(cho_factor(gram, overwrite_a=True, check_finite=False), (fitted.T @ targets).toarray())
    scores: Floats = (tested @ weights).astype(np.float32)
    return scores


def product(seen: View, first: float, second: float, classes: float) -> Floats:
    """Popularity times powers of the lifts by the last item in the hour, the item before it, and the latent classes."""
    prior = popularity(seen)
    has = seen.previous_N < seen.num_items
    lag_2 = conditional(seen.previous_N[has], seen.next_N[has], seen.num_items + 1, prior[None], 30.0)
    last_UI = markov_in(seen, "first_field", 30.0, 30.0) / prior
    classes_UI = group_markov(seen, 10.0, 0.0, "latent") / prior
    scores: Floats = prior * last_UI**first * (lag_2[seen.previous_U] / prior) ** second * classes_UI**classes
    return scores


STRENGTHS = (10.0, 30.0, 100.0)
# Grids whose ends were no better on the mini suite.
METHODS: dict[str, tuple[Callable[..., Floats], dict[str, Sequence[Any]]]] = {
    "most_popular": (most_popular, {}),
    "most_popular_in_context": (
        most_popular_in,
        {"group": ("first_field", "context", "side", "both"), "strength": (100.0, 1000.0)},
    ),
    "item_knn": (item_knn, {"neighbours": (20, 100, 1000), "shrink": (10.0, 100.0), "decay": (1.0, 0.8, 0.5)}),
    "user_knn": (user_knn, {"neighbours": (100, 400), "decay": (0.8,)}),
    "ease": (ease, {"strength": (50.0, 200.0, 800.0, 3000.0), "decay": (1.0, 0.8, 0.5)}),
    "markov": (markov, {"strength": STRENGTHS}),
    "markov_in_context": (
        markov_in,
        {"group": ("first_field", "context", "side"), "strength": (30.0,), "context_strength": STRENGTHS},
    ),
    "markov_second_order": (
        markov_second,
        {"strength": (30.0,), "pair_strength": (30.0,), "weight": (0.3, 0.6, 1.0), "group": ("", "first_field")},
    ),
    "genre_markov_in_context": (
        group_markov,
        {"strength": (10.0, 100.0), "weight": (0.0, 0.5, 1.0), "classes": ("genre",)},
    ),
    "latent_class_markov_in_context": (
        group_markov,
        {"strength": (10.0, 100.0), "weight": (0.3, 0.6), "classes": ("latent",)},
    ),
    "product_of_counts": (product, {"first": (0.5,), "second": (0.5, 1.0), "classes": (0.5, 1.0)}),
    "linear": (linear, {"strength": (10.0, 50.0)}),
}
