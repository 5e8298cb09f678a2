"""How the steps of a session are executed, once for every workload: devices, precision, gradients, compiling.

A session that is being prepared makes an `Execution` and gives it the network; it then describes a step by its loss:

    self.execution = Execution(self.config)
    self.model, self.network = self.execution.wrap(self.build_model(), build_optimizer, self.recipe)
    ...
    def initialise(self):
        self.execution.restart(self.build_model().state_dict())
    ...
    def _loss(self, images_NCHW, labels_N):  # of one part of this rank's share of a global batch
        return functional.cross_entropy(self.model(images_NCHW), labels_N) / self.execution.num_parts
    ...
    loss = self.execution.step(self._loss, self.execution.parts(images_NCHW, labels_N), learning_rate)

`model` is what a step calls: it averages gradients over the devices and may be compiled. `network` is the module with
the weights, for evaluation. The values of the options are those of `RunConfig.execution`, else their defaults.

Before the clock starts, `warm_up` does steps of every shape that the rank will see; with `cuda_graphs` it captures one
graph for each, and a shape that it has not seen is not captured later. Batch statistics are those of
`workloads.batch_norm`; before an evaluation, every rank calls `average_statistics`.
"""

from __future__ import annotations

# ruff: noqa: N803 (dimension letters)
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import Tensor, nn
from torch.utils import _pytree as trees

from harness.errors import UsageError, unknown_name
from harness.workload import EXECUTION, SEED_STRIDE, ExecutionValue, RunConfig
from workloads import batch_norm

MIXED_PRECISION = {"fp32": "no", "tf32": "no", "bf16": "bf16", "fp16": "fp16"}  # tta's name -> accelerate's
NUM_WARM_UP_STEPS = 3  # of every shape: torch recommends three before a capture


