"""Recommendation: its data, loaders and metric, and one training run as the referee drives it."""

from __future__ import annotations

import dataclasses
import functools
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.files import sha256_of
from harness.errors import DataError, UsageError
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.recommendation import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")

import torch

from workloads.recommendation import baselines, data, dataset, expert, mini, movielens
from workloads.recommendation.model import GatedTower
from workloads.recommendation.recipe import Recipe
from workloads.recommendation.workload import TrainingSession, best_items

MINI = sessions.rules_of(WORKLOAD.name).defaults()
config = functools.partial(sessions.config, WORKLOAD.name)
started = functools.partial(sessions.started, WORKLOAD.name)


def tiny() -> dataset.Interactions:
    """32 users, 40 items: user u takes u, u + 1, ... (mod 40), 5 + u % 4 of them, in hour t % 4 on device u % 3."""
    lengths = np.array([5 + u % 4 for u in range(32)])
    return dataset.leave_two_out(
        np.array([(u + t) % 40 for u in range(32) for t in range(lengths[u])]),
        np.array([(t % 4, u % 3) for u in range(32) for t in range(lengths[u])]),
        lengths,
        np.array([(u % 6, u % 8) for u in range(32)]),
        np.arange(40)[:, None] % 4 == np.arange(4),
        (4, 3),
        (6, 8),
    )


def tiny_dir(folder: Path, suite: str = "mini") -> Path:
    folder.mkdir(exist_ok=True)
    data.write(folder, suite, tiny(), "tiny")
    return folder


def read_back(folder: Path) -> dataset.Interactions:
    return data.read_interactions(folder, folder)


def test_mini_items_are_taken_once_and_no_test_item_is_trained_on(mini_dir: Path) -> None:
    """A user's training, validation and test items are disjoint: the target was never shown for this user."""
    made = read_back(mini_dir)

    users = np.repeat(np.arange(12000), np.diff(made.train_offsets))
    pairs = np.concatenate([users, np.arange(12000), np.arange(12000)]) * 1000
    pairs += np.concatenate([made.train_items, made.validation_items, made.test_items])
    assert len(np.unique(pairs)) == len(pairs)


def test_mini_has_heavy_tails(mini_dir: Path) -> None:
    """A tenth of the items make up three fifths of what is taken, and a tenth of the users nearly a third."""
    made = read_back(mini_dir)
    taken = np.sort(np.bincount(made.train_items, minlength=1000))[::-1]
    activity = np.sort(np.diff(made.train_offsets))[::-1]

    assert 0.55 < taken[:100].sum() / taken.sum() < 0.7
    assert 0.25 < activity[:1200].sum() / activity.sum() < 0.4
    assert activity.max() == 98
    assert taken.min() > 10


def test_mini_powers_of_two_are_rounded_correctly() -> None:
    """Eighths of an octave as integers, and no weight that could overflow a sum."""
    assert mini.EIGHTHS.tolist() == [round(64 * 2 ** (k / 8)) for k in range(8)]
    assert (64 << mini.OCTAVES) * mini.NUM_ITEMS * 2**30 < 2**63


def test_hidden_units_read_and_pull_few_numbers() -> None:
    """Signs in so many places of each row; an item's numbers are from -2 to 2, mostly near 0."""
    random = np.random.RandomState(0)
    signs, numbers = mini._sparse_signs(random, 3), mini._small(random, 1000)

    assert signs.shape == (mini.NUM_HIDDEN, mini.NUM_NUMBERS)
    assert (np.abs(signs).sum(1) == 3).all()
    assert set(np.unique(signs)) == {-1, 0, 1}
    assert np.unique(numbers).tolist() == [-2, -1, 0, 1, 2]
    assert numbers.var() == pytest.approx(1, abs=0.1)


def test_split_holds_out_the_last_two() -> None:
    """The last is for test, the one before for validation; contexts go with them."""
    made = tiny()

    assert made.train_items[:6].tolist() == [0, 1, 2, 1, 2, 3]
    assert made.train_offsets[:3].tolist() == [0, 3, 7]
    assert [made.validation_items[:2].tolist(), made.test_items[:2].tolist()] == [[3, 5], [4, 6]]
    assert [made.validation_contexts[1].tolist(), made.test_contexts[1].tolist()] == [[0, 1], [1, 1]]


