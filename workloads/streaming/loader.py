"""Reads shards while training: worker processes decode, pinned memory and a stream of its own carry batches across.

A rank holds the batches that are being made, at most workers x prefetch of them, and the order of the epoch; the files
are memory-mapped, and what of them is in memory is the operating system's cache. Starting reads only their heads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import DataError, UsageError
from workloads.streaming.order import Ints, Order, seeds, share
from workloads.streaming.shards import read

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

# Tensors, or tuples, lists and dicts of tensors.
Batch = Any
Load = Callable[["pa.Table", Ints], Batch]
_Request = tuple[Ints, Ints]  # the indices of examples, and their seeds


@dataclass(frozen=True, slots=True)
class Place:
    """Where batches go, and who makes them.

    num_workers: processes of this rank that make batches; 0: this process makes each when it is asked for.
    prefetch: how many batches each of them makes ahead.
    """

    rank: int
    num_ranks: int
    device: torch.device
    num_workers: int
    prefetch: int = 2


class Examples:
    """The examples in a folder of shards, as `load` makes batches of them.

    load: gets the rows as a table and a seed for each; a function of a module. It runs in the worker processes, which
    have one thread each, and must draw from nothing but those seeds.

    Raises:
        DataError: the folder is missing or damaged.
    """

    def __init__(self, folder: Path, load: Load) -> None:
        self._rows = read(folder)
        self._load = load
        self._pieces: list[pa.RecordBatch] = self._rows.data.to_batches()
        self._firsts = np.cumsum([0, *map(len, self._pieces)])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, request: _Request) -> Batch:
        """Return the batch of a request, or the DataError that `load` raised."""
        indices, seeds = request
        # Rows that are few and large are cut out one by one, without a copy; many small ones are taken by the piece.
        rows = self._rows[indices] if len(indices) < len(self._pieces) else self._taken(indices)
        try:
            return self._load(rows, seeds)
        except DataError as error:  # a worker process that raised it would wrap it in its stack
            return error

    def _taken(self, indices: Ints) -> pa.Table:
        import pyarrow as pa

        places = np.argsort(indices, kind="stable")
        ordered = indices[places]
        ends = np.searchsorted(ordered, self._firsts)
        parts = [
            piece.take(pa.array(ordered[first:end] - number))
            for piece, number, first, end in zip(self._pieces, self._firsts, ends, ends[1:], strict=False)
            if first < end
        ]
        return pa.Table.from_batches(parts).combine_chunks().take(pa.array(np.argsort(places, kind="stable")))


class TrainingLoader:
    """This rank's share of one global batch after the other, without a pause between epochs.

    microbatch: a share comes in pieces of so many examples, the last one of what is left; None: in one piece.
    position: the epoch and the number in it of the global batch to begin with.
    """

    def __init__(
        self,
        examples: Examples,
        order: Order,
        seed: int,
        place: Place,
        microbatch: int | None = None,
        position: tuple[int, int] = (0, 0),
    ) -> None:
        self._position = position
        self._positions: deque[tuple[int, int] | None] = deque()
        self._waits = _Waits(place.device)
        requests = _requests(order, seed, place, microbatch, position, self._positions)
        batches = _data_loader(examples, requests, place)
        if place.num_workers:
            wait_for_idle_threads()
        self._batches = iter(batches)

    @property
    def position(self) -> tuple[int, int]:
        """The epoch and the number in it of the global batch that comes next."""
        return self._position

    def next_batch(self) -> Iterator[Batch]:
        """Yield this rank's share of the next global batch, on the device; the caller takes all of its pieces.

        Raises:
            DataError: an epoch has no global batch, or `load` raised it.
            UsageError: a global batch has fewer examples than there are ranks.
        """
        position = None
        while position is None:
            with self._waits:
                batch = self._waits.carry(next(self._batches))
            position = self._positions.popleft()
            self._position = position or self._position
            yield batch

    def waited_s(self) -> float:
        """Return for how many seconds since the last call the device had to wait for data: the longest of all ranks.

        To be called on every rank when its device has finished.
        """
        return self._waits.total_s()

    def close(self) -> None:
        """End the worker processes."""
        self._batches = iter(())


def _requests(
    order: Order,
    seed: int,
    place: Place,
    microbatch: int | None,
    position: tuple[int, int],
    positions: deque[tuple[int, int] | None],
) -> Iterator[_Request]:
    """Yield what a rank asks for from a position on; append to `positions` that after each, None in a global batch."""
    epoch, number = position
    while True:
        batches = order(epoch)
        if not len(batches):
            raise DataError(f"epoch {epoch} has no global batch: the training set is too small for one")
        for batch in batches[number:]:
            number += 1
            following = (epoch, number) if number < len(batches) else (epoch + 1, 0)
            if len(batch) < place.num_ranks:
                raise UsageError(
                    f"a global batch of {len(batch)} examples cannot be shared by {place.num_ranks} devices"
                )
            indices = share(batch, place.rank, place.num_ranks)
            numbers = seeds(seed, epoch, indices)
            size = microbatch or len(indices)
            for first in range(0, len(indices), size):
                positions.append(following if first + size >= len(indices) else None)
                yield indices[first : first + size], numbers[first : first + size]
        epoch, number = epoch + 1, 0


class EvaluationLoader:
    """This rank's examples of a test set in batches on the device: every `num_ranks`-th, so none occurs twice.

    Its worker processes are started by the first iteration and stay for the next ones. The seeds are those of epoch 0
    of seed 0.
    """

    def __init__(self, examples: Examples, batch_size: int, place: Place) -> None:
        own = np.arange(place.rank, len(examples), place.num_ranks)
        requests = [own[first : first + batch_size] for first in range(0, len(own), batch_size)]
        self._waits = _Waits(place.device)
        self._batches: Iterable[Batch] = _data_loader(
            examples, [(indices, seeds(0, 0, indices)) for indices in requests], place
        )
        self._is_to_fork = place.num_workers > 0

    def __iter__(self) -> Iterator[Batch]:
        if self._is_to_fork:
            wait_for_idle_threads()
            self._is_to_fork = False
        for batch in self._batches:
            yield self._waits.carry(batch)

    def close(self) -> None:
        """End the worker processes."""
        self._batches = ()


def _data_loader(examples: Examples, requests: Iterable[_Request], place: Place) -> Iterable[Batch]:
    from torch.utils.data import DataLoader

    workers: dict[str, Any] = {}
    if place.num_workers:
        # Forked, a worker shares the libraries and the mapped files of its rank, and starts in milliseconds.
        workers = {"multiprocessing_context": "fork", "persistent_workers": True, "prefetch_factor": place.prefetch}
    loader: Iterable[Batch] = DataLoader(
        examples,  # type: ignore[arg-type]
        batch_size=None,
        sampler=requests,
        num_workers=place.num_workers,
        pin_memory=place.device.type != "cpu",
        **workers,
    )
    return loader


def wait_for_idle_threads(limit_s: float = 1.0) -> None:
    """Wait until the other threads of this process sleep, before it forks; on Linux, and no longer than `limit_s`.

    A thread of torch's that has done its part of a collective, or of a backward pass, takes a Python thread state to
    release a tensor. If it holds the lock of all thread states at the moment of a fork, the child waits for that lock
    for ever: CPython 3.11 makes it new only after it has taken it. Such a thread is ready to run, and not asleep.
    """
    own, tasks = str(threading.get_native_id()), Path("/proc/self/task")
    end_s = perf_counter() + limit_s
    while tasks.is_dir() and perf_counter() < end_s:
        if all(_is_asleep(task) for task in tasks.iterdir() if task.name != own):
            return
        sleep(0.001)


def _is_asleep(task: Path) -> bool:
    try:
        text = (task / "stat").read_text(errors="replace")
    except OSError:  # it has ended
        return True
    return text.rpartition(")")[2].split()[0] != "R"  # "<id> (<name>) <state> ...": proc_pid_stat(5)


class _Waits:
    """Carries batches to the device, and sums for how long it waited for them.

    A device works asynchronously: while this process waits for a batch, the device may still have work. So its own
    clock is read: events before and after the wait measure how long it had none. On a CPU the two are the same.
    """

    def __init__(self, device: torch.device) -> None:
        import torch

        self._device = device
        self._is_asynchronous = device.type != "cpu"
        self._stream = torch.Stream(device=device) if self._is_asynchronous else None
        self._events: list[tuple[torch.Event, torch.Event]] = []
        self._since_s = self._total_s = 0.0

    def __enter__(self) -> None:
        self._since_s = perf_counter()
        if self._is_asynchronous:
            self._events.append((self._event(), self._event()))
            self._events[-1][0].record()

    def carry(self, batch: Batch) -> Batch:
        """Return the batch on the device; work that is enqueued from now on waits for it.

        Raises:
            DataError: the batch is one.
        """
        if isinstance(batch, DataError):
            raise batch
        if self._stream is None:
            return batch
        import torch
        from accelerate.utils import recursively_apply

        work = torch.accelerator.current_stream(self._device)

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            there = tensor.to(self._device, non_blocking=True)
            there.record_stream(work)  # allocated on the other stream: its memory is free when this one has used it
            return there

        with self._stream:
            batch = recursively_apply(moved, batch)
        work.wait_stream(self._stream)
        return batch

    def __exit__(self, *error: object) -> None:
        if self._is_asynchronous:
            self._events[-1][1].record()
        else:
            self._total_s += perf_counter() - self._since_s

    def total_s(self) -> float:
        """Return the sum since the last call, the longest of all ranks; the device has finished."""
        import torch
        from torch import distributed

        own_s = self._total_s + sum(before.elapsed_time(after) for before, after in self._events) / 1000
        self._total_s = 0.0
        self._events.clear()
        if not distributed.is_initialized():
            return own_s
        longest = torch.tensor(own_s, dtype=torch.float64, device=self._device)
        distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        return longest.item()

    def _event(self) -> torch.Event:
        import torch

        return torch.Event(device=self._device, enable_timing=True)
