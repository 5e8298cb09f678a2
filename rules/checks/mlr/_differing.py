"""The finding on runs of a result that differ, which MLR004 and MLR005 share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.errors import printable
from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import score


def differing(logs: Sequence[RunLog], names: Sequence[str]) -> Iterator[Fault]:
    """A finding for each key of `names` whose last value is not the same in all logs."""
    for name, values in score.differing_values(logs, names).items():
        (first, _), (second, log) = list(values.items())[:2]
        message = f"{name} is {printable(second, 60)}; it is {printable(first, 60)} in {logs[0].path.name}"
        yield Fault(str(log.path), log.line_of(name), printable(message))
