"""Measures one session, on every rank: the parts of `tta profile`, and the windows of `tta sweep`."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.nn.modules.batchnorm import _BatchNorm
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils import _pytree as trees

from harness.base.clock import MonotonicClock
from harness.characterise.cells import REAL
from harness.characterise.network import Counted, Kept, counted, memory
from harness.characterise.operators import by_kind, is_operator
from harness.characterise.summaries import PHASES, covered, summary
from harness.characterise.watching import Clock, Exchange, Network, Step, Watch, network_of
from harness.errors import UsageError
from harness.run.network import MAX_SHAPES, Call, fingerprint, replaced
from harness.run.ranks import Ranks
from harness.workload import Session

NUM_REPEATED = 8  # blocks whose updates are repeated with synthetic data
NUM_SETTLING = 3  # steps before those that are measured
PLAIN_S = 3.0  # of steps without hooks: a short burst is faster than what a machine keeps up
_STEP_NAME = "tta_step"
_STATUS = Path("/proc/self/status")


def started(session: Session, initialise: Callable[[Session], None], data_dir: Path) -> dict[str, float]:
    """Bring a session to where it can train; return the seconds of each step of it."""
    found = {}
    for name, do in (
        ("prepare_s", session.prepare),
        ("initialise_s", lambda: initialise(session)),
        ("load_s", lambda: session.start(data_dir)),
    ):
        begun = perf_counter()
        do()
        found[name] = perf_counter() - begun
    return found


def profiled(
    session: Session, ranks: Ranks, batch_size: int, num_steps: int, num_traced: int, sustained_s: float = 0.0
) -> dict[str, Any]:
    """Measure the training of a session that was started. sustained_s: of further steps, for a meter; 0: none."""
    network = network_of(lambda: session.train_block(batch_size))
    clock = Clock()
    session.train_block(batch_size * NUM_SETTLING)
    clock.synchronise()
    parts_s = plain(session, batch_size, num_steps, PLAIN_S, ranks, clock)
    plain_s = sum(parts_s) / len(parts_s)
    meter = {"sustained": sustained(session, batch_size, plain_s, sustained_s, ranks, clock)} if sustained_s else {}
    exchange = Exchange(network, clock)
    steps = timed(session, network, exchange, batch_size, num_steps)
    return {
        **meter,
        "plain_step_s": plain_s,
        "plain_parts_s": parts_s,
        "steps": _of_steps(steps, ranks),
        "network": _of_network(session, network, exchange, batch_size),
        "operators": traced(session, batch_size, num_traced),
        "peak_memory": peak_memory(),
    }


def plain(session: Session, batch_size: int, num_steps: int, least_s: float, ranks: Ranks, clock: Clock) -> list[float]:
    """Seconds of a step without any hook: the mean of `num_steps`, of as many parts as fill `least_s`, at least one."""

    def part_s() -> float:
        clock.synchronise()
        begun = clock.now()
        session.train_block(batch_size * num_steps)
        ended = clock.now()
        clock.synchronise()
        return clock.seconds(begun, ended) / num_steps

    first_s = part_s()
    num_parts = max(ranks.gather(math.ceil(least_s / (first_s * num_steps))))  # as many on every rank
    return [first_s, *(part_s() for _ in range(1, num_parts))]


def sustained(
    session: Session, batch_size: int, step_s: float, least_s: float, ranks: Ranks, clock: Clock
) -> dict[str, int]:
    """Steps for some seconds, as many on every rank; return when they began and ended, on the system's clock."""
    num_steps = max(ranks.gather(math.ceil(least_s / step_s)))
    clock.synchronise()
    begun = MonotonicClock()
    session.train_block(batch_size * num_steps)
    clock.synchronise()
    return {"start_ns": begun.origin_ns, "stop_ns": begun.origin_ns + begun.elapsed_ns(), "num_steps": num_steps}


def timed(session: Session, network: Network, exchange: Exchange, batch_size: int, num_steps: int) -> list[Step]:
    """Steps with their phases, after some that are not counted."""
    with Watch(session, network, exchange).watching() as step:
        for _ in range(NUM_SETTLING):
            step(batch_size)
        return [step(batch_size) for _ in range(num_steps)]


