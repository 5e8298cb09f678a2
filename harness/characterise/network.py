"""What a network is, whatever it is called: its operators, parameters and floating-point operations, and its memory.

A forward pass is repeated on the meta device, which has shapes and types but no values: there, attention and recurrent
layers are taken apart into matrix products, which a counter can count; on a CPU each is one operator that it counts as
nothing. A network that needs values (it reads lengths, or branches on them) is counted on its own device instead, and
the operators that then count as nothing are named.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from harness.characterise.operators import multiplying
from harness.errors import printable

_AUTOCAST = torch.autocast


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a network in training: what it was given. module: without the wrapper that exchanges gradients."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def without_values(self) -> Call:
        """The same call with tensors of the same shapes and types on the meta device."""
        return Call(self.module, _on_meta(self.args), _on_meta(self.kwargs))

    @property
    def shapes(self) -> tuple[object, ...]:
        """What the operators of the call depend on, as far as shapes decide it."""
        leaves, structure = trees.tree_flatten((self.args, self.kwargs))
        parts = ((tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves)
        return id(self.module), str(structure), *parts


def _on_meta(tree: Any) -> Any:
    return trees.tree_map(
        lambda leaf: torch.empty_like(leaf, device="meta") if isinstance(leaf, torch.Tensor) else leaf, tree
    )


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operators that are called: name, and shape and type of each tensor that goes in or comes out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines: list[str] = []
        self.packets: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs, outputs = _described((args, kwargs or {})), _described(result)
        self.lines.append(f"{func}{_settings(func, args)} {inputs} -> {outputs}")
        self.packets[func._overloadpacket] += 1
        return result


def _settings(func: Any, args: Any) -> str:
    """Strides, paddings and groups of a convolution or a pooling: what its shapes and types do not say."""
    if not any(kind in str(func) for kind in ("conv", "pool")):
        return ""
    return "".join(f"[{arg}]".replace(" ", "") for arg in args if isinstance(arg, list | int | bool))


def _described(tree: Any) -> str:
    tensors = (leaf for leaf in trees.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return " ".join(f"{_type(tensor)}{list(tensor.shape)}" for tensor in tensors)


def _type(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@contextmanager
def replaced(place: Any, name: str, value: object) -> Iterator[None]:
    """Have another value under a name of a module or an object, for a while."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


@dataclass(frozen=True, slots=True)
class Counted:
    """One forward pass.

    flops: floating-point operations, as `CONVENTION` in `harness.characterise.operators` says. operators: name, shapes
    and types of each operator called, in order. by_operator: FLOPs by the name of the operator. uncounted: operators
    that multiply and that the counter has no formula for, with their numbers of calls: they are missing in `flops`.
    device: where it was counted; reason: why not on meta.
    """

    flops: int
    operators: tuple[str, ...]
    by_operator: dict[str, int]
    uncounted: dict[str, int]
    device: str
    reason: str | None = None


def counted(call: Call) -> Counted:
    """Repeat a call on the meta device, or on its own if it needs values, and count it."""
    try:
        meta = copy.deepcopy(call.module).to("meta")
        given = call.without_values()
        with replaced(torch, "autocast", _autocast):
            return _counted(meta, given.args, given.kwargs, "meta", None)
    # What a network does with a tensor without values is up to the network; each of these means that it cannot.
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError) as error:
        first = next((p.device for p in call.module.parameters()), torch.device("cpu"))
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return _counted(call.module, call.args, call.kwargs, first.type, printable(lines[0], 200))


def _autocast(device_type: str, *args: Any, **kwargs: Any) -> Any:
    """torch's, which knows no types for the meta device and fails there even where it is asked to do nothing."""
    return nullcontext() if device_type == "meta" else _AUTOCAST(device_type, *args, **kwargs)


