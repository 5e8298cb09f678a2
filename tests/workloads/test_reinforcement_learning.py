"""Reinforcement learning: its environments, PPO's arithmetic, and one training run as the referee drives it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError, UsageError
from harness.workload import Metric, RunConfig, Workload
from workloads.reinforcement_learning import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("gymnasium")

import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from workloads.reinforcement_learning import baselines as rules_by_hand
from workloads.reinforcement_learning import data, environments
from workloads.reinforcement_learning.environments import Evaluation, SwingUp, make_lander
from workloads.reinforcement_learning.model import advantages, build_model, loss_of_rows, sample_actions
from workloads.reinforcement_learning.recipe import Recipe
from workloads.reinforcement_learning.workload import TrainingSession

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("reinforcement_learning_golden.json")
MINI = {
    "global_batch_size": 512,
    "rollout_length": 32,
    "minibatch_size": 128,
    "num_epochs": 2,
    "opt_name": "adam",
    "opt_base_learning_rate": 0.003,
    "opt_end_learning_rate": 0.0001,
    "opt_learning_rate_warmup_steps": 0,
    "opt_learning_rate_training_steps": 220,
    "opt_adam_beta_1": 0.9,
    "opt_adam_beta_2": 0.999,
    "opt_adam_epsilon": 1e-5,
    "opt_gradient_clip_norm": 0.5,
    "discount": 0.985,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "value_coefficient": 0.5,
    "entropy_coefficient": 0.0,
    "weight_average_decay": 0.85,
    "reward_scale": 0.02,
}


@pytest.fixture(scope="module")
def mini_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mini")
    WORKLOAD.prepare_data("mini", folder, None)
    return folder


@pytest.fixture(scope="module")
def standard_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standard")
    WORKLOAD.prepare_data("standard", folder, None)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread: sums are taken in one order, and a machine with other work does not slow the tests twentyfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(folder: Path, suite: str = "mini", seed: int = 3, num_devices: int = 1, **changed: Any) -> RunConfig:
    metadata = json.loads((folder / "metadata.json").read_text())
    return RunConfig(WORKLOAD.name, suite, "closed", seed, {**MINI, **changed}, metadata, num_devices)


def started(folder: Path, **arguments: Any) -> TrainingSession:
    session = WORKLOAD.open(config(folder, **arguments))
    session.prepare()
    session.start(folder)
    return session


def losses(session: TrainingSession, num_steps: int) -> list[float]:
    return [session.train_block(1).mean_loss for _ in range(num_steps)]


def cart_pole() -> CartPoleEnv:
    """One of Gymnasium's own, with the contest's limits."""
    env = CartPoleEnv()
    env.x_threshold, env.theta_threshold_radians = environments.TRACK_M, math.inf
    return env


# ---- what is imported, and the contract


def test_import_brings_no_machine_learning_library() -> None:
    """Naming the workload costs no second: torch and its like come with the session."""
    code = (
        "import sys; from workloads.reinforcement_learning import WORKLOAD; "
        "print([m for m in ('torch', 'gymnasium', 'accelerate', 'numpy') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_workload_meets_the_protocol() -> None:
    """The referee's view of it: a name, a metric whose direction is told."""
    assert isinstance(WORKLOAD, Workload)
    assert WORKLOAD.metric == Metric("mean_return", "return", "max")


# ---- the environments


