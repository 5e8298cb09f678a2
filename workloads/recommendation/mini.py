"""The data of the mini suite: the next item depends on the two items before it, the hour, the device, the user's
kind and a drifting taste. The network is told none of these rules.

Dimension letters: N users at once, I items, B bits of an item's code, T steps, D devices, H hours, K kinds of user.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import numpy as np
import numpy.typing as npt

from workloads.recommendation.dataset import Interactions, leave_two_out

Floats = npt.NDArray[np.float64]

MINI_SEED = 20261
NUM_USERS, NUM_ITEMS, NUM_BITS, NUM_GENRES = 12_000, 1000, 6, 12
NUM_HOURS, NUM_DEVICES, NUM_AGES, NUM_REGIONS = 4, 3, 6, 8
NUM_KINDS = 4  # of users; a hidden table over age and region
LONGEST = 100
# Weights of the last item, the taste and the item before the last, by device; in eighths of an octave per bit.
PULLS_D3 = 4 * np.array([[3, 1, 1], [1, 3, 1], [2, 1, 2]])
EIGHTHS = np.array([64, 70, 76, 83, 91, 99, 108, 117])  # 64 * 2**(k / 8), rounded
OCTAVES = 16  # below the likeliest item; from there on all items are equally unlikely
USERS_AT_ONCE = 1000


def generate_mini() -> Interactions:
    """Generate the users, one thousand at a time, from one random stream.

    Every item has a hidden code of signs. A user is drawn to the sum of three codes: the last item's and the one
    before's, each transformed by a signed permutation that depends on the hour (the last item's also on the user's
    kind), and the user's own drifting taste. Items are drawn with probability 2**(pull / 8), popular ones more often.
    Everything is in integers (the matrix products are of small whole numbers, exact in any order of summation), so
    floating point cannot change a draw on any machine.
    """
    random = np.random.RandomState(MINI_SEED)
    codes_IB = 2.0 * random.randint(0, 2, size=(NUM_ITEMS, NUM_BITS)) - 1
    genres = random.randint(0, NUM_GENRES, size=2**NUM_BITS)
    genre_I = genres[((codes_IB > 0) @ (1 << np.arange(NUM_BITS))).astype(np.int64)]
    # Zipf's law in integers: 8 eighths of an octave per halving of the rank (plus 8, which flattens the top).
    ranks = random.permutation(NUM_ITEMS)
    popularity_I = np.array([2 * ((16 * NUM_ITEMS // (int(rank) + 8)) ** 4).bit_length() for rank in ranks])
    turns_HKBB = _signed_permutations(random, NUM_HOURS * NUM_KINDS).reshape(NUM_HOURS, NUM_KINDS, NUM_BITS, NUM_BITS)
    turns_HBB = _signed_permutations(random, NUM_HOURS)
    kinds = random.randint(0, NUM_KINDS, size=(NUM_AGES, NUM_REGIONS))
    items, contexts, lengths, sides = [], [], [], []
    for _ in range(NUM_USERS // USERS_AT_ONCE):
        n = USERS_AT_ONCE
        side_N2 = np.stack([random.randint(0, NUM_AGES, size=n), random.randint(0, NUM_REGIONS, size=n)], axis=1)
        kind_N = kinds[side_N2[:, 0], side_N2[:, 1]]
        # From 10 to 100 interactions, fewer than 21 for half of the users: a truncated Pareto tail.
        length_N = np.minimum(
            5 + 6000 // (40 + random.randint(0, 1000, size=n)) + random.randint(0, 10, size=n), LONGEST
        )
        taste_NB = 2.0 * random.randint(0, 2, size=(n, NUM_BITS)) - 1
        hour_N, favourite_N = random.randint(0, NUM_HOURS, size=n), random.randint(0, NUM_DEVICES, size=n)
        free_NI = np.ones((n, NUM_ITEMS), np.int64)
        taken_NT = np.zeros((n, LONGEST), np.int64)
        context_NT2 = np.zeros((n, LONGEST, 2), np.int64)
        everyone = np.arange(n)
        for t in range(LONGEST):
            hour_N = (hour_N + (random.randint(0, 3, size=n) == 0)) % NUM_HOURS
            other_N = random.randint(0, NUM_DEVICES, size=n)
            device_N = np.where(random.randint(0, 2, size=n) == 0, favourite_N, other_N)
            bit_N, sign_N = random.randint(0, NUM_BITS, size=n), 2.0 * random.randint(0, 2, size=n) - 1
            drifts_N = random.randint(0, 4, size=n) == 0
            taste_NB[everyone[drifts_N], bit_N[drifts_N]] = sign_N[drifts_N]
            pull_NB = PULLS_D3[device_N, 1:2] * taste_NB
            if t > 0:
                turned = np.einsum("nij,nj->ni", turns_HKBB[hour_N, kind_N], codes_IB[taken_NT[:, t - 1]])
                pull_NB += PULLS_D3[device_N, 0:1] * turned
            if t > 1:
                turned = np.einsum("nij,nj->ni", turns_HBB[hour_N], codes_IB[taken_NT[:, t - 2]])
                pull_NB += PULLS_D3[device_N, 2:3] * turned
            pull_NI = (pull_NB @ codes_IB.T).astype(np.int64) + popularity_I
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


def _signed_permutations(random: np.random.RandomState, count: int) -> Floats:
    matrices = np.zeros((count, NUM_BITS, NUM_BITS))
    for matrix in matrices:
        matrix[np.arange(NUM_BITS), random.permutation(NUM_BITS)] = 2 * random.randint(0, 2, size=NUM_BITS) - 1
    return matrices
