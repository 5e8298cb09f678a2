"""What a precision means, and what contradicts it."""

from __future__ import annotations

import pytest

from harness.log.numerics import PRECISIONS, contradictions, flags_of


@pytest.mark.parametrize("precision", PRECISIONS)
def test_flags_of_a_precision_do_not_contradict_it(precision: str) -> None:
    """Further flags, and variables that only change the order of sums, are free."""
    flags = {**flags_of(precision), "cudnn_benchmark": True}

    assert list(contradictions(precision, flags, {"OMP_NUM_THREADS": "2", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"})) == []


def test_tf32_differs_from_fp32_in_products_on_a_gpu_alone() -> None:
    """In matrix products and in convolutions; bf16 and fp16 leave in fp32 what autocast does not choose."""
    fp32, tf32 = flags_of("fp32"), flags_of("tf32")

    assert {name for name in fp32 if fp32[name] != tf32[name]} == {"cuda_matmul_fp32", "cudnn_conv_fp32"}
    assert flags_of("bf16") == flags_of("fp16") == fp32


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cudnn_conv_fp32": "tf32"}, "cudnn_conv_fp32 is tf32 instead of ieee"),
        ({"cuda_matmul_fp32": None}, "cuda_matmul_fp32 is None instead of ieee"),
        ({"bf16_reduced_precision_reduction": True}, "bf16_reduced_precision_reduction is True instead of False"),
    ],
)
def test_flag_that_is_another_is_named(changed: dict[str, object], words: str) -> None:
    """One that is missing is another, too."""
    assert list(contradictions("fp32", {**flags_of("fp32"), **changed}, {})) == [words]


@pytest.mark.parametrize(
    ("precision", "environment", "is_contradiction"),
    [
        ("fp32", {"NVIDIA_TF32_OVERRIDE": "1"}, True),
        ("bf16", {"NVIDIA_TF32_OVERRIDE": ""}, True),
        ("fp32", {"NVIDIA_TF32_OVERRIDE": "0"}, False),
        ("tf32", {"NVIDIA_TF32_OVERRIDE": "0"}, True),
        ("tf32", {"NVIDIA_TF32_OVERRIDE": "1"}, False),
        ("fp32", {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, True),
        ("bf16", {"DNNL_DEFAULT_FPMATH_MODE": "any"}, True),
        ("fp32", {"ONEDNN_DEFAULT_FPMATH_MODE": "strict"}, False),
        ("fp32", {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}, False),
    ],
)
def test_variable_that_overrides_the_flags_contradicts(
    precision: str, environment: dict[str, str], is_contradiction: bool
) -> None:
    """NVIDIA's and oneDNN's do; torch's own is only a default, which the worker sets."""
    found = list(contradictions(precision, flags_of(precision), environment))

    assert [next(iter(environment)) in words for words in found] == [True] * is_contradiction
