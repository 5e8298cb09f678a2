"""The keys of a run's log: MLPerf's where MLPerf has one, `tta_*` where it has none.

The comments are what the reference page of the log format shows.
"""

from __future__ import annotations

FORMAT_VERSION = 2

# MLPerf's keys.
SUBMISSION_BENCHMARK = "submission_benchmark"  # the benchmark, `<workload>_<suite>`
SUBMISSION_DIVISION = "submission_division"  # `closed` or `open`
SUBMISSION_ORG = "submission_org"  # the submitter named in the system description
SUBMISSION_PLATFORM = "submission_platform"  # the system's name
SUBMISSION_STATUS = "submission_status"  # the availability stated in the system description
SEED = "seed"  # the seed of the run
TRAIN_SAMPLES = "train_samples"  # number of training examples
EVAL_SAMPLES = "eval_samples"  # number of examples in the test set
GLOBAL_BATCH_SIZE = "global_batch_size"  # samples in a step, over all devices
CACHE_CLEAR = "cache_clear"  # whether the page cache was cleared; metadata: `method`, `num_files`
INIT_START = "init_start"  # start of initialisation
INIT_STOP = "init_stop"  # end of initialisation
RUN_START = "run_start"  # the clock starts; metadata: `samples_count`, `weights_digest`
RUN_STOP = "run_stop"  # the clock stops; metadata: `status`, `reason`, `samples_count`, `evidence`
BLOCK_START = "block_start"  # start of a block of training; metadata: `samples_count`
BLOCK_STOP = "block_stop"  # end of a block, with the device synchronised; metadata: `samples_count`
TRACKED_STATS = "tracked_stats"  # of the block: `train_loss`, `data_wait_s`, `throughput` in samples per second
EVAL_START = "eval_start"  # start of an evaluation; metadata: `samples_count`
EVAL_STOP = "eval_stop"  # end of an evaluation; metadata: `samples_count`
EVAL_ACCURACY = "eval_accuracy"  # the quality; metadata: `samples_count`, `num_examples`, `predictions` (SHA-256)
POWER_READING = "power_reading"  # in a node's power log: watts
HYPERPARAMETER_PREFIX = "opt_"