def test_history_shorter_than_what_the_network_reads_is_a_usage_error(tmp_path: Path) -> None:
    """It reads the last three items one by one."""
    with pytest.raises(UsageError, match="history_length is 2, expected at least 3"):
        WORKLOAD.open(config(tiny_dir(tmp_path), global_batch_size=12, history_length=2))


def hits(scores: torch.Tensor, items: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    """The metric as it is defined: at most ten untaken items, the one looked for included, do not score below it."""
    scores = scores.masked_fill(taken, -math.inf)
    wanted = scores.gather(1, items[:, None])
    return (~(scores < wanted)).sum(1) <= 10


def found(scores: torch.Tensor, items: torch.Tensor, taken: torch.Tensor) -> list[bool]:
    """Whether the items are among the best."""
    return (best_items(scores.clone(), taken) == items[:, None]).any(1).tolist()


def test_item_is_a_hit_up_to_the_tenth_place() -> None:
    """With nine better items it is a hit, with ten it is not; items already taken do not count."""
    scores = torch.arange(20.0).repeat(3, 1)
    taken = torch.zeros(3, 20, dtype=torch.bool)
    taken[2, 19] = True

    assert found(scores, torch.tensor([10, 9, 9]), taken) == [True, False, True]


def test_ties_are_not_hits() -> None:
    """A constant score hits nothing; ten items tied at the top are hits, eleven are not."""
    scores = torch.zeros(2, 20)
    scores[1, :10] = 1.0
    none = torch.zeros(2, 20, dtype=torch.bool)

    assert found(scores, torch.tensor([3, 3]), none) == [False, True]
    scores[1, 10] = 1.0
    assert found(scores, torch.tensor([3, 3]), none) == [False, False]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_not_hits(value: float) -> None:
    """A network that has diverged hits nothing, whatever its scores."""
    scores = torch.full((1, 20), value)
    taken = torch.zeros(1, 20, dtype=torch.bool)

    assert found(scores, torch.tensor([0]), taken) == [False]
    mixed = torch.arange(20.0)[None].clone()
    mixed[0, 19] = math.nan  # the target
    assert found(mixed, torch.tensor([19]), taken) == [False]


@given(st.integers(0, 2**32 - 1), st.integers(11, 40), st.integers(1, 12))
def test_best_items_are_exactly_those_that_would_be_hits(seed: int, num_items: int, num_levels: int) -> None:
    """Of scores with many ties, infinities and NaN, for every untaken item; a taken item is never returned."""
    random = np.random.RandomState(seed)
    levels = np.array([*range(num_levels), np.nan, np.inf, -np.inf], np.float32)
    shares = random.rand(len(levels)) ** 3
    scores = torch.from_numpy(random.choice(levels, (30, num_items), p=shares / shares.sum()))
    taken = torch.from_numpy(random.rand(30, num_items) < random.rand())

    best = best_items(scores.clone(), taken).tolist()

    for item in range(num_items):
        is_hit = hits(scores, torch.full((30,), item), taken) & ~taken[:, item]
        assert is_hit.tolist() == [item in row for row in best]
    assert all(sum(item == -1 for item in row) + len(set(row) - {-1}) == 10 for row in best)


def test_hit_rate_agrees_with_scikit_learn_and_with_a_sort(mini_dir: Path) -> None:
    """The metric equals scikit-learn's top-10 accuracy over items not taken, also with a partial last chunk."""
    pytest.importorskip("sklearn")
    from sklearn.metrics import top_k_accuracy_score

    session = started(mini_dir)
    session.train_block(40 * 512)

    quality = sessions.quality(session, mini_dir)
    for name in ("test_users_U", "test_places_U", "test_contexts_UF", "taken_UI"):
        setattr(session, name, getattr(session, name)[:1237])
    session.num_test = 1237
    best = torch.from_numpy(session.predict({})["items"])

    with torch.inference_mode():
        session.network.eval()
        history = session.line_P[session.test_places_U[:, None] + session.back_L]
        inputs = (history, session.test_contexts_UF, session.sides_US[session.test_users_U], session.attributes_IA)
        scores = session.network(*inputs).masked_fill(session.taken_UI, -1e9)
    wanted = torch.from_numpy(read_back(mini_dir).test_items[:1237].astype(np.int64))
    rate = (best == wanted[:, None]).any(1).double().mean().item()
    assert rate == top_k_accuracy_score(wanted, scores, k=10, labels=np.arange(1000))
    assert rate == (scores.topk(10).indices == wanted[:, None]).any(1).double().mean().item()
    assert rate == hits(scores, wanted, session.taken_UI).double().mean().item()
    assert quality.num_examples == 12000
    assert quality.value == pytest.approx(rate, abs=0.03)
    assert 0.02 < quality.value < 0.98


PLACES = np.tile(np.arange(10, dtype=np.int32), (32, 1))


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [
        ({}, "10 items for each of 32 users, as whole numbers"),
        ({"items": PLACES[1:]}, "10 items for each of 32 users, as whole numbers"),
        ({"items": PLACES[:, :9]}, "10 items for each of 32 users, as whole numbers"),
        ({"items": PLACES.astype(float)}, "10 items for each of 32 users, as whole numbers"),
        ({"items": PLACES + 31}, "items from 0 to 39, or -1 for none"),
        ({"items": PLACES - 2}, "items from 0 to 39, or -1 for none"),
        ({"items": np.where(PLACES == 9, 0, PLACES)}, "different items for each user"),
    ],
    ids=["missing", "one user too few", "nine items", "not whole numbers", "item 40", "item -2", "an item twice"],
)
def test_predictions_that_are_not_ten_items_a_user_are_refused(tmp_path: Path, predictions: Any, expected: str) -> None:
    """What the training process sends is foreign input."""
    folder = tiny_dir(tmp_path)

    with pytest.raises(ValueError, match=expected):
        WORKLOAD.evaluator("mini", folder, folder).quality(lambda _: predictions)


