"""Replays of the first steps, made again as they were, and with one thing changed.

    python -m tests.replays [NUM_REPEATS] [NUM_DRAWS] [SEED]

Replays of the six mini benchmarks by workers of their own must be equal bit by bit, `NUM_REPEATS` times (default: 100).
A replay with one thing changed must part from the claimed one within 5 steps: `NUM_DRAWS` times (default: 1) for each
workload every hyperparameter by 1 %, the seed, the order of two batches, and one value of a sample that the first
batches have. Prints a line each; fails if one is otherwise. What cannot act so early is named.
"""

from __future__ import annotations

import importlib
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.log.replay import Replay, parse_replay
from harness.reproduction.again import replayed
from harness.reproduction.replays import Comparison, compare
from harness.run import data_cache, workloads
from harness.run.benchmark import Request, shared_plan
from harness.run.plan import Plan
from harness.run.replay import Observer, replay
from harness.run.worker import seed_all
from harness.workload import HyperparameterValue
from tests.workloads import sessions

NAMES = workloads.workload_names()
WITHIN = 5  # steps in which a change must be found
DOUBLED = ("global_batch_size", "rollout_length", "minibatch_size")  # of which others must be multiples
# A threshold: 1 % of it moves it past no point of the first batches, and training is the same.
COARSER = {"center_sampling_radius": 1.1}
Session = Any


class OneRank:
    """A world of one rank."""

    def gather(self, item: object) -> list[Any]:
        return [item]


# ---- made again by a worker


def plan_of(name: str, seed: int, cache: Path | None = None, devices: int = 1) -> tuple[Request, Plan]:
    """What `tta reproduce` would replay of a run of that workload's mini suite with that seed.

    cache: of prepared data; None: the user's.
    """
    request = Request(workload=name, data=cache, devices=devices)
    return request, replace(shared_plan(request, sessions.RULESET, sessions.rules_of(name)), seed=seed)


def repeats(
    name: str, seed: int, number: int, folder: Path, cache: Path | None = None, devices: int = 1
) -> Iterator[Comparison]:
    """A replay by a worker against `number` more by others."""
    request, plan = plan_of(name, seed, cache, devices)
    claimed = replayed(request, plan, folder / "claimed.txt")
    for _ in range(number):
        yield compare(claimed, replayed(request, plan, folder / "again.txt"), is_same_system=True)


# ---- one thing changed


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is otherwise. hyperparameters: the values that differ. data_dir: data that differ."""

    what: str
    seed: int | None = None
    hyperparameters: tuple[tuple[str, HyperparameterValue], ...] = ()
    has_other_order: bool = False
    data_dir: Path | None = None


def steps(name: str, data_dir: Path, seed: int, change: Change, num_steps: int = WITHIN) -> Replay:
    """The first steps of a workload in this process."""
    changed: dict[str, Any] = dict(change.hyperparameters)
    config = sessions.config(name, data_dir, seed=seed if change.seed is None else change.seed, **changed)

    def opened(observer: Observer) -> Session:
        session = workloads.workload(name).open(replace(config, observer=observer))
        if change.has_other_order:
            swap(session)
        return session

    def initialise(session: Session) -> None:
        seed_all(config.seed)
        session.initialise()

    batch_size = int(config.hyperparameters["global_batch_size"])
    place = change.data_dir or data_dir
    return parse_replay(replay(opened, initialise, place, batch_size, num_steps, 3600.0, OneRank()))


def swap(session: Session) -> None:
    """Let a session take the second of its batches first; of PPO, the second minibatch of each pass."""

    def swapped(batches: Iterator[Any]) -> Iterator[Any]:
        first, second = next(batches), next(batches)
        yield second
        yield first
        yield from batches

    if hasattr(session, "_minibatches"):
        minibatches = session._minibatches
        session._minibatches = lambda rows: swapped(iter(minibatches(rows)))
    else:
        batches = swapped(iter(session._next_batch, None))
        session._next_batch = lambda: next(batches)


def smaller(name: str, value: HyperparameterValue) -> HyperparameterValue | None:
    """A value that differs by 1 %, or by the least that it can; None for a name."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return 2 * value if name in DOUBLED else value + max(1, value // 100)
    if isinstance(value, float):
        return value / COARSER.get(name, 1.01) if value else 0.01
    return None


def not_seen(name: str, key: str, value: HyperparameterValue | None) -> str | None:
    """Why another value of a hyperparameter is not seen in the first steps; None if it must be."""
    if value is None:
        return "a name: the workload has no other"
    if key == "weight_average_decay":
        return "of the weights that are evaluated; training does not see them"
    if key.startswith("opt_") and "learning_rate" in key and "ratio" not in key:
        kind = importlib.import_module(f"workloads.{name}.recipe").Recipe
        before = sessions.rules_of(name).defaults()
        one, other = (kind.parse(values) for values in (before, {**before, key: value}))
        if all(one.learning_rate(step) == other.learning_rate(step) for step in range(WITHIN)):
            return f"the learning rates of the first {WITHIN} steps are the same"
    return None


def hyperparameters(name: str) -> Iterator[tuple[Change, str | None]]:
    """A change of each hyperparameter of a mini suite, and why it is not seen, if it cannot be."""
    for key, value in sessions.rules_of(name).defaults().items():
        other = smaller(key, value)
        changed = () if other is None else ((key, other),)
        yield Change(f"{key} {value} -> {other}", hyperparameters=changed), not_seen(name, key, other)


# Of an example of the training set, by number: the arrays with its values, which of them are its own, and the least
# value that an array may have there.
Place = tuple[str, Any, int]


