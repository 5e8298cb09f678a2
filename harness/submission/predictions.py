"""The predictions of a run's last evaluation, kept next to its log so that the quality can be computed again."""

from __future__ import annotations

import re

PREDICTIONS_PATTERN = re.compile(r"predictions_(0|[1-9][0-9]{0,3})\.npz")
MAX_BYTES = 64 << 20  # larger ones are not kept


def predictions_name(index: int) -> str:
    """Return the name of the file with the predictions of run `index`."""
    return f"predictions_{index}.npz"
