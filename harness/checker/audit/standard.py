"""What a ruleset says about the benchmark of a result, in the few numbers that signals need. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime

from harness.base.values import finite_number
from harness.checker.audit.facts import Standard
from harness.log import keys
from harness.mlperf.score import is_closed
from harness.ruleset.model import RuleSet
from harness.submission.result import Result

_TARGET = re.compile(r"value(?:\.\w+)? (>=|<=|>|<) ([0-9.]+)")


def standard(result: Result, ruleset: RuleSet | None, today: date) -> Standard:
    """The standard for the benchmark, division and batch size that the first log names; empty if it is unknown."""
    today_ms = datetime.combine(today, datetime.min.time()).timestamp() * 1e3
    if ruleset is None or not result.runs:
        return Standard(today_ms=today_ms)
    name, batch = result.benchmark, finite_number(result.runs[0].value(keys.GLOBAL_BATCH_SIZE))
    stated = result.runs[0].value(keys.SUBMISSION_DIVISION)
    division = stated if isinstance(stated, str) else "closed"
    if ruleset.round is not None:
        limit_s = ruleset.round.max_init_s.get(division)
        found = ruleset.round.benchmark(name)
        if found is None:
            return Standard(max_init_s=limit_s, today_ms=today_ms)
        formula = found.target()
        match = _TARGET.search(formula.text) if formula is not None else None
        # In the open division training and evaluation may differ, so the reference is not a standard there.
        references = found.convergence if is_closed(division) else ()
        points = [item for item in references if item.global_batch_size == batch]
        return Standard(
            target=float(match.group(2)) if match else None,
            direction="min" if match and match.group(1).startswith("<") else "max",
            reference=points[0].points if points else (),
            reference_unit=references[0].unit if references else "samples",
            has_samples=any(item.unit == "samples" for item in found.convergence),
            distance=found.distance if references else None,
            max_init_s=limit_s,
            num_runs=found.num_runs,
            benchmark=found,
            today_ms=today_ms,
        )
    limit_s = ruleset.timing.max_init_s.get(division)
    rules = ruleset.benchmarks.get(name) if name is not None else None
    if rules is None:
        return Standard(max_init_s=limit_s, today_ms=today_ms)
    reference = rules.reference_convergence if is_closed(division) else ()
    return Standard(
        target=rules.target,
        direction=rules.metric.direction,
        confirm_evaluations=rules.confirm_evaluations,
        reference=tuple(
            float(item) for point in reference if point.global_batch_size == batch for item in point.samples_to_target
        ),
        is_interpolated=True,
        max_init_s=limit_s,
        num_runs=rules.required_runs(division),
        today_ms=today_ms,
    )
