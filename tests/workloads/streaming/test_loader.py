"""What the loaders deliver, to whom, and how long they let the device wait."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest
import torch

from harness.errors import DataError, UsageError
from tests.workloads.streaming import toy
from workloads.streaming.loader import EvaluationLoader, Examples, Place, TrainingLoader, wait_for_idle_threads
from workloads.streaming.order import seeds, shuffled
from workloads.streaming.shards import Shards

NUM_EXAMPLES, BATCH, SEED = 50, 12, 5
CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.written(tmp_path_factory.mktemp("shards"), NUM_EXAMPLES)


def training(
    folder: Path, rank: int = 0, num_ranks: int = 1, num_workers: int = 0, load: Any = toy.load, **options: Any
) -> TrainingLoader:
    place = Place(rank, num_ranks, CPU, num_workers)
    return TrainingLoader(Examples(folder, load), shuffled(NUM_EXAMPLES, BATCH, SEED), SEED, place, **options)


def taken(loader: TrainingLoader, num_batches: int) -> list[list[list[int]]]:
    """The indices in each piece of each batch."""
    return [[indices.tolist() for indices, _ in loader.next_batch()] for _ in range(num_batches)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ranks_train_on_the_batches_of_the_order(folder: Path, num_workers: int) -> None:
    """Joined by rank, the pieces are the global batches of the order, over the edge of the epoch."""
    order = shuffled(NUM_EXAMPLES, BATCH, SEED)
    expected = [batch.tolist() for epoch in (0, 1) for batch in order(epoch)]

    for num_ranks, microbatch in ((1, None), (2, 4), (3, 3), (5, None)):
        ranks = [
            taken(training(folder, rank, num_ranks, num_workers, microbatch=microbatch), 8) for rank in range(num_ranks)
        ]
        found = [
            [index for pieces in shares for piece in pieces for index in piece] for shares in zip(*ranks, strict=True)
        ]
        assert found == expected
        pieces = [len(piece) for piece in ranks[0][0]]
        assert pieces == {None: [12 // num_ranks], 4: [4, 2], 3: [3, 1]}[microbatch]


def test_seed_of_an_example_is_the_same_for_any_workers_and_ranks(folder: Path) -> None:
    """It is made from seed, epoch and index, whoever makes the batch."""
    for loader in (training(folder), training(folder, 1, 2, num_workers=2, microbatch=3)):
        for _ in range(5):
            epoch, _ = loader.position
            for indices, numbers in loader.next_batch():
                assert numbers.tolist() == seeds(SEED, epoch, indices.numpy()).tolist()


@pytest.mark.parametrize("num_batches", [0, 3, 4, 6])
def test_position_goes_on_where_it_was(folder: Path, num_batches: int) -> None:
    """In the middle of an epoch, at its edge, and with what worker processes had made ahead."""
    first = training(folder, num_workers=2)
    taken(first, num_batches)

    second = training(folder, num_workers=2, position=first.position)

    assert first.position == divmod(num_batches, 4)
    assert taken(second, 5) == taken(first, 5)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7, 60])
def test_every_test_example_is_evaluated_once(folder: Path, num_ranks: int) -> None:
    """Without padding at sizes that cannot be divided, as often as it is asked for, on more ranks than examples."""
    for rank in range(num_ranks):
        loader = EvaluationLoader(Examples(folder, toy.load), 8, Place(rank, num_ranks, CPU, 0))
        for _ in range(2):
            found = [index for indices, _ in loader for index in indices.tolist()]
            assert found == list(range(rank, NUM_EXAMPLES, num_ranks))


def test_workers_stay_until_the_loader_is_closed(folder: Path) -> None:
    """Batches are made by the same processes for the whole of a run, and for every evaluation."""
    loader = training(folder, num_workers=2, load=toy.load_as_process)
    testing = EvaluationLoader(Examples(folder, toy.load_as_process), 5, Place(0, 1, CPU, 2))

    makers = {int(batch) for _ in range(20) for batch in loader.next_batch()}
    evaluators = [{int(batch) for batch in testing} for _ in range(2)]

    assert len(makers) == 2
    assert os.getpid() not in makers
    assert evaluators[0] == evaluators[1]
    assert len(evaluators[0]) == 2
    loader.close()
    testing.close()
    assert not {pid for pid in makers | evaluators[0] if Path(f"/proc/{pid}").exists()}


def test_wait_is_what_a_slow_loader_costs(folder: Path) -> None:
    """Four batches of a twentieth of a second, made when they are asked for; nothing is counted twice."""
    loader = training(folder, load=toy.load_slowly)
    taken(loader, 4)

    assert 0.2 <= loader.waited_s() < 0.3
    assert loader.waited_s() == 0


def test_order_that_fits_no_batch_is_refused(folder: Path) -> None:
    """A training set smaller than one global batch, and a batch smaller than the number of ranks."""
    none = TrainingLoader(Examples(folder, toy.load), shuffled(5, 6, SEED), SEED, Place(0, 1, CPU, 0))
    with pytest.raises(DataError, match="epoch 0 has no global batch"):
        next(none.next_batch())
    with pytest.raises(UsageError, match="12 examples cannot be shared by 13 devices"):
        next(training(folder, 3, 13).next_batch())


@pytest.mark.parametrize("num_workers", [0, 1])
def test_damage_that_a_worker_finds_is_reported_in_its_words(folder: Path, num_workers: int) -> None:
    """Not as the stack of a process that the reader has not heard of."""
    loader = training(folder, num_workers=num_workers, load=toy.load_damaged)
    testing = EvaluationLoader(Examples(folder, toy.load_damaged), 5, Place(0, 1, CPU, num_workers))

    for batches in (loader.next_batch(), iter(testing)):
        with pytest.raises(DataError, match=r"^image 7 is damaged$"):
            next(batches)
    loader.close()
    testing.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_wait_is_the_time_that_computing_does_not_take(folder: Path, num_workers: int) -> None:
    """A worker process needs 50 ms for a batch, the step 30 ms: what is left of the time between them is the wait."""
    loader = training(folder, num_workers=num_workers, load=toy.load_slowly)
    taken(loader, 1)
    loader.waited_s()
    computing_s, since_s = 0.0, perf_counter()

    for _ in range(6):
        for _ in loader.next_batch():
            started_s = perf_counter()
            sleep(0.03)
            computing_s += perf_counter() - started_s
    total_s = perf_counter() - since_s

    assert loader.waited_s() == pytest.approx(total_s - computing_s, abs=0.02)
    assert total_s >= (6 - 1) * 0.05


def test_no_wait_is_counted_where_batches_are_ready(folder: Path) -> None:
    """Computing takes longer than loading, and a worker makes batches ahead."""
    loader = training(folder, num_workers=1)
    taken(loader, 1)
    loader.waited_s()

    for _ in range(6):
        for _ in loader.next_batch():
            sleep(0.05)

    assert loader.waited_s() < 0.1


def resident(folder: Path) -> tuple[int, int]:
    """Bytes of private memory of this process, and of the files in `folder` that are mapped and in memory."""
    private = mapped = 0
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^(\w+): +(\d+) kB$", mapping, flags=re.MULTILINE))
        private += 1024 * int(fields["Anonymous"])
        mapped += 1024 * int(fields["Rss"]) * (str(folder) in mapping)
    return private, mapped


def test_rank_holds_its_batches_and_not_the_set(tmp_path: Path) -> None:
    """Opening 64 MiB reads little of them; after an epoch, less than a quarter is in memory of the process's own, and
    the rest is the operating system's cache."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with Shards(data_dir, num_processes=1) as shards:
        shards.write("train", toy.LARGE_FEATURES, list(range(16)), toy.read_large)
    before, _ = resident(tmp_path)

    examples = Examples(data_dir / "train", toy.load_large)
    opened, mapped = resident(tmp_path)
    loader = TrainingLoader(examples, shuffled(len(examples), 8, SEED), SEED, Place(0, 1, CPU, 0))
    total = sum(int(size) for _ in range(64) for size in loader.next_batch())
    read, mapped_in_the_end = resident(tmp_path)

    assert len(examples) == 512
    assert total == 64 << 20
    assert mapped < 8 << 20
    assert opened - before < 8 << 20
    assert read - before < 16 << 20
    assert mapped_in_the_end > 32 << 20


