"""A small set of shards, and functions that worker processes can import, without torch, which takes seconds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import pyarrow as pa

from harness.errors import DataError
from harness.workload import Evaluator, Metric, RunConfig, Session
from workloads.streaming.order import Ints
from workloads.streaming.shards import Shards

if TYPE_CHECKING:
    import torch

FEATURES = datasets.Features({"index": datasets.Value("int32"), "data": datasets.Value("binary")})
LARGE_FEATURES = datasets.Features({"data": datasets.Value("binary")})
Part = tuple[int, int]


def parts(num_examples: int, size: int = 10) -> list[Part]:
    return [(first, min(first + size, num_examples)) for first in range(0, num_examples, size)]


def read_part(part: Part) -> Iterator[dict[str, Any]]:
    for index in range(*part):
        yield {"index": index, "data": bytes([index % 256]) * (index % 7)}


def read_large(part: int) -> Iterator[dict[str, Any]]:
    """32 examples of 128 KiB."""
    for _ in range(32):
        yield {"data": bytes(128 << 10)}


def read_as_table(part: Part) -> Iterator[pa.Table]:
    rows = list(read_part(part))
    yield pa.table({"index": [row["index"] for row in rows], "data": [row["data"] for row in rows]})


def read_with_datasets(part: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """A file in one of the formats of `datasets`."""
    kind, path = part
    yield from datasets.load_dataset(kind, data_files=[path], split="train", streaming=True)


def read_and_fail(part: Part) -> Iterator[dict[str, Any]]:
    """Fails at example 25, in the third part."""
    for row in read_part(part):
        if row["index"] == 25:
            raise OSError(28, "No space left on device", "source")
        yield row


def read_and_wait(part: tuple[int, int, str]) -> Iterator[dict[str, Any]]:
    """Notes in a file that the part is read; the third one is not finished as long as a file `wait` is there."""
    first, last, folder = part
    with (Path(folder) / "parts").open("a") as file:
        file.write(f"{first}\n")
    while first == 20 and (Path(folder) / "wait").exists():
        time.sleep(0.01)
    yield from read_part((first, last))


def read_and_die(part: Part) -> Iterator[dict[str, Any]]:
    if part[0] == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from read_part(part)


def written(folder: Path, num_examples: int) -> Path:
    """The folder of a split with `num_examples`, in shards of ten."""
    data_dir = folder / "data"
    data_dir.mkdir(parents=True)
    with Shards(data_dir, num_processes=1) as shards:
        shards.write("train", FEATURES, parts(num_examples), read_part)
    return data_dir / "train"


def load(rows: pa.Table, seeds: Ints) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    return torch.tensor(rows["index"].to_pylist()), torch.from_numpy(seeds)


def load_large(rows: pa.Table, seeds: Ints) -> torch.Tensor:
    """The number of bytes, each of which is read."""
    import torch

    return torch.tensor(sum(len(data.replace(b"\1", b"")) for data in rows["data"].to_pylist()))


def load_slowly(rows: pa.Table, seeds: Ints) -> tuple[torch.Tensor, torch.Tensor]:
    """A twentieth of a second for a batch."""
    time.sleep(0.05)
    return load(rows, seeds)


def load_damaged(rows: pa.Table, seeds: Ints) -> torch.Tensor:
    raise DataError("image 7 is damaged")


def load_as_process(rows: pa.Table, seeds: Ints) -> torch.Tensor:
    import torch

    return torch.tensor(os.getpid())


class Streamed:
    """A workload of 50 examples in five shards; the source has the files of `read_and_wait`."""

    name = "streamed"
    metric = Metric("accuracy", "fraction", "max")
    labels = ("test_labels.txt",)
    libraries = parts = ()
    execution: Mapping[str, tuple[str, ...]] = {}

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        with Shards(data_dir, num_processes=2) as shards:
            own = [(first, last, str(source)) for first, last in parts(50)]
            num_train = shards.write("train", FEATURES, own, read_and_wait)
            (data_dir / "metadata.json").write_text(f'{{"num_train": {num_train}}}')
            (data_dir / "test_labels.txt").write_text("secret")

    def open(self, config: RunConfig) -> Session:
        raise NotImplementedError

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        raise NotImplementedError

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        raise NotImplementedError
