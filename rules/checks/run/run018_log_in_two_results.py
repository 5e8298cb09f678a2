"""Two results have the same log.

## What it does
Compares the bytes of all logs that are judged together, logs in folders of a result included. A log that was named
twice, alone and with its folder, is not a copy of itself.

## Why it matters
A run is of one system and one benchmark. If two results have its log, at least one of them was not measured.

## Example
`results/box-preview/bert/result_3.txt` is byte for byte `results/box/bert/result_7.txt`.

## Instead
Measure each result, or submit it once.

## Source
MLPerf training rules, "Benchmark Results". MLCommons' programs look at one result at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import printable
from harness.findings import Fault, LogPlace
from harness.ruleset.model import RuleSet

SCOPE = "tree"


def check(logs: Sequence[LogPlace], ruleset: RuleSet) -> Iterator[Fault]:
    by_digest: dict[str, list[LogPlace]] = {}
    for log in logs:
        by_digest.setdefault(log.sha256, []).append(log)
    for same in by_digest.values():
        places = {log.path: (Path(log.result).absolute(), Path(log.path).absolute()) for log in same if len(same) > 1}
        for path, (result, file) in places.items():
            other = next((name for name, place in places.items() if place[0] != result and place[1] != file), None)
            if other is not None:
                yield Fault(path, None, f"identical, byte for byte, to {printable(other, 300)}")
