"""Watches the steps of a session by torch's own hooks, without the session knowing of it.

A session is asked for a block of one global batch at a time (`Session.train_block`). Within it, torch calls a hook
before a network's forward pass and before and after an optimizer's step; `torch.autograd.backward`, through which every
backward pass goes, is replaced while steps are watched. What happens between two of these marks is a phase of the step
(`harness.characterise.summaries.phase_between`). On an accelerator the marks are events in its own queue, so that the
time between them is the device's and not the host's.

Nothing of this is used in a run: a worker of `tta run` does not import this room.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from harness.characterise.network import Kept
from harness.characterise.summaries import (
    BACKWARD,
    BACKWARD_END,
    BEGIN,
    END,
    FORWARD,
    OPTIMIZER,
    OPTIMIZER_END,
    attributed,
    covered,
)
from harness.run.network import Call, replaced
from harness.workload import Session

Remove = Callable[[], None]


class Clock:
    """Points in time: of the host, or of the accelerator's queue where there is one."""

    def __init__(self) -> None:
        self._accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None

    def now(self) -> Any:
        if self._accelerator is None:
            return perf_counter()
        event = torch.Event(device=self._accelerator, enable_timing=True)
        event.record()
        return event

    def synchronise(self) -> None:
        if self._accelerator is not None:
            torch.accelerator.synchronize()

    def seconds(self, start: Any, stop: Any) -> float:
        """From one point to another, both of them past."""
        return float(stop - start) if self._accelerator is None else float(start.elapsed_time(stop)) / 1e3


@dataclass(frozen=True, slots=True)
class Network:
    """What the steps of a session call.

    roots: the outermost modules that run with gradients, with the wrappers that exchange these. modules: without them.
    optimizers: those that make steps.
    """

    roots: tuple[nn.Module, ...]
    modules: tuple[nn.Module, ...]
    optimizers: tuple[torch.optim.Optimizer, ...]