def _of_steps(steps: Sequence[Step], ranks: Ranks) -> dict[str, Any]:
    """Summaries of steps; of several ranks those of the slowest, whose step is the longest in the median."""
    own = {
        "seconds": _summary([step.seconds for step in steps]),
        "phases": {name: _summary([step.phases[name] for step in steps]) for name in PHASES},
        "waited": _summary([step.waited_s for step in steps]),
        "exchange": _summary([step.exchange_s for step in steps]),
        "exchanged_bytes": round(summary([step.exchanged_bytes for step in steps]).median),
        "other_bytes": round(summary([step.other_bytes for step in steps]).median),
        "other_sums": round(summary([step.other_sums for step in steps]).median),
        "num_updates": round(summary([step.num_updates for step in steps]).median),
        "loss_is_finite": all(math.isfinite(step.loss) for step in steps),
    }
    return max(ranks.gather(own), key=lambda one: one["seconds"]["median"])


def _summary(values: Sequence[float]) -> dict[str, float]:
    return dataclasses.asdict(summary(values))


def _of_network(session: Session, network: Network, exchange: Exchange, batch_size: int) -> dict[str, Any]:
    """What the network is, and the memory of its steps: from steps apart, for noting takes time."""
    kept = Kept(network.modules)
    first: list[Counted] = []
    found: dict[tuple[object, ...], Counted] = {}
    flops = []
    with Watch(session, network, exchange, has_calls=True, kept=kept).watching() as step:
        steps = [
            [call.without_values() if number else call for call in step(batch_size).calls]
            for number in range(NUM_SETTLING)
        ]
    for calls in steps:  # not while they are watched: what is kept is noted by operators, too
        passes = [_counted_once(call, found) for call in calls]
        if all(one is not None for one in passes):
            flops.append(sum(one.flops for one in passes if one is not None))
        first = first or [one for one in passes if one is not None]
    used = memory(network.modules, network.optimizers, max(kept.totals, default=0))
    return {
        "fingerprint": dataclasses.asdict(fingerprint(network.modules, [one.operators for one in first])),
        "forward_flops": round(summary(flops).median) if flops else None,
        "num_shapes": len(found),
        "batch_norm": _batch_norms(network, first),
        "by_operator": _added(one.by_operator for one in first),
        "uncounted": _added(one.uncounted for one in first),
        "counted_on": sorted({one.device for one in first}),
        "reasons": sorted({one.reason for one in first if one.reason is not None}),
        "memory": dataclasses.asdict(used),
    }


def _batch_norms(network: Network, first: Sequence[Counted]) -> dict[str, int]:
    """How often the passes of a step normalise a batch, and how many groups each layer normalises one by one."""
    layers = sum(isinstance(part, _BatchNorm) for module in network.modules for part in module.modules())
    calls = sum("batch_norm" in line.split(" ", 1)[0] for one in first for line in one.operators)
    return {"calls": calls, "groups": calls // (layers * len(first)) if layers and first else 0}


def _counted_once(call: Call, found: dict[tuple[object, ...], Counted]) -> Counted | None:
    """The counts of a call; None where too many others have been counted already."""
    if call.shapes not in found and len(found) < MAX_SHAPES:
        found[call.shapes] = counted(call)
    return found.get(call.shapes)


def _added(parts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def traced(session: Session, batch_size: int, num_steps: int) -> dict[str, Any]:
    """Operators of steps under torch's profiler, which slows them down: shares are to be read, and not seconds.

    gap_fraction: of the steps' time, in which no operator was at work; on an accelerator, in which it had nothing to
    do.
    """
    has_cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_cuda else [])]
    with profile(activities=activities, acc_events=True) as trace:
        for _ in range(num_steps):
            with record_function(_STEP_NAME):
                session.train_block(batch_size)
    events = trace.events() or []
    windows = [(e.time_range.start, e.time_range.end) for e in events if e.name == _STEP_NAME and not _is_of_device(e)]
    busy = [
        (e.time_range.start, e.time_range.end)
        for e in events
        if (_is_of_device(e) and e.name != _STEP_NAME if has_cuda else is_operator(e.name))
    ]
    total = sum(stop - start for start, stop in windows)
    inside = sum(covered(clipped(busy, window)) for window in windows)
    rows = []
    for row in trace.key_averages():
        if is_operator(row.key):
            time_us = row.self_device_time_total if has_cuda else row.self_cpu_time_total
            rows.append((row.key, time_us / 1e6, int(row.count)))
    rows.sort(key=lambda item: -item[1])
    return {
        "num_steps": num_steps,
        "device": "accelerator" if has_cuda else "host",
        "seconds": total / 1e6,
        "gap_fraction": 1 - inside / total if total else None,
        "calls_per_step": sum(calls for _, _, calls in rows) / num_steps,
        "by_kind": by_kind((name, seconds) for name, seconds, _ in rows),
        "longest": [{"name": name, "seconds": s, "calls": calls} for name, s, calls in rows[:12]],
    }