def test_swing_up_moves_as_gymnasiums_cart_pole(mini_dir: Path) -> None:
    """A hundred starts, every step of every episode: state, reward and end as `CartPoleEnv` has them by itself."""
    starts = np.load(mini_dir / "test_starts.npy")[:20]
    random = np.random.RandomState(1)
    vector = SwingUp(len(starts))
    vector.reset(options={"states_4N": starts.T})
    singles = [cart_pole() for _ in starts]
    for env, start in zip(singles, starts, strict=True):
        env.reset()
        env.state = start.copy()
    alive = set(range(len(starts)))

    for _ in range(120):
        actions = random.randint(0, 2, len(starts))
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        assert not truncated.any()
        for i in sorted(alive):
            (x, x_dot, theta, theta_dot), _, is_off, _, _ = singles[i].step(int(actions[i]))
            expected = (x, x_dot, math.cos(theta), math.sin(theta), theta_dot)
            assert observations[i] == pytest.approx(expected, abs=1e-5)
            assert terminated[i] == is_off
            assert rewards[i] == pytest.approx(0 if is_off else (1 + math.cos(theta)) / 2, abs=1e-5)
            if is_off:
                alive.discard(i)

    assert 0 < len(alive) < len(starts)


def test_other_dynamics_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Gymnasium that moves the cart in another way would silently be another contest."""
    monkeypatch.setattr(environments, "SWING_UP_AFTER", (0.0, 0.0, 0.0, 0.0))

    with pytest.raises(DataError, match="this version would be another benchmark"):
        WORKLOAD.prepare_data("mini", tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_episode_is_cut_off_at_the_time_limit_and_begins_anew_a_step_later() -> None:
    """NEXT_STEP: the end is seen with its own observation; the next call resets, whatever the action, for nothing."""
    env = SwingUp(2)
    env.max_episode_steps = 3
    env.reset(seed=5, options={"states_4N": np.array([[0, 0.39], [0, 2.0], [0.1, 0.1], [0, 0]])})

    steps = [env.step(np.array([1, 1])) for _ in range(5)]

    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    ends = [(terminated.tolist(), truncated.tolist()) for _, _, terminated, truncated, _ in steps]
    assert ends[0] == ([False, True], [False, False])  # the second leaves the track at once
    assert ends[2] == ([False, False], [True, False])
    assert ends[3] == ([False, False], [False, False])
    assert steps[0][1][1] == 0
    assert steps[1][1][1] == 0  # its reset
    assert steps[2][1][0] > 0
    assert steps[3][1][0] == 0
    assert abs(steps[3][0][0, 0]) <= environments.TRACK_M / 4
    assert env.steps.tolist() == [1, 3]


def test_reset_of_one_agrees_with_gymnasiums_own_vector() -> None:
    """`SyncVectorEnv`, the lander's, resets in the same way: reward 0, no end, the action ignored."""
    env = SyncVectorEnv([make_lander] * 2)
    env.reset(seed=[7, 8])
    over = np.zeros(2, np.bool_)
    num_resets = 0

    for _ in range(260):
        _, rewards, terminated, truncated, _ = env.step(np.array([0, 0]))
        assert (rewards[over] == 0).all()
        assert not (terminated | truncated)[over].any()
        num_resets += int(over.sum())
        over = terminated | truncated
    env.close()

    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert num_resets >= 2


def test_an_environment_does_not_depend_on_its_fellows() -> None:
    """Four environments, or twice two with the same seeds: the same episodes, also after a reset."""
    seeds = data.training_seeds(3, 4)
    random = np.random.RandomState(0)
    envs = [SwingUp(4), SwingUp(2), SwingUp(2)]
    for env, own in zip(envs, (seeds, seeds[:2], seeds[2:]), strict=True):
        env.reset(seed=own, options={"is_staggered": True})

    for _ in range(150):
        actions = random.randint(0, 2, 4)
        together, *apart = (env.step(a)[0] for env, a in zip(envs, (actions, actions[:2], actions[2:]), strict=True))
        assert np.array_equal(together, np.concatenate(apart))


