"""TODO-DOC."""

from __future__ import annotations

FORMAT_VERSION = 1
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
TTA_ENERGY = "tta_energy"  # what `harness.energy.run_energy` makes of a run's energy
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
