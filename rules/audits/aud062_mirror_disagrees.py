"""The MLflow mirror contradicts the log, or has runs that were not submitted.

## What it does
Compares each run with the run of the same id in the mirror: the digest of the log, and the quality of every evaluation.
Runs of the same result that only the mirror has are listed.

## Why it matters
The mirror was written during the run by another process. A line that was changed afterwards differs, and a run that was
left out is still there.

## Example
At 30,720 samples the log has 0.921 and the mirror 0.893.

## Instead
Submit all logs of a result as they were written.

## Source
The mirror of this harness (`tta sync`). MLflow runs can be edited by their owner, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.mlflow_db import MirrorRun
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "result"
LIMITS = ("max_relative",)


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    mirror = {run.run_id: run for run in subject.mirror}
    shown = {run.log.field(keys.TTA_FORMAT, "run_id"): run for run in subject.runs}
    for run_id, run in shown.items():
        if run_id in mirror:
            yield from _compared(run, mirror[run_id], rule["max_relative"])
    results = {run.log.field(keys.TTA_FORMAT, "result_id") for run in subject.runs} - {None}
    hidden = [run for run in subject.mirror if run.tags.get("tta.submission_id") in results and run.run_id not in shown]
    if hidden:
        names = ", ".join(run.run_id for run in hidden[:5])
        message = f"the mirror has {len(hidden)} runs of this result that are not here ({names})"
        yield evidence(subject.path, None, message, 1.0, runs=len(hidden))


def _compared(run: RunFacts, other: MirrorRun, max_relative: float) -> Iterator[Evidence]:
    curves = [values for name, values in other.metrics.items() if _is_quality(name)]
    if len(curves) == 1:
        for point in run.curve:
            value = curves[0].get(int(point.position or 0))
            if value is not None and abs(value - point.value) > max_relative * max(abs(value), abs(point.value)):
                message = f"the quality at {point.position:g} samples is {point.value:g}; the mirror has {value:g}"
                yield evidence(run.path, point.line, message, 1.0, log=point.value, mirror=value)
                return
        missing = sorted(set(curves[0]) - {int(point.position or 0) for point in run.curve})
        if missing:
            message = f"the mirror has {len(missing)} evaluations that the log lacks, the first at {missing[0]} samples"
            yield evidence(run.path, None, message, 1.0, missing=len(missing))
            return
    digest = other.tags.get("tta.log_sha256")
    if digest is not None and digest != run.log.sha256:
        message = f"the mirror was made from a log with different bytes (SHA-256 {digest[:16]}...)"
        yield evidence(run.path, None, message, 0.8, digest=digest)


def _is_quality(name: str) -> bool:
    return name.startswith("eval/") and name not in ("eval/target", "eval/elapsed_s")
