"""The data of recommendation: a shop of drifting tastes (mini), or MovieLens converted to the same form (standard).

Whatever the source, the data folder afterwards holds the same files: `ARRAYS` and `metadata.json`. Each user's
interactions are in time order: the last is for test, the one before it for validation, the rest for training.

Dimension letters: U users, I items, T interactions of the training part (all users, one after the other),
F context fields, S side fields of a user, A attributes of an item.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.recommendation.dataset import Interactions
from workloads.recommendation.mini import generate_mini
from workloads.recommendation.movielens import download, read

SUITES = ("mini", "standard")


ARRAYS: dict[str, tuple[type, int]] = {
    "train_offsets": (np.int64, 1),
    "train_items": (np.int32, 1),
    "train_contexts": (np.uint8, 2),
    "held_items": (np.int32, 2),
    "held_contexts": (np.uint8, 3),
    "user_sides": (np.uint8, 2),
    "item_attributes": (np.uint8, 2),
}


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or in none of the card's layouts; or there is no network.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of recommendation", suite, SUITES))
    if suite == "mini":
        if source is not None:
            raise UsageError("recommendation_mini makes its own data; leave the source out")
        write(data_dir, suite, generate_mini(), "generated: drifting tastes")
    elif source is not None:
        interactions, layout = read(source)
        write(data_dir, suite, interactions, layout)
    else:
        interactions, layout = download(data_dir.parent / "downloads")
        write(data_dir, suite, interactions, layout)


def write(data_dir: Path, suite: str, made: Interactions, source: str) -> None:
    """Save the arrays, and the metadata that a session may read before the clock starts."""
    for name, (dtype, _) in ARRAYS.items():
        np.save(data_dir / f"{name}.npy", np.ascontiguousarray(getattr(made, name), dtype=dtype))
    num_users, num_items = len(made.held_items), len(made.item_attributes)
    metadata: dict[str, object] = {
        "suite": suite,
        "source": source,
        "num_users": num_users,
        "num_items": num_items,
        "num_attributes": made.item_attributes.shape[1],
        "context_sizes": list(made.context_sizes),
        "side_sizes": list(made.side_sizes),
        # A user's first interaction has nothing before it and is never predicted.
        "num_train": len(made.train_items) - num_users,
        "num_test": num_users,
    }
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_interactions(data_dir: Path, context_sizes: tuple[int, ...], side_sizes: tuple[int, ...]) -> Interactions:
    """Read the prepared data; the sizes are those in `metadata.json`.

    Raises:
        DataError: a file is missing, damaged, or does not match the others; the message names it.
    """
    arrays = {name: _load(data_dir / f"{name}.npy", dtype, ndim) for name, (dtype, ndim) in ARRAYS.items()}
    offsets, items, held = arrays["train_offsets"], arrays["train_items"], arrays["held_items"]
    num_users, num_items = len(held), len(arrays["item_attributes"])
    shapes = {
        "train_offsets": (num_users + 1,),
        "train_contexts": (len(items), len(context_sizes)),
        "held_items": (num_users, 2),
        "held_contexts": (num_users, 2, len(context_sizes)),
        "user_sides": (num_users, len(side_sizes)),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise DataError(
                f"{data_dir}/{name}.npy: shape {arrays[name].shape}, expected {shape} to match the other arrays"
            )
    if offsets[0] != 0 or offsets[-1] != len(items) or (np.diff(offsets) < 1).any():
        raise DataError(
            f"{data_dir}/train_offsets.npy: not the bounds of {len(items)} interactions with at least one per user"
        )
    tops = {"train_items": num_items, "held_items": num_items, "item_attributes": 2}
    for name, top in tops.items():
        if not 0 <= arrays[name].min() <= arrays[name].max() < top:
            raise DataError(
                f"{data_dir}/{name}.npy: values {arrays[name].min()} to {arrays[name].max()}, expected 0 to {top - 1}"
            )
    for name, sizes in (
        ("train_contexts", context_sizes),
        ("held_contexts", context_sizes),
        ("user_sides", side_sizes),
    ):
        if (arrays[name] >= np.array(sizes)).any():
            raise DataError(f"{data_dir}/{name}.npy: a value beyond its field's size; the sizes are {sizes}")
    return Interactions(**arrays, context_sizes=context_sizes, side_sizes=side_sizes)


def _load(path: Path, dtype: type, ndim: int) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if array.dtype != dtype or array.ndim != ndim or array.size == 0:
        raise DataError(f"{path}: expected {ndim}-d {np.dtype(dtype)}, found {array.dtype} of shape {array.shape}")
    return array
