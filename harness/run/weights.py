"""The weights that an evaluation computes from, as a safetensors file: written from a session, and put into another.

Only tensors: nothing in such a file is executed. Imported by the worker alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, printable
from harness.workload import Session

if TYPE_CHECKING:
    from torch import Tensor


def serialised(session: Session) -> bytes:
    """Return the weights that the session's evaluation computes from, as a safetensors file."""
    import torch
    from safetensors.torch import save

    copies = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in _distinct(session.evaluated_weights()).items()
    }
    return save(copies)


def load(session: Session, path: Path) -> None:
    """Put the weights in the file at `path` in the place of those that the session's evaluation computes from.

    Raises:
        DataError: it is no safetensors file, or has other names, types or shapes than the session's.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    expected = _distinct(session.evaluated_weights())
    try:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            _refuse_other_names(set(file.keys()), set(expected))
            for name, tensor in sorted(expected.items()):
                found = file.get_tensor(name)
                if (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
                    raise DataError(f"{name} is {_form(found)}; the network's is {_form(tensor)}")
                tensor.copy_(found)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path.name}: not a safetensors file: {printable(error, 200)}") from None


def _refuse_other_names(found: set[str], expected: set[str]) -> None:
    for names, what in ((expected - found, "lacks"), (found - expected, "has besides")):
        if names:
            raise DataError(f"the file {what} {printable(min(names), 100)} ({len(names)} in total)")


def _form(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _distinct(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return each tensor once, by the first of its names: layers may share one."""
    found: dict[object, tuple[str, Tensor]] = {}
    for name, tensor in sorted(tensors.items()):
        place = (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else name
        found.setdefault(place, (name, tensor))
    return dict(found.values())
