"""Kinds of operators, and which of them multiply."""

from __future__ import annotations

import pytest

from harness.characterise.operators import by_kind, is_operator, kind_of, multiplying


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "matrix product"),
        ("aten::bmm", "matrix product"),
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::convolution_backward", "convolution"),
        ("aten::native_batch_norm_backward", "normalisation"),
        ("aten::native_layer_norm", "normalisation"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::mkldnn_rnn_layer", "recurrent"),
        ("aten::_foreach_lerp_", "optimizer"),
        ("aten::_fused_adamw_", "optimizer"),
        ("aten::embedding_dense_backward", "embedding"),
        ("aten::nll_loss_forward", "loss"),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::copy_", "copies and layout"),
        ("aten::sum", "reductions"),
        ("aten::mul", "element by element"),
        ("c10d::allreduce_", "communication"),
        ("gloo:all_reduce", "communication"),
        ("torchvision::nms", "other"),
    ],
)
def test_kind_of_an_operator(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_parts_of_programs_are_no_operators() -> None:
    """The profiler's ranges around optimizers and nodes of autograd contain operators, which count themselves."""
    assert is_operator("aten::mm")
    assert is_operator("gloo:all_reduce")
    assert not is_operator("Optimizer.step#AdamW.step")
    assert not is_operator("autograd::engine::evaluate_function: AddmmBackward0")
    assert not is_operator("DistributedDataParallel.forward")


def test_operators_that_a_counter_must_not_miss() -> None:
    assert multiplying(["aten.add", "aten.lstm", "aten._ctc_loss", "aten.relu"]) == ["aten._ctc_loss", "aten.lstm"]


def test_seconds_by_kind_longest_first() -> None:
    found = by_kind([("aten::mul", 1.0), ("aten::mm", 2.0), ("aten::add", 0.5), ("aten::addmm", 3.0)])

    assert list(found.items()) == [("matrix product", 5.0), ("element by element", 1.5)]
