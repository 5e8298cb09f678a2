"""The first steps of the mini suites, made again: the same bits, unless one thing is otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.run import data_cache, workloads

pytest.importorskip("torch")

from harness.reproduction.again import replayed
from harness.submission import module as open_module
from tests import replays

every_workload = pytest.mark.parametrize("name", workloads.workload_names())
# An open submission whose network has an operation that torch refuses in its deterministic mode, also on a CPU.
WITHOUT_A_KERNEL = """
import torch

from workloads.recommendation.model import build_model as reference


def build_model(*sizes):
    network = reference(*sizes)
    forward = network.forward

    def writing(*inputs):
        scores = forward(*inputs)
        scores.detach().clone().put_(torch.tensor([0]), torch.tensor([1.0]))
        return scores

    network.forward = writing
    return network
"""


@pytest.mark.slow
@every_workload
def test_another_worker_makes_them_again_bit_by_bit(
    name: str, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """`python -m tests.replays 100` does it a hundred times."""
    cache = prepared(name).path.parents[2]

    (found,) = replays.repeats(name, 11, 1, tmp_path, cache)

    assert (found.status, found.num_steps) == ("equal", 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["detection", "recommendation"])
def test_two_ranks_make_them_again_bit_by_bit(
    name: str, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """Also where the loss of a step is reduced over the ranks."""
    cache = prepared(name).path.parents[2]

    found = list(replays.repeats(name, 11, 2, tmp_path, cache, devices=2))

    assert [(item.status, item.num_steps) for item in found] == [("equal", 20)] * 2


@pytest.mark.slow
@every_workload
def test_one_change_is_found_within_five_steps(
    name: str, prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """A hyperparameter by 1 %, the seed, the order of two batches, one value of one example: all of them.

    Without a change nothing is found. What cannot act so early has a reason.
    """
    data_dir = prepared(name).path
    claimed = replays.steps(name, data_dir, 11, replays.Change("nothing"))
    tried, wrong = 0, {}
    for change, reason in replays.changes(name, data_dir, 11, tmp_path, random.Random(1)):
        if reason is None:
            where, fault = replays.fault(claimed, replays.steps(name, data_dir, 11, change))
            tried += 1
            if fault is not None:
                wrong[change.what] = where

    assert replays.fault(claimed, replays.steps(name, data_dir, 11, replays.Change("nothing")))[0] == "equal"
    assert wrong == {}
    assert tried >= 10


@pytest.mark.slow
def test_operation_without_a_deterministic_form_is_named(
    prepared: Callable[[str], data_cache.DataSet], tmp_path: Path
) -> None:
    """By the real worker, which runs a submitted module."""
    file = tmp_path / "fast.py"
    file.write_text(WITHOUT_A_KERNEL)
    request, plan = replays.plan_of("recommendation", 11, prepared("recommendation").path.parents[2])
    workload = workloads.workload("recommendation")
    module, _ = open_module.read_module(file, workload.name, workload.parts)

    found = replayed(request, replace(plan, division="open", module=module, module_path=file), tmp_path / "replay.txt")

    assert found.not_available == "put_"
