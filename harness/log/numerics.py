"""The arithmetic of a run, as `tta_numerics` records it: what each precision means, and what contradicts it. Pure.

fp32: single precision in every product and every sum, in convolutions too, where torch's default on a GPU is TF32.
tf32: factors of 32-bit products are rounded to 10 bits of mantissa; sums are fp32.
bf16, fp16: autocast to that type; sums are fp32, and so is what autocast leaves in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.errors import printable

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")

# The variables that change the arithmetic of torch or of the libraries below it; a run logs those that are set.
ENVIRONMENT = (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",  # only a default: the worker sets the flag itself
    "HIPBLASLT_ALLOW_TF32",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_PROTO",
)
# The same setting by its present and its former name. oneDNN reads it where a program sets nothing, as torch does.
_FPMATH_MODES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")


def flags_of(precision: str) -> dict[str, object]:
    """Return the flags that `precision`, one of `PRECISIONS`, means."""
    on_gpu = "tf32" if precision == "tf32" else "ieee"
    return {
        "cuda_matmul_fp32": on_gpu,
        "cudnn_conv_fp32": on_gpu,
        "onednn_matmul_fp32": "ieee",
        "onednn_conv_fp32": "ieee",
        "fp16_accumulation": False,
        "fp16_reduced_precision_reduction": False,
        "bf16_reduced_precision_reduction": False,
        "attention_reduced_precision_reduction": False,
    }


def contradictions(precision: str, flags: Mapping[str, object], environment: Mapping[str, object]) -> Iterator[str]:
    """Yield in words what `flags` and `environment` have that `precision`, one of `PRECISIONS`, does not mean."""
    for name, expected in flags_of(precision).items():
        if flags.get(name) != expected:
            yield f"{name} is {printable(flags.get(name), 40)} instead of {expected}"
    override = environment.get("NVIDIA_TF32_OVERRIDE")
    # 0 keeps NVIDIA's libraries from using TF32, any other value makes them use it, whatever a program sets.
    if override is not None and (override != "0") != (precision == "tf32"):
        yield f"NVIDIA_TF32_OVERRIDE={printable(override, 40)} overrides the flags"
    for name in _FPMATH_MODES:
        mode = environment.get(name)
        if mode is not None and str(mode).upper() != "STRICT":
            yield f"{name}={printable(mode, 40)} lets oneDNN round what is in fp32"