# Keys of `tta`.
TTA_FORMAT = "tta_format"  # {"version": 2, "harness": "0.1.0", "run_id": "<hex>", "result_id": "<hex>", "index": 0}
TTA_REPRODUCES = (
    "tta_reproduces"  # {"digest": "<sha256>"}: the result, by the digest of its logs, that this run repeats
)
TTA_TICKET = "tta_ticket"  # the ticket of a witnessed run, and what its seed is made of: see `harness.log.ticket`
TTA_SEEDS = "tta_seeds"  # {"fixed": {source: seed}, "varied": {source: seed}}: see `harness.log.seeds`
ATTEMPT_FIELD = "attempt"  # a field of TTA_FORMAT: 1, or which attempt at this run it is
TTA_LAUNCH = "tta_launch"  # the launcher or job, the facts of each node; of several, also address and port of rank 0
TTA_NODE_LOST = "tta_node_lost"  # before run_stop: {"node": n, "reason": why the run ended on that node}
TTA_NODES_CLEAN = "tta_nodes_clean"  # {"left": {node: processes that had outlived the ranks, null: unknown}, "ahead_s"}
TTA_CLOCK = "tta_clock"  # {"mono_ns": n}: the system's monotonic clock where elapsed_ns is zero
TTA_RULES = "tta_rules"  # {"ruleset": "v1", "terms_digest": "<sha256>", "prices_digest": "<sha256 of the price book>"}
PRICES_FIELD = "prices_digest"  # a field of TTA_RULES
TTA_CODE = "tta_code"  # {"digest", "num_files", "commit", "is_clean", "version"}: the code of `tta`
TTA_PACKAGES = "tta_packages"  # {"digest", "num_packages", "python": {...}}: the installed distributions
TTA_CONFIG = "tta_config"  # the run's configuration, module and execution options; metadata.digest: its SHA-256
EXECUTION_FIELD = "execution"  # a field of TTA_CONFIG
TTA_RESOLVED = "tta_resolved"  # the configuration that the worker reports after prepare()
TTA_NUMERICS = "tta_numerics"  # {"flags", "versions", "environment"}: the arithmetic in force after prepare()
TTA_SYSTEM = "tta_system"  # {"name": "...", "digest": "<sha256 of the system description as canonical JSON>"}
TTA_REPLAY = "tta_replay"  # {"steps", "losses": bits, "batches", "weights": digests}: see `harness.run.replay`
TTA_EQUIVALENT = "tta_equivalent"  # {"module", "sha256", "seeds", "steps", "quantities": {...}, "is_equivalent"}
TTA_INITIAL = "tta_initial"  # before any training: {"weights_digest": "<sha256>", "quality": q, "num_examples": n}
TTA_WORLD = "tta_world"  # [{"rank", "world_size", "host", "pid", "device", "versions": {...}}, ...]
TTA_ISOLATION = "tta_isolation"  # what confines the worker: see `harness.log.isolation`; and its environment
TTA_DATA = "tta_data"  # {"digest": "<sha256>", "num_files": n, "num_bytes": n}
TTA_DATA_OPEN_START, TTA_DATA_OPEN_STOP = "tta_data_open_start", "tta_data_open_stop"  # Session.start
TTA_DATA_TOUCHED_EARLY = "tta_data_touched_early"  # data files that were opened before run_start; [] if none
TTA_CHECKPOINT_START = "tta_checkpoint_start"  # start of a checkpoint; metadata: `samples_count`, `number`
TTA_CHECKPOINT_STOP = "tta_checkpoint_stop"  # its end; metadata: as its start, `digest` (null if it failed), `reason`
TTA_INTERRUPTED = "tta_interrupted"  # {"reason", "evidence", "checkpoint": n}: the run can go on from that checkpoint
TTA_RESUME = "tta_resume"  # the run goes on: {"checkpoint": n, "digest", "lost_s", "away_s", "clock", "mono_ns", ...}
TTA_RESTORE_START, TTA_RESTORE_STOP = "tta_restore_start", "tta_restore_stop"  # start of another worker, Session.load
TTA_RESTORED = "tta_restored"  # {"world", "isolation", "numerics", "weights_digest"} of the worker that goes on
TTA_PREDICTIONS = "tta_predictions"  # of the last evaluation: {"file": "<name>", null if not kept, "num_bytes": n}
TTA_ENERGY = "tta_energy"  # the run's energy, as `harness.energy.run_energy` writes it
TTA_LEDGER = "tta_ledger"  # {"init_s", "data_s", "train_s", "eval_s", "checkpoint_s", "other_s", "run_s"}
TTA_LOADED = "tta_loaded"  # {"referee": {...}, "worker": {...}, "evaluator": {...}}: what they had loaded
TTA_WEIGHTS = (
    "tta_weights"  # of the last evaluation, if asked: {"file": null if apart, "num_bytes", "sha256", "reason"}
)
TTA_END = "tta_end"  # last line of a log that was closed: {"num_events": n, "wall_drift_ms": n}

# The keys in the order in which a run writes them; those of BODY_KEYS once per block or evaluation, the others once.
HEADER_KEYS = (
    TTA_FORMAT,
    TTA_RULES,
    TTA_CODE,
    TTA_PACKAGES,
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
REPRODUCTION_KEYS = (TTA_REPRODUCES,)  # in the header of a run that `tta reproduce` made
VARIANCE_KEYS = (TTA_SEEDS,)  # in the header of a run that `tta variance` made
WITNESS_KEYS = (TTA_TICKET,)  # in the header of a witnessed run
# Before the opening: of a closed run with a reimplementation, and where the rules ask for the first steps.
REPLAY_KEYS = (TTA_EQUIVALENT, TTA_REPLAY)
OPENING_KEYS = (
    TTA_INITIAL,
    TTA_WORLD,
    TTA_ISOLATION,
    INIT_START,
    INIT_STOP,
    TTA_RESOLVED,
    TTA_NUMERICS,
    RUN_START,
    TTA_DATA_OPEN_START,
    TTA_DATA_OPEN_STOP,
    TTA_DATA_TOUCHED_EARLY,
)
NODES_KEYS = (TTA_LAUNCH, TTA_NODE_LOST, TTA_NODES_CLEAN)  # of a run on several nodes; the first also of one in a job
BODY_KEYS = (BLOCK_START, BLOCK_STOP, TRACKED_STATS, EVAL_START, EVAL_STOP, EVAL_ACCURACY)
# Among them, in runs with checkpoints and in those that were interrupted.
RESUME_KEYS = (
    TTA_CHECKPOINT_START,
    TTA_CHECKPOINT_STOP,
    TTA_INTERRUPTED,
    TTA_RESUME,
    TTA_RESTORE_START,
    TTA_RESTORE_STOP,
    TTA_RESTORED,
)
WEIGHTS_KEYS = (TTA_WEIGHTS,)  # among the last, of a run whose weights are kept
SUMMARY_KEYS = (TTA_PREDICTIONS, TTA_ENERGY, TTA_LEDGER, TTA_LOADED, TTA_END)  # after run_stop
