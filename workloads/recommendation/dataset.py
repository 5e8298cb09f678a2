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
class Known:
    """What a run may see: who took what, when, and what is known about users and items. No user takes an item twice.

    train_offsets (U + 1,): where each user's interactions begin in train_items and train_contexts.
    train_items (T,), train_contexts (T, F): the items taken, and in which context.
    validation_items (U,), validation_contexts (U, F): the last interaction but one.
    test_contexts (U, F): in which context the last item was taken, the one to predict.
    user_sides (U, S), item_attributes (I, A): known beforehand; attributes are 0 or 1.
    context_sizes, side_sizes: how many values each field has.
    """

    train_offsets: Ints
    train_items: npt.NDArray[np.int32]
    train_contexts: npt.NDArray[np.uint8]
    validation_items: npt.NDArray[np.int32]
    validation_contexts: npt.NDArray[np.uint8]
    test_contexts: npt.NDArray[np.uint8]
    user_sides: npt.NDArray[np.uint8]
    item_attributes: npt.NDArray[np.uint8]
    context_sizes: tuple[int, ...]
    side_sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Interactions(Known):
    """The same with the labels. test_items (U,): the last item of every user."""

    test_items: npt.NDArray[np.int32]

    def held(self, num_held: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """Items and contexts of the last interaction but one (`num_held` 2: validation) or of the last (1: test)."""
        if num_held == 2:
            return self.validation_items, self.validation_contexts
        return self.test_items, self.test_contexts


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
    validation, test = ends - 2, ends - 1
    is_train = np.ones(len(items), bool)
    is_train[validation] = is_train[test] = False
    return Interactions(
        train_offsets=np.concatenate([[0], np.cumsum(lengths - 2)]),
        train_items=items[is_train].astype(np.int32),
        train_contexts=contexts[is_train].astype(np.uint8),
        validation_items=items[validation].astype(np.int32),
        validation_contexts=contexts[validation].astype(np.uint8),
        test_items=items[test].astype(np.int32),
        test_contexts=contexts[test].astype(np.uint8),
        user_sides=sides.astype(np.uint8),
        item_attributes=attributes.astype(np.uint8),
        context_sizes=context_sizes,
        side_sizes=side_sizes,
    )
