"""Who took which item when, split by leaving each user's last two interactions out.

Dimension letters: U users, I items, T interactions of the training part (all users, one after the other),
F context fields, S side fields of a user, A attributes of an item.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Interactions:
    """Who took what, when, and what is known about users and items. No user takes an item twice.

    train_offsets (U + 1,): where each user's interactions begin in train_items and train_contexts.
    train_items (T,), train_contexts (T, F): the items taken, and in which context.
    held_items (U, 2), held_contexts (U, 2, F): the last two interactions, validation and test.
    user_sides (U, S), item_attributes (I, A): known beforehand; attributes are 0 or 1.
    context_sizes, side_sizes: how many values each field has.
    """

    train_offsets: Ints
    train_items: npt.NDArray[np.int32]
    train_contexts: npt.NDArray[np.uint8]
    held_items: npt.NDArray[np.int32]
    held_contexts: npt.NDArray[np.uint8]
    user_sides: npt.NDArray[np.uint8]
    item_attributes: npt.NDArray[np.uint8]
    context_sizes: tuple[int, ...]
    side_sizes: tuple[int, ...]


def leave_two_out(
    items: Ints,
    contexts: Ints,
    lengths: Ints,
    sides: Ints,
    attributes: npt.NDArray[np.bool_],
    context_sizes: tuple[int, ...],
    side_sizes: tuple[int, ...],
) -> Interactions:
    """Split interactions given user by user in time order, `lengths` (at least 3) per user."""
    ends = np.cumsum(lengths)
    held = np.stack([ends - 2, ends - 1], axis=1)
    is_train = np.ones(len(items), bool)
    is_train[held] = False
    return Interactions(
        train_offsets=np.concatenate([[0], np.cumsum(lengths - 2)]),
        train_items=items[is_train].astype(np.int32),
        train_contexts=contexts[is_train].astype(np.uint8),
        held_items=items[held].astype(np.int32),
        held_contexts=contexts[held].astype(np.uint8),
        user_sides=sides.astype(np.uint8),
        item_attributes=attributes.astype(np.uint8),
        context_sizes=context_sizes,
        side_sizes=side_sizes,
    )
