"""Reinforcement learning: its environments, PPO's arithmetic, and one training run as the referee drives it."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError, UsageError
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.reinforcement_learning import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("gymnasium")

import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from workloads.reinforcement_learning import baselines as rules_by_hand
from workloads.reinforcement_learning import data, environments, planning
from workloads.reinforcement_learning.environments import Evaluation, SwingUp, make_lander
from workloads.reinforcement_learning.model import advantages, build_model, loss_of_rows, sample_actions
from workloads.reinforcement_learning.recipe import Recipe

# Less than the rules' batch: sixteen environments of 32 steps, in four minibatches, twice.
SMALL = {
    "global_batch_size": 512,
    "rollout_length": 32,
    "minibatch_size": 128,
    "num_epochs": 2,
    "opt_base_learning_rate": 0.003,
    "opt_learning_rate_training_steps": 220,
}
MINI = {**sessions.rules_of(WORKLOAD.name).defaults(), **SMALL}
config = functools.partial(sessions.config, WORKLOAD.name, **SMALL)
started = functools.partial(sessions.started, WORKLOAD.name, **SMALL)


@pytest.fixture(scope="module")
def standard_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standard")
    WORKLOAD.prepare_data("standard", folder, None)
    return folder


def cart_pole() -> CartPoleEnv:
    """One of Gymnasium's own, with the benchmark's limits."""
    env = CartPoleEnv()
    env.x_threshold, env.theta_threshold_radians = environments.TRACK_M, math.inf
    return env


def test_swing_up_moves_as_gymnasiums_cart_pole(mini_dir: Path) -> None:
    """Twenty starts, every step of every episode: state, reward and end are those of a single `CartPoleEnv`."""
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
    """A Gymnasium that moves the cart differently would silently change the benchmark."""
    monkeypatch.setattr(environments, "SWING_UP_AFTER", (0.0, 0.0, 0.0, 0.0))

    with pytest.raises(DataError, match="this version would be another benchmark"):
        WORKLOAD.prepare_data("mini", tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_episode_is_cut_off_at_the_time_limit_and_restarts_a_step_later() -> None:
    """NEXT_STEP: an end has its own observation; the next call resets, whatever the action, with reward 0."""
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
    """`SyncVectorEnv`, used for the lander, resets in the same way: reward 0, no end, the action ignored."""
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


def test_an_environment_does_not_depend_on_the_others() -> None:
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
    """Seeds 0 to 99 and 1000 to 1099 belong to evaluations only, and no initial state of training is among theirs."""
    runs = [data.training_seeds(seed, 4096) for seed in (0, 1, 2, 2**31, 2**32 - 1, -1)]
    kept = {split: np.load(standard_dir / f"{split}_starts.npy") for split in ("test", "validation")}
    states = {split: np.load(mini_dir / f"{split}_starts.npy") for split in ("test", "validation")}
    training = [environments.draw(np.random.default_rng(seed)) for seed in runs[0]]

    assert min(min(run) for run in runs) == data.FIRST_TRAINING_SEED > max(seeds.max() for seeds in kept.values())
    assert not set(runs[0]) & set(runs[1])
    assert runs[4] == runs[5]
    assert not set(kept["test"]) & set(kept["validation"])
    assert len({tuple(s) for s in [*training, *states["test"], *states["validation"]]}) == 4096 + 200


def test_standard_data_have_the_golden_digests(standard_dir: Path) -> None:
    """Every byte is the same on every machine."""
    found = sessions.digests(standard_dir)

    assert found == sessions.golden(WORKLOAD.name, "standard_sha256", found)


def test_starts_are_on_the_track_at_any_angle(mini_dir: Path) -> None:
    """A hundred states: near the middle, from hanging to upright."""
    starts = np.load(mini_dir / "test_starts.npy")

    assert starts.shape == (100, 4)
    assert np.abs(starts).max(0) == pytest.approx([0.1, 0, math.pi, 0.05], rel=0.1)
    assert abs(np.cos(starts[:, 2]).mean()) < 0.2


@pytest.mark.parametrize(
    ("suite", "starts"),
    [("mini", np.full((100, 4), math.nan)), ("standard", np.full(100, -1))],
    ids=["nan", "negative"],
)
def test_impossible_start_is_refused(tmp_path: Path, suite: str, starts: np.ndarray) -> None:
    """A state that is not finite, and a seed below zero."""
    np.save(tmp_path / "test_starts.npy", starts)

    with pytest.raises(DataError, match=r"test_starts\.npy: a start that is not"):
        data.read_starts(tmp_path, suite, "test")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"global_batch_size": 528}, "not a multiple of rollout_length 32"),
        ({"minibatch_size": 300}, "not a multiple of minibatch_size 300"),
        ({"minibatch_size": 1024}, "not a multiple of minibatch_size 1024"),
        ({"global_batch_size": 2**26, "rollout_length": 32}, "expected at most 1048576"),
        ({"num_epochs": 0}, "at least 1"),
        ({"discount": 1.01}, "at most 1"),
    ],
)
def test_wrong_hyperparameter_is_a_usage_error(mini_dir: Path, changed: dict[str, Any], message: str) -> None:
    """One sentence that says what was given and what is allowed."""
    with pytest.raises(UsageError, match=message):
        WORKLOAD.open(config(mini_dir, **changed))


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


@pytest.mark.parametrize(
    ("rewards", "values", "has_ended", "is_over", "is_step", "factors", "expected"),
    [
        ([1], [10, 20], [0], [1], [1], (0.5, 0.9), [1 + 10 - 10]),
        ([1], [10, 20], [1], [1], [1], (0.5, 0.9), [1 - 10]),
        # 2 - 2 = 0 at the end; 1 + 2 - 1 + 0 = 2 before it; nothing for the reset; 100 + 5 - 4 = 101 after it.
        ([1, 2, 0, 100], [1, 2, 3, 4, 5], [0, 1, 0, 0], [0, 1, 0, 0], [1, 1, 0, 1], (1.0, 1.0), [2, 0, 0, 101]),
        # Surprises of 1 + 1 - 0 = 2, 1 + 2 - 2 = 1, 1 + 4 - 4 = 1, each plus 0.5 * 0.8 of the next estimate.
        ([1, 1, 1], [0, 2, 4, 8], [0, 0, 0], [0, 0, 0], [1, 1, 1], (0.5, 0.8), [2 + 0.4 * 1.4, 1 + 0.4, 1]),
    ],
    ids=["cut off", "ended", "two episodes", "three steps"],
)
def test_advantage_is_the_discounted_sum_of_surprises(
    rewards: list[float], values: list[float], has_ended: list[int], is_over: list[int], is_step: list[int],
    factors: tuple[float, float], expected: list[float],
) -> None:  # fmt: skip
    """Within an episode: what was cut off is continued by the next value, what ended is not."""
    flags = (column(*flag) > 0 for flag in (has_ended, is_over, is_step))

    found = advantages(column(*rewards), column(*values), *flags, *factors)

    assert found.flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"), [(1.5, 1, -1.2), (1.5, -1, 1.5), (0.5, 1, -0.5), (0.5, -1, 0.8)]
)
def test_policy_loss_is_clipped_on_the_side_of_the_gain(ratio: float, advantage: float, expected: float) -> None:
    """With a range of 0.2, gains count between 0.8 and 1.2 times the old probability, losses without limit."""
    recipe = Recipe.parse({**MINI, "value_coefficient": 0.0})
    logits = torch.zeros(1, 2)
    old = torch.tensor([math.log(0.5 / ratio)])

    loss = loss_of_rows(
        logits, torch.zeros(1), torch.tensor([1]), old, torch.tensor([float(advantage)]), torch.ones(1), recipe
    )

    assert loss.item() == pytest.approx(expected)


def test_value_error_and_entropy_have_their_weights() -> None:
    """An even choice of two has entropy log 2; a value that is off by 3 costs 9."""
    recipe = Recipe.parse({**MINI, "value_coefficient": 0.5, "entropy_coefficient": 0.1})
    old = torch.tensor([math.log(0.5)])

    loss = loss_of_rows(
        torch.zeros(1, 2), torch.tensor([4.0]), torch.tensor([0]), old, torch.zeros(1), torch.ones(1), recipe
    )

    assert loss.item() == pytest.approx(0.5 * 9 - 0.1 * math.log(2))


def test_the_mirrored_world_is_seen_as_the_world() -> None:
    """A cart-pole and its mirror image, pushed to opposite sides, stay mirror images, for the network too."""
    pair = SwingUp(2)
    pair.reset(options={"states_4N": np.array([[0.1, -0.3, 0.2, 1.5], [-0.1, 0.3, -0.2, -1.5]]).T})
    observations, *_ = pair.step(np.array([1, 0]))
    torch.manual_seed(0)
    network = build_model("mini", 5, 2)
    torch.nn.init.normal_(network.actor[-1].weight)  # a fresh network rates both actions alike

    logits, values = network(torch.from_numpy(observations))

    assert observations[1] == pytest.approx(observations[0] * [-1, -1, 1, -1, -1], abs=1e-6)
    assert logits[1].tolist() == pytest.approx(logits[0].flip(0).tolist(), abs=1e-5)
    assert abs(logits[0, 0] - logits[0, 1]) > 0.01
    assert values[1].item() == pytest.approx(values[0].item(), abs=1e-5)


def test_sampled_actions_are_as_likely_as_the_logits_say() -> None:
    """Over an even grid of random numbers the counts match the probabilities; NaN becomes action 0."""
    chances = torch.arange(1000) / 1000
    logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(1000, 3)

    counts = sample_actions(logits, chances).bincount().tolist()

    assert counts == pytest.approx([200, 500, 300], abs=1)
    assert sample_actions(torch.full((4, 3), math.nan), torch.rand(4)).tolist() == [0, 0, 0, 0]


def test_loss_follows_the_golden_curve(mini_dir: Path) -> None:
    """Fifty global batches from seed 3. Learning from one's own actions is chaotic, so only the start is close."""
    curve = losses(started(mini_dir), 50)

    sessions.assert_golden_curve(WORKLOAD.name, curve, {"rel": 0.01, "abs": 1e-4}, abs=0.02)