def _is_of_device(event: Any) -> bool:
    return bool(event.device_type != DeviceType.CPU)


def clipped(spans: Sequence[tuple[float, float]], window: tuple[float, float]) -> list[tuple[float, float]]:
    """The parts of intervals that are inside of a window."""
    return [(max(a, window[0]), min(b, window[1])) for a, b in spans if b > window[0] and a < window[1]]


def window(
    session: Session, kind: str, batch_size: int, num_steps: int, ranks: Ranks, clock: Clock | None = None
) -> dict[str, Any]:
    """Seconds of each of `num_steps` steps, waited for one by one; of several ranks those of the slowest.

    kind: `REAL`: blocks of the session. `SYNTHETIC`: what the updates of a few blocks were given is given to them again
    and again, so that nothing is fetched, read, or collected.

    Raises:
        UsageError: the session has no synthetic data.
    """
    clock = clock or Clock()
    do = (lambda: session.train_block(batch_size)) if kind == REAL else repeating(session, batch_size)
    for _ in range(NUM_SETTLING):
        do()
    seconds, waited = [], []
    for _ in range(num_steps):
        clock.synchronise()
        begun = clock.now()
        block = do()
        ended = clock.now()
        clock.synchronise()
        seconds.append(clock.seconds(begun, ended))
        waited.append(0.0 if block is None else block.data_wait_s)
    slowest = max(ranks.gather((seconds, waited)), key=lambda one: summary(one[0]).median)
    return {"seconds": slowest[0], "waited": slowest[1]}


def repeating(session: Session, batch_size: int, num_blocks: int = NUM_REPEATED) -> Callable[[], None]:
    """Return what does the updates of a block again, with the tensors that they were given: of one block after another.

    num_blocks: batches of sentences or of speech differ in length, and one of them would stand for none of the others.

    The sessions of `workloads/` make their updates by the `step` of their `execution` (`workloads.execution`).

    Raises:
        UsageError: this one does not.
    """
    execution: Any = getattr(session, "execution", None)
    if not callable(getattr(execution, "step", None)):
        raise UsageError("--data synthetic: the session has no `execution` whose steps could be repeated")
    step = execution.step
    blocks: list[list[tuple[Any, Any]]] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        blocks[-1].append((_copied(args), _copied(kwargs)))
        return step(*args, **kwargs)

    with replaced(execution, "step", noted):
        for _ in range(num_blocks):
            blocks.append([])
            session.train_block(batch_size)
    of_blocks = cycle(blocks)

    def repeat() -> None:
        for args, kwargs in next(of_blocks):
            step(*args, **kwargs)

    return repeat


def _copied(tree: Any) -> Any:
    """The same with copies of its tensors: a loader may use their memory again."""
    return trees.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def peak_memory() -> dict[str, int | None]:
    """The largest memory since the process began: resident on the host, allocated and reserved on an accelerator."""
    has_cuda = torch.cuda.is_available()
    return {
        "host_resident": _status("VmHWM"),
        "accelerator_allocated": torch.cuda.max_memory_allocated() if has_cuda else None,
        "accelerator_reserved": torch.cuda.max_memory_reserved() if has_cuda else None,
    }


def _status(name: str) -> int | None:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return None


def memory_at(
    open_session: Callable[[int], Session],
    initialise: Callable[[Session], None],
    data_dir: Path,
    batch_size: int,
) -> dict[str, int]:
    """Bytes by kind of a step at another batch size, in a session of its own."""
    session = open_session(batch_size)
    try:
        started(session, initialise, data_dir)
        network = network_of(lambda: session.train_block(batch_size))
        kept = Kept(network.modules)
        exchange = Exchange(network, Clock())
        with Watch(session, network, exchange, kept=kept).watching() as step:
            step(batch_size)
        return dataclasses.asdict(memory(network.modules, network.optimizers, max(kept.totals, default=0)))
    finally:
        session.close()
        released()


def released() -> None:
    """Give back the memory of a session that was closed."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def memory_limit() -> tuple[int, str]:
    """Bytes that a rank may use, and what limits it: the accelerator's memory, or what the host has available."""
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return total, f"the accelerator's memory ({free} bytes of it free)"
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = pages
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) << 10
    return available, "the memory that the host has available"


def as_config(config: Mapping[str, Any], batch_size: int) -> dict[str, Any]:
    """The fields of a `RunConfig` at another global batch size."""
    return {**config, "hyperparameters": {**config["hyperparameters"], "global_batch_size": batch_size}}
