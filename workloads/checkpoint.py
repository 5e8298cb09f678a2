"""What a session keeps between two blocks so that an interrupted run goes on as if nothing had happened.

A session calls these in its `save` and `load`, on every rank, with the names of its own attributes that say where it is
in the data. The generators of the process (Python's, numpy's, torch's) are the worker's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import IO, Any, cast

FILE = "session.pt"


class _Watched:
    """A file that remembers why it could not be written."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.error = error
            raise
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Nothing is held back."""


def save(session: Any, folder: Path, position: Iterable[str], **more: Any) -> None:
    """Write network, optimizer, gradient scaler, step, the generator `draws` if there is one, and the attributes
    `position`.

    session: with the attributes network, execution and step. more: what else `load` is to return;
    of tensors, containers and plain values only.

    Raises:
        OSError: the folder cannot be written.
    """

    scaler = session.execution.scaler
    kept = {
        "network": session.network.state_dict(),
        "optimizer": session.execution.optimizer.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "draws": session.draws.get_state() if hasattr(session, "draws") else None,
        "step": session.step,
        "position": {name: getattr(session, name) for name in position},
        "more": more,
    }
    write(kept, folder / FILE)


def write(kept: dict[str, Any], path: Path) -> None:
    """Write tensors, containers and plain values to a file.

    Raises:
        OSError: it cannot be written. torch alone raises a RuntimeError about positions if a disk fills up.
    """
    import torch

    with path.open("wb", buffering=0) as file:
        watched = _Watched(file)
        try:
            torch.save(kept, cast("IO[bytes]", watched))
        except RuntimeError:
            if watched.error is not None:
                raise watched.error from None
            raise


def load(session: Any, folder: Path) -> dict[str, Any]:
    """Bring a session that was prepared, initialised and started to where `save` found it; return its `more`."""
    import torch

    def place(storage: Any, saved_on: str) -> Any:
        return storage if saved_on == "cpu" else storage.to(device=session.device)

    kept = torch.load(folder / FILE, map_location=place, weights_only=True)
    session.network.load_state_dict(kept["network"])
    session.execution.optimizer.load_state_dict(kept["optimizer"])
    if kept["scaler"] is not None:
        session.execution.scaler.load_state_dict(kept["scaler"])
    if kept["draws"] is not None:
        session.draws.set_state(kept["draws"])
    session.step = kept["step"]
    for name, value in kept["position"].items():
        setattr(session, name, value)
    more: dict[str, Any] = kept["more"]
    return more