@pytest.mark.gpu
def test_wait_is_that_of_the_device(folder: Path) -> None:
    """While the device has enough to do, waiting for a batch costs nothing; without work, it is the time it took."""
    device = torch.accelerator.current_accelerator(check_available=True)
    assert device is not None
    loader = TrainingLoader(
        Examples(folder, toy.load_slowly), shuffled(NUM_EXAMPLES, BATCH, SEED), SEED, Place(0, 1, device, 0)
    )
    (indices, _), *_ = loader.next_batch()
    assert indices.device.type == device.type
    square = torch.rand(8192, 8192, device=device)
    torch.accelerator.synchronize()
    loader.waited_s()

    for _ in range(40):  # well over a tenth of a second on any device
        square = (square @ square).clamp_(0, 1)
    (busy, _), *_ = loader.next_batch()
    torch.accelerator.synchronize()
    busy_s = loader.waited_s()
    (idle, _), *_ = loader.next_batch()
    torch.accelerator.synchronize()

    assert busy_s < 0.02
    assert 0.05 <= loader.waited_s() < 0.1
    order = shuffled(NUM_EXAMPLES, BATCH, SEED)(0)
    assert [busy.tolist(), idle.tolist()] == [order[1].tolist(), order[2].tolist()]


def test_a_fork_waits_for_threads_that_compute() -> None:
    """One that is ready to run may hold the lock of Python's thread states, which its copy in a child never frees."""
    data, has_begun, ended_s = b"\0" * (256 << 20), threading.Event(), []

    def compute() -> None:
        has_begun.set()
        hashlib.sha256(data)  # without the lock of the interpreter
        ended_s.append(perf_counter())

    thread = threading.Thread(target=compute)
    thread.start()
    has_begun.wait()
    began_s = perf_counter()
    wait_for_idle_threads(60)
    waited_s = perf_counter() - began_s
    thread.join()

    assert waited_s > (ended_s[0] - began_s) / 2


def test_a_fork_does_not_wait_for_ever() -> None:
    data, is_over = b"\0" * (1 << 20), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            hashlib.sha256(data)

    thread = threading.Thread(target=compute)
    thread.start()
    began_s = perf_counter()
    wait_for_idle_threads(0.05)
    waited_s = perf_counter() - began_s
    is_over.set()
    thread.join()

    assert waited_s < 5
