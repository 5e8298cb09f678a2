"""Global batches and seeds: functions of seed, epoch and index alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workloads.streaming import order
from workloads.streaming.order import seeds, share, shuffled


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("block", [1, 4, 50])
def test_ranks_share_the_epoch_without_doubles(num_ranks: int, block: int) -> None:
    """The union over the ranks is all whole batches of the epoch, in whatever number they are."""
    batches = shuffled(103, 16, seed=5, block=block)(2)

    taken = [share(batch, rank, num_ranks) for batch in batches for rank in range(num_ranks)]

    assert len(batches) == 6
    assert np.array_equal(np.concatenate(taken), np.concatenate(list(batches)))
    assert len(set(np.concatenate(taken).tolist())) == 96
    assert {len(part) for part in taken} <= {16 // num_ranks, -(-16 // num_ranks)}


def test_epoch_is_a_permutation_of_its_own() -> None:
    """Every example once; another order with another seed or epoch, the same with the same, large seeds included."""
    orders = [
        np.concatenate(list(shuffled(50, 10, seed)(epoch)))
        for seed, epoch in itertools.product([0, 1, 2**32, 2**63 + 1], [0, 1])
    ]

    assert all(sorted(found) == list(range(50)) for found in orders)
    assert len({tuple(found) for found in orders}) == 8
    assert np.array_equal(np.concatenate(list(shuffled(50, 10, 1)(1))), orders[3])
    assert orders[0][:5].tolist() == [29, 31, 0, 15, 28]


def test_blocks_stay_together() -> None:
    """Each run of four consecutive examples is read in one piece, the last, shorter one too."""
    found = np.concatenate(list(shuffled(10, 1, seed=3, block=4)(0))).tolist()

    at = {first: found.index(first) for first in (0, 4, 8)}
    assert sorted(found) == list(range(10))
    for first, size in ((0, 4), (4, 4), (8, 2)):
        assert found[at[first] : at[first] + size] == list(range(first, first + size))


def test_set_smaller_than_a_batch_has_no_batch() -> None:
    assert len(shuffled(9, 10, seed=0)(0)) == 0


def test_seed_of_an_example_depends_on_its_index_and_not_on_its_batch() -> None:
    """Other seeds, epochs and indices give other numbers, all of them from 0 to 2^63 - 1 and evenly spread."""
    indices = np.arange(1000)
    found = {(seed, epoch): seeds(seed, epoch, indices) for seed in (0, 1, 2**63 + 1) for epoch in (0, 1)}

    assert np.array_equal(seeds(1, 0, np.array([7, 3])), found[1, 0][[7, 3]])
    every = np.concatenate(list(found.values()))
    assert len(set(every.tolist())) == 6000
    assert every.min() >= 0
    assert abs(every.astype(float).mean() / 2**63 - 0.5) < 0.02
    assert found[0, 0][0] == 7403809227180704479
    assert order._mixed(np.zeros(1, np.uint64))[0] == 0xE220A8397B1DCDAF  # the first output of the published generator
