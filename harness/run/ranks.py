"""This process among the ranks of a world: what the programs share that a starter starts to train or to measure."""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from harness.errors import DataError, MissingDependencyError, UsageError
from harness.run.array_stream import ArrayStream
from harness.workload import SEED_STRIDE, Arrays, Session

_PACKAGES = ("torch", "torchvision", "torchaudio", "transformers", "accelerate", "numpy")


class Predicting(Protocol):
    """What an evaluation needs of a session."""

    def predict(self, inputs: Arrays) -> Arrays: ...


class Ranks:
    """This process among the ranks; commands go from rank 0 to all."""

    def __init__(self) -> None:
        import torch
        from accelerate import PartialState

        # Without `cpu`, on a machine without an accelerator, each process becomes a world of its own.
        self._state = PartialState(cpu=not torch.accelerator.is_available())
        self.rank = int(self._state.process_index)
        self.world_size = int(self._state.num_processes)

    def broadcast(self, message: dict[str, Any] | None) -> dict[str, Any]:
        """Return the `message` of rank 0 on every rank."""
        if self.world_size == 1:
            assert message is not None
            return message
        from accelerate.utils import broadcast_object_list

        box = [message]
        broadcast_object_list(box, from_process=0)
        assert box[0] is not None
        return box[0]

    def gather(self, item: object) -> list[Any]:
        """Return one item of every rank, by rank, on every rank."""
        if self.world_size == 1:
            return [item]
        from accelerate.utils import gather_object

        return list(gather_object([item]))

    def describe(self) -> dict[str, Any]:
        """Return the description of this rank, for the log."""
        import torch

        device = self._state.device
        return {
            "rank": self.rank,
            "world_size": self.world_size,
            "host": platform.node(),
            "pid": os.getpid(),
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
            "num_threads": torch.get_num_threads(),
            "versions": {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error is that a device or the host has no more memory."""
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        # torch's CPU allocator does not have an exception type of its own.
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def failure(error: BaseException) -> dict[str, Any]:
    """Return the answer to the launcher for an exception of the session."""
    kind = "oom" if is_out_of_memory(error) else "crashed"
    if isinstance(error, UsageError | MissingDependencyError):
        kind = "usage"
    elif isinstance(error, DataError):
        kind = "data"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames and kind == "crashed" else ""
    name = "" if kind in ("usage", "data") else f"{type(error).__name__}: "
    return {"ok": False, "kind": kind, "message": f"{name}{str(error)[:1000]}{place}"}


def answer_evaluator(session: Predicting, ranks: Ranks, stream: ArrayStream | None) -> None:
    """Answer the evaluator's questions until it has no more. `stream`: on rank 0."""
    while True:
        asked: Arrays | None = None
        is_for_all: bool | None = None
        if stream is not None and (asked := stream.receive()) is not None:
            is_for_all = not asked
            if not is_for_all:
                stream.send(session.predict(asked))
                continue
        if ranks.broadcast({"for_all": is_for_all})["for_all"] is None:
            return
        predictions = session.predict({})
        if stream is not None:
            stream.send(predictions)


def initialise(session: Session, config: Mapping[str, Any], rank: int) -> None:
    """Seed all generators and initialise the session, as the seeds of its configuration say."""
    weights_seed, noise_seed = config.get("weights_seed"), config.get("noise_seed")
    seed_all(int(config["seed"] if weights_seed is None else weights_seed))
    session.initialise()
    if noise_seed is not None:
        seed_all((int(noise_seed) + SEED_STRIDE * rank) % 2**32)  # numpy takes no more


def seed_all(seed: int) -> None:
    """Seed every generator that a session's library may draw from."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
