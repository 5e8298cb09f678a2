"""What a device reaches in single operations: matrix products, convolutions, copies, reading memory, sums.

By `torch.utils.benchmark.Timer`, which warms up, waits for the device, and repeats what is short. A rate is that of the
median time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
from torch.utils.benchmark import Timer

from harness.characterise.summaries import summary
from harness.run import numerics
from harness.run.all_reduce import bus_bytes_per_s
from harness.run.ranks import Ranks

# M, N, K of C (M, N) = A (M, K) B (K, N). The first four are training problems of DeepBench (recurrent networks and
# speech); the last one is as large as gives a device its peak. Source: github.com/baidu-research/DeepBench,
# code/kernels/gemm_problems.h.
SHAPES = ((1760, 128, 1760), (2560, 64, 2560), (3072, 128, 1024), (7680, 64, 2560))
HOST_CUBE, ACCELERATOR_CUBE = 1024, 8192
# Images, channels, height and width, filters, kernel, stride: the first layer of a ResNet-50, a 3 x 3 and a 1 x 1 of
# its middle; on a host with an eighth of the images.
CONVOLUTIONS = ((32, 3, 224, 224, 64, 7, 2), (32, 128, 28, 28, 128, 3, 1), (32, 256, 14, 14, 1024, 1, 1))
COPY_BYTES = 256 << 20  # larger than the caches of any host
# Statistics of a batch normalisation, small layers' gradients, a bucket of DDP, and a network's gradients.
REDUCED_BYTES = (1 << 12, 1 << 20, 16 << 20, 64 << 20)
_TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def device() -> torch.device:
    """The device of this process."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def precisions() -> tuple[str, ...]:
    """The precisions that a session can have on this device, as `numerics.set_precision` has them."""
    if not torch.cuda.is_available():
        return ("fp32", "bf16")
    return ("fp32", *(("tf32",) if torch.cuda.is_tf32_supported() else ()), "bf16", "fp16")


def shapes() -> tuple[tuple[int, int, int], ...]:
    """The five matrix products."""
    cube = ACCELERATOR_CUBE if torch.cuda.is_available() else HOST_CUBE
    return (*SHAPES, (cube, cube, cube))


@contextmanager
def computing_in(precision: str) -> Iterator[torch.dtype]:
    """Have torch's flags as a session of that precision has them; yield the type of its products' operands."""
    before = torch.get_float32_matmul_precision()
    numerics.set_flags(precision)
    try:
        yield _TYPES[precision]
    finally:
        numerics.set_flags("tf32" if before == "high" else "fp32")


def _timed(statement: str, values: dict[str, Any], least_s: float) -> dict[str, float | int]:
    timer = Timer(statement, globals={"torch": torch, **values}, num_threads=torch.get_num_threads())
    found = timer.blocked_autorange(min_run_time=least_s)
    return {"median_s": found.median, "iqr_s": found.iqr, "num": len(found.times)}


def matrix_product(precision: str, shape: tuple[int, int, int], least_s: float) -> dict[str, Any]:
    """Time one matrix product. 2 M N K operations."""
    m, n, k = shape
    with computing_in(precision) as kind:
        a, b = torch.randn(m, k, device=device()).to(kind), torch.randn(k, n, device=device()).to(kind)
        c = torch.empty(m, n, dtype=kind, device=device())
        found = _timed("torch.mm(a, b, out=c)", {"a": a, "b": b, "c": c}, least_s)
    flops = 2 * m * n * k
    return {"precision": precision, "shape": list(shape), "flop_per_s": flops / found["median_s"], **found}


def peak(precision: str, least_s: float) -> dict[str, Any]:
    """The fastest of the five matrix products: the peak against which a utilisation is stated."""
    return max((matrix_product(precision, shape, least_s) for shape in shapes()), key=lambda one: one["flop_per_s"])


def convolution(precision: str, problem: tuple[int, ...], least_s: float) -> dict[str, Any]:
    """Time the forward pass of one convolution with padding of half its kernel."""
    images, channels, height, width, filters, kernel, stride = problem
    images = images if torch.cuda.is_available() else max(1, images // 8)
    layout = torch.channels_last
    with computing_in(precision) as kind:
        x = torch.randn(images, channels, height, width, device=device()).to(kind, memory_format=layout)
        w = torch.randn(filters, channels, kernel, kernel, device=device()).to(kind, memory_format=layout)
        given = {"x": x, "w": w, "stride": stride, "padding": kernel // 2}
        found = _timed("torch.conv2d(x, w, None, stride, padding)", given, least_s)
        out = torch.conv2d(x, w, None, stride, kernel // 2)
    flops = 2 * out.numel() * channels * kernel * kernel
    shape = [images, channels, height, width, filters, kernel, stride]
    return {"precision": precision, "shape": shape, "flop_per_s": flops / found["median_s"], **found}


def copies(least_s: float) -> list[dict[str, Any]]:
    """Time copies within the device's memory, and between host and accelerator where there is one.

    bytes_per_s: of what is copied; a copy within a memory reads and writes each byte, and moves twice as many.
    """
    found = []
    own = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device()).fill_(1)
    pairs = {"within the device": (torch.empty_like(own), own)}
    if torch.cuda.is_available():
        host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True).fill_(1)
        pairs |= {"host to device": (own, host), "device to host": (host, own)}
    for name, (to, of) in pairs.items():
        timed = _timed("to.copy_(of)", {"to": to, "of": of}, least_s)
        found.append({"name": name, "bytes": COPY_BYTES, "bytes_per_s": COPY_BYTES / timed["median_s"], **timed})
    return found


def memory_reading(least_s: float) -> dict[str, Any]:
    """Time reading a large array once: the bandwidth of the memory, in bytes read a second."""
    values = torch.ones(COPY_BYTES // 4, dtype=torch.float32, device=device())
    found = _timed("values.sum()", {"values": values}, least_s)
    return {"bytes": COPY_BYTES, "bytes_per_s": COPY_BYTES / found["median_s"], **found}


def multiplies_in_tf32() -> bool | None:
    """Whether float32 products lose the digits that TF32 lacks, as measured; None where nothing could.

    TF32 has 10 bits after the point of its significand and float32 23: 1 + 2^-12 is 1 in the one and not in the other.
    """
    if not torch.cuda.is_available():
        return None
    a = torch.full((256, 256), 1 + 2.0**-12, device=device())
    product = torch.mm(a, torch.eye(256, device=device()))
    return bool((product[0, 0] == 1.0).item())


def all_reduces(ranks: Ranks, num_repeats: int = 7) -> list[dict[str, Any]]:
    """Time sums over all ranks, of several sizes: each repeat as long as on the slowest rank.

    bytes_per_s: bus bandwidth, which does not depend on the number of ranks. is_right: whether the sums are right.
    """
    import torch.distributed as dist

    found = []
    for size in REDUCED_BYTES:
        seconds, is_right = [], True
        for _ in range(num_repeats + 1):  # the first one makes the connections
            values = torch.ones(size // 4, device=device())
            dist.barrier()
            _synchronise()
            begun = perf_counter()
            dist.all_reduce(values)
            _synchronise()
            seconds.append(max(ranks.gather(perf_counter() - begun)))
            is_right = is_right and bool((values == ranks.world_size).all())
        times = summary(seconds[1:])
        rate = bus_bytes_per_s(size, times.median, ranks.world_size)
        found.append(
            {
                "bytes": size,
                "ranks": ranks.world_size,
                "bytes_per_s": rate,
                "median_s": times.median,
                "iqr_s": times.iqr,
                "num": times.num,
                "is_right": is_right,
            }
        )
    return found


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