def test_no_item_may_be_given_more_than_once_as_none(tmp_path: Path) -> None:
    """A user whose ten best are unknown has -1 in their places, and no hit by them; the others count."""
    folder = tiny_dir(tmp_path)
    items = np.full((32, 10), -1)
    items[:8, 3] = tiny().test_items[:8]

    assert WORKLOAD.evaluator("mini", folder, folder).quality(lambda _: {"items": items}).value == 0.25


def test_the_warm_up_leaves_nothing_behind(tmp_path: Path) -> None:
    """Sessions start alike, whatever ran before their weights were drawn."""
    first, second = (started(tiny_dir(tmp_path), global_batch_size=20) for _ in range(2))
    second.train_block(60)
    sessions.initialised(second)
    second.start(tmp_path)

    assert losses(first, 5) == losses(second, 5)


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty steps from seed 3."""
    sessions.assert_golden_curve(WORKLOAD.name, losses(started(mini_dir), 50), {"rel": 1e-4}, rel=0.01)


def test_block_counts_whole_batches_over_the_end_of_an_epoch(tmp_path: Path) -> None:
    """112 interactions in batches of 50: two batches an epoch, 12 dropped, and what was used is what is counted."""
    session = started(tiny_dir(tmp_path), global_batch_size=50)

    assert session.train_block(220).num_samples == 250
    assert session.epoch == 2


def test_an_epoch_predicts_every_training_interaction_once_and_no_held_one(tmp_path: Path) -> None:
    """Each of two epochs has every place except the users' first, in another order, and never validation or test."""
    session = started(tiny_dir(tmp_path), global_batch_size=28)
    made = tiny()

    first, second = ([p for _ in range(4) for p in _places(session)] for _ in range(2))

    assert sorted(first) == sorted(second) == session.places_N.tolist()
    assert first != second
    predicted = sorted(
        zip(session.owner_P[session.places_N].tolist(), session.line_P[session.places_N].tolist(), strict=True)
    )
    bounds = made.train_offsets
    wanted = [(u, int(i)) for u in range(32) for i in made.train_items[bounds[u] + 1 : bounds[u + 1]]]
    assert predicted == sorted(wanted)


def _places(session: TrainingSession) -> list[int]:
    """The places that the next batch predicts."""
    before = session.cursor
    _, items = session._next_batch()
    first = session.cursor - session.recipe.global_batch_size
    assert before in (first, session.num_train)
    places = session.order_N[first : session.cursor]
    assert session.line_P[places].tolist() == items.tolist()
    return places.tolist()


