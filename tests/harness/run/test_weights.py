"""Weights of a session as a safetensors file, and back."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from harness.errors import DataError
from harness.run import weights
from harness.workload import Session

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")


class Tensors:
    """A session, as far as its weights go."""

    def __init__(self, **tensors: Any) -> None:
        self.tensors = tensors

    def evaluated_weights(self) -> Mapping[str, Any]:
        return self.tensors


def session(**tensors: Any) -> Session:
    return cast("Session", Tensors(**tensors))


def two() -> dict[str, Any]:
    return {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(7)}


def written(folder: Path, **tensors: Any) -> Path:
    path = folder / "weights_0.safetensors"
    path.write_bytes(weights.serialised(session(**tensors)))
    return path


def test_weights_come_back_in_place(tmp_path: Path) -> None:
    """Bit by bit, whatever their types and memory formats; the tensors of the session are written into."""
    given = {
        "plain": torch.tensor([0.1, float("nan"), -0.0]),
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "half": torch.rand(3).to(torch.bfloat16),
        "count": torch.tensor(5),
        "none": torch.empty(0),
    }
    path = written(tmp_path, **given)
    taken = {name: torch.zeros_like(tensor) for name, tensor in given.items()}

    weights.load(session(**taken), path)

    assert all(torch.equal(taken[name].isnan(), given[name].isnan()) for name in given)
    assert all(torch.equal(taken[name].nan_to_num(), given[name].nan_to_num()) for name in given)


def test_same_weights_are_the_same_file(tmp_path: Path) -> None:
    """In whatever order a session names them."""
    first, second = two(), dict(reversed(two().items()))

    assert weights.serialised(session(**first)) == weights.serialised(session(**second))


def test_a_tensor_with_two_names_is_kept_once(tmp_path: Path) -> None:
    """An embedding that is the output layer, too; a part of it is a tensor of its own."""
    shared = torch.rand(100, 10)
    path = written(tmp_path, embedding=shared, output=shared, first=shared[:1])
    taken = torch.zeros(100, 10)

    weights.load(session(embedding=taken, output=taken, first=taken[:1]), path)

    assert path.stat().st_size < 4 * 100 * 10 + 1000
    assert torch.equal(taken, shared)


HOSTILE = {
    "nothing": b"",
    "pickle": pickle.dumps({"a": 1}),
    "a header of 2 to the 60 bytes": struct.pack("<Q", 1 << 60) + b"{}",
    "deep JSON": struct.pack("<Q", 100_000) + b"[" * 100_000,
    "no tensors there": struct.pack("<Q", 62) + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}'.ljust(62),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_file_of_tensors_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "weights_0.safetensors"
    path.write_bytes(text)

    with pytest.raises(DataError, match=r"weights_0\.safetensors: not a safetensors file: "):
        weights.load(session(**two()), path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"a": None}, r"the file lacks a \(1 in total\)"),
        ({"c": torch.ones(1)}, r"the file has besides c \(1 in total\)"),
        ({"a": torch.ones(3, 2)}, r"a is float32 \[3, 2\]; the network's is float32 \[2, 3\]"),
        ({"a": torch.ones(2, 3).double()}, r"a is float64 \[2, 3\]; the network's is float32 \[2, 3\]"),
    ],
    ids=["one is missing", "one too many", "another shape", "another type"],
)
def test_weights_of_another_network_are_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = written(tmp_path, **{name: tensor for name, tensor in {**two(), **changes}.items() if tensor is not None})

    with pytest.raises(DataError, match=why):
        weights.load(session(**two()), path)
