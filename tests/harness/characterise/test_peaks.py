"""Single operations: how many there are in a problem, and that a rate is that of its time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from harness.characterise import peaks  # noqa: E402


def test_operations_of_a_matrix_product() -> None:
    """2 M N K: of DeepBench's 1760 x 128 x 1760, 792,985,600."""
    found = peaks.matrix_product("fp32", (1760, 128, 1760), 0.01)

    assert found["flop_per_s"] * found["median_s"] == pytest.approx(792_985_600)
    assert (found["shape"], found["precision"]) == ([1760, 128, 1760], "fp32")


def test_operations_of_a_convolution() -> None:
    """2 x output x inputs of each: of 4 images of 128 x 28 x 28 by 128 filters of 3 x 3."""
    found = peaks.convolution("fp32", (32, 128, 28, 28, 128, 3, 1), 0.01)

    assert found["flop_per_s"] * found["median_s"] == pytest.approx(2 * 4 * 128 * 28 * 28 * 128 * 9)


def test_bytes_of_copies_and_of_memory() -> None:
    (copy,) = peaks.copies(0.01)
    reading = peaks.memory_reading(0.01)

    for one in (copy, reading):
        assert one["bytes_per_s"] * one["median_s"] == pytest.approx(peaks.COPY_BYTES)


def test_peak_is_the_fastest_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        peaks, "matrix_product", lambda precision, shape, least_s: {"shape": shape, "flop_per_s": float(shape[1])}
    )

    assert peaks.peak("fp32", 0.1)["shape"] == (1024, 1024, 1024)


def test_precision_is_set_and_taken_back() -> None:
    with peaks.computing_in("bf16") as kind:
        assert kind is torch.bfloat16
    with peaks.computing_in("tf32"):
        assert torch.get_float32_matmul_precision() == "high"

    assert torch.get_float32_matmul_precision() == "highest"
    assert peaks.multiplies_in_tf32() is None  # no accelerator
