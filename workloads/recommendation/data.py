"""The data of recommendation: a shop of drifting tastes (mini), or MovieLens converted to the same form (standard).

Whatever the source, the data folder afterwards holds the same files: `ARRAYS` and `metadata.json`. Each user's
interactions are in time order: the last is for test, the one before it for validation, the rest for training. The
last items alone are labels (`test_items`); the context in which each is taken is known.

Dimension letters: U users, I items, T interactions of the training part (all users, one after the other),
F context fields, S side fields of a user, A attributes of an item.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.recommendation.dataset import Interactions, Known
from workloads.recommendation.mini import generate_mini
from workloads.recommendation.movielens import download, read
from workloads.recommendation.recipe import SUITES

ARRAYS: dict[str, tuple[type, int]] = {
    "train_offsets": (np.int64, 1),
    "train_items": (np.int32, 1),
    "train_contexts": (np.uint8, 2),
    "validation_items": (np.int32, 1),
    "validation_contexts": (np.uint8, 2),
    "test_items": (np.int32, 1),
    "test_contexts": (np.uint8, 2),
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
    num_users, num_items = len(made.user_sides), len(made.item_attributes)
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


def read_sizes(data_dir: Path) -> dict[str, Any]:
    """Return what `metadata.json` says.

    Raises:
        DataError: it is missing or damaged, or lacks a size.
    """
    try:
        sizes: dict[str, Any] = json.loads((data_dir / "metadata.json").read_text(encoding="utf-8"))
        whole = {name: int(sizes[name]) for name in ("num_users", "num_items")}
        return sizes | whole | {name: tuple(map(int, sizes[name])) for name in ("context_sizes", "side_sizes")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{data_dir}/metadata.json cannot be read: {printable(error)}") from None


def read_interactions(data_dir: Path, labels_dir: Path) -> Interactions:
    """Read the prepared data and the labels; the sizes are those in `metadata.json`.

    Raises:
        DataError: a file is missing, damaged, or does not match the others; the message names it.
    """
    sizes = read_sizes(data_dir)
    known = read_known(data_dir, sizes["context_sizes"], sizes["side_sizes"])
    fields = {field.name: getattr(known, field.name) for field in dataclasses.fields(known)}
    num_users, num_items = len(known.user_sides), len(known.item_attributes)
    return Interactions(**fields, test_items=read_test_items(labels_dir, num_users, num_items))


def read_test_items(labels_dir: Path, num_users: int, num_items: int) -> npt.NDArray[np.int32]:
    """Read the labels: the item that each user took last.

    Raises:
        DataError: the file is missing, damaged, or not of so many users and items; the message names it.
    """
    path = labels_dir / "test_items.npy"
    items: npt.NDArray[np.int32] = _load(path, *ARRAYS["test_items"])
    _check_shape(path, items, (num_users,))
    _check_range(path, items, num_items)
    return items


def read_known(data_dir: Path, context_sizes: tuple[int, ...], side_sizes: tuple[int, ...]) -> Known:
    """Read the prepared data without the labels; the sizes are those in `metadata.json`.

    Raises:
        DataError: a file is missing, damaged, or does not match the others; the message names it.
    """
    arrays = {
        name: _load(data_dir / f"{name}.npy", dtype, ndim)
        for name, (dtype, ndim) in ARRAYS.items()
        if name != "test_items"
    }
    offsets, items = arrays["train_offsets"], arrays["train_items"]
    num_users, num_items = len(arrays["user_sides"]), len(arrays["item_attributes"])
    shapes = {
        "train_offsets": (num_users + 1,),
        "train_contexts": (len(items), len(context_sizes)),
        "validation_items": (num_users,),
        "validation_contexts": (num_users, len(context_sizes)),
        "test_contexts": (num_users, len(context_sizes)),
        "user_sides": (num_users, len(side_sizes)),
    }
    for name, shape in shapes.items():
        _check_shape(data_dir / f"{name}.npy", arrays[name], shape)
    if offsets[0] != 0 or offsets[-1] != len(items) or (np.diff(offsets) < 1).any():
        raise DataError(
            f"{data_dir}/train_offsets.npy: not the bounds of {len(items)} interactions with at least one per user"
        )
    for name, top in {"train_items": num_items, "validation_items": num_items, "item_attributes": 2}.items():
        _check_range(data_dir / f"{name}.npy", arrays[name], top)
    for name, sizes in (
        ("train_contexts", context_sizes),
        ("validation_contexts", context_sizes),
        ("test_contexts", context_sizes),
        ("user_sides", side_sizes),
    ):
        if (arrays[name] >= np.array(sizes)).any():
            raise DataError(f"{data_dir}/{name}.npy: a value beyond its field's size; the sizes are {sizes}")
    return Known(**arrays, context_sizes=context_sizes, side_sizes=side_sizes)


def _check_shape(path: Path, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise DataError(f"{path}: shape {array.shape}, expected {shape} to match the other arrays")


def _check_range(path: Path, array: npt.NDArray[Any], top: int) -> None:
    if not 0 <= array.min() <= array.max() < top:
        raise DataError(f"{path}: values {array.min()} to {array.max()}, expected 0 to {top - 1}")


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
