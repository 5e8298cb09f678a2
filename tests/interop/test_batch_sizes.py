"""What is a batch size: MLCommons' convergence checker and `tta`, on results whose logs all state the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mlperflog import find
from tests.rules.roundbox import RoundBox

pytest.importorskip("mlperf_logging")

from tests.interop.test_mlperf_results import opinions


@pytest.mark.parametrize(
    ("size", "theirs", "ours"),
    [
        (256, "accept", "accept"),
        (256.0, "accept", "accept"),
        (256.5, "accept", "refuse"),
        (True, "accept", "refuse"),
        ("256", "crash", "refuse"),
        (None, "crash", "refuse"),
    ],
)
def test_a_batch_size_is_a_whole_number(size: Any, theirs: str, ours: str, tmp_path: Path) -> None:
    """However it is written; a text crashes their program, and half a sample is interpolated there."""
    box = RoundBox(tmp_path / "tree")
    for log in box.logs:
        find(log, "global_batch_size").value = size
    mine, other = opinions(box, tmp_path / "scratch")

    assert (other.convergence, mine.convergence) == (theirs, ours)
    assert mine.raw_minutes == pytest.approx(other.raw_minutes)
