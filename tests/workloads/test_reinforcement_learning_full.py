"""Reinforcement learning in the full suite: Pong's environments, the Nature network, and a run of PPO."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, MissingDependencyError
from harness.log import keys, run_log
from harness.run import data_cache
from harness.scoring import timeline
from tests.rules_folder import write_ruleset
from tests.workloads import sessions
from tests.workloads.sessions import losses, on_two_processes
from workloads.reinforcement_learning import WORKLOAD

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("gymnasium")
pytest.importorskip("ale_py")

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from workloads.reinforcement_learning import baselines, data, environments, full_atari
from workloads.reinforcement_learning.full_atari import FRAMES, Pong
from workloads.reinforcement_learning.full_model import NatureCnn
from workloads.reinforcement_learning.model import build_optimizer
from workloads.reinforcement_learning.recipe import Recipe

RULES = sessions.rules_of(WORKLOAD.name, "full")
# Four environments of 8 steps, in two minibatches, twice.
SMALL = {
    "global_batch_size": 32,
    "rollout_length": 8,
    "minibatch_size": 16,
    "num_epochs": 2,
    "opt_learning_rate_training_steps": 50,
}
config = functools.partial(sessions.config, WORKLOAD.name, suite="full", **SMALL)
started = functools.partial(sessions.started, WORKLOAD.name, suite="full", **SMALL)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pong")
    WORKLOAD.prepare_data("full", folder, None)
    return folder


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Episodes of at most 40 frames after the start: some 10 steps."""
    monkeypatch.setitem(full_atari.SETTINGS, "max_num_frames_per_episode", 40)
    monkeypatch.setattr(environments, "PONG_AFTER", full_atari.trajectory())
    return 40


def played(pong: Pong, num_steps: int, environments: slice = slice(None), seed: int = 0) -> list[Any]:
    """Observations, rewards and ends of so many steps, with random actions; of four, those of `environments`."""
    actions = np.random.RandomState(seed).randint(0, 6, (num_steps, 4))[:, environments]
    return [[array.tolist() for array in pong.step(row)[:4]] for row in actions]


# ---- the environments


def test_an_environment_does_not_depend_on_the_others_nor_on_threads(short: int) -> None:
    """Four together, or twice two as on two ranks, over several episodes: the same observations and ends."""
    seeds = data.training_seeds(3, 4)
    together, *apart = (Pong(4, num_threads=1), Pong(2, num_threads=2), Pong(2, num_threads=1))
    halves = slice(0, 2), slice(2, 4)
    together.reset(seed=seeds)
    for pong, half in zip(apart, halves, strict=True):
        pong.reset(seed=seeds[half])

    expected = played(together, 30)

    found = [played(pong, 30, half) for pong, half in zip(apart, halves, strict=True)]
    assert [[a + b for a, b in zip(*steps, strict=True)] for steps in zip(*found, strict=True)] == expected
    assert min(together.episodes) >= 1


def test_environments_of_a_run_and_of_two_runs_differ() -> None:
    """By the seed of the run, the environment, and the episode; none has a seed of an evaluation."""
    seeds = {
        full_atari.episode_seed(environment, episode)
        for run in (0, 1, 2**32 - 1)
        for environment in data.training_seeds(run, 16)
        for episode in range(3)
    }

    assert len(seeds) == 3 * 16 * 3
    assert full_atari.LEAST_SEED <= min(seeds) <= max(seeds) < full_atari.MOST_SEED
    assert full_atari.LEAST_SEED > 1099
    assert full_atari.episode_seed(1099, 0) == 1099


def test_reset_follows_an_end_by_one_step(short: int) -> None:
    """NEXT_STEP, as in the other suites: reward 0, no end, and the screen of a new episode."""
    pong = Pong(4, num_threads=1)
    pong.reset(seed=data.training_seeds(0, 4))
    before = np.zeros(4, np.bool_)
    num_resets = 0

    for _ in range(40):
        _, rewards, terminated, truncated, _ = pong.step(np.zeros(4, np.int64))
        assert not rewards[before].any()
        assert not (terminated | truncated)[before].any()
        num_resets += before.sum()
        before = terminated | truncated

    assert num_resets == sum(pong.episodes) >= 8


@pytest.mark.parametrize("num_steps", [0, 1, 7, 8, 9, 10, 11, 25])
def test_state_of_environments_can_be_reached_again(short: int, num_steps: int) -> None:
    """In the middle of an episode, at its end, and right after a reset: what follows is the same."""
    seeds = data.training_seeds(1, 4)
    pong, other = Pong(4, num_threads=1), Pong(4, num_threads=1)
    pong.reset(seed=seeds)
    played(pong, num_steps)
    kept = json.loads(json.dumps(pong.kept()))

    other.reset(seed=seeds)
    other.bring_to(kept)

    assert played(other, 15, seed=5) == played(pong, 15, seed=5)
    assert other.kept() == pong.kept()


