"""Two nodes, or two runs, have the same power trace.

## What it does
Compares the readings of all meters of a result, in order and to the last digit.

## Why it matters
No two machines draw the same power for minutes. A trace that occurs twice was measured once.

## Example
node_0.txt and node_3.txt have the same 600 readings.

## Instead
Measure each node in each run.

## Source
MLPerf's power checker compares the names and numbers of files and never opens a trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_different",)


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    seen: dict[tuple[float, ...], str] = {}
    for run in subject.runs:
        for node in run.log.nodes:
            for meter, samples in node.samples.items():
                values = [sample.value for sample in samples if sample.value is not None]
                # Counters start at arbitrary values; what they count from there is compared.
                spec = node.specs.get(meter)
                first = values[0] if values and spec is not None and spec.kind == "energy_j" else 0.0
                readings = tuple(round(value - first, 6) for value in values)
                if node.is_switch or len(set(readings)) < rule["min_different"]:
                    continue
                other = seen.setdefault(readings, str(node.path))
                if other != str(node.path):
                    yield evidence(node.path, None, f"this trace has the same {len(readings)} readings as {other}", 1.0)