def test_training_never_meets_the_episodes_of_an_evaluation(mini_dir: Path, standard_dir: Path) -> None:
    """Seeds: 0 to 99 and 1000 to 1099 are nobody's but the evaluations'. States: none of training's is among them."""
    runs = [data.training_seeds(seed, 4096) for seed in (0, 1, 2, 2**31, 2**32 - 1, -1)]
    kept = {split: np.load(standard_dir / f"{split}_starts.npy") for split in ("test", "validation")}
    states = {split: np.load(mini_dir / f"{split}_starts.npy") for split in ("test", "validation")}
    training = [environments.draw(np.random.default_rng(seed)) for seed in runs[0]]

    assert min(min(run) for run in runs) == data.FIRST_TRAINING_SEED > max(seeds.max() for seeds in kept.values())
    assert not set(runs[0]) & set(runs[1])
    assert runs[4] == runs[5]
    assert not set(kept["test"]) & set(kept["validation"])
    assert len({tuple(s) for s in [*training, *states["test"], *states["validation"]]}) == 4096 + 200


# ---- what the data folder holds


def test_data_have_the_golden_digests(mini_dir: Path, standard_dir: Path) -> None:
    """Every byte of the contest is the same on every machine."""
    assert digests(mini_dir, standard_dir) == json.loads(GOLDEN.read_text())["sha256"]


def digests(mini_dir: Path, standard_dir: Path) -> dict[str, str]:
    folders = {"mini": mini_dir, "standard": standard_dir}
    return {
        f"{suite}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for suite, folder in folders.items()
        for path in sorted(folder.iterdir())
    }


def test_data_twice_are_the_same(mini_dir: Path, tmp_path: Path) -> None:
    """Nothing but the contest's seeds decides: not the random state of the process."""
    np.random.seed(99)

    WORKLOAD.prepare_data("mini", tmp_path, None)

    for path in mini_dir.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_starts_are_on_the_track_at_any_angle(mini_dir: Path) -> None:
    """A hundred states: near the middle, from hanging to upright."""
    starts = np.load(mini_dir / "test_starts.npy")

    assert starts.shape == (100, 4)
    assert np.abs(starts).max(0) == pytest.approx([0.1, 0, math.pi, 0.05], rel=0.1)
    assert abs(np.cos(starts[:, 2]).mean()) < 0.2


@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_source_is_refused(tmp_path: Path, suite: str) -> None:
    """A source that would be ignored is an error."""
    with pytest.raises(UsageError, match="leave the source out"):
        WORKLOAD.prepare_data(suite, tmp_path, tmp_path)