def test_other_dynamics_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator that moves differently would silently change the benchmark."""
    monkeypatch.setattr(environments, "PONG_AFTER", (0.0,) * 5)

    with pytest.raises(DataError, match=r"ale-py .* moves Pong .*this version would be another benchmark"):
        WORKLOAD.prepare_data("full", tmp_path, None)


def test_missing_ale_is_named_with_its_extra(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the preparation, by the evaluator and by a session."""
    session: Any = WORKLOAD.open(config(data_dir))
    monkeypatch.setitem(sys.modules, "ale_py", None)

    for call in (
        lambda: WORKLOAD.prepare_data("full", tmp_path, None),
        lambda: WORKLOAD.evaluator("full", data_dir, data_dir),
        session.prepare,
    ):
        with pytest.raises(MissingDependencyError, match=r"'tta-harness\[atari\]'"):
            call()


def test_data_are_the_seeds_of_the_evaluations(data_dir: Path) -> None:
    """The digest of every file is the same on every machine."""
    found = sessions.digests(data_dir)

    assert found == sessions.golden(WORKLOAD.name, "full_sha256", found)
    assert data.read_starts(data_dir, "full", "test").tolist() == list(range(100))
    metadata = json.loads((data_dir / "metadata.json").read_text())
    assert (metadata["num_observations"], metadata["num_actions"]) == (4 * 84 * 84, 6)


def test_follows_the_ball() -> None:
    """Up where the ball is above the paddle, down where it is below, and in the middle where there is none."""
    pixels = np.full((3, *FRAMES), 87, np.uint8)
    pixels[:, -1, 42:49, 74] = 147
    pixels[0, -1, 20, 30] = pixels[1, -1, 70, 30] = 236
    pixels[2, -1, 10, 30] = 236  # the score, above the court

    assert baselines.follow_the_ball(pixels.reshape(3, -1)).tolist() == [baselines.UP, baselines.DOWN, 0]


# ---- the network


def test_network_has_the_parameters_and_operations_of_its_layers() -> None:
    """Those of Mnih et al. 2015: three convolutions and 512 units, here with six actions and a value."""
    with torch.device("meta"):
        network = NatureCnn(6)
        pixels = torch.zeros(2, 4 * 84 * 84, dtype=torch.uint8)

    with FlopCounterMode(display=False) as counter:
        network(pixels)

    convolutions = 20 * 20 * 32 * 4 * 64 + 9 * 9 * 64 * 32 * 16 + 7 * 7 * 64 * 64 * 9
    assert counter.get_total_flops() == 2 * 2 * (convolutions + 3136 * 512 + 512 * 7) == 2 * 18_693_120
    assert sum(p.numel() for p in network.parameters()) == 8224 + 32832 + 36928 + 1_606_144 + 3591 == 1_687_719


