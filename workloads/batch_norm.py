"""Batch normalisation whose statistics do not depend on the number of devices.

A recipe fixes how many examples are normalised together: `batch_norm_group` of its hyperparameters, else the global
batch. Where a device's share of a batch is one group, torch's modules do that; where it is several, or is divided for
gradient accumulation, they are replaced by `GroupedBatchNorm`. Where devices of consecutive ranks have a group between
them, they are replaced by `SharedBatchNorm`, or by torch's `SyncBatchNorm`, which has faster kernels, but only for CUDA
and not for torch.compile.

The running statistics move once in a step, towards the mean over its groups. Each rank follows its own groups; being
linear, the mean over the ranks, which `average_statistics` takes before an evaluation, is the mean over all groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from harness.errors import UsageError


class GroupedBatchNorm(_BatchNorm):
    """Normalises each `group` of consecutive examples by itself; `settle` ends a step, of one part or of several."""

    mean_sum: Tensor
    var_sum: Tensor
    num_groups: Tensor

    def __init__(self, source: _BatchNorm, group: int) -> None:
        super().__init__(source.num_features, source.eps, source.momentum, source.affine)
        _adopt(self, source)
        self.group = group
        assert source.running_mean is not None
        zeros = torch.zeros_like(source.running_mean)
        for name in ("mean_sum", "var_sum"):
            self.register_buffer(name, zeros.clone(), persistent=False)
        self.register_buffer("num_groups", zeros.new_zeros(()), persistent=False)

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept examples of any number of dimensions, as the source's network gives them."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return _by_running_statistics(self, input)
        outputs = []
        for examples in torch.split(input, self.group):
            # With a momentum of 1 torch stores the group's own statistics.
            mean, var = torch.zeros_like(self.mean_sum), torch.zeros_like(self.var_sum)
            outputs.append(functional.batch_norm(examples, mean, var, self.weight, self.bias, True, 1.0, self.eps))
            self.mean_sum.add_(mean)
            self.var_sum.add_(var)
            self.num_groups.add_(1)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    @torch.no_grad()
    def settle(self) -> None:
        """Move the running statistics towards the mean over the groups since the last call."""
        running_statistics: Any = self.running_mean, self.running_var
        for running, total in zip(running_statistics, (self.mean_sum, self.var_sum), strict=True):
            running.lerp_(total / self.num_groups, self.momentum)
            total.zero_()
        self.num_groups.zero_()


class SharedBatchNorm(_BatchNorm):
    """Normalises the examples of several ranks together, each of which has equally many."""

    def __init__(self, source: _BatchNorm, process_group: Any, num_sharing: int) -> None:
        super().__init__(source.num_features, source.eps, source.momentum, source.affine)
        _adopt(self, source)
        self.process_group, self.num_sharing = process_group, num_sharing

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept examples of any number of dimensions, as the source's network gives them."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return _by_running_statistics(self, input)
        examples = input.float()
        over = [0, *range(2, input.ndim)]
        shape = [1, -1] + [1] * (input.ndim - 2)
        number = self.num_sharing * input.numel() // input.shape[1]
        mean = _sum_over_ranks(examples.sum(over), self.process_group) / number
        centred = examples - mean.view(shape)
        var = _sum_over_ranks(centred.square().sum(over), self.process_group) / number
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)  # type: ignore[union-attr, arg-type]
            self.running_var.lerp_(var * (number / (number - 1)), self.momentum)  # type: ignore[union-attr, arg-type]
        output = centred * (var + self.eps).rsqrt().view(shape)
        if self.affine:
            output = output * self.weight.view(shape) + self.bias.view(shape)
        normalised: Tensor = output.to(input.dtype)
        return normalised


class _SumOverRanks(torch.autograd.Function):
    """The sum of a tensor over ranks; a rank's part of it has the gradients of all of them."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, process_group: Any) -> Tensor:
        ctx.process_group = process_group
        total = tensor.clone()
        torch.distributed.all_reduce(total, group=process_group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.contiguous().clone()
        torch.distributed.all_reduce(total, group=ctx.process_group)
        return total, None


def _sum_over_ranks(tensor: Tensor, process_group: Any) -> Tensor:
    total: Tensor = _SumOverRanks.apply(tensor, process_group)
    return total


def has_batch_norm(network: nn.Module) -> bool:
    """Whether the network computes batch statistics in training."""
    return any(_batch_norms(network))


def group_statistics(
    network: nn.Module, group: int, share: int, num_parts: int, rank: int, num_ranks: int, is_compiled: bool = False
) -> list[GroupedBatchNorm]:
    """Make every batch normalisation of `network` one over `group` examples; return those that a step has to settle.

    Makes the process groups that this needs, so every rank calls it.

    share: examples of a global batch on each of `num_ranks` ranks, consecutive ones; num_parts: their equal parts.
    is_compiled: the network will be compiled.

    Raises:
        UsageError: a share is neither whole groups nor an equal part of one.
    """
    part = share // num_parts
    if part % group == 0:
        if part == group and num_parts == 1:
            return []
        _replace(network, lambda source: GroupedBatchNorm(source, group))
        return [module for module in network.modules() if isinstance(module, GroupedBatchNorm)]
    num_sharing = group // share
    if num_parts > 1 or group % share or num_ranks % num_sharing:
        raise UsageError(
            f"batch_norm_group {group}: a share of {share} examples on each of {num_ranks} devices, in parts of "
            f"{part}, is neither whole groups nor an equal part of one"
        )
    process_group = None
    if num_sharing < num_ranks:
        for first in range(0, num_ranks, num_sharing):  # every rank takes part in making every group
            made = torch.distributed.new_group(list(range(first, first + num_sharing)))
            if first <= rank < first + num_sharing:
                process_group = made
    if next(network.parameters()).is_cuda and not is_compiled:
        convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
        _replace(network, lambda source: convert(source, process_group))
    else:
        _replace(network, lambda source: SharedBatchNorm(source, process_group, num_sharing))
    return []


def average_statistics(network: nn.Module) -> None:
    """Give every rank the mean over the ranks of the running statistics."""
    running = [tensor for module in _batch_norms(network) for tensor in (module.running_mean, module.running_var)]
    if running:
        joined = torch.cat(running)
        torch.distributed.all_reduce(joined)
        joined /= torch.distributed.get_world_size()
        torch._foreach_copy_(running, torch.split(joined, [len(tensor) for tensor in running]))


def _batch_norms(network: nn.Module) -> Iterator[Any]:
    for module in network.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            yield module


def _replace(network: nn.Module, made: Any) -> None:
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm) and child.track_running_stats:
                setattr(parent, name, made(child))


def _adopt(module: _BatchNorm, source: _BatchNorm) -> None:
    """Have the parameters and running statistics of `source` itself."""
    module.training = source.training
    module.weight, module.bias = source.weight, source.bias
    module.running_mean, module.running_var = source.running_mean, source.running_var
    module.num_batches_tracked = source.num_batches_tracked


def _by_running_statistics(module: _BatchNorm, examples: Tensor) -> Tensor:
    return functional.batch_norm(
        examples, module.running_mean, module.running_var, module.weight, module.bias, False, 0.0, module.eps
    )