def test_batch_shows_only_what_came_before(tmp_path: Path) -> None:
    """The history is the user's own, latest last, empty before the first; context and side are the target's."""
    session = started(tiny_dir(tmp_path), global_batch_size=112, history_length=4)

    (history, contexts, sides), items = session._next_batch()

    for row, context, side, item in zip(
        history.tolist(), contexts.tolist(), sides.tolist(), items.tolist(), strict=True
    ):
        shown = [i for i in row if i != 40]
        assert row == [40] * (4 - len(shown)) + shown
        assert shown == [(item - k) % 40 for k in range(len(shown), 0, -1)]
        assert len(shown) >= 1
        # User u (sides and devices determine u mod 24) takes item u + t, at hour t mod 4.
        users = [u for u in range(32) if (u % 6, u % 8) == tuple(side)]
        assert any(context == [(item - u) % 40 % 4, u % 3] for u in users)


def test_test_item_is_predicted_after_the_validation_item(tmp_path: Path) -> None:
    """The evaluation sees everything but the item it looks for, in its own context, and nothing of it is ranked."""
    session = started(tiny_dir(tmp_path), global_batch_size=20, history_length=4)
    made = tiny()

    shown = session.line_P[session.test_places_U[:, None] + session.back_L]

    assert shown[:, -1].tolist() == made.validation_items.tolist()
    assert shown[:, -2].tolist() == made.train_items[made.train_offsets[1:] - 1].tolist()
    assert session.test_contexts_UF.tolist() == made.test_contexts.tolist()
    assert session.taken_UI.sum(1).tolist() == [4 + u % 4 for u in range(32)]
    assert not session.taken_UI[torch.arange(32), torch.from_numpy(made.test_items)].any()


def test_session_needs_no_labels(tmp_path: Path) -> None:
    """It trains and predicts without the test items; with others to train on the losses differ."""
    plain = losses(started(tiny_dir(tmp_path), global_batch_size=20), 5)
    (tmp_path / "test_items.npy").unlink()

    session = started(tmp_path, global_batch_size=20)
    assert losses(session, 5) == plain
    assert session.predict({})["items"].shape == (32, 10)
    np.save(tmp_path / "train_items.npy", (np.load(tmp_path / "train_items.npy") + 1) % 40)
    assert losses(started(tmp_path, global_batch_size=20), 5) != plain


def test_network_learns_the_next_number(tmp_path: Path) -> None:
    """Everybody takes the following number: soon nearly every test item is among ten of the 40; a guess hits 28 %."""
    session = started(tiny_dir(tmp_path), global_batch_size=50, opt_learning_rate_warmup_steps=0)
    session.train_block(100 * 50)

    assert sessions.quality(session, tmp_path).value > 0.8


def test_pool_ignores_what_is_not_there() -> None:
    """A history of one item gives the same scores however long the empty past before it."""
    sizes = {"num_items": 40, "num_attributes": 4, "context_sizes": [4, 3], "side_sizes": [6, 8]}
    torch.manual_seed(0)
    network = GatedTower(sizes, Recipe.parse({**MINI, "history_length": 6}), 8, 16).eval()
    other = GatedTower(sizes, Recipe.parse({**MINI, "history_length": 5}), 8, 16).eval()
    weights = {k: v[..., :5] if k == "ages" else v for k, v in network.state_dict().items()}
    other.load_state_dict(weights)
    rest = (torch.tensor([[1, 2]]), torch.tensor([[3, 4]]), torch.ones(40, 4))

    longer = network(torch.tensor([[40, 40, 40, 40, 40, 7]]), *rest)

    assert torch.allclose(longer, other(torch.tensor([[40, 40, 40, 40, 7]]), *rest))
    assert longer.shape == (1, 40)
    assert torch.isfinite(network(torch.full((1, 6), 40), *rest)).all()


def test_scores_stay_single_precision_under_autocast() -> None:
    """Rounded to three digits, many items would tie with the one looked for."""
    sizes = {"num_items": 40, "num_attributes": 4, "context_sizes": [4, 3], "side_sizes": [6, 8]}
    network = GatedTower(sizes, Recipe.parse(MINI), 8, 16)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = network(
            torch.zeros(2, 16, dtype=torch.int64), *torch.zeros(2, 2, 2, dtype=torch.int64), torch.ones(40, 4)
        )

    assert scores.dtype == torch.float32


@pytest.mark.parametrize("name", data.ARRAYS)
def test_array_with_a_value_out_of_range_is_named(tmp_path: Path, name: str) -> None:
    """An item, a context, a bound or an attribute that cannot be."""
    path = tiny_dir(tmp_path) / f"{name}.npy"
    array = np.load(path)
    array.reshape(-1)[-1] = 100
    np.save(path, array)

    with pytest.raises(DataError, match=name):
        read_back(tmp_path)


