"""The first steps of training in a deterministic mode: what anyone can repeat bit by bit on the same system.

It is a run of its own, untimed, in the process of the rehearsal: without the options that leave the choice of kernels
to measurements or to a compiler, and with every operation of torch held to its deterministic form. Torch promises the
same bits only for the same release, platform, and number of threads and devices.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.log.replay import WEIGHED
from harness.workload import Session

if TYPE_CHECKING:
    from torch import nn

# cuBLAS chooses among streams of its workspace unless it is limited; torch reads this before the first product.
_CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
_NO_KERNEL = re.compile(r"(\S+) does not have a deterministic implementation")
LEFT_OUT = ("compile", "cuda_graphs")  # the execution options that are off in a replay


class World(Protocol):
    """The ranks, as far as a replay needs them."""

    def gather(self, item: object) -> list[Any]: ...


class Observer:
    """What one step was computed from, on this rank: a digest of the tensors of its batch. See `RunConfig.observer`.

    network: that of the last step; None before it, and where no session tells it.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.network: nn.Module | None = None

    def __call__(self, parts: Sequence[tuple[Any, ...]], network: nn.Module) -> None:
        import torch
        from torch.utils import _pytree

        self.network = network
        for value in _pytree.tree_leaves(list(parts)):
            if isinstance(value, torch.Tensor):
                add_tensor(self._digest, value)
            else:
                self._digest.update(repr(value).encode())

    def taken(self) -> str:
        """Return the digest of what was seen since the last call."""
        found, self._digest = self._digest.hexdigest(), hashlib.sha256()
        return found


def add_tensor(digest: Any, tensor: Any) -> None:
    """Add type, shape and values of a tensor to a digest."""
    import torch

    plain = tensor.detach().cpu().contiguous()
    digest.update(f"{plain.dtype} {list(plain.shape)}\n".encode())
    digest.update(plain.flatten().view(torch.uint8).numpy())


def digest_of_weights(session: Session) -> str:
    """Return the SHA-256 of a session's weights: their names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(session.weights().items()):
        digest.update(f"{name} ".encode())
        add_tensor(digest, tensor)
    return digest.hexdigest()


def replay(
    open_session: Callable[[Observer], Session],
    initialise: Callable[[Session], None],
    data_dir: Path,
    global_batch_size: int,
    num_steps: int,
    limit_s: float,
    world: World,
    has_other_kernels: bool = False,
) -> dict[str, Any]:
    """Train a few steps; return the value of `tta_replay`.

    open_session: opens it with that observer. initialise: seeds all generators, and initialises. limit_s: no step is
    begun after so many seconds; the record has the steps that were made. has_other_kernels: see `other_kernels`.

    An operation that has no deterministic form ends it: its name is then `not_available`. `network` is the network's
    fingerprint (`harness.log.replay.Fingerprint`), of the forward passes of the second step: the first one tells which
    network it is.
    """
    from harness.run.network import Calls

    observer = Observer()
    losses: list[str] = []
    batches: list[str] = []
    weights: dict[str, str] = {}
    calls: Calls | None = None
    identity: dict[str, Any] = {}
    session = open_session(observer)
    try:
        with deterministic(), other_kernels() if has_other_kernels else nullcontext():
            session.prepare()
            initialise(session)
            weights["0"] = digest_of_weights(session)
            session.start(data_dir)
            began_s = time.monotonic()
            while len(losses) < num_steps:
                observer.taken()
                noting: AbstractContextManager[None] = nullcontext()
                if len(losses) == 1 and observer.network is not None:
                    calls = Calls(observer.network)
                    noting = calls.noting()
                with noting:
                    losses.append(bits(session.train_block(global_batch_size).mean_loss))
                batches.append(together(observer.taken(), world))
                if len(losses) in WEIGHED:
                    weights[str(len(losses))] = together(digest_of_weights(session), world)
                if max(world.gather(time.monotonic() - began_s)) > limit_s:
                    break
            weights[str(len(losses))] = together(digest_of_weights(session), world)
            if calls is not None:
                identity = {"network": calls.fingerprint()}
    except RuntimeError as error:
        if (found := _NO_KERNEL.match(str(error))) is None:
            raise
        return {"steps": 0, "not_available": found.group(1)}
    finally:
        session.close()
    return {"steps": len(losses), "losses": losses, "batches": batches, "weights": weights, **identity}


def bits(value: float) -> str:
    """Return a float as the 16 hexadecimal digits of its 64 bits, the sign first."""
    return struct.pack(">d", value).hex()


def together(own: str, world: World) -> str:
    """Return the digest of a single rank, or one of the digests of all ranks."""
    found = world.gather(own)
    return own if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()


def limit_workspace() -> None:
    """Have cuBLAS give the same bits each time in this process, if it has multiplied nothing yet."""
    name, value = _CUBLAS
    os.environ.setdefault(name, value)


@contextmanager
def deterministic() -> Iterator[None]:
    """Hold torch to operations that give the same bits each time; the first use decides it for cuBLAS."""
    import torch

    limit_workspace()
    cudnn: Any = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.benchmark, cudnn.deterministic
    torch.use_deterministic_algorithms(True)
    cudnn.benchmark, cudnn.deterministic = False, True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.benchmark, cudnn.deterministic = before[1:]


@contextmanager
def other_kernels() -> Iterator[None]:
    """Hold torch to its own kernels in place of oneDNN's and cuDNN's, and to another number of threads.

    The same mathematics, summed in another order: what that changes is what another system may change.
    """
    import torch

    mkldnn: Any = torch.backends.mkldnn
    cudnn: Any = torch.backends.cudnn
    before = mkldnn.enabled, cudnn.enabled, torch.get_num_threads()
    mkldnn.set_flags(False)
    cudnn.enabled = False
    torch.set_num_threads(1 if before[2] > 1 else 2)
    try:
        yield
    finally:
        mkldnn.set_flags(before[0])
        cudnn.enabled = before[1]
        torch.set_num_threads(before[2])
