"""Events and their line format: MLPerf's MLLOG, with order, monotonic time and a hash chain in the metadata.

    :::MLLOG {"namespace": "", "time_ms": 1763683200123, "event_type": "INTERVAL_START", "key": "run_start",
              "value": null, "metadata": {"file": "...", "lineno": 42, "seq": 17, "elapsed_ns": 8123456789,
              "prev": "<sha256 of the line before>"}}

`seq` counts from 0; `elapsed_ns` is monotonic since the referee's clock was made; `prev` is the SHA-256 of
the bytes of our line before, from its `:::MLLOG` to its last brace (64 zeros on the first). The chain shows
damage and casual edits; whoever rewrites a whole log can make a new one, so it is no signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

TOKEN = ":::MLLOG "  # noqa: S105  (no secret: how a line of ours begins)
FORMAT_VERSION = 1
CHAIN_START = "0" * 64
NAMESPACE = ""

EventType = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]
EVENT_TYPES: tuple[str, ...] = ("INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME")

# MLPerf's words.
SUBMISSION_BENCHMARK = "submission_benchmark"
SUBMISSION_DIVISION = "submission_division"
SUBMISSION_ORG = "submission_org"
SUBMISSION_PLATFORM = "submission_platform"
SUBMISSION_STATUS = "submission_status"
CACHE_CLEAR = "cache_clear"
SEED = "seed"
GLOBAL_BATCH_SIZE = "global_batch_size"
TRAIN_SAMPLES = "train_samples"
EVAL_SAMPLES = "eval_samples"
INIT_START, INIT_STOP = "init_start", "init_stop"
RUN_START, RUN_STOP = "run_start", "run_stop"
BLOCK_START, BLOCK_STOP = "block_start", "block_stop"
EVAL_START, EVAL_STOP = "eval_start", "eval_stop"
EVAL_ACCURACY = "eval_accuracy"
TRACKED_STATS = "tracked_stats"
POWER_READING = "power_reading"

# Ours, where MLPerf has no word.
TTA_FORMAT = "tta_format"  # {"version": 1, "harness": "0.1.0", "run_id": "<hex>", "result_id": "<hex>", "index": 0}
TTA_CLOCK = "tta_clock"  # {"mono_ns": n}: the system's monotonic clock where elapsed_ns is zero
TTA_RULES = "tta_rules"  # {"ruleset": "v1", "terms_digest": "<sha256>", "prices_digest": "<sha256 of the price book>"}
PRICES_FIELD = "prices_digest"  # of TTA_RULES; absent in logs that were made before there was one
TTA_CONFIG = "tta_config"  # the run's configuration and module; metadata.digest is the SHA-256 of their canonical JSON
TTA_RESOLVED = "tta_resolved"  # what the worker says it is running with, after prepare()
TTA_SYSTEM = "tta_system"  # {"name": "...", "digest": "<sha256 of the system description as canonical JSON>"}
TTA_WORLD = "tta_world"  # [{"rank", "world_size", "host", "pid", "device", "versions": {...}}, ...]
TTA_DATA = "tta_data"  # {"digest": "<sha256>", "num_files": n, "num_bytes": n}
TTA_DATA_OPEN_START, TTA_DATA_OPEN_STOP = "tta_data_open_start", "tta_data_open_stop"  # Session.start
TTA_DATA_TOUCHED_EARLY = "tta_data_touched_early"  # files of the data opened before run_start: [] if none
TTA_ENERGY = "tta_energy"  # what `harness.energy.energyevent` makes of a run's energy
TTA_LEDGER = "tta_ledger"  # {"init_s", "data_s", "train_s", "eval_s", "checkpoint_s", "other_s", "run_s"}
TTA_END = "tta_end"  # last line of a run that was closed: {"num_events": n, "wall_drift_ms": n}

HYPERPARAMETER_PREFIX = "opt_"

# When a run writes them, in this order. The keys of BODY_KEYS come once a block or evaluation, all others once.
HEADER_KEYS = (
    TTA_FORMAT,
    TTA_RULES,
    SUBMISSION_BENCHMARK,
    SUBMISSION_DIVISION,
    SUBMISSION_ORG,
    SUBMISSION_PLATFORM,
    SUBMISSION_STATUS,
    TTA_SYSTEM,
    TTA_CONFIG,
    SEED,
    TRAIN_SAMPLES,
    EVAL_SAMPLES,
    GLOBAL_BATCH_SIZE,
    TTA_DATA,
    CACHE_CLEAR,
)
OPENING_KEYS = (
    TTA_WORLD,
    INIT_START,
    INIT_STOP,
    TTA_RESOLVED,
    RUN_START,
    TTA_DATA_OPEN_START,
    TTA_DATA_OPEN_STOP,
    TTA_DATA_TOUCHED_EARLY,
)
BODY_KEYS = (BLOCK_START, BLOCK_STOP, TRACKED_STATS, EVAL_START, EVAL_STOP, EVAL_ACCURACY)
SUMMARY_KEYS = (TTA_ENERGY, TTA_LEDGER, TTA_END)  # after run_stop


class Event(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One line of a log. `lineno` is the line of the file, counted from 1."""

    time_ms: int | float
    event_type: str
    key: str
    value: Any
    metadata: Mapping[str, Any]
    lineno: int = 0

    def __eq__(self, other: object) -> bool:
        """By the fields above, whatever else a line had, as the one that `harness.log.loglines` reads."""
        if not isinstance(other, Event):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Event.__struct_fields__)

    def __ne__(self, other: object) -> bool:
        return not self == other  # msgspec's own goes by the class

    @property
    def elapsed_ns(self) -> int | None:
        """Monotonic nanoseconds; None in a log of another program."""
        elapsed = self.metadata.get("elapsed_ns")
        return elapsed if isinstance(elapsed, int) and not isinstance(elapsed, bool) else None

    @property
    def samples_count(self) -> int | None:
        """Samples trained on when the event happened; None if it does not say."""
        count = self.metadata.get("samples_count")
        return count if isinstance(count, int) and not isinstance(count, bool) else None


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no white space: one text for one value.

    Raises:
        ValueError: NaN or an infinity is in it.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: object) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def format_line(event: Event) -> str:
    """The event as a line, without line end.

    Raises:
        ValueError: NaN or an infinity is in it: such a number has no JSON, and no place in a log.
    """
    record = {
        "namespace": NAMESPACE,
        "time_ms": event.time_ms,
        "event_type": event.event_type,
        "key": event.key,
        "value": event.value,
        "metadata": dict(event.metadata),
    }
    return TOKEN + json.dumps(record, allow_nan=False)


def line_digest(line: str) -> str:
    """What the next line carries as `prev`."""
    return hashlib.sha256(line.encode()).hexdigest()