def _counted(module: nn.Module, args: Any, kwargs: Any, device: str, reason: str | None) -> Counted:
    recorder = _Recorder()
    with FlopCounterMode(display=False) as counter, recorder, torch.enable_grad():
        module(*args, **kwargs)
    by_operator = {str(name): int(flops) for name, flops in counter.get_flop_counts().get("Global", {}).items()}
    without = {str(packet): number for packet, number in recorder.packets.items() if packet not in flop_registry}
    return Counted(
        flops=counter.get_total_flops(),
        operators=tuple(recorder.lines),
        by_operator=dict(sorted(by_operator.items(), key=lambda item: -item[1])),
        uncounted={name: without[name] for name in multiplying(without)},
        device=device,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells two networks apart that have one name.

    network: SHA-256 over names, shapes and types of the parameters and buffers, and over the set of operators, those of
        convolutions and poolings with their strides: in one precision the same at any batch size and length.
    forward: SHA-256 over the list of operators with the shapes and types of their inputs and outputs, of the first
        step's forward passes: that of the same batch size as well.
    num_parameters: elements, shared ones once; num_trainable: those with a gradient; num_buffers: elements of buffers.
    """

    network: str
    forward: str
    num_parameters: int
    num_trainable: int
    num_buffers: int


def fingerprint(modules: Sequence[nn.Module], passes: Sequence[Counted]) -> Fingerprint:
    """The fingerprint of the modules that a step calls. passes: of the calls of the first step."""
    of_network, of_forward = hashlib.sha256(), hashlib.sha256()
    for module in modules:
        for name, tensor in sorted([*module.named_parameters(), *module.named_buffers()], key=lambda item: item[0]):
            of_network.update(f"{name} {_type(tensor)}{list(tensor.shape)}\n".encode())
    operators = {line.split(" ", 1)[0] for one in passes for line in one.operators}
    of_network.update("\n".join(sorted(operators)).encode())
    for one in passes:
        of_forward.update("".join(f"{line}\n" for line in one.operators).encode())
    parameters = unique(p for module in modules for p in module.parameters())
    buffers = unique(b for module in modules for b in module.buffers())
    return Fingerprint(
        of_network.hexdigest(),
        of_forward.hexdigest(),
        sum(p.numel() for p in parameters),
        sum(p.numel() for p in parameters if p.requires_grad),
        sum(b.numel() for b in buffers),
    )


def unique(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, those that are in several places once."""
    return list({id(tensor): tensor for tensor in tensors}.values())


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a training step on one device, by kind.

    activations: what is kept from the forward for the backward pass, each storage once, without parameters and
    buffers; the batch is among them where an operator needs it again. optimizer: the tensors of its state.
    """

    parameters: int
    buffers: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.parameters + self.buffers + self.gradients + self.optimizer + self.activations


def memory(modules: Sequence[nn.Module], optimizers: Iterable[torch.optim.Optimizer], activations: int) -> Memory:
    """The memory of the modules and their optimizers after an update, before its gradients are cleared."""
    parameters = unique(p for module in modules for p in module.parameters())
    buffers = unique(b for module in modules for b in module.buffers())
    gradients = unique(p.grad for p in parameters if p.grad is not None)
    states = unique(
        value
        for optimizer in optimizers
        for state in optimizer.state.values()
        for value in trees.tree_leaves(state)
        if isinstance(value, torch.Tensor)
    )
    of_parameters, of_buffers, of_gradients, of_states = (
        sum(tensor.nbytes for tensor in kind) for kind in (parameters, buffers, gradients, states)
    )
    return Memory(of_parameters, of_buffers, of_gradients, of_states, activations)


class Kept:
    """How much forward passes keep for the backward passes that follow them; `totals` has bytes, one number an update.

    Each storage counts once between two calls of `settle`, since until then none of them can be released; those of the
    modules' parameters and buffers do not count.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._own = {
            tensor.untyped_storage().data_ptr()
            for module in modules
            for tensor in (*module.parameters(), *module.buffers())
        }
        self._seen: dict[int, int] = {}
        self.totals: list[int] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what operators keep in this context."""
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor):
            yield

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._own:
            self._seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    def settle(self) -> None:
        """A backward pass has ended: what was kept is released, and other tensors may get its place."""
        self.totals.append(sum(self._seen.values()))
        self._seen.clear()
