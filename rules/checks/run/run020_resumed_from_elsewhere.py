"""A run went on from something that is not its own last checkpoint.

## What it does
Compares each `tta_resume` with the log before it: the checkpoint must be the last complete one, by number, samples and
digest, and of this run: id, seed, configuration, terms, code, packages and data. Between checkpoint and `tta_resume`
there may be training, evaluations and further checkpoints only. The worker that goes on must draw the same initial
weights, have the same configuration and arithmetic, and be confined no less than the first.

## Why it matters
What happened after the checkpoint does not count, since it is done again. A checkpoint of another run would bring
training that was not on this clock.

## Example
`tta_resume` names checkpoint 3 with a digest that `tta_checkpoint_stop` of checkpoint 3 does not have.

## Instead
Let `tta run --resume` go on from the checkpoint of the same run.

## Source
docs/explanation/integrity.md, "Runs that were interrupted".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import mapping_or_empty
from harness.errors import printable
from harness.findings import Fault
from harness.log import isolation, keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_LOST = frozenset({*keys.BODY_KEYS, *keys.RESUME_KEYS, keys.TTA_NODE_LOST})


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    checkpoints = {resume.lineno: stop for stop, resume in timeline.interrupted(log)}
    for resume in log.all(keys.TTA_RESUME):
        if wrong := [*_other(log, resume, checkpoints.get(resume.lineno))]:
            yield Fault(str(log.path), resume.lineno, f"tta_resume: {'; '.join(wrong)}")
    for event in log.lost:
        if event.key not in _LOST:
            yield Fault(str(log.path), event.lineno, f"{printable(event.key)} between a checkpoint and tta_resume")
            break
    for restored in log.all(keys.TTA_RESTORED):
        if wrong := [*_unlike(log, restored)]:
            yield Fault(str(log.path), restored.lineno, f"tta_restored: {'; '.join(wrong)}")


def _other(log: RunLog, resume: Event, stop: Event | None) -> Iterator[str]:
    """What the line says that the log before it does not."""
    value, checkpoint = mapping_or_empty(resume.value), {} if stop is None else dict(stop.metadata)
    expected = {
        "checkpoint": checkpoint.get("number"),
        "digest": checkpoint.get("digest"),
        "run_id": log.field(keys.TTA_FORMAT, "run_id"),
        "seed": log.value(keys.SEED),
        "config_digest": _digest(log, keys.TTA_CONFIG),
        "terms_digest": log.field(keys.TTA_RULES, "terms_digest"),
        "code_digest": log.field(keys.TTA_CODE, "digest"),
        "packages_digest": log.field(keys.TTA_PACKAGES, "digest"),
        "data_digest": log.field(keys.TTA_DATA, "digest"),
    }
    for name, known in expected.items():
        if known is None or value.get(name) != known:
            yield f"{name} is {printable(value.get(name), 80)}, the log before it has {printable(known, 80)}"
    if resume.samples_count != checkpoint.get("samples_count"):
        yield f"samples_count is {resume.samples_count}, that of the checkpoint {checkpoint.get('samples_count')}"


def _unlike(log: RunLog, restored: Event) -> Iterator[str]:
    """In what the worker that goes on differs from the first."""
    value = mapping_or_empty(restored.value)
    start = log.first(keys.RUN_START)
    for name, known in {
        "weights_digest": None if start is None else start.metadata.get("weights_digest"),
        "resolved_digest": _digest(log, keys.TTA_RESOLVED),
        "numerics.flags": log.field(keys.TTA_NUMERICS, "flags"),
    }.items():
        outer, _, inner = name.partition(".")
        now = mapping_or_empty(value.get(outer)).get(inner) if inner else value.get(outer)
        if now != known:
            yield f"{name} is {printable(now, 80)}, that of the run {printable(known, 80)}"
    weaker = set(isolation.gaps(value.get("isolation"))) - set(isolation.gaps(log.value(keys.TTA_ISOLATION)))
    if weaker:
        yield f"the worker is less isolated than the first: {printable(', '.join(sorted(weaker)))}"


def _digest(log: RunLog, key: str) -> object:
    event = log.first(key)
    return None if event is None else event.metadata.get("digest")
