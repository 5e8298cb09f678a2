"""Keys and fields of MLPerf's logs that several checks of this family go by."""

from __future__ import annotations

from harness.log import keys

# Keys that a run writes repeatedly, from one process.
REPEATED_KEYS = (
    keys.BLOCK_START,
    keys.BLOCK_STOP,
    "epoch_start",
    "epoch_stop",
    keys.EVAL_START,
    keys.EVAL_STOP,
    keys.EVAL_ACCURACY,
)
# Fields of metadata that state a position in training; convergence is counted by one of them.
POSITION_FIELDS = ("samples_count", "epoch_num", "first_epoch_num", "step_num")
