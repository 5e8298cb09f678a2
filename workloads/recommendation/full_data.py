"""The data of the full suite: Criteo's seven days, six to train on, the last one for test and validation.

    train/, validation/, test/    Arrow shards of `row` (39 int32) and, but for the test, `click` (0 or 1)
    test_clicks.npy               the labels of the test, uint8
    metadata.json                 among others vocabulary_sizes: how many values each category has

A row has the 13 counts as they were (0 where missing) and the number of each of the 26 categories. A value that occurs
at least `MIN_OCCURRENCES` times in the training days has a number of its own, 1, 2, ... from the most frequent one on,
equally frequent ones by value; all others are 0. A missing category is the value 0 of 32 bits, as in DLRM's own
preparation.

Dimension letters: R rows, D counts (13), F categories (26).
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable
from workloads.recommendation.full_criteo import (
    NUM_CATEGORIES,
    NUM_COUNTS,
    ROWS_PER_PIECE,
    Piece,
    Rows,
    find_pieces,
    read_piece,
)
from workloads.streaming.shards import UNFINISHED_NAME, Shards

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

NUM_DAYS = 7
MIN_OCCURRENCES = 10
LABELS = "test_clicks.npy"
SPLITS = ("train", "validation", "test")

# Consecutive rows of a source: of each piece those from the first number to the second.
Chunks = tuple[tuple[Piece, int, int], ...]


class Part(NamedTuple):
    """Consecutive rows, and the vocabulary that numbers their categories: its file and digest."""

    chunks: Chunks
    vocabulary: str
    digest: str


def prepare(
    data_dir: Path, source: Path | None, rows_per_piece: int = ROWS_PER_PIECE, num_processes: int | None = None
) -> None:
    """Fill `data_dir`; what a killed or failed attempt has finished is not done again.

    rows_per_piece: in a shard. num_processes: by default one per core.

    Raises:
        UsageError: no source is given. DataError: it has no data of Criteo's, or they are damaged.
    """
    if source is None:
        raise UsageError(
            "recommendation_full: Criteo's data cannot be downloaded without accepting its licence; name the folder "
            "with train.txt or an archive of it with --source"
        )
    with Shards(data_dir, num_processes) as shards:
        kept = data_dir.parent / UNFINISHED_NAME
        pieces = find_pieces(source, kept, rows_per_piece)
        num_rows = sum(piece.num_rows for piece in pieces)
        bounds = split_bounds(num_rows)
        if min(np.diff([0, *bounds])) < 1:
            raise DataError(f"{source}: {num_rows} rows are too few for {NUM_DAYS} days")
        vocabulary, digest = _vocabulary(_divided(pieces, 0, bounds[0], rows_per_piece), kept, num_processes)
        counts = {}
        for split, first, end in zip(SPLITS, (0, bounds[1], bounds[0]), (bounds[0], bounds[2], bounds[1]), strict=True):
            divided = _divided(pieces, first, end, rows_per_piece)
            parts = [Part(chunks, str(vocabulary), digest) for chunks in divided]
            counts[split] = shards.write(split, features(split), parts, partial(read_part, split != "test"))
            if split == "test":
                np.save(data_dir / LABELS, np.concatenate([_read(chunks).clicks_R for chunks in divided]))
        sizes = np.load(vocabulary)["sizes"].tolist()
        metadata: dict[str, object] = {
            "suite": "full",
            "source": f"Criteo display advertising challenge, {num_rows:,} rows",
            "num_counts": NUM_COUNTS,
            "vocabulary_sizes": sizes,
            "min_occurrences": MIN_OCCURRENCES,
            **{f"num_{split}": counts[split] for split in SPLITS},
        }
        (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def split_bounds(num_rows: int) -> tuple[int, int, int]:
    """Where training, test and validation end, as DLRM divides them.

    Days of equal length, the first ones longer by a row where they do not divide evenly; of the last day, the first
    half is for test and the second, the shorter one if it is odd, for validation.
    """
    last_day = num_rows // NUM_DAYS
    return num_rows - last_day, num_rows - last_day // 2, num_rows


def features(split: str) -> datasets.Features:
    """The columns of a split."""
    import datasets

    row = {"row": datasets.Sequence(datasets.Value("int32"), length=NUM_COUNTS + NUM_CATEGORIES)}
    return datasets.Features(row if split == "test" else {**row, "click": datasets.Value("uint8")})


def read_part(has_clicks: bool, part: Part) -> Iterator[pa.Table]:
    """Yield the rows of a part as one table, with numbers in place of the categories."""
    import pyarrow as pa

    rows = _read(part.chunks)
    with np.load(part.vocabulary) as vocabulary:
        numbers = [
            _numbers(rows.categories_RF[:, f], vocabulary[f"values_{f}"], vocabulary[f"numbers_{f}"])
            for f in range(NUM_CATEGORIES)
        ]
    row = np.concatenate([rows.counts_RD, np.stack(numbers, 1)], 1, dtype=np.int32)
    columns = {"row": pa.FixedSizeListArray.from_arrays(pa.array(row.reshape(-1)), row.shape[1])}
    if has_clicks:
        columns["click"] = pa.array(rows.clicks_R)
    yield pa.table(columns)


def read_metadata(data_dir: Path) -> dict[str, Any]:
    """Return what `metadata.json` says.

    Raises:
        DataError: it is missing or damaged, or is not of this suite.
    """
    try:
        metadata: dict[str, Any] = json.loads((data_dir / "metadata.json").read_text(encoding="utf-8"))
        sizes = [int(size) for size in metadata["vocabulary_sizes"]]
        return metadata | {"vocabulary_sizes": sizes, "num_test": int(metadata["num_test"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{data_dir}/metadata.json cannot be read: {printable(error)}") from None


def read_clicks(labels_dir: Path, num_test: int) -> npt.NDArray[np.uint8]:
    """Read the labels of the test.

    Raises:
        DataError: they are missing, damaged, or not as many as the test has rows.
    """
    path = labels_dir / LABELS
    try:
        clicks_R: npt.NDArray[np.uint8] = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if clicks_R.dtype != np.uint8 or clicks_R.shape != (num_test,) or set(np.unique(clicks_R)) != {0, 1}:
        raise DataError(f"{path}: expected {num_test:,} clicks, 0 or 1 and some of each")
    return clicks_R


# ---- the vocabulary


def _divided(pieces: Sequence[Piece], first: int, end: int, size: int) -> list[Chunks]:
    """The rows `first` to `end` of a source, divided where the number of a row is a multiple of `size`.

    So the shards are the same in whatever pieces a source comes.
    """
    found: list[list[tuple[Piece, int, int]]] = []
    begin = 0
    for piece in pieces:
        row, stop = max(first, begin), min(end, begin + piece.num_rows)
        while row < stop:
            if row == first or row % size == 0:
                found.append([])
            until = min(stop, (row // size + 1) * size)
            found[-1].append((piece, row - begin, until - begin))
            row = until
        begin += piece.num_rows
    return [tuple(chunks) for chunks in found]


def _read(chunks: Chunks) -> Rows:
    read = [(read_piece(piece), slice(first, end)) for piece, first, end in chunks]
    return Rows(*(np.concatenate([arrays[k][chosen] for arrays, chosen in read]) for k in range(3)))


def _vocabulary(divided: Sequence[Chunks], kept: Path, num_processes: int | None) -> tuple[Path, str]:
    """Count the categories of the training rows, and give numbers to the frequent ones; the file and its digest."""
    plan = hashlib.sha256(repr([MIN_OCCURRENCES, *divided]).encode()).hexdigest()[:16]
    path = kept / f"{plan}.vocabulary.npz"
    if not path.is_file():
        counted = [kept / f"{plan}.{number:05d}.counts.npz" for number in range(len(divided))]
        missing = [(chunks, place) for chunks, place in zip(divided, counted, strict=True) if not place.is_file()]
        if num_processes == 1:
            for chunks, place in missing:
                _count(chunks, place)
        else:
            workers, spawn = num_processes or len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
                for counting in [pool.submit(_count, chunks, place) for chunks, place in missing]:
                    counting.result()
        _save(path, _numbered(counted))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def _count(chunks: Chunks, place: Path) -> None:
    """Write the values of each category in the rows, and how often each of them occurs."""
    categories_RF = _read(chunks).categories_RF
    arrays: dict[str, npt.NDArray[Any]] = {}
    for f in range(NUM_CATEGORIES):
        arrays[f"values_{f}"], arrays[f"counts_{f}"] = np.unique(categories_RF[:, f], return_counts=True)
    _save(place, arrays)


def _numbered(counted: Iterable[Path]) -> dict[str, npt.NDArray[Any]]:
    """The frequent values of each category in ascending order, and their numbers."""
    archives = [np.load(path) for path in counted]
    arrays: dict[str, npt.NDArray[Any]] = {}
    sizes = []
    for f in range(NUM_CATEGORIES):
        values = np.concatenate([archive[f"values_{f}"] for archive in archives])
        values, inverse = np.unique(values, return_inverse=True)
        found = np.concatenate([archive[f"counts_{f}"] for archive in archives])
        counts = np.bincount(inverse, weights=found).astype(np.int64)  # exact below 2**53
        values, counts = values[counts >= MIN_OCCURRENCES], counts[counts >= MIN_OCCURRENCES]
        numbers = np.empty(len(values), np.int32)
        numbers[np.lexsort((values, -counts))] = np.arange(1, len(values) + 1)
        arrays[f"values_{f}"], arrays[f"numbers_{f}"] = values, numbers
        sizes.append(len(values) + 1)
    return {**arrays, "sizes": np.array(sizes)}


def _numbers(
    values_R: npt.NDArray[np.uint32], known: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """The numbers of values; 0 for one that is not known."""
    if not len(known):
        return np.zeros(len(values_R), np.int32)
    place_R = np.minimum(np.searchsorted(known, values_R), len(known) - 1)
    return np.where(known[place_R] == values_R, numbers[place_R], 0).astype(np.int32)


def _save(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays whole or not at all."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    draft.rename(path)
