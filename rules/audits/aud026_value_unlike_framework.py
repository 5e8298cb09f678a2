"""The framework's own value of an evaluation is not the one in the log.

## What it does
Looks for values that the framework itself prints (`eval_mlm_accuracy: 0.7213`, COCO's average precision) between an
evaluation and its neighbours. If most evaluations of a result have such a value of one name, to the digits printed, the
ones that have another are reported.

## Why it matters
The same number is in the file twice. If only the line of the log was changed, they differ.

## Example
The framework prints an average precision of 0.338, the log has 0.341.

## Instead
Leave the values as they were measured.

## Source
Logs of RetinaNet and BERT of published rounds, in which all evaluations agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from harness.checker.audit.facts import Point, RunFacts, Subject
from harness.checker.audit.log_text import Printed
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_agreeing_fraction",)


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    compared: dict[str, list[tuple[RunFacts, Point, Printed | None]]] = {}
    for run in subject.runs:
        by_name: dict[str, list[Printed]] = {}
        for item in run.text.qualities:
            by_name.setdefault(item.name, []).append(item)
        for name, printed in sorted(by_name.items()):
            compared.setdefault(name, []).extend((run, *pair) for pair in _compared(run, printed))
    for name, found in compared.items():
        odd = [(run, point, other) for run, point, other in found if other is not None]
        if odd and len(found) - len(odd) >= rule["min_agreeing_fraction"] * len(found):
            run, point, other = odd[0]
            yield evidence(
                run.path,
                point.line,
                f"the quality is {point.value!r}; the framework's {name} on line {other.line} is {other.text} "
                f"({len(odd)} of {len(found)} evaluations of the result differ)",
                1.0,
                name=name,
                times=len(odd),
            )


def _compared(run: RunFacts, printed: Sequence[Printed]) -> Iterator[tuple[Point, Printed | None]]:
    """Each evaluation with one of these values, in the order of the file, near it; and that value if it is another."""
    places = [item.line for item in printed]
    lines = [0, *(point.line for point in run.evaluations), run.log.num_lines + 1]
    for nth, point in enumerate(run.evaluations, 1):
        near = printed[bisect_right(places, lines[nth - 1]) : bisect_left(places, lines[nth + 1])]
        if near:
            yield point, None if any(item.is_of(point.value) for item in near) else near[0]