def _image(session: Session, example: int, chance: random.Random) -> list[Place]:
    # Away from the edges, which a shift moves out of the image.
    row, column = chance.randrange(8, 20), chance.randrange(8, 20)
    return [("train_images", (example, row, column, 0), 0), ("train_labels", example, 0)]


def _scene(session: Session, example: int, chance: random.Random) -> list[Place]:
    row, column, side = chance.randrange(64), chance.randrange(64), chance.randrange(4)
    return [("train_images", (example, row, column, 0), 0), ("train_boxes", (example, 0, side), 0)]


def _utterance(session: Session, example: int, chance: random.Random) -> list[Place]:
    num_samples = 80 * int(session.hops_N[example])
    place = 80 * int(session.first_N[example]) + chance.randrange(num_samples // 4, 3 * num_samples // 4)
    return [("train_audio", place, 0), ("train_words", (example, 0), 1)]


def _pair(session: Session, example: int, chance: random.Random) -> list[Place]:
    # Between the marks of a sentence's beginning and end, which are the first pieces.
    source = chance.randrange(int(session.source_lengths_N[example]) - 1)
    target = chance.randrange(1, int(session.target_lengths_N[example]))
    return [("train_sources", (example, source), 4), ("train_targets", (example, target), 4)]


def _interaction(session: Session, example: int, chance: random.Random) -> list[Place]:
    length = session.recipe.history_length
    number = example - (length + 1) * int(session.owner_P[example]) - length
    return [("train_items", number, 0), ("train_contexts", (number, 0), 0), ("train_contexts", (number, 1), 0)]


EXAMPLES: dict[str, tuple[Callable[[Session], Any], Callable[[Session, int, random.Random], list[Place]]]] = {
    "image_classification": (lambda session: session.order_N, _image),
    "detection": (lambda session: session.order_N, _scene),
    "speech_recognition": (lambda session: session.batches_BN.flatten(), _utterance),
    "translation": (lambda session: session.batches_BN.flatten(), _pair),
    "recommendation": (lambda session: session.order_N, _interaction),
}  # reinforcement learning has no training data


def data(name: str, data_dir: Path, seed: int, folder: Path, chance: random.Random) -> Iterator[Change]:
    """For each array with examples: data in `folder` in which one value of one is otherwise, in the first batches."""
    if name not in EXAMPLES:
        return
    order, places = EXAMPLES[name]
    session = sessions.started(name, data_dir, seed=seed)
    drawn = chance.randrange(WITHIN * session.recipe.global_batch_size)
    found = places(session, int(order(session)[drawn]), chance)
    session.close()
    for number, (array, index, least) in enumerate(found):
        copy = folder / f"{name}_{number}"
        shutil.copytree(data_dir, copy)
        values = np.load(copy / f"{array}.npy")
        before = values[index]
        values[index] = int(before) + (-1 if before > least else 1)
        np.save(copy / f"{array}.npy", values)
        yield Change(f"{array}[{index}] {before} -> {values[index]}", data_dir=copy)
        shutil.rmtree(copy)


def changes(
    name: str, data_dir: Path, seed: int, folder: Path, chance: random.Random
) -> Iterator[tuple[Change, str | None]]:
    """Everything that is changed of a workload's first steps, and why it is not seen, if it cannot be."""
    yield from hyperparameters(name)
    yield Change("the seed", seed=seed + 1), None
    yield Change("the order of two batches", has_other_order=True), None
    for change in data(name, data_dir, seed, folder, chance):
        yield change, None


def fault(claimed: Replay, again: Replay) -> tuple[str, str | None]:
    """Where two replays part, and what is wrong with that; None if it is within the first steps."""
    found = compare(claimed, again, is_same_system=True)
    if found.first is None:
        return "equal", "is not found"
    return f"{found.what} of step {found.first}", None if found.first <= WITHIN else "is found late"


def main(num_repeats: int, num_draws: int, seed: int) -> int:
    """Make the replays; return how many are otherwise than they must be."""
    import torch

    chance = random.Random(seed)
    num_wrong = 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="tta-replays-") as place:
        folder = Path(place)
        num_equal = 0
        for number, name in enumerate(NAMES):
            of_name = len(range(number, num_repeats, len(NAMES)))
            drawn = chance.randrange(2**31)
            for found in repeats(name, drawn, of_name, folder):
                num_equal += found.status == "equal"
                print(f"{name:24s} seed {drawn:10d}  {found.num_steps} steps {found.status}", flush=True)
        num_wrong += num_repeats - num_equal
        print(f"{num_equal} of {num_repeats} are equal bit by bit", flush=True)
        num_changes = num_found = 0
        for name in NAMES * num_draws:
            data_dir = data_cache.prepare(workloads.workload(name), "mini", data_cache.default_cache()).path
            drawn = chance.randrange(2**31 - 1)
            claimed = steps(name, data_dir, drawn, Change("nothing"))
            for change, reason in changes(name, data_dir, drawn, folder, chance):
                if reason is not None:
                    print(f"{name:24s} {change.what:60s} not tried: {reason}", flush=True)
                    continue
                where, wrong = fault(claimed, steps(name, data_dir, drawn, change))
                num_changes += 1
                num_found += wrong is None
                print(f"{name:24s} {change.what:60s} {where}  {wrong or 'ok'}", flush=True)
        num_wrong += num_changes - num_found
        print(f"{num_found} of {num_changes} changes are found within {WITHIN} steps")
    return num_wrong


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if main(*(numbers + [100, 1, 1][len(numbers) :])) else 0)
