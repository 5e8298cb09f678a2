"""Which network it is, whatever it is called: its parameters, and the operators of its forward passes.

A forward pass is repeated on the meta device, which has shapes and types but no values: there, attention and recurrent
layers are taken apart into matrix products, and the operators do not depend on the machine's kernels. A network that
needs values (it reads lengths, or branches on them) is repeated on its own device instead.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from harness.errors import printable
from harness.log.replay import Fingerprint

_AUTOCAST = torch.autocast
MAX_SHAPES = 16  # of forward passes whose shapes differ, as many are repeated
W = TypeVar("W")


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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs, outputs = _described((args, kwargs or {})), _described(result)
        self.lines.append(f"{func}{_settings(func, args)} {inputs} -> {outputs}")
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
class Pass:
    """One forward pass. operators: name, shapes and types of each operator called, in order. device: where it was
    repeated; reason: why not on meta."""

    operators: tuple[str, ...]
    device: str
    reason: str | None = None


def repeated(call: Call, watch: Callable[[], AbstractContextManager[W]]) -> tuple[Pass, W]:
    """Repeat a call on the meta device, or on its own if it needs values; return what `watch` saw of it, too."""
    try:
        meta = copy.deepcopy(call.module).to("meta")
        given = call.without_values()
        with replaced(torch, "autocast", _autocast):
            return _repeated(meta, given.args, given.kwargs, "meta", None, watch)
    # What a network does with a tensor without values is up to the network; each of these means that it cannot.
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError) as error:
        first = next((p.device for p in call.module.parameters()), torch.device("cpu"))
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return _repeated(call.module, call.args, call.kwargs, first.type, printable(lines[0], 200), watch)


def _autocast(device_type: str, *args: Any, **kwargs: Any) -> Any:
    """torch's, which knows no types for the meta device and fails there even where it is asked to do nothing."""
    return nullcontext() if device_type == "meta" else _AUTOCAST(device_type, *args, **kwargs)


def _repeated(
    module: nn.Module,
    args: Any,
    kwargs: Any,
    device: str,
    reason: str | None,
    watch: Callable[[], AbstractContextManager[W]],
) -> tuple[Pass, W]:
    recorder = _Recorder()
    with watch() as seen, recorder, torch.enable_grad():
        module(*args, **kwargs)
    return Pass(tuple(recorder.lines), device, reason), seen


def fingerprint(modules: Sequence[nn.Module], passes: Sequence[Sequence[str]]) -> Fingerprint:
    """The fingerprint of the modules that a step calls. passes: the operators of the calls of the first step."""
    of_parameters, of_network, of_forward = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for module in modules:
        kept = module.state_dict().keys()  # some modules have buffers for an update's sake, which others do without
        buffers = [item for item in module.named_buffers() if item[0] in kept]
        for name, tensor in sorted([*module.named_parameters(), *buffers], key=lambda item: item[0]):
            line = f"{name} {_type(tensor)}{list(tensor.shape)}"
            of_network.update(f"{line}\n".encode())
            of_parameters.update(f"{line} {'trained' if tensor.requires_grad else 'kept'}\n".encode())
    operators = {line.split(" ", 1)[0] for operators in passes for line in operators}
    of_network.update("\n".join(sorted(operators)).encode())
    for one in passes:
        of_forward.update("".join(f"{line}\n" for line in one).encode())
    parameters = unique(p for module in modules for p in module.parameters())
    all_buffers = unique(b for module in modules for b in module.buffers())
    return Fingerprint(
        of_parameters.hexdigest(),
        of_network.hexdigest(),
        of_forward.hexdigest(),
        sum(p.numel() for p in parameters),
        sum(p.numel() for p in parameters if p.requires_grad),
        sum(b.numel() for b in all_buffers),
    )


def unique(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, those that are in several places once."""
    return list({id(tensor): tensor for tensor in tensors}.values())


class Calls:
    """What a network is given in training; see `Fingerprint`."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._calls: list[Call] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the calls with gradients in this context, with their tensors."""
        handle = self._network.register_forward_pre_hook(self._note, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _note(self, network: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            self._calls.append(Call(network, args, kwargs))

    def fingerprint(self) -> dict[str, Any]:
        """Of the network, as `tta_replay` has it."""
        found: dict[tuple[object, ...], Pass] = {}
        for call in self._calls:
            if call.shapes not in found and len(found) < MAX_SHAPES:
                found[call.shapes], _ = repeated(call, nullcontext)
        passes = [found[call.shapes].operators for call in self._calls if call.shapes in found]
        return asdict(fingerprint([self._network], passes))