def test_unknown_suite_is_answered_with_the_known(tmp_path: Path) -> None:
    """A typing error is met with a suggestion."""
    with pytest.raises(UsageError, match="did you mean 'standard'"):
        WORKLOAD.prepare_data("standrd", tmp_path, None)


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "text", "dtype", "count", "nan"])
def test_damaged_starts_are_named(mini_dir: Path, tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with the file, the sentence says which."""
    path = tmp_path / "test_starts.npy"
    whole = (mini_dir / path.name).read_bytes()
    match damage:
        case "cut":
            path.write_bytes(whole[:-5])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("states")
        case "dtype":
            np.save(path, np.zeros((100, 4), np.float32))
        case "count":
            np.save(path, np.zeros((99, 4)))
        case "nan":
            np.save(path, np.full((100, 4), math.nan))

    with pytest.raises(DataError, match=r"test_starts\.npy"):
        data.read_starts(tmp_path, "mini", "test", 100)


# ---- hyperparameters and configuration


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"global_batchsize": 3}, "did you mean 'global_batch_size'"),
        ({"global_batch_size": 512.0}, "expected int"),
        ({"global_batch_size": True}, "expected int"),
        ({"global_batch_size": 0}, "at least 1"),
        ({"global_batch_size": 528}, "not a multiple of rollout_length 32"),
        ({"minibatch_size": 300}, "not a multiple of minibatch_size 300"),
        ({"minibatch_size": 1024}, "not a multiple of minibatch_size 1024"),
        ({"global_batch_size": 2**26, "rollout_length": 32}, "expected at most 1048576"),
        ({"num_epochs": 0}, "at least 1"),
        ({"opt_name": "sgd"}, "expected adam"),
        ({"opt_base_learning_rate": -0.1}, "finite number"),
        ({"opt_base_learning_rate": math.nan}, "finite number"),
        ({"opt_adam_beta_2": 1.0}, "below 1"),
        ({"discount": 1.01}, "at most 1"),
        ({"opt_learning_rate_warmup_steps": 220}, "must be below"),
    ],
)
def test_wrong_hyperparameter_is_a_usage_error(mini_dir: Path, changed: dict[str, Any], message: str) -> None:
    """One sentence that says what was given and what may be."""
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(mini_dir, **changed))


def test_missing_hyperparameter_is_named() -> None:
    """There are no defaults in code."""
    with pytest.raises(UsageError, match="missing: discount"):
        Recipe.parse({key: value for key, value in MINI.items() if key != "discount"})


def test_environments_that_devices_cannot_share_are_refused(mini_dir: Path) -> None:
    """Every rank has the same share."""
    with pytest.raises(UsageError, match="16 environments cannot be shared by 3 devices"):
        WORKLOAD.open(config(mini_dir, num_devices=3))


def test_world_that_is_not_the_one_declared_is_refused(mini_dir: Path) -> None:
    """One process cannot stand for two devices."""
    with pytest.raises(UsageError, match="1 processes were started for 2 devices"):
        WORKLOAD.open(config(mini_dir, num_devices=2)).prepare()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="has an accelerator")
def test_half_precision_on_a_cpu_is_refused(mini_dir: Path) -> None:
    """Gradient scaling needs an accelerator; the sentence says what there is instead."""
    with pytest.raises(UsageError, match="a CPU supports fp32 and bf16"):
        WORKLOAD.open(dataclasses.replace(config(mini_dir), precision="fp16")).prepare()


def test_metadata_that_lack_a_key_are_refused(mini_dir: Path) -> None:
    """A foreign data folder is told apart."""
    with pytest.raises(DataError, match="lacks 'num_observations'"):
        WORKLOAD.open(dataclasses.replace(config(mini_dir), metadata={}))


def test_learning_rate_rises_falls_and_stays() -> None:
    """A triangle with a floor: a run past its horizon still learns."""
    schedule = {"opt_learning_rate_warmup_steps": 3, "opt_learning_rate_training_steps": 7}
    recipe = Recipe.parse({**MINI, **schedule, "opt_base_learning_rate": 0.4, "opt_end_learning_rate": 0.004})

    rates = [recipe.learning_rate(step) for step in range(9)]

    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.301, 0.202, 0.103, 0.004, 0.004])


# ---- PPO's arithmetic


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


def test_advantage_bootstraps_what_was_cut_off_and_not_what_ended() -> None:
    """One step of reward 1, values 10 and then 20, discount 0.5: 1 + 10 - 10, or 1 - 10."""
    flags = torch.tensor([[[True]], [[False]]])
    no, yes = flags[1], flags[0]

    cut_off = advantages(column(1), column(10, 20), no, yes, yes, 0.5, 0.9)
    ended = advantages(column(1), column(10, 20), yes, yes, yes, 0.5, 0.9)

    assert cut_off.item() == 1
    assert ended.item() == -9


def test_advantage_does_not_reach_over_the_end_of_an_episode() -> None:
    """Steps 0 and 1, the end, the reset, a step of the next episode; discount and lambda 1, values as they stand."""
    is_over = column(0, 1, 0, 0) > 0
    is_step = column(1, 1, 0, 1) > 0

    found = advantages(column(1, 2, 0, 100), column(1, 2, 3, 4, 5), is_over, is_over, is_step, 1.0, 1.0)

    # 2 - 2 = 0 at the end; 1 + 2 - 1 + 0 = 2 before it; nothing for the reset; 100 + 5 - 4 = 101 after it.
    assert found.flatten().tolist() == [2, 0, 0, 101]


def test_advantage_is_the_discounted_sum_of_surprises() -> None:
    """Three steps without an end: delta + 0.5 * 0.8 * what comes later."""
    none, all_steps = torch.zeros(3, 1, dtype=torch.bool), torch.ones(3, 1, dtype=torch.bool)

    found = advantages(column(1, 1, 1), column(0, 2, 4, 8), none, none, all_steps, 0.5, 0.8)

    # deltas: 1 + 1 - 0 = 2, 1 + 2 - 2 = 1, 1 + 4 - 4 = 1
    assert found.flatten().tolist() == pytest.approx([2 + 0.4 * 1.4, 1 + 0.4, 1])


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"), [(1.5, 1, -1.2), (1.5, -1, 1.5), (0.5, 1, -0.5), (0.5, -1, 0.8)]
)
def test_policy_loss_is_clipped_on_the_side_of_the_gain(ratio: float, advantage: float, expected: float) -> None:
    """With a range of 0.2 a probability pays off between 0.8 and 1.2 of what it was, and costs without limit."""
    recipe = Recipe.parse({**MINI, "value_coefficient": 0.0})
    logits = torch.zeros(1, 2)
    old = torch.tensor([math.log(0.5 / ratio)])

    loss = loss_of_rows(
        logits, torch.zeros(1), torch.tensor([1]), old, torch.tensor([float(advantage)]), torch.ones(1), recipe
    )

    assert loss.item() == pytest.approx(expected)


def test_value_error_and_entropy_have_their_weights() -> None:
    """An even choice of two has entropy log 2; a value 3 off costs 9."""
    recipe = Recipe.parse({**MINI, "value_coefficient": 0.5, "entropy_coefficient": 0.1})
    old = torch.tensor([math.log(0.5)])

    loss = loss_of_rows(
        torch.zeros(1, 2), torch.tensor([4.0]), torch.tensor([0]), old, torch.zeros(1), torch.ones(1), recipe
    )

    assert loss.item() == pytest.approx(0.5 * 9 - 0.1 * math.log(2))


def test_the_mirrored_world_is_seen_as_the_world() -> None:
    """A cart-pole and its mirror image go on as mirror images when pushed to opposite sides, and the network knows."""
    pair = SwingUp(2)
    pair.reset(options={"states_4N": np.array([[0.1, -0.3, 0.2, 1.5], [-0.1, 0.3, -0.2, -1.5]]).T})
    observations, *_ = pair.step(np.array([1, 0]))
    torch.manual_seed(0)
    network = build_model("mini", 5, 2)
    torch.nn.init.normal_(network.actor[-1].weight)  # freshly made, every action is about as good as the other

    logits, values = network(torch.from_numpy(observations))

    assert observations[1] == pytest.approx(observations[0] * [-1, -1, 1, -1, -1], abs=1e-6)
    assert logits[1].tolist() == pytest.approx(logits[0].flip(0).tolist(), abs=1e-5)
    assert abs(logits[0, 0] - logits[0, 1]) > 0.01
    assert values[1].item() == pytest.approx(values[0].item(), abs=1e-5)


def test_sampled_actions_are_as_likely_as_the_logits_say() -> None:
    """Over an even grid of chances the counts are the probabilities; what is no number becomes action 0."""
    chances = torch.arange(1000) / 1000
    logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(1000, 3)

    counts = sample_actions(logits, chances).bincount().tolist()

    assert counts == pytest.approx([200, 500, 300], abs=1)
    assert sample_actions(torch.full((4, 3), math.nan), torch.rand(4)).tolist() == [0, 0, 0, 0]


# ---- one run


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty global batches from seed 3, to the last bit on one machine; the tolerance is for other processors.

    A run of a policy in a world is chaotic, so only the beginning is compared closely.
    """
    golden = json.loads(GOLDEN.read_text())["loss"]

    curve, again = (losses(started(mini_dir), len(golden)) for _ in range(2))

    assert curve == again
    assert curve[:5] == pytest.approx(golden[:5], rel=0.01, abs=1e-4)
    assert curve == pytest.approx(golden, abs=0.02)


def test_warm_up_leaves_no_trace(mini_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the warm-up the losses are the same to the last bit."""
    warm = losses(started(mini_dir), 5)
    monkeypatch.setattr(TrainingSession, "_warm_up", lambda self: None)

    assert losses(started(mini_dir), 5) == warm


def test_evaluation_does_not_change_training(mini_dir: Path) -> None:
    """Evaluating between steps leaves the curve as it was, and so does evaluating twice."""
    plain = losses(started(mini_dir), 3)
    session = started(mini_dir)

    evaluated = []
    for _ in range(3):
        evaluated += losses(session, 1)
        assert session.evaluate() == session.evaluate()

    assert evaluated == plain


def test_seeds_differ(mini_dir: Path) -> None:
    """The seed reaches the weights, the chances and the environments."""
    one, two = (started(mini_dir, seed=seed) for seed in (1, 2))

    assert not np.array_equal(one.observations_ND, two.observations_ND)
    assert losses(one, 1) != losses(two, 1)


def test_block_counts_every_environment_step(mini_dir: Path) -> None:
    """Sixteen environments of 32 steps are a batch of 512; a block ends with the first batch at or past the wish."""
    session = started(mini_dir)
    calls = []
    step = session.envs.step
    session.envs.step = lambda actions: calls.append(len(actions)) or step(actions)  # type: ignore[method-assign,func-returns-value]

    counts = [session.train_block(n) for n in (1, 512, 513, 0)]

    assert [block.num_samples for block in counts] == [512, 512, 1024, 0]
    assert sum(calls) == 2048
    assert all(block.data_wait_s > 0 for block in counts[:3])
    assert session.step == 4


def test_resets_are_counted_and_not_trained_on(mini_dir: Path) -> None:
    """Episodes of 5 steps: every sixth call of an environment is its reset, weighs nothing, and the rest weigh on."""
    session = started(mini_dir)
    session.envs.max_episode_steps = 5
    session.envs.reset(seed=1)

    *_, weights = session._collect()[0]

    resets = (weights.reshape(32, 16) == 0).nonzero()[:, 0].bincount(minlength=32)
    assert {t: n for t, n in enumerate(resets.tolist()) if n} == dict.fromkeys((5, 11, 17, 23, 29), 16)
    assert weights.sum().item() == pytest.approx(512)
    assert weights.max().item() == pytest.approx(512 / (512 - 5 * 16))
    assert session.train_block(1).num_samples == 512


def test_advantages_are_normalised_over_the_transitions(mini_dir: Path) -> None:
    """Mean 0 and deviation 1 where there was a step."""
    session = started(mini_dir)
    session.envs.max_episode_steps = 7
    session.envs.reset(seed=1)

    _, _, _, normalised, _, weights = session._collect()[0]

    assert normalised[weights > 0].mean().item() == pytest.approx(0, abs=1e-5)
    assert normalised[weights > 0].std(unbiased=False).item() == pytest.approx(1, abs=1e-4)


def test_first_policy_ratio_is_one(mini_dir: Path) -> None:
    """What was recorded while acting is what the network says of the same rows: nothing was shifted by a step."""
    session = started(mini_dir)
    session.train_block(512 * 3)

    observations, actions, log_probs, *_ = session._collect()[0]

    logits, _ = session.network(observations)
    again = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
    assert torch.allclose(again, log_probs, atol=1e-5)


def test_metric_is_the_mean_of_episodes_played_one_by_one(mini_dir: Path) -> None:
    """A hundred greedy episodes in a hundred cart-poles of Gymnasium's, with an agent that has learned a little."""
    session = started(mini_dir)
    session.train_block(512 * 10)

    quality = session.evaluate()

    returns = []
    for start in np.load(mini_dir / "test_starts.npy"):
        env, total = cart_pole(), 0.0
        env.reset()
        env.state = start
        for _ in range(500):
            x, x_dot, theta, theta_dot = env.state
            seen = torch.tensor([[x, x_dot, math.cos(theta), math.sin(theta), theta_dot]], dtype=torch.float32)
            with torch.no_grad():
                state, _, is_off, _, _ = env.step(int(session.averaged(seen)[0].argmax()))
            if is_off:
                break
            total += (1 + math.cos(state[2])) / 2
        returns.append(total)
    assert quality.num_examples == 100
    assert 5 < quality.value < 495
    assert quality.value == pytest.approx(np.mean(returns), rel=0.02)


def test_judged_weights_are_the_running_mean(mini_dir: Path) -> None:
    """After one batch: 85 % of the first weights, 15 % of the new; with a decay of 0 the new ones."""
    session, plain = started(mini_dir), started(mini_dir, weight_average_decay=0.0)
    first = [p.detach().clone() for p in session.network.parameters()]

    session.train_block(512)
    plain.train_block(512)

    for old, new, judged in zip(first, session.network.parameters(), session.averaged.parameters(), strict=True):
        assert torch.allclose(judged, 0.85 * old + 0.15 * new, atol=1e-6)
    assert all(map(torch.equal, plain.network.parameters(), plain.averaged.parameters()))


def test_diverged_run_returns_a_loss_that_is_not_finite(mini_dir: Path) -> None:
    """The session does not judge: acting goes on, the referee sees the loss and ends the run."""
    session = started(mini_dir, opt_base_learning_rate=1e8, opt_gradient_clip_norm=1e8)

    blocks = losses(session, 4)
    with torch.no_grad():
        next(session.network.parameters()).fill_(math.nan)
    blocks += losses(session, 1)

    assert max(map(abs, blocks[:4])) > 1e3 or not all(map(math.isfinite, blocks[:4]))
    assert not math.isfinite(blocks[4])
    assert session.evaluate().num_examples == 100


def test_parts_of_the_open_division_are_used(mini_dir: Path) -> None:
    """A submission's network and schedule take the place of the workload's."""
    called = []

    def narrow(suite: str, num_observations: int, num_actions: int) -> torch.nn.Module:
        called.append((suite, num_observations, num_actions))
        return build_model(suite, num_observations, num_actions)

    run = dataclasses.replace(
        config(mini_dir), parts={"build_model": narrow, "learning_rate": lambda recipe, step: 0.0}
    )
    session = WORKLOAD.open(run)
    session.prepare()
    session.start(mini_dir)
    before = [p.detach().clone() for p in session.network.parameters()]
    session.train_block(512)

    assert called == [("mini", 5, 2)]
    assert all(map(torch.equal, before, session.network.parameters()))


def test_session_can_be_closed_early_and_twice(mini_dir: Path) -> None:
    """A run that failed early is still put away."""
    WORKLOAD.open(config(mini_dir)).close()
    session = started(mini_dir)
    session.close()
    session.close()


# ---- baselines


def test_rules_by_hand_do_what_they_are_called(mini_dir: Path) -> None:
    """Left alone the cart runs off the track in under half a second; the linear law holds a pole that stands."""
    standing = np.zeros((10, 4))
    standing[:, 2] = np.linspace(-0.05, 0.05, 10)
    evaluation = Evaluation("mini", 10)

    off = evaluation.returns(standing, rules_by_hand._constant(1))
    rule = rules_by_hand._pump_and_hold(np.array([1, 2, 20, 4]), 0.3, 0.3, 5, 0.9)
    held = evaluation.returns(standing, rule)

    assert off.max() < 20
    assert held.min() > 450


# ---- the standard suite


def test_lander_is_judged_by_the_returns_of_single_episodes() -> None:
    """Gymnasium's own controller on three seeds: the same returns as in a plain loop."""
    policy = rules_by_hand._heuristic()
    returns = Evaluation("standard", 3).returns(np.array([0, 1, 2]), policy)

    expected = []
    for seed in (0, 1, 2):
        env = make_lander()
        seen, _ = env.reset(seed=seed)
        total, is_over = 0.0, False
        while not is_over:
            seen, reward, terminated, truncated, _ = env.step(int(policy(seen[None])[0]))
            total, is_over = total + float(reward), terminated or truncated
        expected.append(total)
        env.close()
    assert returns == pytest.approx(expected)
    assert min(expected) > 100


@pytest.mark.slow
def test_standard_session_trains_and_judges(standard_dir: Path) -> None:
    """Two batches of eight landers; evaluation between them changes nothing."""
    plain = losses(started(standard_dir, suite="standard", global_batch_size=256, minibatch_size=64), 3)
    session = started(standard_dir, suite="standard", global_batch_size=256, minibatch_size=64)

    evaluated = losses(session, 2)
    quality = session.evaluate()
    evaluated += losses(session, 1)

    assert evaluated == plain
    assert quality.num_examples == 100
    assert -1000 < quality.value < 0
    session.close()


# ---- two processes

TWO_PROCESSES = """
import json, sys
from pathlib import Path
from tests.workloads.test_reinforcement_learning import started
mini, out = (Path(p) for p in sys.argv[1:])
session = started(mini, num_devices=2)
first = session.observations_ND.tolist()
rows, _ = session._collect()
parts = [[p.tolist() for p in part[:4]] for part in session._minibatches(rows)]
session = started(mini, num_devices=2)
block = session.train_block(2000)
quality = session.evaluate()
weights = [p.double().sum().item() for p in session.network.parameters()]
(out / f"{session.rank}.json").write_text(json.dumps(dict(first=first, parts=parts, loss=block.mean_loss,
    num_samples=block.num_samples, value=quality.value, num_examples=quality.num_examples, weights=weights)))
session.close()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """The same environments, the same minibatches in two halves, nearly the same course, an exact evaluation."""
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    done = subprocess.run(
        [*command, str(tmp_path / "two.py"), str(mini_dir), str(tmp_path)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    alone = started(mini_dir)
    assert ranks[0]["first"] + ranks[1]["first"] == alone.observations_ND.tolist()
    rows, _ = alone._collect()
    for index, part in enumerate(alone._minibatches(rows)):
        expected = sorted(zip(*(p.tolist() for p in part[:4]), strict=True))
        found = sorted(row for rank in ranks for row in zip(*rank["parts"][index], strict=True))
        assert len(found) == len(expected) == 128
        for mine, theirs in zip(expected, found, strict=True):
            assert mine[0] == pytest.approx(theirs[0], abs=1e-4)
            assert mine[3] == pytest.approx(theirs[3], abs=1e-3)
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["value"] == ranks[1]["value"]
    assert [rank["num_examples"] for rank in ranks] == [100, 100]
    assert [rank["num_samples"] for rank in ranks] == [2048, 2048]
    single = started(mini_dir)
    assert ranks[0]["loss"] == pytest.approx(single.train_block(2000).mean_loss, abs=0.01)
    assert ranks[0]["value"] == pytest.approx(single.evaluate().value, rel=0.2)


def write_golden(mini_dir: Path, standard_dir: Path) -> None:
    """Regenerate what the golden tests compare with: `python -m tests.workloads.test_reinforcement_learning`."""
    for suite, folder in (("mini", mini_dir), ("standard", standard_dir)):
        folder.mkdir()
        WORKLOAD.prepare_data(suite, folder, None)
    torch.set_num_threads(1)
    golden = {
        "loss": [round(loss, 6) for loss in losses(started(mini_dir), 50)],
        "sha256": digests(mini_dir, standard_dir),
    }
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        write_golden(Path(name) / "mini", Path(name) / "standard")
