"""Writes a data set as Arrow shards in the layout of `datasets.load_from_disk`, and goes on where a kill left it.

    <data_dir>/<split>/data-00000-of-00128.arrow   one part of the source each
    <data_dir>/<split>/dataset_info.json, state.json

Shards are made in the folder `unfinished` next to `data_dir`, which is kept if a preparation fails, as `downloads` is.
A shard there is complete, and is not made again by the same code from the same parts. The bytes depend on the parts,
the code and the releases of datasets and pyarrow, and not on the number of processes.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from harness.base import digests
from harness.base.processes import die_with_parent
from harness.errors import DataError, printable

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

P = TypeVar("P")

UNFINISHED_NAME = "unfinished"
ROWS_PER_BATCH = 1000  # of examples that come singly; a table is a batch. To open a file is to read its batches' heads


class Shards:
    """The splits of one preparation; leaving the context without an exception moves them to `data_dir`.

    num_processes: how many shards are made at once; by default one per core.
    """

    def __init__(self, data_dir: Path, num_processes: int | None = None) -> None:
        self._data_dir = data_dir
        self._folder = data_dir.parent / UNFINISHED_NAME
        self._num_processes = num_processes or len(os.sched_getaffinity(0))
        self._digests_path = data_dir.parent / digests.NAME
        self._digests = digests.stored(self._digests_path)
        self._splits: list[str] = []

    def __enter__(self) -> Shards:
        self._folder.mkdir(exist_ok=True)
        return self

    def write(
        self,
        split: str,
        features: datasets.Features,
        parts: Sequence[P],
        read: Callable[[P], Iterable[Mapping[str, Any] | pa.Table]],
    ) -> int:
        """Write a split, a shard for each part; return the number of its examples.

        parts: what determines a shard, as plain data (names of files with their sizes, a range of lines): where its
            `repr` is another than before, the split is made again. read: a function of a module that yields the
            examples of a part in order, one by one or as tables.

        Raises:
            DataError: a process that makes shards was killed.
        """
        folder = self._folder / split
        plan_path = self._folder / f"{split}.plan"
        plan = _digest(f"{features!r} {list(parts)!r} {_code()}")
        # A kill while the splits were moved to `data_dir` has left a plan without its folder.
        if not (folder.is_dir() and plan_path.is_file() and plan_path.read_text() == plan):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            plan_path.write_text(plan)
        names = [f"data-{number:05d}-of-{len(parts):05d}.arrow" for number in range(len(parts))]
        missing = {name: part for name, part in zip(names, parts, strict=True) if not (folder / name).is_file()}
        done = len(parts) - len(missing)
        for name, sha256 in self._made(folder, features, missing, read):
            self._digests[f"{split}/{name}"] = digests.entry(folder / name, sha256=sha256)
            digests.store(self._digests_path, self._digests)
            done += 1
            print(f"{split}: {done:,} of {len(parts):,} shards", file=sys.stderr, flush=True)
        found = [digests.entry(folder / name, self._digests.get(f"{split}/{name}"))["sha256"] for name in names]
        state: dict[str, Any] = {
            "_data_files": [{"filename": name} for name in names],
            "_fingerprint": _digest(" ".join(found))[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        (folder / "state.json").write_text(json.dumps(state, indent=1) + "\n")
        info = json.dumps({"features": features.to_dict()}, indent=1, sort_keys=True)
        (folder / "dataset_info.json").write_text(info + "\n")
        self._splits.append(split)
        return len(self.read(split))

    def _made(
        self,
        folder: Path,
        features: datasets.Features,
        missing: Mapping[str, P],
        read: Callable[[P], Iterable[Mapping[str, Any] | pa.Table]],
    ) -> Iterable[tuple[str, str]]:
        """Make the `missing` shards; yield the name and SHA-256 of each when it is complete."""
        if self._num_processes == 1 or len(missing) < 2:
            for name, part in missing.items():
                yield name, _write_shard(folder / name, features, part, read)
            return
        spawn = multiprocessing.get_context("spawn")
        # They end with this process: a later attempt would find what they still write.
        with ProcessPoolExecutor(min(self._num_processes, len(missing)), spawn, die_with_parent) as pool:
            names = {
                pool.submit(_write_shard, folder / name, features, part, read): name for name, part in missing.items()
            }
            try:
                for future in as_completed(names):
                    yield names[future], future.result()
            except BrokenProcessPool:
                raise DataError(
                    f"{folder}: a process that made shards was killed, perhaps for want of memory; prepare the data "
                    "again to go on from the shards that are complete"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)

    def read(self, split: str) -> datasets.Dataset:
        """Return a split that has been written, memory-mapped."""
        return read(self._folder / split)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            for split in self._splits:
                (self._folder / split).rename(self._data_dir / split)
            shutil.rmtree(self._folder)


def read(folder: Path) -> datasets.Dataset:
    """Return the split in `folder`, memory-mapped; indexed with numbers it returns a `pyarrow.Table`.

    Raises:
        DataError: it is missing or damaged.
    """
    import datasets

    try:
        return datasets.load_from_disk(str(folder)).with_format("arrow")
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: cannot be read: {printable(error)}; prepare the data again") from None


def _write_shard(
    path: Path, features: datasets.Features, part: P, read: Callable[[P], Iterable[Mapping[str, Any] | pa.Table]]
) -> str:
    """Write a shard whole or not at all; return its SHA-256."""
    import pyarrow as pa
    from datasets.arrow_writer import ArrowWriter

    draft = path.with_suffix(".draft")
    with ArrowWriter(path=str(draft), features=features, writer_batch_size=ROWS_PER_BATCH) as writer:
        for rows in read(part):
            if isinstance(rows, pa.Table):
                writer.write_table(rows, writer_batch_size=max(1, len(rows)))
            else:
                writer.write(rows)
        writer.finalize()
    with draft.open("rb") as stream:
        os.fsync(stream.fileno())
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    draft.rename(path)
    return sha256


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _code() -> str:
    """What the bytes of a shard depend on apart from its part: the code of all workloads, and two libraries."""
    root = Path(__file__).parents[1]
    found = [f"{path.relative_to(root)} {_digest(path.read_text())}" for path in sorted(root.rglob("*.py"))]
    return " ".join([*found, *(f"{name} {metadata.version(name)}" for name in ("datasets", "pyarrow"))])
