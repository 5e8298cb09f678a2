"""Measures how fast the ranks of a run add up their gradients: all of them, and those of every two nodes.

The starter starts it in the place of a worker, with the same ranks and the same confinement. The results of all ranks
take the place of their descriptions: `{"nodes": [i, j], "seconds": {number of bytes: seconds}, "is_right"}` for each
pair of nodes, and with the numbers of all nodes for all of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.base.json_socket import JsonSocket
from harness.run.preflight import Line

SIZES = (1 << 20, 64 << 20)  # bytes; gradients of small layers, and of a bucket
SLOW_FRACTION = 0.5  # of the fastest pair
_REPEATS = 3


def rounds(num_nodes: int) -> Iterator[list[tuple[int, int]]]:
    """Yield rounds of pairs: each pair of nodes once, and in each round every node in one pair at most."""
    circle = [*range(num_nodes), *([-1] if num_nodes % 2 else [])]
    for _ in range(len(circle) - 1):
        pairs = zip(circle[: len(circle) // 2], reversed(circle), strict=False)
        yield sorted((min(pair), max(pair)) for pair in pairs if -1 not in pair)
        circle.insert(1, circle.pop())


def bus_bytes_per_s(num_bytes: int, seconds: float, num_ranks: int) -> float:
    """Return the rate at which data must pass the slowest link of an all-reduce, whatever the number of ranks.

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth".
    """
    return 2 * (num_ranks - 1) / num_ranks * num_bytes / seconds


def all_reduce_lines(results: Sequence[Mapping[str, Any]], ranks_per_node: int) -> list[Line]:
    """Return a line for each measurement, the one of all nodes first."""
    rates = [
        [bus_bytes_per_s(size, result["seconds"][str(size)], ranks_per_node * len(result["nodes"])) for size in SIZES]
        for result in results
    ]
    pairs = [rate[-1] for rate, result in zip(rates, results, strict=True) if len(result["nodes"]) == 2]
    lines = []
    for result, rate in zip(results, rates, strict=True):
        nodes = result["nodes"]
        parts = [
            f"{size >> 20} MiB in {result['seconds'][str(size)] * 1e3:.3g} ms ({each / 1e9:.3g} GB/s)"
            for size, each in zip(SIZES, rate, strict=True)
        ]
        is_slow = len(nodes) == 2 and rate[-1] < SLOW_FRACTION * max(pairs)
        slow = f"below half of the fastest pair, {max(pairs) / 1e9:.3g} GB/s: look at their links" if is_slow else None
        name = f"{nodes[0]} and {nodes[1]}" if len(nodes) == 2 else f"{nodes[0]} to {nodes[-1]}"
        lines.append(Line(f"all-reduce of nodes {name}", ", ".join(parts), slow))
    return lines


def measure(ranks_per_node: int, num_nodes: int) -> list[dict[str, Any]]:
    """Return the results of this rank: of the groups of which it is the first."""
    import torch
    import torch.distributed as dist
    from accelerate import PartialState

    state = PartialState(cpu=not torch.accelerator.is_available())
    synchronise: Callable[[], None] = torch.accelerator.synchronize if state.device.type != "cpu" else lambda: None
    found = []
    for pairs in ([(*range(num_nodes),)], *(rounds(num_nodes) if num_nodes > 2 else ())):
        groups = [(nodes, _ranks(nodes, ranks_per_node)) for nodes in pairs]
        made = [dist.new_group(ranks) for _, ranks in groups]  # every rank makes all groups, in the same order
        for (nodes, ranks), group in zip(groups, made, strict=True):
            if not isinstance(group, dist.ProcessGroup):
                continue  # of other ranks
            seconds, is_right = {}, True
            for size in SIZES:
                best_s = float("inf")
                for _ in range(_REPEATS + 1):  # the first one makes the connections
                    values = torch.ones(size // 4, device=state.device)
                    dist.barrier(group)
                    synchronise()
                    begin = time.perf_counter()
                    dist.all_reduce(values, group=group)
                    synchronise()
                    best_s = min(best_s, time.perf_counter() - begin)
                    is_right = is_right and bool((values == len(ranks)).all())
                seconds[str(size)] = best_s
            if state.process_index == ranks[0]:
                found.append({"nodes": list(nodes), "seconds": seconds, "is_right": is_right})
            dist.destroy_process_group(group)
    return found


def _ranks(nodes: Sequence[int], ranks_per_node: int) -> list[int]:
    return [node * ranks_per_node + local for node in nodes for local in range(ranks_per_node)]


def main(control: int | None) -> int:
    """Measure, and send the results of all ranks. control: the descriptor of rank 0's socket to the referee."""
    import torch.distributed as dist

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the referee decides what an interrupt means
    ranks_per_node, world_size = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    found = measure(ranks_per_node, world_size // ranks_per_node)
    of_all: list[Any] = [None] * world_size
    dist.all_gather_object(of_all, found)
    if control is not None:
        JsonSocket(socket.socket(fileno=control)).send({"world": [result for results in of_all for result in results]})
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    sys.exit(main(**vars(parser.parse_args())))
