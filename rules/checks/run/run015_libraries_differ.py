"""The runs of a result were made with different libraries, on different devices or in different arithmetic.

## What it does
Compares what the ranks report in `tta_world` over the runs, the versions of every library, the device and its name; and
the flags, versions and variables of the environment in `tta_numerics`, where the logs have them.

## Why it matters
A result is of one system. A run with a faster library, or on a faster device, is of another.

## Example
torch 2.14.1 in four runs, 2.15.0 in the fifth; or `OMP_NUM_THREADS` set for one run only.

## Instead
Make all runs again after an update.

## Source
MLPerf submission rules: the runs of a result are made with the same software and hardware.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"
_FACTS = ("versions", "device", "device_name")
_NUMERICS = ("flags", "versions", "environment")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    reported = [(log, ranks) for log in result.runs if (ranks := timeline.ranks(log))]
    for log, ranks in reported:
        first_log, first = reported[0]
        for rank, other in zip(ranks, first, strict=False):  # RUN006 reports a different number of ranks
            name = next((name for name in _FACTS if rank.get(name) != other.get(name)), None)
            if name is not None:
                mine, theirs = _shown(rank.get(name), other.get(name)), _shown(other.get(name), rank.get(name))
                message = (
                    f"the {name} of rank {printable(rank.get('rank'), 20)}: {mine}; in {first_log.path.name} {theirs}"
                )
                yield Fault(str(log.path), log.line_of(keys.TTA_WORLD), message)
                break
    yield from _numerics(result)


def _numerics(result: Result) -> Iterator[Fault]:
    reported = [(log, value) for log in result.runs if isinstance(value := log.value(keys.TTA_NUMERICS), dict)]
    for log, value in reported:
        first_log, first = reported[0]
        name = next((name for name in _NUMERICS if value.get(name) != first.get(name)), None)
        if name is not None:
            mine, theirs = _shown(value.get(name), first.get(name)), _shown(first.get(name), value.get(name))
            message = f"the {name} of the numerics: {mine}; in {first_log.path.name} {theirs}"
            yield Fault(str(log.path), log.line_of(keys.TTA_NUMERICS), message)


def _shown(value: object, other: object) -> str:
    """The entries that differ if both are mappings, else the whole value."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: item for name, item in value.items() if other.get(name) != item}
    return printable(value, 80)
