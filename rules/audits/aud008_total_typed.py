"""A total stated in the log contradicts the times of its lines.

## What it does
Compares the time from run_start to run_stop with the totals that the run itself states: RESULT lines of the launcher,
and `duration`, `TTT` and the like on run_stop.

## Why it matters
The same seconds are in the file twice. If only one of them was changed, they differ.

## Example
`RESULT,LLM_FINETUNING,,1377,…`, but 119 s from run_start to run_stop.

## Instead
State no totals; they follow from the lines.

## Source
NVIDIA's launch scripts print RESULT lines; AMD's and Graphcore's callbacks put a duration on run_stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_apart_fraction", "max_launch_s")
NAMES = ("duration", "TTT", "time_to_train", "training_time", "run_duration")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    if run.run_s is None or run.stop is None:
        return
    first_ms, last_ms = run.wall_ms or (0.0, 0.0)
    for seconds, line in run.text.totals_s:
        # The launcher's total covers the run, the rest of the log, and the time to launch.
        most_s = (last_ms - first_ms) / 1e3 * (1 + rule["max_apart_fraction"]) + rule["max_launch_s"]
        if not run.run_s - 2 <= seconds <= most_s:
            yield _differing(run, line, seconds, "the launcher's total is")
    for name in NAMES:
        stated = _number(run.stop.metadata.get(name))
        if stated is not None and abs(stated - run.run_s) > rule["max_apart_fraction"] * run.run_s:
            yield _differing(run, run.stop.lineno, stated, f"{name} on run_stop is")


def _number(value: object) -> float | None:
    if isinstance(value, str) and (match := re.match(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:s|sec|seconds)\b", value)):
        return float(match.group(1))
    return finite_number(value)


def _differing(run: RunFacts, line: int, seconds: float, words: str) -> Evidence:
    assert run.run_s is not None
    message = f"{words} {seconds:.1f} s; run_start to run_stop is {run.run_s:.1f} s"
    return evidence(run.path, line, message, abs(seconds - run.run_s) / max(seconds, run.run_s), stated_s=seconds)
