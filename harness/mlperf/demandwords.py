"""What the lines of a round's log do not meet, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.errors import printable
from harness.log.events import EVAL_ACCURACY, Event
from harness.mlperf.formula import Formula

_FIELD = re.compile(r"metadata\.(\w+)")
_IF_THERE = re.compile(r"not has\(([\w.]+)\) or (.+)")  # the rounds' way to say "where it is there"
_HAS = re.compile(r"has\(([\w.]+)\)")
_PRESENT = re.compile(r"has\(metadata\.\w+\)(?: or has\(metadata\.\w+\))*")
_NOT_MET = "is not met"


def of_line(line: Event, demand: str, why: str, num_lines: int) -> str:
    """That `line` is the first of `num_lines` that do not meet `demand`; why: as the formula says it."""
    fields = list(dict.fromkeys(_FIELD.findall(demand)))
    reason = "" if why == _NOT_MET else f" ({why.replace('metadata.', '')})"
    if _PRESENT.fullmatch(demand):
        absent = f"has no {fields[0]}" if len(fields) == 1 else f"has neither {' nor '.join(fields)}"
        asked = "it must be there" if len(fields) == 1 else "one of them must be there"
        return f"{line.key} {absent} in its metadata; {asked}{on(num_lines)}"
    seen = f"is {shown(line.value)}"
    if fields:
        metadata = line.metadata
        parts = [f"{name} {shown(metadata[name])}" if name in metadata else f"no {name}" for name in fields]
        seen = f"has {' and '.join(parts)} in its metadata"
    return f"{line.key} {seen}; it must be so that {_in_words(demand)}{reason}{on(num_lines)}"


def _in_words(demand: str) -> str:
    if match := _IF_THERE.fullmatch(demand):
        demand = f"{match[2]}, where it has {match[1]}"
    return _HAS.sub(r"it has \1", demand).replace("metadata.", "")


def of_target(key: str, target: Formula, values: Sequence[Any]) -> str:
    """That none of `values` reaches `target`."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    span = f"they lie from {min(numbers):g} to {max(numbers):g}" if numbers else f"the last is {shown(values[-1])}"
    what = "evaluation" if key == EVAL_ACCURACY else key
    return f"none of {len(values)} {what}s reaches the target, {target.text}; {span}"


def on(num_lines: int) -> str:
    """On how many lines, where it is more than one."""
    return f", on {num_lines:,} lines" if num_lines > 1 else ""


def shown(value: object) -> str:
    """`value` so that a text can be told from a number."""
    return printable(repr(value) if isinstance(value, str) else value, 60)
