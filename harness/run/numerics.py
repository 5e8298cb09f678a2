"""Sets a precision in torch, and reads back the arithmetic that is in force.

torch's flags can be set and read on a machine without a GPU.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.errors import UsageError, printable, unknown_name
from harness.log.numerics import ENVIRONMENT, PRECISIONS, contradictions, flags_of

_DRIVER = Path("/sys/module/nvidia/version")


def set_precision(precision: str) -> None:
    """Make this process compute in `precision`, in convolutions as in matrix products.

    Raises:
        UsageError: there is no such precision, the device cannot compute in it, or the environment overrides it.
    """
    import torch

    if precision not in PRECISIONS:
        raise UsageError(unknown_name("precision", precision, PRECISIONS))
    if precision in ("tf32", "fp16") and not torch.accelerator.is_available():
        raise UsageError(f"precision {precision} needs an accelerator; a CPU supports fp32 and bf16")
    if precision == "tf32" and not (torch.cuda.is_available() and torch.cuda.is_tf32_supported()):
        raise UsageError("precision tf32 needs a GPU that multiplies in TF32, such as NVIDIA's since Ampere")
    if faults := list(contradictions(precision, flags_of(precision), environment())):
        raise UsageError(f"precision {precision}: {'; '.join(faults)}; unset it")
    set_flags(precision)


def set_flags(precision: str) -> None:
    """Set the flags of `flags_of`, whatever devices there are."""
    import torch

    backends: Any = torch.backends
    is_tf32 = precision == "tf32"
    # By torch's older switches, which set its newer ones as well; libraries still read both and refuse a mixture.
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    backends.cuda.matmul.allow_tf32 = is_tf32
    backends.cudnn.allow_tf32 = is_tf32
    backends.fp32_precision = "ieee"  # what was set to nothing else: other devices, and oneDNN's operations
    backends.mkldnn.matmul.fp32_precision = "ieee"
    backends.cuda.matmul.allow_fp16_accumulation = False
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)


def in_force() -> dict[str, Any]:
    """Return the value of `tta_numerics`: flags, versions of the libraries, and variables of the environment."""
    return {"flags": flags(), "versions": versions(), "environment": environment()}


def flags() -> dict[str, object]:
    """Return the flags that change how torch computes."""
    import torch

    backends: Any = torch.backends
    matmul = backends.cuda.matmul
    return {
        "cuda_matmul_fp32": matmul.fp32_precision,
        "cudnn_conv_fp32": backends.cudnn.conv.fp32_precision,
        "onednn_matmul_fp32": backends.mkldnn.matmul.fp32_precision,
        "onednn_conv_fp32": backends.mkldnn.conv.fp32_precision,
        "fp16_accumulation": matmul.allow_fp16_accumulation,
        "fp16_reduced_precision_reduction": matmul.allow_fp16_reduced_precision_reduction,
        "bf16_reduced_precision_reduction": matmul.allow_bf16_reduced_precision_reduction,
        "attention_reduced_precision_reduction": backends.cuda.fp16_bf16_reduction_math_sdp_allowed(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": backends.cudnn.deterministic,
        "cudnn_benchmark": backends.cudnn.benchmark,
    }


def versions() -> dict[str, object]:
    """Return the versions of torch and of the libraries below it; None for what is not there."""
    import torch

    cuda: Any = torch.cuda
    cudnn: Any = torch.backends.cudnn
    distributed = torch.distributed
    has_nccl = cuda.is_available() and distributed.is_available() and distributed.is_nccl_available()
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": cudnn.version(),
        "nccl": ".".join(map(str, cuda.nccl.version())) if has_nccl else None,
        "driver": _driver(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _driver() -> str | None:
    """Return the version of NVIDIA's kernel module."""
    try:
        return printable(_DRIVER.read_text(encoding="utf-8", errors="replace").strip(), 60)
    except OSError:
        return None


def environment() -> dict[str, str]:
    """Return the variables of `ENVIRONMENT` that are set."""
    return {name: printable(value, 100) for name in ENVIRONMENT if (value := os.environ.get(name)) is not None}
