"""What a network costs: its floating-point operations, and its memory.

Operations are counted on the meta device where that can be (`harness.run.network`): there, attention and recurrent
layers are matrix products, which a counter can count; on a CPU each is one operator that it counts as nothing. Where a
network is repeated on its own device, the operators that then count as nothing are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils import _pytree as trees
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from harness.characterise.operators import multiplying
from harness.run.network import Call, repeated, unique


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
    passed, counter = repeated(call, lambda: FlopCounterMode(display=False))
    by_operator = {str(name): int(flops) for name, flops in counter.get_flop_counts().get("Global", {}).items()}
    calls = Counter(line.split(" ", 1)[0].split("[", 1)[0].rpartition(".")[0] for line in passed.operators)
    with_formula = {str(packet) for packet in flop_registry}
    without = {name: number for name, number in calls.items() if name not in with_formula}
    return Counted(
        flops=counter.get_total_flops(),
        operators=passed.operators,
        by_operator=dict(sorted(by_operator.items(), key=lambda item: -item[1])),
        uncounted={name: without[name] for name in multiplying(without)},
        device=passed.device,
        reason=passed.reason,
    )


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