def test_views_show_what_is_known_when_it_is_asked() -> None:
    """The validation's view lacks two interactions, the test's one; pairs lie within a user."""
    validation, test = (baselines.view(tiny(), num_held) for num_held in (2, 1))

    assert validation.target_U[:3].tolist() == [3, 5, 7]
    assert test.target_U[:3].tolist() == [4, 6, 8]
    assert test.last_U[:3].tolist() == [3, 5, 7]
    assert test.previous_U[:3].tolist() == [2, 4, 6]
    assert len(validation.next_N) == len(tiny().train_items) - 32
    assert ((test.next_N - test.last_N) % 40 == 1).all()
    known = test.previous_N < 40
    assert ((test.next_N - test.previous_N)[known] % 40 == 2).all()
    assert test.recent(0.5)[0, :5].tolist() == [0.125, 0.25, 0.5, 1.0, 0.0]
    assert test.groups_U["context"][1] == 1 * 3 + 1


def test_baselines_know_a_chain_and_a_crowd() -> None:
    """Where everybody takes the following number, a Markov chain is nearly perfect and popularity is not."""
    views = [baselines.view(tiny(), num_held) for num_held in (2, 1)]

    score = {name: baselines.tuned(function, {k: v[:1] for k, v in grid.items()}, *views)
             for name, (function, grid) in baselines.METHODS.items()
             if name in ("most_popular", "markov", "markov_second_order", "linear")}  # fmt: skip

    assert min(score["markov"], score["markov_second_order"], score["linear"]) > 0.9
    assert score["most_popular"] < 0.6


def test_expert_begins_with_part_of_the_numbers(mini_dir: Path) -> None:
    """The leading eigenvectors span four of the eight dimensions of the items' numbers, and the others hardly."""
    known = expert.course(read_back(mini_dir), 1)
    shares = np.bincount(known.items_UT.reshape(-1), minlength=1001)[:1000] / (known.items_UT < 1000).sum()
    random = np.random.RandomState(mini.MINI_SEED)
    numbers = expert._white(mini._small(random, mini.NUM_ITEMS, mini.NUM_NUMBERS), shares)

    found = expert.leading(known, shares)

    likeness = np.linalg.svd((found * shares[:, None]).T @ numbers)[1]
    assert (likeness[:4] > 0.8).all()
    assert (likeness[4:] < 0.5).all()


def test_tensor_of_a_rank_is_found_again() -> None:
    """Alternating least squares: with little noise, what is found is nearer to the tensor than what it was given."""
    random = np.random.RandomState(0)
    parts = [random.randn(size, 3) for size in (12, 20, 16)]
    tensor = np.einsum("cr,sr,er->cse", *parts)
    noise = 0.3 * random.randn(*tensor.shape)

    found, distance = min((expert.smoothed(tensor + noise, seed) for seed in range(2)), key=lambda one: one[1])

    assert ((found - tensor) ** 2).sum() < 0.7 * (noise**2).sum()
    assert distance < (noise**2).sum()


def test_expert_knows_what_is_known_when_it_is_asked() -> None:
    """Its course for the test has the validation item, and neither has the item asked for."""
    validation, test = (expert.course(tiny(), num_held) for num_held in (2, 1))

    assert validation.items_UT[0].tolist() == [0, 1, 2, 40, 40, 40, 40]
    assert test.items_UT[0].tolist() == [0, 1, 2, 3, 40, 40, 40, 40]
    assert [course.length_U[0] for course in (validation, test)] == [3, 4]
    assert [course.target_U[0] for course in (validation, test)] == [3, 4]
    assert test.contexts_UT[0].tolist() == [0, 3, 6, 9, 0, 0, 0, 0]
    assert test.sides_U[9] == 3 * 8 + 1


def test_baselines_hit_rate_is_the_metrics() -> None:
    """The same treatment of ties: a constant hits nothing."""
    test = baselines.view(tiny(), 1)
    random = np.random.RandomState(0).rand(32, 40).astype(np.float32)

    taken = torch.from_numpy(test.recent(1.0) > 0)
    assert test.hit_rate(np.zeros((32, 40), np.float32)) == 0.0
    is_hit = hits(torch.from_numpy(random), torch.from_numpy(test.target_U), taken)
    assert test.hit_rate(random) == is_hit.float().mean()