def test_block_counts_every_environment_step(mini_dir: Path) -> None:
    """Sixteen environments of 32 steps are a batch of 512; what is counted is what was stepped."""
    session = started(mini_dir)
    calls = []
    step = session.envs.step
    session.envs.step = lambda actions: calls.append(len(actions)) or step(actions)  # type: ignore[method-assign,func-returns-value]

    assert session.train_block(513).num_samples == sum(calls) == 1024
    assert calls == [16] * 64


def test_resets_are_counted_and_not_trained_on(mini_dir: Path) -> None:
    """Episodes of 5 steps: every sixth call of an environment is a reset with weight 0; the others share the weight."""
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
    """Recorded log probabilities equal the network's for the same rows: nothing is shifted by a step."""
    session = started(mini_dir)
    session.train_block(512 * 3)

    observations, actions, log_probs, *_ = session._collect()[0]

    logits, _ = session.network(observations)
    again = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
    assert torch.allclose(again, log_probs, atol=1e-5)


def test_metric_is_the_mean_of_episodes_played_one_by_one(mini_dir: Path) -> None:
    """A hundred greedy episodes in single Gymnasium cart-poles, with an agent that has learned a little."""
    session = started(mini_dir)
    session.train_block(512 * 10)

    quality = sessions.quality(session, mini_dir)

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


