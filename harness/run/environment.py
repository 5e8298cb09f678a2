"""The environment of a worker: what it may take over from the user's, by name, and what it is given.

Everything that is not on the list stays outside. What is on it sets up a device, a library's arithmetic or its number
of threads; nothing on it names code to load, apart from `LD_LIBRARY_PATH`, without which many machines find no CUDA.
What came through is logged with its values (`tta_isolation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from harness.errors import printable
from harness.log import numerics

PASSED = (
    *numerics.ENVIRONMENT,
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "TZ",
    "USER",
    # devices
    "CUBLAS*",
    "CUDA_*",
    "CUDNN_*",
    "HIP_*",
    "HSA_*",
    "NVIDIA_*",
    "ROCR_*",
    # threads and arithmetic
    "DNNL_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OMP_*",
    "ONEDNN_*",
    "OPENBLAS_NUM_THREADS",
    # torch and its communication
    "GLOO_*",
    "NCCL_*",
    "PYTORCH_*",
    "TORCH_NCCL_*",
)
# Of those, what has libraries or programs loaded into a process, or takes further settings from a file.
REFUSED = ("*_PLUGIN", "*INJECTION*", "*TOOL*", "CUDA_DEBUGGER*", "NCCL_CONF_FILE")


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that a worker may take over."""
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in PASSED)
        and not any(fnmatchcase(name, pattern) for pattern in REFUSED)
    }


def worker_environment(
    environment: Mapping[str, str], home: str, num_ranks: int, num_cores: int, has_loopback_only: bool
) -> dict[str, str]:
    """Return the environment of a worker whose private folder is `home`."""
    interfaces = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"} if has_loopback_only else {}
    num_threads = str(max(1, num_cores // num_ranks))
    return {
        "OMP_NUM_THREADS": num_threads,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **passed_on(environment),
        **interfaces,
        "HOME": home,
        "PWD": home,
        "TMPDIR": home,
        "XDG_CACHE_HOME": f"{home}/.cache",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONNOUSERSITE": "1",  # for the interpreters that libraries start, such as those of torch.compile
    }


def logged(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the log."""
    return {printable(name, 100): printable(environment[name], 1000) for name in sorted(environment)}