def network_of(train: Callable[[], object]) -> Network:
    """Find out what a block of training calls, while `train` does one."""
    roots: dict[int, nn.Module] = {}
    optimizers: dict[int, torch.optim.Optimizer] = {}
    depth = 0

    def enter(module: nn.Module, args: Any) -> None:
        nonlocal depth
        if depth == 0 and torch.is_grad_enabled():
            roots[id(module)] = module
        depth += 1

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        nonlocal depth
        depth -= 1

    def stepping(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        optimizers[id(optimizer)] = optimizer

    with ExitStack() as stack:
        for handle in (
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
            register_optimizer_step_pre_hook(stepping),
        ):
            stack.callback(handle.remove)
        train()
    outer = [
        root
        for root in roots.values()
        if not any(root is inner for other in roots.values() if other is not root for inner in other.modules())
    ]
    return Network(tuple(outer), tuple(map(_bare, outer)), tuple(optimizers.values()))


def _bare(module: nn.Module) -> nn.Module:
    """The network without the wrappers of torch.compile and of several devices."""
    while True:
        inner = module.module if isinstance(module, DistributedDataParallel) else getattr(module, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner


@dataclass(slots=True)
class Step:
    """One global batch, on this rank.

    seconds: from its begin to its end; phases: their parts, which add up to it. waited_s: what the session itself says
    that it waited for data. exchange_s: in which gradients were being exchanged, most of it during backward.
    exchanged_bytes: of gradients, that this rank gave; other_bytes, other_sums: of all other all-reduces, and how many.
    num_updates: of the weights. loss: the block's mean.
    """

    seconds: float
    phases: dict[str, float]
    waited_s: float
    exchange_s: float = 0.0
    exchanged_bytes: int = 0
    other_bytes: int = 0
    other_sums: int = 0
    num_updates: int = 0
    loss: float = 0.0
    calls: list[Call] = field(default_factory=list)


class Exchange:
    """The gradients that several devices exchange: a hook for each wrapper, which it keeps until its end."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self.spans: list[list[Any]] = []
        self.num_bytes = 0
        self.is_own_reduce = False
        self._clock = clock
        for root in network.roots:
            wrapped = root
            while not isinstance(wrapped, DistributedDataParallel) and hasattr(wrapped, "_orig_mod"):
                wrapped = cast(nn.Module, wrapped._orig_mod)
            if isinstance(wrapped, DistributedDataParallel):
                # DDP reads the annotations of a hook, and refuses those that are text.
                wrapped.register_comm_hook(None, lambda state, bucket: self._reduce(bucket))

    def _reduce(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """What DDP does without a hook, with a mark at either end."""
        gradients = bucket.buffer()
        span = [self._clock.now(), None]
        self.spans.append(span)
        self.num_bytes += gradients.nbytes
        gradients.div_(dist.get_world_size())
        self.is_own_reduce = True
        work = dist.all_reduce(gradients, async_op=True)
        self.is_own_reduce = False
        assert work is not None

        def ended(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            span[1] = self._clock.now()
            return future.value()[0]

        found: torch.futures.Future[torch.Tensor] = work.get_future().then(ended)
        return found

    def taken(self) -> tuple[float, int]:
        """Seconds and bytes since the last call; the device has finished."""
        spans, number = self.spans, self.num_bytes
        self.spans, self.num_bytes = [], 0
        if not spans:
            return 0.0, number
        first = spans[0][0]
        return covered((self._clock.seconds(first, a), self._clock.seconds(first, b)) for a, b in spans), number


class Watch:
    """Steps of a session, each with its phases. exchange: from an earlier watch of the same session, if there is one.

    has_calls: keep what the network was given in each step (its tensors, until the caller drops them). kept: note the
    bytes that are kept for backward. clock: None: that of this process's device.
    """

    def __init__(
        self,
        session: Session,
        network: Network,
        exchange: Exchange,
        has_calls: bool = False,
        kept: Kept | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._network = network
        self._exchange = exchange
        self._has_calls = has_calls
        self._kept = kept
        self._clock = clock or Clock()
        self._marks: list[tuple[str, Any]] = []
        self._calls: list[Call] = []
        self._other_bytes, self._other_sums = 0, 0
        self._num_steps_within = 0

    @contextmanager
    def watching(self) -> Iterator[Callable[[int], Step]]:
        """Yield a function that trains on one global batch of so many samples, and returns the step."""
        with ExitStack() as stack:
            for root in self._network.roots:
                handle = root.register_forward_pre_hook(self._forward, with_kwargs=True)
                stack.callback(handle.remove)
            for handle in (
                register_optimizer_step_pre_hook(self._stepping),
                register_optimizer_step_post_hook(self._stepped),
            ):
                stack.callback(handle.remove)
            stack.enter_context(replaced(torch.autograd, "backward", self._around(torch.autograd.backward)))
            if dist.is_available() and dist.is_initialized():
                stack.enter_context(replaced(dist, "all_reduce", self._counting(dist.all_reduce)))
            stack.enter_context(nullcontext() if self._kept is None else self._kept.noting())
            yield self._step

    def _mark(self, name: str) -> None:
        self._marks.append((name, self._clock.now()))

    def _stepping(self, *_: Any) -> None:
        if self._num_steps_within == 0:  # the step of an optimizer may call that of its base class
            self._mark(OPTIMIZER)
        self._num_steps_within += 1

    def _stepped(self, *_: Any) -> None:
        self._num_steps_within -= 1
        if self._num_steps_within == 0:
            self._mark(OPTIMIZER_END)

    def _forward(self, root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            self._mark(FORWARD)
            if self._has_calls:
                self._calls.append(Call(_bare(root), args, kwargs))

    def _around(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def watched(*args: Any, **kwargs: Any) -> None:
            self._mark(BACKWARD)
            backward(*args, **kwargs)
            self._mark(BACKWARD_END)
            if self._kept is not None:
                self._kept.settle()

        return watched

    def _counting(self, all_reduce: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(all_reduce)
        def watched(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not self._exchange.is_own_reduce:
                self._other_bytes += tensor.nbytes
                self._other_sums += 1
            return all_reduce(tensor, *args, **kwargs)

        return watched

    def _step(self, batch_size: int) -> Step:
        self._marks, self._calls, self._num_steps_within = [], [], 0
        self._other_bytes, self._other_sums = 0, 0
        self._exchange.taken()
        self._clock.synchronise()
        self._mark(BEGIN)
        block = self._session.train_block(batch_size)
        self._mark(END)
        self._clock.synchronise()
        first = self._marks[0][1]
        marks = [(name, self._clock.seconds(first, at)) for name, at in self._marks]
        exchange_s, num_bytes = self._exchange.taken()
        return Step(
            seconds=marks[-1][1],
            phases=attributed(marks),
            waited_s=block.data_wait_s,
            exchange_s=exchange_s,
            exchanged_bytes=num_bytes,
            other_bytes=self._other_bytes,
            other_sums=self._other_sums,
            num_updates=sum(name == OPTIMIZER_END for name, _ in marks),
            loss=block.mean_loss,
            calls=self._calls,
        )
