"""What a rank keeps of itself; the rest of the worker is tested from outside, by test_launcher and test_referee."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from harness.run import worker

torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")


class Nothing:
    """A session without anything to keep."""

    def save(self, folder: Path) -> None:
        pass

    def load(self, folder: Path) -> None:
        pass


def draws() -> list[float]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(1).item()]


def test_generators_go_on_where_they_were_saved(tmp_path: Path) -> None:
    """Python's, numpy's and torch's, also between the two halves of a Gaussian pair."""
    session: Any = Nothing()
    worker.seed_all(7)
    draws()
    worker.save(session, tmp_path)
    expected = [draws(), draws()]
    worker.seed_all(8)

    worker.load(session, tmp_path)

    assert [draws(), draws()] == expected


class Drawing:
    """A session whose weights are what it draws when it is initialised."""

    weights: list[float]

    def initialise(self) -> None:
        self.weights = draws()


def initialised(rank: int = 0, **seeds: int) -> tuple[list[float], list[float]]:
    """The initial weights, and what training draws after them."""
    session: Any = Drawing()
    worker.initialise(session, seeds, rank)
    return session.weights, draws()


def test_weights_and_noise_are_drawn_from_one_seed() -> None:
    """Reference runs depend on this stream, to the last bit: the noise goes on where the weights end."""
    worker.seed_all(7)
    stream = draws(), draws()

    assert initialised(seed=7) == stream
    assert initialised(seed=7, rank=1) == stream


def test_each_source_has_its_own_seed_in_runs_of_variance() -> None:
    """The seed of the order touches neither weights nor noise, and each of these has no part in the other."""
    weights, noise = initialised(seed=1, weights_seed=2, noise_seed=3)

    assert initialised(seed=9, weights_seed=2, noise_seed=3) == (weights, noise)
    assert initialised(seed=1, weights_seed=4, noise_seed=3)[0] != weights
    assert initialised(seed=1, weights_seed=4, noise_seed=3)[1] == noise
    assert initialised(seed=1, weights_seed=2, noise_seed=4)[0] == weights
    assert initialised(seed=1, weights_seed=2, noise_seed=4)[1] != noise
    other = initialised(rank=1, seed=1, weights_seed=2, noise_seed=3)
    assert other[0] == weights
    assert other[1] != noise  # two ranks leave out different units


def test_generator_of_an_accelerator_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout on a device draws from it."""
    session: Any = Nothing()
    given: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.tensor([1, 2, 3], dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "set_rng_state", given.append)

    worker.save(session, tmp_path)
    worker.load(session, tmp_path)

    assert [state.tolist() for state in given] == [[1, 2, 3]]


class Alone:
    """Ranks of a world of which this is rank 1; rank 0 has nothing to say, or a full disk."""

    rank = 1

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason

    def gather(self, item: object) -> list[Any]:
        return [{"files": {"rank_00000/a": {"sha256": "0", "num_bytes": 1}}, "reason": self.reason}, item]


class Saving(Nothing):
    """A session that keeps a file in a folder of its own."""

    def save(self, folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "weights").write_bytes(b"abc")

    def load(self, folder: Path) -> None:
        self.found = (folder / "deep" / "weights").read_bytes()


def answered(what: str, folder: Path, session: Any, ranks: Any) -> dict[str, Any]:
    return worker._answer({"do": what, "folder": str(folder)}, session, {}, None, ranks, None)  # type: ignore[arg-type]


def test_every_rank_saves_into_a_folder_of_its_own(tmp_path: Path) -> None:
    """The answer has the digest of every file, of all ranks; each loads its own."""
    session = Saving()

    answer = answered("save", tmp_path / "unfinished", session, Alone())
    assert answered("load", tmp_path / "unfinished", session, Alone()) == {}

    assert answer["reason"] is None
    assert sorted(answer["files"]) == ["rank_00000/a", "rank_00001/deep/weights", "rank_00001/generators.pt"]
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert answer["files"]["rank_00001/deep/weights"] == {"sha256": digest, "num_bytes": 3}
    assert session.found == b"abc"


def test_rank_without_space_fails_the_checkpoint(tmp_path: Path) -> None:
    """Its own, or another's; there is no exception, and nothing of the others counts."""
    (tmp_path / "full").touch()

    own = answered("save", tmp_path / "full", Saving(), Alone())
    others = answered("save", tmp_path / "free", Saving(), Alone("rank 0: No space left on device"))

    assert own == {"files": {}, "reason": "rank 1: Not a directory"}
    assert others == {"files": {}, "reason": "rank 0: No space left on device"}
