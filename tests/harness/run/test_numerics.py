"""torch's flags of precision, set by one function and read back; what is refused; and, on a GPU, what they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.errors import UsageError, WorkerError
from harness.log.numerics import ENVIRONMENT, PRECISIONS, contradictions, flags_of
from harness.run import numerics, worker

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def fp32_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of this machine's environment counts, and no test leaves TF32 behind."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    yield
    numerics.set_flags("fp32")


@pytest.mark.parametrize("before", PRECISIONS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_flags_are_those_of_the_precision_whatever_they_were(before: str, precision: str) -> None:
    """Read back from torch; and both of torch's interfaces still agree, so that libraries may read either."""
    numerics.set_flags(before)
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    torch.backends.cuda.matmul.allow_fp16_accumulation = True

    numerics.set_flags(precision)

    flags = numerics.flags()
    assert {name: flags[name] for name in flags_of(precision)} == flags_of(precision)
    is_tf32 = precision == "tf32"
    assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is is_tf32
    assert torch.get_float32_matmul_precision() == ("high" if is_tf32 else "highest")


def test_torchs_own_default_is_not_fp32() -> None:
    """The reason for setting it: convolutions on a GPU are in TF32 unless a program says otherwise."""
    torch.backends.cudnn.allow_tf32 = True

    assert "cudnn_conv_fp32 is tf32 instead of ieee" in contradictions("fp32", numerics.flags(), {})


@pytest.mark.parametrize(
    ("precision", "has_accelerator", "environment", "message"),
    [
        ("fp8", True, {}, "unknown precision 'fp8'"),
        ("tf32", False, {}, "precision tf32 needs an accelerator; a CPU supports fp32 and bf16"),
        ("fp16", False, {}, "precision fp16 needs an accelerator; a CPU supports fp32 and bf16"),
        ("tf32", True, {}, "precision tf32 needs a GPU that multiplies in TF32"),
        ("fp32", False, {"NVIDIA_TF32_OVERRIDE": "1"}, "NVIDIA_TF32_OVERRIDE=1 overrides the flags; unset it"),
        ("bf16", False, {"ONEDNN_DEFAULT_FPMATH_MODE": "ANY"}, "ONEDNN_DEFAULT_FPMATH_MODE=ANY lets oneDNN round"),
    ],
)
def test_precision_that_cannot_be_is_one_sentence(
    precision: str,
    has_accelerator: bool,
    environment: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a CPU, on an accelerator of another make, or against the environment."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: has_accelerator)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(UsageError, match=message) as caught:
        numerics.set_precision(precision)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_cpu_takes_fp32_and_bf16(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was set before."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    numerics.set_flags("tf32")

    numerics.set_precision(precision)

    assert list(contradictions(precision, numerics.flags(), {})) == []


def test_what_is_in_force_is_logged_with_versions_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only variables that are set, and only those that change numerics; one printable line each."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8\n")
    monkeypatch.setenv("HOME", "/home/me")

    found = numerics.in_force()

    assert list(found) == ["flags", "versions", "environment"]
    assert found["flags"]["cudnn_benchmark"] in (True, False)
    assert found["versions"]["torch"] == torch.__version__
    assert {"cuda", "hip", "cudnn", "nccl", "driver", "cpu_capability"} < set(found["versions"])
    assert found["environment"] == {"CUBLAS_WORKSPACE_CONFIG": r":4096:8\n"}


class FakeRanks:
    """Two ranks, of which the other has its own numerics."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def gather(self, item: dict[str, Any]) -> list[Any]:
        return [item, {**item, **self.changes}]


def test_ranks_must_agree() -> None:
    """A rank on another driver, or with other flags, is named; what they agree on is logged once."""
    alike: Any = FakeRanks()
    different: Any = FakeRanks(versions={"driver": "580"}, environment={"NCCL_ALGO": "Tree"})

    assert worker._same("numerics", numerics.in_force(), alike) == numerics.in_force()
    with pytest.raises(WorkerError, match="rank 1 differs from rank 0 in the versions and environment of its numerics"):
        worker._same("numerics", numerics.in_force(), different)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("operation", ["matmul", "conv"])
def test_gpu_computes_in_the_precision(operation: str, precision: str) -> None:
    """Sums of 4,608 products: the error is that of fp32 with fp32, and that of 10 bits of mantissa with tf32."""
    if not torch.cuda.is_available() or not torch.cuda.is_tf32_supported():
        pytest.skip("no GPU with TF32")
    torch.manual_seed(0)
    numerics.set_precision(precision)
    if operation == "matmul":
        left, right = torch.randn(512, 4608, device="cuda"), torch.randn(4608, 512, device="cuda")
        found, exact = left @ right, left.double() @ right.double()
    else:
        images, weights = torch.randn(32, 512, 16, 16, device="cuda"), torch.randn(512, 512, 3, 3, device="cuda")
        found = torch.nn.functional.conv2d(images, weights, padding=1)
        exact = torch.nn.functional.conv2d(images.double(), weights.double(), padding=1)

    error = ((found.double() - exact).square().mean() / exact.square().mean()).sqrt().item()

    assert error < 1e-5 if precision == "fp32" else 1e-5 < error < 1e-2
    assert numerics.versions()["cudnn"] is not None
    assert numerics.versions()["driver"] is not None