@pytest.mark.parametrize("suite", ["mini", "standard"])
def test_logits_alone_are_those_with_the_values(suite: str) -> None:
    """To the last bit: what is evaluated is the policy that acts in training."""
    torch.manual_seed(0)
    network = build_model(suite, *((5, 2) if suite == "mini" else (8, 4)))
    observations = torch.randn(100, 5 if suite == "mini" else 8)

    assert torch.equal(network.logits(observations), network(observations)[0])


@pytest.mark.parametrize(
    "actions",
    [
        None,
        np.zeros(99, np.int64),
        np.zeros((100, 1), np.int64),
        np.zeros(100),
        np.zeros(100, np.bool_),
        np.full(100, 2),
        np.r_[np.zeros(99, np.int8), np.int8(-1)],
    ],
    ids=["missing", "one too few", "another shape", "not whole numbers", "booleans", "too large", "negative"],
)
def test_what_is_not_an_action_for_each_episode_is_refused(mini_dir: Path, actions: np.ndarray | None) -> None:
    """What the training process sends is foreign input, also in the middle of the episodes."""
    answers = iter([{"actions": np.ones(100, np.uint8)}, {} if actions is None else {"actions": actions}])

    with pytest.raises(ValueError, match="an action for each of 100 observations, whole numbers from 0 to 1"):
        WORKLOAD.evaluator("mini", mini_dir, mini_dir).quality(lambda _: next(answers))