def test_memory_of_a_minibatch_at_real_size() -> None:
    """At the largest permitted minibatch below 10 GB; weights, gradient and Adam's moments 27 MB."""
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with FakeTensorMode():
        network = NatureCnn(6)
        optimizer = build_optimizer(network, Recipe.parse(RULES.defaults()))
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            logits, values = network(torch.zeros(32768, 4 * 84 * 84, dtype=torch.uint8))
            loss = logits.mean() + values.mean()
        loss.backward()
        optimizer.step()
        state = sum(
            tensor.numel() * 4
            for p in network.parameters()
            for tensor in (p, p.grad, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"])
        )

    assert state == 4 * 4 * 1_687_719
    assert 5e9 < sum(kept) < 1e10


def test_network_sees_the_frames_in_their_places() -> None:
    """The flat bytes are four frames of 84 x 84, from 0 to 1."""
    network = NatureCnn(6)
    pixels = torch.randint(0, 256, (2, 4 * 84 * 84), dtype=torch.uint8)

    logits, values = network(pixels)

    seen = network.body(pixels.view(2, *FRAMES) / 255)
    assert torch.equal(logits, network.actor(seen))
    assert torch.equal(values, network.critic(seen)[:, 0])
    assert torch.equal(network.logits(pixels), logits)


# ---- the session


def test_loss_follows_the_golden_curve(data_dir: Path) -> None:
    """Five global batches from seed 3."""
    curve = losses(started(data_dir), 5)

    expected = sessions.golden(WORKLOAD.name, "full_loss", [round(loss, 6) for loss in curve])
    assert curve == pytest.approx(expected, rel=0.01, abs=1e-3)


def test_network_is_that_of_the_rules(data_dir: Path) -> None:
    """As a run's log has it."""
    session = started(data_dir)

    assert sessions.network_digest(session) == RULES.network_digest
    session.close()


def test_rollout_has_the_pixels_as_bytes(data_dir: Path) -> None:
    """A quarter of the memory; 4 environments of 8 steps are 32 samples."""
    session = started(data_dir)

    rows, waited_s = session._collect()

    assert rows[0].dtype == torch.uint8
    assert rows[0].shape == (32, 4 * 84 * 84)
    assert waited_s > 0
    assert session.train_block(33).num_samples == 64


def test_one_batch_can_be_learnt_by_heart(data_dir: Path) -> None:
    """The same rows again and again: what paid off becomes likely, and the values those that were returned."""
    session = started(data_dir, opt_base_learning_rate=0.001, minibatch_size=32)
    rows, _ = session._collect()
    observations, actions, _, advantages, returns, _ = rows
    wanted = advantages > 0.3
    before, _ = session.network(observations)

    for _ in range(30):
        session._learn((observations, actions, *rows[2:4], returns + 1, rows[5]), 0.001)

    after, values = session.network(observations)
    chosen = functools.partial(torch.gather, dim=1, index=actions[:, None])
    gain = chosen(after.log_softmax(1)) - chosen(before.log_softmax(1))
    assert gain[wanted].mean() > 0.02
    assert (values - returns - 1).abs().mean() < 0.3


def test_run_that_goes_on_from_a_checkpoint_equals_one_without_interruption(
    tmp_path: Path, data_dir: Path, short: int
) -> None:
    """Bit by bit, over the ends of episodes."""
    session, other = started(data_dir), started(data_dir)
    losses(session, 3)
    session.save(tmp_path)
    expected = losses(session, 3)

    other.load(tmp_path)

    assert losses(other, 3) == expected


def test_two_processes_act_and_learn_as_one(tmp_path: Path, data_dir: Path) -> None:
    """Each rank steps two of the four environments; the rows of both together are those of one process."""
    session = started(data_dir)
    rows, _ = session._collect()
    expected = sorted(row.sum().item() for row in rows[0].double())
    script = """
import dataclasses
from tests.workloads import sessions
from tests.workloads.test_reinforcement_learning_full import config
from workloads.reinforcement_learning import WORKLOAD
session = sessions.initialised(WORKLOAD.open(config(folders[0], num_devices=2)))
session.start(folders[0])
own = [row.sum().item() for row in session._collect()[0][0].double()]
block = session.train_block(64)
weights = [p.double().sum().item() for p in session.network.parameters()]
result = {"course": [block.mean_loss, weights], "counts": block.num_samples, "own": own}
"""

    ranks = on_two_processes(script, tmp_path, data_dir)

    assert [len(rank["own"]) for rank in ranks] == [16, 16]
    assert sorted(ranks[0]["own"] + ranks[1]["own"]) == expected
    block = session.train_block(64)
    assert ranks[0]["counts"] == block.num_samples == 64
    assert ranks[0]["course"][0] == pytest.approx(block.mean_loss, abs=0.02)


def test_every_episode_of_an_evaluation_counts_once(data_dir: Path, short: int) -> None:
    """A hundred, whatever the network's batch; asked for all of them until the last one has ended."""
    session = started(data_dir)
    asked = []

    def predict(inputs: Any) -> Any:
        asked.append(inputs["observations"].shape)
        return session.predict(inputs)

    quality = WORKLOAD.evaluator("full", data_dir, data_dir).quality(predict)

    assert quality.num_examples == 100
    assert -1 <= quality.value <= 1
    assert set(asked) == {(100, 4 * 84 * 84)}


@pytest.mark.slow
def test_referee_runs_it_on_two_processes(tmp_path: Path) -> None:
    """From the command line, to a target that every run reaches, by two episodes of which each has a thousand steps."""
    constraints = {
        name: dataclasses.replace(
            constraint, range=None, free=True, fixed=False, default=SMALL.get(name, constraint.default)
        )
        for name, constraint in RULES.hyperparameters.items()
    }
    rules = dataclasses.replace(
        RULES, target=-21, eval_every_samples=64, max_samples=128, eval_examples=2,
        hyperparameters=constraints, num_runs=1, drop=0, data_digest=None,
    )  # fmt: skip
    folder = write_ruleset(tmp_path / "rules", rules)
    chosen = (WORKLOAD.name, "--suite", "full", "--ruleset", folder, "--data", tmp_path / "cache")

    prepared = data_cache.prepare(WORKLOAD, "full", tmp_path / "cache")
    np.save(prepared.labels / "test_starts.npy", np.arange(2))
    done = sessions.tta(tmp_path, "run", *chosen, "--devices", 2, "--seed", 1, "--no-mlflow", "--out", "result")

    assert done.returncode == 0, done.stderr
    log = run_log.read(tmp_path / "result" / "result_0.txt")
    assert [event.samples_count for event, _ in timeline.qualities(log)] == [64]
    assert log.value(keys.TTA_REPLAY)["steps"] == RULES.replay_steps
    assert log.value(keys.TTA_DATA_TOUCHED_EARLY) == []