def test_baselines_refuse_a_folder_without_data(tmp_path: Path) -> None:
    """One sentence."""
    with pytest.raises(DataError, match=r"metadata\.json cannot be read"):
        WORKLOAD.baselines("mini", tmp_path, tmp_path)


COUNTS = (1200, 40, 60)  # ratings, users, movies


@functools.cache
def invent() -> tuple[np.ndarray, np.ndarray]:
    """Ratings (user, movie, stars, time; numbers from 1), shuffled, and the movies' groups. It is not MovieLens.

    A user rates 20 to 40 movies in the order of their numbers, and many ratings share a second.
    """
    random = np.random.RandomState(7)
    group = random.randint(0, 4, size=COUNTS[2])
    rows = []
    for user in range(COUNTS[1]):
        num_rated = 20 + user if user < 20 else 60 - user
        movies = (7 * user + np.arange(num_rated)) % COUNTS[2] + 1
        seconds = 978_300_000 + random.randint(0, 10**7) + np.cumsum(random.randint(0, 3, size=num_rated) * 7)
        rows.append(np.stack([np.full(num_rated, user + 1), movies, random.randint(1, 6, size=num_rated), seconds], 1))
    return random.permutation(np.concatenate(rows)), group


def write_1m(folder: Path) -> Path:
    """`ratings.dat`, `users.dat`, `movies.dat` of invented content."""
    folder.mkdir(parents=True, exist_ok=True)
    ratings, group = invent()
    genres = [f"{movielens.GENRES[g % 18]}|{movielens.GENRES[(g + 5) % 18]}" for g in group]
    files = {
        "ratings.dat": ["::".join(map(str, row)) for row in ratings.tolist()],
        "users.dat": [f"{u + 1}::{'MF'[u % 2]}::{movielens.AGES[u % 7]}::{u % 21}::0{u:04d}" for u in range(COUNTS[1])],
        "movies.dat": [f"{i + 1}::Café {i}: the Movie ({1930 + i % 70})::{genres[i]}" for i in range(COUNTS[2])],
    }
    for name, lines in files.items():
        (folder / name).write_bytes("".join(line + "\n" for line in lines).encode("latin-1"))
    return folder


def write_100k(folder: Path) -> Path:
    """The same content as `u.data`, `u.user`, `u.item`."""
    folder.mkdir(parents=True, exist_ok=True)
    ratings, group = invent()
    flags = ["|".join(["0", *("1" if k in (g % 18, (g + 5) % 18) else "0" for k in range(18))]) for g in group]
    ages = [7, 18, 34, 35, 49, 51, 73]
    jobs = movielens.OCCUPATIONS_100K
    files = {
        "u.data": ["\t".join(map(str, row)) for row in ratings.tolist()],
        "u.user": [f"{u + 1}|{ages[u % 7]}|{'MF'[u % 2]}|{jobs[u % 21]}|0{u:04d}" for u in range(COUNTS[1])],
        "u.item": [
            f"{i + 1}|Café {i} (1995)|01-Jan-1995||http://us.imdb.com/?{i}|{flags[i]}" for i in range(COUNTS[2])
        ],
    }
    for name, lines in files.items():
        (folder / name).write_bytes("".join(line + "\r\n" for line in lines).encode("latin-1"))
    return folder


def read_small(folder: Path, which: int = 0, counts: tuple[int, int, int] = COUNTS) -> dataset.Interactions:
    return movielens.read_layout(movielens.LAYOUTS[which], lambda name: movielens._content(folder / name), counts)


