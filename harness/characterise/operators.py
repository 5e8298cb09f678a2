"""What operators are counted as, and which kinds there are: by their names in torch's dispatcher. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# 1 multiplication with its addition = 2 FLOPs; a training step = 3 forward passes, since backward computes the gradient
# of the weights and that of the input. Measured 2.90 to 3.00 for convolutional networks without groups; of convolutions
# with groups torch counts the backward pass (1 + groups) / 2 times too high, so that it is not asked.
CONVENTION = "1 multiply-add = 2 FLOPs; training = 3 x forward; forward counted by torch.utils.flop_counter"
TRAINING_FACTOR = 3

# The first pattern that is found in an operator's name gives its kind.
_KINDS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "communication": r"^(c10d|gloo|nccl|_c10d_functional)",
        "attention": r"attention",
        "convolution": r"conv|slow_conv|unfold|im2col|col2im",
        "recurrent": r"lstm|gru|rnn",
        "normalisation": r"_norm\b|norm_backward|batch_norm|layer_norm|group_norm|rms_norm",
        "matrix product": r"\b(add|b|ba)?mm\b|addmm|baddbmm|\bmv\b|addmv|matmul|linear|einsum|\bdot\b",
        "optimizer": r"_foreach|_fused",
        "embedding": r"embedding",
        "loss": r"loss|nll|cross_entropy|ctc",
        "pooling": r"pool|upsample|interpolate",
        "random numbers": r"rand|dropout|bernoulli|uniform|normal_|multinomial",
        "copies and layout": r"copy|clone|contiguous|\bto\b|_to_|transpose|permute|\bcat\b|stack|view|reshape|expand"
        r"|slice|select|split|index|gather|scatter|\bt\b|unsqueeze|squeeze|as_strided|empty|zero|ones|fill|detach"
        r"|pin_memory|resize|alias|narrow|unbind|flatten|arange|full|pad",
        "reductions": r"sum|mean|\bmax|\bmin|argmax|argmin|softmax|logsumexp|cumsum|\ball\b|\bany\b|sort|topk|var|std"
        r"|norm|item|_local_scalar",
        "element by element": r"\b_?(add|sub|mul|div|neg|exp|log|sqrt|rsqrt|pow|abs|relu|gelu|silu|sigmoid|tanh|where"
        r"|clamp|lerp|eq|ne|lt|gt|le|ge|threshold|hardtanh|leaky|bitwise|logical|reciprocal|square|cos|sin|masked)",
    }.items()
}
OTHER_KIND = "other"
# Operators that multiply, and whose products a counter without a formula for them leaves out.
_MULTIPLIES = re.compile(
    r"lstm|gru|rnn|attention|conv|mm\b|matmul|linear|einsum|embedding_bag|ctc_loss|fft|cdist|bilinear|grid_sampler"
    r"|linalg|\bdot\b|\bmv\b|addr\b|outer|cholesky|\bqr\b|\bsvd\b"
)


def kind_of(name: str) -> str:
    """The kind of an operator: `aten::addmm` is a matrix product."""
    bare = name.removeprefix("aten::")
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(bare)), OTHER_KIND)


def is_operator(name: str) -> bool:
    """Whether the name of a profiler's event is that of an operator, and not that of a part of a program."""
    return ("::" in name and not name.startswith("autograd::")) or name.startswith(("gloo:", "nccl:"))


def multiplying(names: Iterable[str]) -> list[str]:
    """Those of the names whose operators multiply, sorted."""
    return sorted({name for name in names if _MULTIPLIES.search(name)})


def by_kind(seconds: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds of each kind of operator, the longest first."""
    found: dict[str, float] = {}
    for name, value in seconds:
        kind = kind_of(name)
        found[kind] = found.get(kind, 0.0) + value
    return dict(sorted(found.items(), key=lambda item: -item[1]))