def test_evaluator_starts_afresh_every_time(mini_dir: Path) -> None:
    """The same answers have the same quality, to the last bit, and the last action is a valid one."""
    evaluator = WORKLOAD.evaluator("mini", mini_dir, mini_dir)

    def right(asked: Any) -> dict[str, np.ndarray]:
        assert asked["observations"].dtype == np.float32
        return {"actions": np.ones(len(asked["observations"]), np.uint8)}

    first = evaluator.quality(right)

    assert first == evaluator.quality(right)
    assert first.num_examples == 100
    assert first.value == pytest.approx(sessions.rules_of(WORKLOAD.name).baselines["always_1"], abs=0.05)


def test_evaluator_names_what_is_damaged(mini_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts that are missing, and a Gymnasium that moves differently: before the clock starts."""
    with pytest.raises(DataError, match=r"test_starts\.npy is missing"):
        WORKLOAD.evaluator("mini", mini_dir, tmp_path)
    monkeypatch.setattr(environments, "SWING_UP_AFTER", (0.0, 0.0, 0.0, 0.0))
    with pytest.raises(DataError, match="this version would be another benchmark"):
        WORKLOAD.evaluator("mini", mini_dir, mini_dir)


def test_evaluated_weights_are_the_running_mean(mini_dir: Path) -> None:
    """After one batch, 85 % of the first weights and 15 % of the new; with a decay of 0, the new ones."""
    session, plain = started(mini_dir), started(mini_dir, weight_average_decay=0.0)
    first = [p.detach().clone() for p in session.network.parameters()]

    session.train_block(512)
    plain.train_block(512)

    for old, new, judged in zip(first, session.network.parameters(), session.averaged.parameters(), strict=True):
        assert torch.allclose(judged, 0.85 * old + 0.15 * new, atol=1e-6)
    assert all(map(torch.equal, plain.network.parameters(), plain.averaged.parameters()))


def test_rules_by_hand_do_what_their_names_say(mini_dir: Path) -> None:
    """Pushed one way, the cart runs off the track in under half a second; the linear law holds an upright pole."""
    standing = np.zeros((10, 4))
    standing[:, 2] = np.linspace(-0.05, 0.05, 10)
    evaluation = Evaluation("mini", 10)

    off = evaluation.returns(standing, rules_by_hand._constant(1))
    rule = rules_by_hand._pump_and_hold(np.array([1, 2, 20, 4]), 0.3, 0.3, 5, 0.9)
    held = evaluation.returns(standing, rule)

    assert off.max() < 20
    assert held.min() > 450


def test_planner_knows_how_the_swing_up_moves() -> None:
    """Its equations are the environment's, a grid point is its own corner, and off the track all is worthless."""
    states = np.random.RandomState(0).uniform(-1, 1, (50, 4)) * [0.3, 2, 3, 6]
    env = SwingUp(50)
    env.reset(options={"states_4N": states.T})
    pushes = np.arange(50) % 2 == 1

    env.step(pushes.astype(np.int64))
    index, weight = planning.corners(np.array([[0.0, 0.5], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), (3, 3, 4, 3))

    assert planning.moved(states.T, pushes) == pytest.approx(env.state, abs=1e-9)
    assert index[0][weight[0] > 0].tolist() == [((1 * 3 + 1) * 4 + 2) * 3 + 1]
    assert weight.sum(1).tolist() == [1, 0]


def test_planner_swings_the_pole_up_even_on_a_coarse_grid(mini_dir: Path) -> None:
    """Better than keeping to the middle, which is the best of the rules by hand but for the tuned one."""
    starts = np.load(mini_dir / "validation_starts.npy")[:20]

    found = Evaluation("mini", 20).returns(starts, planning.planner((9, 11, 32, 21)))

    assert found.mean() > 250


def test_lander_is_evaluated_by_the_returns_of_single_episodes() -> None:
    """Gymnasium's own controller on three seeds has the same returns as in a plain loop."""
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


def test_landers_are_brought_back_to_where_they_were(tmp_path: Path) -> None:
    """Box2D's worlds cannot be saved; their episodes are played again, also those that are over or began anew."""

    def play(envs: Any, num_steps: int) -> list[Any]:
        steps = [envs.step(np.arange(3) + n % 2) for n in range(num_steps)]
        return [(seen.tolist(), rewards.tolist(), ended.tolist()) for seen, rewards, ended, _, _ in steps]

    envs, other = (environments.make_training("standard", 3) for _ in range(2))
    envs.reset(seed=[5, 6, 7])
    other.reset(seed=[8, 9, 10])
    num_begun_again = 0
    for _ in range(4):
        ends = play(envs, 45)[-1][2]
        is_over = np.array(ends)
        torch.save(environments.state_of(envs), tmp_path / "state")
        state = torch.load(tmp_path / "state", weights_only=True)
        num_begun_again += sum(kept["stream"] is not None for kept in state)

        environments.bring_to(other, state, is_over)

        assert play(other, 30) == play(envs, 30)
    assert num_begun_again


@pytest.mark.slow
def test_standard_session_trains_and_evaluates(standard_dir: Path) -> None:
    """Three batches of eight landers; an evaluation in between changes nothing."""
    plain = losses(started(standard_dir, suite="standard", global_batch_size=256, minibatch_size=64), 3)
    session = started(standard_dir, suite="standard", global_batch_size=256, minibatch_size=64)

    evaluated = losses(session, 2)
    quality = sessions.quality(session, standard_dir)
    evaluated += losses(session, 1)

    assert evaluated == plain
    assert quality.num_examples == 100
    assert -1000 < quality.value < 0
    assert sessions.network_digest(session) == sessions.rules_of(WORKLOAD.name, "standard").network_digest
    session.close()


SCRIPT = """
from tests.workloads.test_reinforcement_learning import started
(mini,) = folders
session = started(mini, num_devices=2)
first = session.observations_ND.tolist()
rows, _ = session._collect()
parts = [[p.tolist() for p in part[:4]] for part in session._minibatches(rows)]
session = started(mini, num_devices=2)
result = course(session, 2000, mini) | dict(first=first, parts=parts)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path, mini_dir: Path) -> None:
    """The same environments, the same minibatches in two halves, nearly the same course, an exact evaluation."""
    ranks = on_two_processes(SCRIPT, tmp_path, mini_dir)

    alone = started(mini_dir)
    assert ranks[0]["first"] + ranks[1]["first"] == alone.observations_ND.tolist()
    rows, _ = alone._collect()
    for index, part in enumerate(alone._minibatches(rows)):
        expected = sorted(zip(*(p.tolist() for p in part[:4]), strict=True))
        found = sorted(row for rank in ranks for row in zip(*rank["parts"][index], strict=True))
        assert len(found) == len(expected) == 128
        for one, two in zip(expected, found, strict=True):
            assert one[0] == pytest.approx(two[0], abs=1e-4)
            assert one[3] == pytest.approx(two[3], abs=1e-3)
    assert ranks[0]["counts"] == [2048, 100]
    single = started(mini_dir)
    assert ranks[0]["course"]["loss"] == pytest.approx(single.train_block(2000).mean_loss, abs=0.01)
    assert ranks[0]["course"]["value"] == pytest.approx(sessions.quality(single, mini_dir).value, rel=0.2)
