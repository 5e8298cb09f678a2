"""Which examples each global batch has, which of them each rank takes, and the seed of each example's augmentation.

All of it is a function of the seed, the epoch and the index of an example, computed alike on every rank: the number of
ranks or worker processes changes nothing, and any position in a run can be gone to directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# The global batches of an epoch (0, 1, ...), each an array of the indices of its examples.
Order = Callable[[int], Ints | Sequence[Ints]]
Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def shuffled(num_examples: int, batch_size: int, seed: int, block: int = 1) -> Order:
    """Return the order in which each epoch is a permutation of all examples; what fills no last batch is left out.

    block: so many consecutive examples stay together, for examples that `data prepare` has shuffled: they are then read
    one after the other, and the permutation has `num_examples / block` entries.
    """

    def epoch_batches(epoch: int) -> Ints:
        # The streams of RandomState are frozen (NEP 19): the order is the same with every version of numpy.
        random = np.random.RandomState([*_words(seed), epoch])
        starts: Ints = random.permutation(-(-num_examples // block)) * block
        order = starts if block == 1 else (starts[:, None] + np.arange(block)).reshape(-1)
        order = order[order < num_examples] if num_examples % block else order
        num_batches = num_examples // batch_size
        return order[: num_batches * batch_size].reshape(num_batches, batch_size)

    return epoch_batches


def share(batch: Ints, rank: int, num_ranks: int) -> Ints:
    """Return the part of a global batch that a rank takes: consecutive, and as large as that of the others, or by one
    example larger or smaller."""
    return batch[rank * len(batch) // num_ranks : (rank + 1) * len(batch) // num_ranks]


def seeds(seed: int, epoch: int, indices: Ints) -> Ints:
    """Return a number from 0 to 2^63 - 1 for each example: SplitMix64 (Steele et al. 2014) over seed, epoch, index."""
    state = np.zeros(1, np.uint64)
    for words in (np.array([seed], np.uint64), np.array([epoch], np.uint64), indices.astype(np.uint64)):
        state = _mixed(state ^ _mixed(words))
    return (state >> np.uint64(1)).astype(np.int64)


def _mixed(word: Words) -> Words:
    word = word + _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


def _words(number: int) -> tuple[int, int]:
    """The lower and the upper 32 bits, which RandomState takes."""
    return number & 0xFFFFFFFF, number >> 32
