"""The power logs do not match the runs one to one.

## What it does
If there is a folder power/: expects power/<name of the log>/node_<k>.txt for every run, k counted from 0, the same
number of nodes and switches in each, and as many nodes as the system description has (`number_of_nodes`).

## Why it matters
A run without its power log, or with one node fewer, has too small an energy. So has a result whose runs all leave out
the same node.

## Example
power/result_3 is missing; power/result_4 has node_0.txt and node_2.txt.

## Instead
Put the logs of every node of every run there.

## Source
MLPerf power measurement rules for training; mlperf_logging, power_checker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"
_POWER = "power"
_NAME = re.compile(r"(node|sw)_([0-9]{1,6})\.txt")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    folder = f"{_POWER}/"
    if not any(name.startswith(folder) for name in result.files):
        return
    logs = [name.removesuffix(".txt") for name in layout.log_names(result.files)]
    shapes: dict[str, tuple[int, int]] = {}
    for log in logs:
        there = [name.removeprefix(f"{folder}{log}/") for name in result.files if name.startswith(f"{folder}{log}/")]
        if not there:
            yield Fault(str(result.path / _POWER / log), None, "this run has no power log")
            continue
        for kind in ("node", "sw"):
            numbers = sorted(int(match[2]) for name in there if (match := _NAME.fullmatch(name)) and match[1] == kind)
            if numbers != list(range(len(numbers))):
                where = str(result.path / _POWER / log)
                yield Fault(where, None, f"the logs {kind}_<k>.txt must be numbered from 0 without a gap")
        kinds = [match[1] for name in there if (match := _NAME.fullmatch(name))]
        shapes[log] = (kinds.count("node"), kinds.count("sw"))
    if not shapes:
        return
    usual = max(shapes.values(), key=list(shapes.values()).count)
    for log, shape in shapes.items():
        if shape != usual:
            seen = f"{shape[0]} nodes and {shape[1]} switches; the others have {usual[0]} and {usual[1]}"
            yield Fault(str(result.path / _POWER / log), None, f"this run has {seen}")
    if result.num_nodes is not None and usual[0] != result.num_nodes:
        seen = f"{usual[0]} nodes; the system description has {result.num_nodes}"
        yield Fault(str(result.path / _POWER), None, f"the runs have power logs of {seen}")
