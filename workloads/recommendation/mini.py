"""The data of the mini suite: the next item depends on the two items before it, the hour, the device, the user's
age and region, and a drifting taste. The network is told none of these rules.

Dimension letters: N users at once, I items, J numbers of an item, H hidden units, T steps, D devices, C contexts
(hour and device), S sides (age and region).
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import numpy as np
import numpy.typing as npt

from workloads.recommendation.dataset import Interactions, leave_two_out

Floats = npt.NDArray[np.float64]

MINI_SEED = 20262
NUM_USERS, NUM_ITEMS, NUM_NUMBERS, NUM_HIDDEN, NUM_GENRES = 12_000, 1000, 8, 12, 12
NUM_HOURS, NUM_DEVICES, NUM_AGES, NUM_REGIONS = 4, 3, 6, 8
LONGEST = 100
NUM_READ, NUM_WRITTEN = 2, 3  # numbers that a hidden unit reads of each of its inputs, and that it pulls
# Weights of the last item, the taste and the item before the last, by device.
WEIGHTS_D3 = np.array([[3, 1, 1], [1, 3, 1], [2, 1, 2]])
STEP = 2  # eighths of an octave of probability per unit of agreement
EIGHTHS = np.array([64, 70, 76, 83, 91, 99, 108, 117])  # 64 * 2**(k / 8), rounded
OCTAVES = 16  # below the likeliest item; from there on all items are equally unlikely
USERS_AT_ONCE = 1000


def generate_mini() -> Interactions:
    """Generate the users, one thousand at a time, from one random stream.

    Every item has eight small numbers. Twelve hidden units each read two of the last item's, two of the item's before
    it, and two of the user's drifting taste. What a unit reads of the last item is multiplied by a sign for the context
    and a sign for the side, what it reads of the item before by a sign for the context, so that averages over contexts
    or sides show next to nothing. Each unit pulls three numbers up or down, and items are drawn with probability
    2**(pull / 8), popular ones more often: a network with one hidden layer and random weights, of the kind that the
    benchmark trains. Everything is in integers (the matrix products are of small whole numbers, exact in any order of
    summation), so floating point cannot change a draw on any machine.
    """
    random = np.random.RandomState(MINI_SEED)
    numbers_IJ = _small(random, NUM_ITEMS, NUM_NUMBERS)
    genres = random.randint(0, NUM_GENRES, size=2**4)
    genre_I = genres[((numbers_IJ[:, :4] > 0) @ (1 << np.arange(4))).astype(np.int64)]
    # Zipf's law in integers: 8 eighths of an octave per halving of the rank (plus 8, which flattens the top).
    ranks = random.permutation(NUM_ITEMS)
    popularity_I = np.array([2 * ((16 * NUM_ITEMS // (int(rank) + 8)) ** 4).bit_length() for rank in ranks])
    last_HJ, taste_HJ, previous_HJ = (_sparse_signs(random, NUM_READ) for _ in range(3))
    written_HJ = _sparse_signs(random, NUM_WRITTEN)
    num_contexts, num_sides = NUM_HOURS * NUM_DEVICES, NUM_AGES * NUM_REGIONS
    last_CH, previous_CH, last_SH = (
        2.0 * random.randint(0, 2, size=(n, NUM_HIDDEN)) - 1 for n in (num_contexts, num_contexts, num_sides)
    )
    items, contexts, lengths, sides = [], [], [], []
    for _ in range(NUM_USERS // USERS_AT_ONCE):
        n = USERS_AT_ONCE
        side_N2 = np.stack([random.randint(0, NUM_AGES, size=n), random.randint(0, NUM_REGIONS, size=n)], axis=1)
        side_N = side_N2[:, 0] * NUM_REGIONS + side_N2[:, 1]
        # From 10 to 100 interactions, fewer than 21 for half of the users: a truncated Pareto tail.
        length_N = np.minimum(
            5 + 6000 // (40 + random.randint(0, 1000, size=n)) + random.randint(0, 10, size=n), LONGEST
        )
        taste_NJ = _small(random, n, NUM_NUMBERS)
        hour_N, favourite_N = random.randint(0, NUM_HOURS, size=n), random.randint(0, NUM_DEVICES, size=n)
        free_NI = np.ones((n, NUM_ITEMS), np.int64)
        taken_NT = np.zeros((n, LONGEST), np.int64)
        context_NT2 = np.zeros((n, LONGEST, 2), np.int64)
        everyone = np.arange(n)
        for t in range(LONGEST):
            hour_N = (hour_N + (random.randint(0, 3, size=n) == 0)) % NUM_HOURS
            other_N = random.randint(0, NUM_DEVICES, size=n)
            device_N = np.where(random.randint(0, 2, size=n) == 0, favourite_N, other_N)
            place_N, number_N = random.randint(0, NUM_NUMBERS, size=n), _small(random, n)
            drifts_N = random.randint(0, 4, size=n) == 0
            taste_NJ[everyone[drifts_N], place_N[drifts_N]] = number_N[drifts_N]
            context_N = hour_N * NUM_DEVICES + device_N
            weight_N3 = WEIGHTS_D3[device_N]
            hidden_NH = weight_N3[:, 1:2] * (taste_NJ @ taste_HJ.T)
            if t > 0:
                read_NH = numbers_IJ[taken_NT[:, t - 1]] @ last_HJ.T
                hidden_NH += weight_N3[:, 0:1] * read_NH * last_CH[context_N] * last_SH[side_N]
            if t > 1:
                read_NH = numbers_IJ[taken_NT[:, t - 2]] @ previous_HJ.T
                hidden_NH += weight_N3[:, 2:3] * read_NH * previous_CH[context_N]
            agreement_NI = hidden_NH @ written_HJ @ numbers_IJ.T
            pull_NI = STEP * agreement_NI.astype(np.int64) + popularity_I
            height_NI = np.maximum(pull_NI - pull_NI.max(1, keepdims=True) + 8 * OCTAVES, 0)
            weight_NI = (EIGHTHS[height_NI & 7] << (height_NI >> 3)) * free_NI
            sums_NI = weight_NI.cumsum(1)
            # At most 1000 * 64 * 2**16 < 2**32 times a number below 2**30: no overflow.
            drawn_N = sums_NI[:, -1] * random.randint(0, 2**30, size=n, dtype=np.int64) >> 30
            taken_NT[:, t] = (sums_NI <= drawn_N[:, None]).sum(1)
            context_NT2[:, t] = np.stack([hour_N, device_N], axis=1)
            free_NI[everyone, taken_NT[:, t]] = 0
        items.append(taken_NT)
        contexts.append(context_NT2)
        lengths.append(length_N)
        sides.append(side_N2)
    length_U = np.concatenate(lengths)
    taken = np.arange(LONGEST) < length_U[:, None]
    return leave_two_out(
        np.concatenate(items)[taken],
        np.concatenate(contexts)[taken],
        length_U,
        np.concatenate(sides),
        genre_I[:, None] == np.arange(NUM_GENRES),
        (NUM_HOURS, NUM_DEVICES),
        (NUM_AGES, NUM_REGIONS),
    )


def _small(random: np.random.RandomState, *shape: int) -> Floats:
    """Whole numbers from -2 to 2: heads in four tosses, less two."""
    numbers: Floats = random.randint(0, 2, size=(4, *shape)).sum(0) - 2.0
    return numbers


def _sparse_signs(random: np.random.RandomState, count: int) -> Floats:
    """(H, J): for every hidden unit, signs at `count` places, else 0."""
    signs_HJ = np.zeros((NUM_HIDDEN, NUM_NUMBERS))
    for row in signs_HJ:
        row[random.permutation(NUM_NUMBERS)[:count]] = 2 * random.randint(0, 2, size=count) - 1
    return signs_HJ
