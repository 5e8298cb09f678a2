"""A value in the log is of the wrong type or incomplete.

## What it does
Checks the values that other checks rely on: which fields they have, and whether each is text, a whole number, a number,
a list or a boolean; whether the module in `tta_config`, if there is one, has a name, a digest and its parts; whether
its execution options, which older logs lack, are whole numbers or booleans; and whether each rank in `tta_world` states
its number, the world size, its host, its device and its versions.

## Why it matters
A check that does not find what it compares reports nothing. Values of the wrong type must not be a way around it.

## Example
`seed` is "17" (text), `tta_data` has no `digest`, or a rank names no host and would be taken to be on another's.

## Instead
Submit the log as it was written. If another program made it, write the values as harness/log/keys.py describes them.

## Source
The vocabulary: harness/log/keys.py. MLPerf's checker passes `train_samples` = "banana".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.base.values import mapping_or_empty
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import module

SCOPE = "log"
_TEXT, _WHOLE, _NUMBER = "text", "a whole number", "a number"
_TRUTH, _LIST, _MAP = "true or false", "a list", "a mapping"
_PHASES = ("run_s", "init_s", "data_s", "train_s", "eval_s", "checkpoint_s", "other_s")
_VALUES = {
    keys.SUBMISSION_BENCHMARK: _TEXT,
    keys.SUBMISSION_DIVISION: _TEXT,
    keys.SUBMISSION_ORG: _TEXT,
    keys.SUBMISSION_PLATFORM: _TEXT,
    keys.SUBMISSION_STATUS: _TEXT,
    keys.SEED: _WHOLE,
    keys.GLOBAL_BATCH_SIZE: _WHOLE,
    keys.TRAIN_SAMPLES: _WHOLE,
    keys.EVAL_SAMPLES: _WHOLE,
    keys.CACHE_CLEAR: _TRUTH,
    keys.TTA_WORLD: _LIST,
    keys.TTA_DATA_TOUCHED_EARLY: _LIST,
}
_FIELDS = {
    keys.TTA_FORMAT: {"version": _WHOLE, "harness": _TEXT, "run_id": _TEXT, "result_id": _TEXT, "index": _WHOLE},
    keys.TTA_RULES: {"ruleset": _TEXT, "terms_digest": _TEXT},
    keys.TTA_SYSTEM: {"name": _TEXT, "digest": _TEXT},
    keys.TTA_CONFIG: {
        "benchmark": _TEXT,
        "workload": _TEXT,
        "suite": _TEXT,
        "division": _TEXT,
        "seed": _WHOLE,
        "num_devices": _WHOLE,
        "precision": _TEXT,
        "full_curve": _TRUTH,
        "hyperparameters": _MAP,
    },
    keys.TTA_RESOLVED: {"hyperparameters": _MAP},
    keys.TTA_CODE: {"digest": _TEXT, "num_files": _WHOLE, "version": _TEXT},
    keys.TTA_PACKAGES: {"digest": _TEXT, "num_packages": _WHOLE, "python": _MAP},
    keys.TTA_LOADED: {"referee": _MAP},
    keys.TTA_ISOLATION: {"means": _TEXT, "no_new_privs": _TRUTH, "referee_dumpable": _TRUTH, "environment": _MAP},
    keys.TTA_NUMERICS: {"flags": _MAP, "versions": _MAP, "environment": _MAP},
    keys.TTA_INITIAL: {"weights_digest": _TEXT, "quality": _NUMBER, "num_examples": _WHOLE},
    keys.TTA_PREDICTIONS: {"num_bytes": _WHOLE},
    keys.TTA_WEIGHTS: {"num_bytes": _WHOLE},
    keys.TTA_DATA: {"digest": _TEXT, "num_files": _WHOLE, "num_bytes": _WHOLE},
    keys.TRACKED_STATS: {"train_loss": _NUMBER, "data_wait_s": _NUMBER, "throughput": _NUMBER},
    keys.TTA_CLOCK: {"mono_ns": _WHOLE},
    keys.TTA_LAUNCH: {"launcher": _MAP, "ranks_per_node": _WHOLE, "nodes": _LIST},
    keys.TTA_NODE_LOST: {"node": _WHOLE, "reason": _TEXT},
    keys.TTA_NODES_CLEAN: {"left": _MAP, "ahead_s": _MAP},
    keys.TTA_INTERRUPTED: {"reason": _TEXT, "evidence": _TEXT, "checkpoint": _WHOLE},
    keys.TTA_RESUME: {
        "checkpoint": _WHOLE,
        "digest": _TEXT,
        "run_id": _TEXT,
        "seed": _WHOLE,
        "config_digest": _TEXT,
        "terms_digest": _TEXT,
        "code_digest": _TEXT,
        "packages_digest": _TEXT,
        "data_digest": _TEXT,
        "lost_s": _NUMBER,
        "away_s": _NUMBER,
        "clock": _TEXT,
        "mono_ns": _WHOLE,
        "boot_id": _TEXT,
        "wall_drift_ms": _NUMBER,
        "cut_bytes": _WHOLE,
    },
    keys.TTA_RESTORED: {
        "world": _LIST,
        "isolation": _MAP,
        "numerics": _MAP,
        "resolved_digest": _TEXT,
        "weights_digest": _TEXT,
    },
    keys.TTA_ENERGY: {"source": _TEXT},
    keys.TTA_LEDGER: dict.fromkeys(_PHASES, _NUMBER),
    keys.TTA_END: {"num_events": _WHOLE, "wall_drift_ms": _NUMBER},
}
_MEETING = {"address": _TEXT, "port": _WHOLE}  # of the ranks of several nodes
_RANK = {"rank": _WHOLE, "world_size": _WHOLE, "host": _TEXT, "device": _TEXT, "versions": _MAP}
_METADATA = {
    keys.TTA_CONFIG: {"digest": _TEXT},
    keys.TTA_RESOLVED: {"digest": _TEXT},
    keys.RUN_START: {"samples_count": _WHOLE, "weights_digest": _TEXT},
    keys.BLOCK_START: {"samples_count": _WHOLE},
    keys.BLOCK_STOP: {"samples_count": _WHOLE},
    keys.EVAL_START: {"samples_count": _WHOLE},
    keys.EVAL_STOP: {"samples_count": _WHOLE},
    keys.EVAL_ACCURACY: {"samples_count": _WHOLE, "num_examples": _WHOLE, "predictions": _TEXT},
    keys.TTA_CHECKPOINT_START: {"samples_count": _WHOLE, "number": _WHOLE},
    keys.TTA_CHECKPOINT_STOP: {"samples_count": _WHOLE, "number": _WHOLE, "num_bytes": _WHOLE},
    keys.RUN_STOP: {"status": _TEXT, "reason": _TEXT, "samples_count": _WHOLE},
}


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event in log.events:
        if (form := _VALUES.get(event.key)) is not None and not _has_form(event.value, form):
            yield Fault(str(log.path), event.lineno, f"{event.key} is {printable(event.value)!r}; it must be {form}")
        if event.key in _FIELDS and not isinstance(event.value, dict):
            yield Fault(str(log.path), event.lineno, f"{event.key} is {printable(event.value)!r}; it must be a mapping")
        fields = mapping_or_empty(event.value)
        wrong = [*_wrong(fields, _FIELDS.get(event.key, {}) if fields else {}, "")]
        if event.key == keys.TTA_FORMAT and keys.ATTEMPT_FIELD in fields:
            wrong += _wrong(fields, {keys.ATTEMPT_FIELD: _WHOLE}, "")
        if event.key == keys.TTA_LAUNCH and fields and not _is_single(fields.get("nodes")):
            wrong += _wrong(fields, _MEETING, "")
        if event.key in (keys.TTA_CONFIG, keys.TTA_RESOLVED):
            wrong += [*_module(fields), *_execution(fields)]
        wrong += _ranks(event.value) if event.key == keys.TTA_WORLD else []
        wrong += _wrong(event.metadata, _METADATA.get(event.key, {}), "metadata.")
        if wrong:
            yield Fault(str(log.path), event.lineno, f"{event.key}: {'; '.join(wrong)}")


def _module(fields: Mapping[str, object]) -> list[str]:
    try:
        module.parse_module(fields.get("module"))
    except ValueError as error:
        return [f"module is malformed: {error}"]
    return []


def _execution(fields: Mapping[str, object]) -> list[str]:
    options = fields.get(keys.EXECUTION_FIELD, {})
    if not isinstance(options, dict):
        return [f"{keys.EXECUTION_FIELD} is {printable(options)!r} and must be {_MAP}"]
    return [
        f"{keys.EXECUTION_FIELD}.{printable(name, 40)} is {printable(value)!r} and must be {_TRUTH} or {_WHOLE}"
        for name, value in options.items()
        if not isinstance(value, int)
    ]


def _is_single(nodes: object) -> bool:
    return isinstance(nodes, list) and len(nodes) == 1


def _ranks(world: object) -> list[str]:
    ranks = [rank for rank in world if isinstance(rank, dict)] if isinstance(world, list) else []  # others are SYS006's
    return [fault for place, rank in enumerate(ranks) for fault in _wrong(rank, _RANK, f"[{place}].")]


def _wrong(fields: Mapping[str, object], forms: Mapping[str, str], prefix: str) -> Iterator[str]:
    for name, form in forms.items():
        if name not in fields:
            yield f"{prefix}{name} is missing"
        elif not _has_form(fields[name], form):
            yield f"{prefix}{name} is {printable(fields[name])!r} and must be {form}"


def _has_form(value: object, form: str) -> bool:
    if form == _TRUTH:
        return isinstance(value, bool)
    kinds = {_TEXT: str, _WHOLE: int, _NUMBER: int | float, _LIST: list, _MAP: dict}
    return isinstance(value, kinds[form]) and not isinstance(value, bool)
