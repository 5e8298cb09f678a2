"""Keys and fields of MLPerf's logs that several checks of this family go by."""

from __future__ import annotations

from harness.mlperf.compliance import EVALUATION_KEYS, TRAINING_KEYS

REPEATED_KEYS = (*TRAINING_KEYS, *EVALUATION_KEYS)
# Fields of metadata that state a position in training; convergence is counted by one of them.
POSITION_FIELDS = ("samples_count", "epoch_num", "first_epoch_num", "step_num")