class Execution:
    """One network in training, executed as the run's configuration says.

    accelerator: accelerate's. device, rank, num_ranks: this process's. options: a value for each of `EXECUTION`.
    num_parts: into how many parts this rank's share of a global batch is divided. optimizer: set by `wrap`.
    """

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an unknown precision, graphs without CUDA, a world of another size than the run's."""
        if config.precision not in MIXED_PRECISION:
            raise UsageError(unknown_name("precision", config.precision, MIXED_PRECISION))
        self.config = config
        self.options: Mapping[str, ExecutionValue] = {
            **{name: option.default for name, option in EXECUTION.items()},
            **config.execution,
        }
        if self.options["cuda_graphs"] and not torch.cuda.is_available():
            raise UsageError("cuda_graphs: there is no CUDA device")
        # Running statistics differ between ranks until `average_statistics`.
        buckets = DistributedDataParallelKwargs(bucket_cap_mb=self.options["ddp_bucket_mb"], broadcast_buffers=False)
        # With `cpu=True` accelerate joins the processes into one gloo world; without it each process on a CPU becomes
        # a world of one.
        self.accelerator = Accelerator(
            cpu=not torch.accelerator.is_available(),
            mixed_precision=MIXED_PRECISION[config.precision],
            kwargs_handlers=[buckets],
        )
        self.device = self.accelerator.device
        self.rank, self.num_ranks = self.accelerator.process_index, self.accelerator.num_processes
        if self.num_ranks != config.num_devices:
            raise UsageError(f"{self.num_ranks} processes were started for {config.num_devices} devices")
        self.num_parts = int(self.options["accumulation_steps"])
        self._is_warming_up = False
        self._captured: dict[Any, _Captured] = {}
        self._pool: Any = None

    def wrap(
        self, network: nn.Module, build_optimizer: Callable[[nn.Module, Any], torch.optim.Optimizer], recipe: object
    ) -> tuple[Any, Any]:
        """Move the network to the device and build its optimizer; return the model to train, and the network itself.

        Raises:
            UsageError: batches cannot be normalised in groups as the recipe wants on this many devices.
        """
        is_channels_last = self.options["channels_last"]
        network.to(memory_format=torch.channels_last if is_channels_last else torch.contiguous_format)
        network.to(self.device)
        self._to_settle = self._group_statistics(network) if batch_norm.has_batch_norm(network) else []
        optimizer = build_optimizer(network, recipe)
        if not self.options["fused_optimizer"]:
            _divide(optimizer)
        model, wrapped = self.accelerator.prepare(network, optimizer)
        self.scaler = self.accelerator.scaler
        # Without a gradient scaler, accelerate's wrappers around backward and step only add 3 % to a small step.
        self.optimizer = optimizer if self.scaler is None else wrapped
        self._scale = {} if self.scaler is None else self.scaler.state_dict()
        self._parallel = model
        self.network: nn.Module = self.accelerator.unwrap_model(model)
        return torch.compile(model) if self.options["compile"] else model, self.network

    def _group_statistics(self, network: nn.Module) -> list[batch_norm.GroupedBatchNorm]:
        given = self.config.hyperparameters
        batch = int(given["global_batch_size"])
        group = int(given.get("batch_norm_group", batch))
        share = batch // self.num_ranks
        is_compiled = bool(self.options["compile"])
        return batch_norm.group_statistics(
            network, group, share, self.num_parts, self.rank, self.num_ranks, is_compiled
        )

    def restart(self, weights: Mapping[str, Any]) -> None:
        """Load `weights`, return optimizer and scaler to where they begin, and give this rank its own random numbers.

        What all ranks must draw alike comes from a generator of the session's; what differs between them, such as the
        units that dropout leaves out, from torch's, which the harness has seeded.
        """
        self.network.load_state_dict(weights)
        self.optimizer.state.clear()
        self.optimizer.zero_grad(set_to_none=not self._captured)  # graphs add to the gradients that they were given
        if self.scaler is not None:
            self.scaler.load_state_dict(self._scale)
        if self.rank:
            torch.manual_seed(self.config.seed + SEED_STRIDE * self.rank)

    def parts(self, *tensors_N: Tensor) -> list[tuple[Tensor, ...]]:
        """This rank's share of a global batch, whose tensors begin with its examples, in `num_parts` equal parts.

        Raises:
            UsageError: the examples cannot be divided into that many.
        """
        size = self.part_size(len(tensors_N[0]))
        return list(zip(*(torch.split(tensor, size) for tensor in tensors_N), strict=True))

    def part_size(self, num_examples: int) -> int:
        """The examples in each of `num_parts` equal parts.

        Raises:
            UsageError: they cannot be divided into that many.
        """
        if num_examples % self.num_parts:
            raise UsageError(
                f"accumulation_steps {self.num_parts}: a device's share of {num_examples} examples cannot be divided"
            )
        return num_examples // self.num_parts

    def step(
        self,
        loss: Callable[..., Tensor],
        parts: Sequence[tuple[Any, ...]],
        learning_rate: float | None = None,
        clip_norm: float | None = None,
    ) -> Tensor:
        """Do one update from the sum of `loss(*part)` over the parts; return that sum, on the device.

        Gradients are exchanged once, after the last part, and are the mean over the ranks.

        learning_rate: of every group of the optimizer, times its `lr_scale` if it has one; None leaves them alone.
        clip_norm: to which the norm of all gradients is limited.
        """
        if learning_rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate * group.get("lr_scale", 1.0)
        total = self._gradients(loss, parts)
        if clip_norm is not None:
            if self.scaler is not None:
                self.accelerator.unscale_gradients()
            nn.utils.clip_grad_norm_(self.network.parameters(), clip_norm)
        self.optimizer.step()
        if self.config.observer is not None and not self._is_warming_up:
            self.config.observer(parts, self.network)
        return total

    def warm_up(
        self, loss: Callable[..., Tensor], steps: Iterable[Sequence[tuple[Any, ...]]], clip_norm: float | None = None
    ) -> None:
        """Do updates with a learning rate of 0 on each of `steps`, the parts of a step: one for every shape."""
        self._is_warming_up = True
        for parts in steps:
            for _ in range(NUM_WARM_UP_STEPS):
                self.step(loss, parts, 0.0, clip_norm)
        self._is_warming_up = False

    def average_statistics(self) -> None:
        """Give every rank's network the running statistics of all ranks."""
        if self.num_ranks > 1:
            batch_norm.average_statistics(self.network)

    def _gradients(self, loss: Callable[..., Tensor], parts: Sequence[tuple[Any, ...]]) -> Tensor:
        """Set the gradients of the sum of `loss(*part)`; return that sum."""
        if not self.options["cuda_graphs"]:
            self.optimizer.zero_grad(set_to_none=True)
            return self._add_gradients(loss, parts)
        values, shape = trees.tree_flatten(list(parts))
        key = shape, tuple((v.shape, v.dtype) if isinstance(v, Tensor) else v for v in values)
        if key in self._captured:
            return self._captured[key].replay(values)
        if not self._is_warming_up:
            self.optimizer.zero_grad(set_to_none=False)
            return self._add_gradients(loss, parts)
        held = [v.clone() if isinstance(v, Tensor) else v for v in values]
        given = trees.tree_unflatten(held, shape)

        def run() -> Tensor:
            self.optimizer.zero_grad(set_to_none=False)
            return self._add_gradients(loss, given)

        self._captured[key] = _Captured(*self._capture(run), held)
        return self._captured[key].replay(values)

    def _capture(self, run: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Record what `run` launches; return what launches it again, and the tensor that then has the result.

        Graphs may share their memory, since none is replayed while another is, and a result is copied at once.
        """
        # The first steps of a shape are not captured: libraries choose kernels, and allocate what they keep.
        beside: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(NUM_WARM_UP_STEPS):
                run()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            total = run()
        self._pool = graph.pool()
        return graph.replay, total

    def _add_gradients(self, loss: Callable[..., Tensor], parts: Sequence[tuple[Any, ...]]) -> Tensor:
        """Forward and backward of every part, which add to the gradients; return the sum of their losses."""
        total: Tensor | None = None
        for number, part in enumerate(parts, 1):
            is_last = number == len(parts)
            with nullcontext() if is_last or self.num_ranks == 1 else self._parallel.no_sync():
                value = loss(*part)
                if self.scaler is None:
                    value.backward()  # type: ignore[no-untyped-call]
                else:
                    self.accelerator.backward(value)
            total = value.detach() if total is None else total + value.detach()
        assert total is not None, "a step without a part"
        for module in self._to_settle:
            module.settle()
        return total

    def close(self) -> None:
        """Release the network. The worker leaves the process group: other sessions of this process may follow."""
        self.accelerator.free_memory()


@dataclasses.dataclass(frozen=True, slots=True)
class _Captured:
    """Forward and backward of a step as one launch. total: the loss that it writes; held: the tensors that it reads."""

    launch: Callable[[], None]
    total: Tensor
    held: list[Any]

    def replay(self, values: Sequence[Any]) -> Tensor:
        for own, value in zip(self.held, values, strict=True):
            if isinstance(own, Tensor):
                own.copy_(value)
        self.launch()
        return self.total.clone()


def _divide(optimizer: torch.optim.Optimizer) -> None:
    """Have the update done in several kernels. Then the gradient scaler, too, takes its own way to the gradients."""
    for group in optimizer.param_groups:
        if group.get("fused"):
            group["fused"] = False
    if hasattr(optimizer, "_step_supports_amp_scaling"):
        optimizer._step_supports_amp_scaling = False


def batch_sizes(num_examples: int, batch: int, rank: int = 0, num_ranks: int = 1) -> list[int]:
    """The sizes of the batches in which a rank with every `num_ranks`-th of the examples evaluates them."""
    own = len(range(rank, num_examples, num_ranks))
    return sorted({min(batch, own), own % batch} - {0}, reverse=True)