def test_two_layouts_hold_the_same_interactions(tmp_path: Path) -> None:
    """The same ratings in both formats give equal arrays, despite line ends, age bands and occupations."""
    first, second = read_small(write_1m(tmp_path / "1m")), read_small(write_100k(tmp_path / "100k"), 1)

    for name in data.ARRAYS:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_movielens_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every rating once, in time order, with hour and weekday, the user's side and the movie's genres."""
    made = read_small(write_1m(tmp_path))
    ratings, group = invent()
    rated = np.unique(ratings[:, 1])
    times = {(u, int(np.searchsorted(rated, i))): t for u, i, _, t in ratings.tolist()}

    for user in range(40):
        own = [*made.train_items[made.train_offsets[user] : made.train_offsets[user + 1]]]
        own += [made.validation_items[user], made.test_items[user]]
        seconds = [times.pop((user + 1, int(item))) for item in own]
        assert seconds == sorted(seconds)
        assert made.test_contexts[user].tolist() == [seconds[-1] // 3600 % 24, seconds[-1] // 86400 % 7]
        assert made.user_sides[user].tolist() == [user % 2, user % 7, user % 21]
    assert times == {}
    assert made.item_attributes.shape == (len(rated), 18)
    assert made.item_attributes[0].nonzero()[0].tolist() == sorted(
        [group[rated[0] - 1] % 18, (group[rated[0] - 1] + 5) % 18]
    )


def test_order_of_lines_does_not_matter_and_ties_are_mixed(tmp_path: Path) -> None:
    """Sorted lines give the same bytes, and within a second movies are in no numerical order."""
    made = read_small(write_1m(tmp_path))
    lines = (tmp_path / "ratings.dat").read_bytes().splitlines(keepends=True)
    (tmp_path / "ratings.dat").write_bytes(b"".join(sorted(lines)))

    again = read_small(tmp_path)

    assert np.array_equal(made.train_items, again.train_items)
    assert np.array_equal(made.test_items, again.test_items)
    (tmp_path / "ratings.dat").write_bytes(
        b"".join(b"::".join([*line.split(b"::")[:3], b"978300000\n"]) for line in lines)
    )
    tied = read_small(tmp_path)
    rises = np.diff(tied.train_items.astype(int)) > 0
    assert 0.4 < rises.mean() < 0.6


def test_layout_is_recognised_and_counts_are_the_official_ones(tmp_path: Path) -> None:
    """A small copy is recognised in each layout, also from the parent folder, and refused for its size."""
    write_1m(tmp_path / "a" / "ml-1m")
    write_100k(tmp_path / "b")

    with pytest.raises(DataError, match=r"ratings\.dat: 1,200 lines, expected 1,000,209 for ml-1m"):
        movielens.read(tmp_path / "a")
    with pytest.raises(DataError, match=r"u\.data: 1,200 lines, expected 100,000 for ml-100k"):
        movielens.read(tmp_path / "b")
    with pytest.raises(DataError, match="no layout of MovieLens"):
        movielens.read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ratings.dat", None, None, r"ratings\.dat cannot be read"),
        ("movies.dat", None, None, r"movies\.dat cannot be read"),
        ("users.dat", b"1::", b"", r"users\.dat, line 1: not in the expected format"),
        ("ratings.dat", b"::", b",", r"ratings\.dat, line 1: not in the expected format"),
        ("ratings.dat", b"::5::", b"::6::", r"ratings\.dat, line \d+: not in the expected format"),
        ("users.dat", b"::18::", b"::19::", r"users\.dat, line 2: not in the expected format"),
        ("movies.dat", b"::Action|", b"::Akction|", "unknown genre 'Akction'"),
        ("movies.dat", b"\n2::", b"\n1::", r"movies\.dat: number 1 occurs twice"),
        ("users.dat", b"\n2::", b"\n99::", r"ratings\.dat: number 2 is not in users\.dat"),
        ("movies.dat", b"\n7::", b"\n99::", r"ratings\.dat: number 7 is not in movies\.dat"),
    ],
)
def test_damaged_file_is_named(tmp_path: Path, name: str, old: bytes | None, new: bytes, message: str) -> None:
    """Missing, in another format, or with an unknown number: one sentence with file and line."""
    path = write_1m(tmp_path) / name
    if old is None:
        path.unlink()
    else:
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    with pytest.raises(DataError, match=message):
        read_small(tmp_path)


@pytest.mark.parametrize("kept", [0, 5000, -3])
def test_file_cut_off_is_refused(tmp_path: Path, kept: int) -> None:
    """Half a download is not half a data set, wherever it ends."""
    path = write_1m(tmp_path) / "ratings.dat"
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(DataError, match=r"ratings\.dat"):
        read_small(tmp_path)


def test_user_with_two_ratings_and_movie_rated_twice_are_refused(tmp_path: Path) -> None:
    """Neither can be split leaving two out."""
    lines = (write_1m(tmp_path) / "ratings.dat").read_text().splitlines(keepends=True)
    own = [line for line in lines if line.startswith("3::")]
    few = [line for line in lines if line not in own[2:]]
    (tmp_path / "ratings.dat").write_text("".join(few))
    with pytest.raises(DataError, match="user 3 has 2 ratings"):
        read_small(tmp_path, counts=(len(few), 40, 60))

    (tmp_path / "ratings.dat").write_text("".join([*lines[:-1], lines[0]]))
    with pytest.raises(DataError, match="rated the same movie twice"):
        read_small(tmp_path)


def test_file_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read into memory is bounded."""
    monkeypatch.setattr(movielens, "MAX_FILE_BYTES", 1000)

    with pytest.raises(DataError, match="more than 1,000 bytes"):
        read_small(write_1m(tmp_path))


