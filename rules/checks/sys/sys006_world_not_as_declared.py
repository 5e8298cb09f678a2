"""The processes that trained are not those that were declared.

## What it does
Compares `tta_world`, where every rank describes itself, with `num_devices`: that many ranks, at least one, numbered
from 0, each with that world size, and the same version of every library.

## Why it matters
A launcher that starts one process where eight were declared produces a log that looks like eight.

## Example
num_devices = 8, and one rank with world_size 1.

## Instead
Start with `tta run --devices N`, and look at what the worker printed.

## Source
`accelerate launch --cpu --num_processes 2` silently starts one process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event, declared = log.first(keys.TTA_WORLD), log.field(keys.TTA_CONFIG, "num_devices")
    if event is None or not isinstance(event.value, list) or not isinstance(declared, int):
        return
    world = [rank for rank in event.value if isinstance(rank, dict)]
    ranks = [rank.get("rank") for rank in world]
    sizes = sorted({str(rank.get("world_size")) for rank in world if rank.get("world_size") != declared})
    if len(world) != len(event.value) or len(ranks) != declared or ranks != list(range(len(ranks))) or not ranks:
        yield Fault(
            str(log.path),
            event.lineno,
            f"{declared} devices were declared; {len(event.value)} ranks trained: {printable(ranks, 60)}",
            {"num_devices": declared, "num_ranks": len(event.value)},
        )
    elif sizes:
        yield Fault(
            str(log.path),
            event.lineno,
            f"{declared} devices were declared; ranks report a world size of {printable(', '.join(sizes))}",
        )
    elif any(one.get("versions") != other.get("versions") for one, other in itertools.pairwise(world)):
        yield Fault(str(log.path), event.lineno, "the ranks have different versions of their libraries")