def archive_of(folder: Path, lacking: str = "") -> Path:
    path = folder / "served.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(write_1m(folder / "files").iterdir()):
            if file.name != lacking:
                archive.write(file, f"ml-1m/{file.name}")
    return path


def test_archive_is_read_without_being_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is served is what is read, and only the archive is left in the download folder."""
    served = archive_of(tmp_path)
    small = dataclasses.replace(movielens.LAYOUTS[0], counts=COUNTS)
    monkeypatch.setattr(movielens, "LAYOUTS", (small,))

    made, layout = movielens.download(tmp_path / "downloads", served.as_uri(), sha256_of(served))

    assert layout == "ml-1m"
    assert np.array_equal(made.train_items, read_small(tmp_path / "files").train_items)
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["ml-1m.zip"]


def test_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A file that is not an archive, an archive that lacks a file, and one whose member does not unpack."""
    served = archive_of(tmp_path, lacking="users.dat")
    with pytest.raises(DataError, match=r"contains no file ml-1m/users\.dat"):
        movielens.download(tmp_path / "a", served.as_uri(), sha256_of(served))
    content = bytearray(archive_of(tmp_path).read_bytes())
    content[2000:2100] = bytes(100)
    served.write_bytes(content)
    with pytest.raises(DataError, match=r"ml-1m\.zip is damaged|not in the expected format"):
        movielens.download(tmp_path / "b", served.as_uri(), sha256_of(served))
    served.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"ml-1m\.zip is damaged"):
        movielens.download(tmp_path / "c", served.as_uri(), sha256_of(served))


def test_standard_session_trains_on_its_layout(tmp_path: Path) -> None:
    """The same session on files in MovieLens' format: the loss falls, and the target movies rank higher."""
    made = read_small(write_1m(tmp_path / "source"))
    (tmp_path / "out").mkdir()
    data.write(tmp_path / "out", "standard", made, "ml-1m")
    session = started(tmp_path / "out", suite="standard", global_batch_size=64, opt_learning_rate_warmup_steps=5)
    before = sessions.quality(session, tmp_path / "out")

    curve = losses(session, 80)

    after = sessions.quality(session, tmp_path / "out")
    assert curve[0] == pytest.approx(math.log(len(made.item_attributes)), abs=1.5)
    assert np.mean(curve[-5:]) < curve[0] - 0.5
    assert before.num_examples == after.num_examples == 40
    assert after.value > 0.2


SCRIPT = """
from tests.workloads.test_recommendation import started
mini, tiny = folders
session = started(tiny, num_devices=2, global_batch_size=20)
batches = [session._next_batch()[1].tolist() for _ in range(6)]
session = started(mini, num_devices=2)
result = course(session, 20000, mini) | dict(batches=batches, users=session.test_users_U.tolist())
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """Shards never overlap, gradients are shared, the count is exact, and the course is that of one process."""
    small = tiny_dir(tmp_path / "tiny")

    ranks = on_two_processes(SCRIPT, tmp_path, mini_dir, small)

    alone = started(small, global_batch_size=20)
    for step in range(6):
        assert ranks[0]["batches"][step] + ranks[1]["batches"][step] == alone._next_batch()[1].tolist()
    assert sorted(ranks[0]["users"] + ranks[1]["users"]) == list(range(12000))
    assert ranks[0]["counts"] == [20480, 12000]
    single = started(mini_dir)
    assert ranks[0]["course"]["loss"] == pytest.approx(single.train_block(20000).mean_loss, rel=1e-3)
    single.network.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert ranks[0]["course"]["value"] == pytest.approx(sessions.quality(single, mini_dir).value, abs=2 / 12000)
