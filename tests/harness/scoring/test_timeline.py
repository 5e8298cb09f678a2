"""The course of a run as checks look at it, where a log is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.log import run_log
from harness.log.keys import BLOCK_START, BLOCK_STOP
from harness.scoring import timeline
from tests import fabricate, foreign
from tests.auditing import audit, codes
from tests.foreign import rows


def test_factor_beyond_all_floats_is_no_factor(tmp_path: Path) -> None:
    """Four hundred digits in a control file: JSON has the number, nobody multiplies by it, and nothing crashes."""
    folder = foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])
    for factor, expected in ((-(10**400), set()), (0.5, {"AUD070"})):
        (folder / "scaling.json").write_text(json.dumps({"scaling_factor": factor}))
        assert codes(audit(folder)) == expected


def test_block_that_was_opened_twice_or_never_closed_keeps_its_lines(tmp_path: Path) -> None:
    """Every start is in an interval of its own; a stop without a start belongs to none."""
    steps = fabricate.events()
    steps.remove(fabricate.find(steps, BLOCK_STOP, 0))
    steps.remove(fabricate.find(steps, BLOCK_START, 1))
    steps.remove(fabricate.find(steps, BLOCK_START, 1))
    log = run_log.read(fabricate.write_log(tmp_path / "result_0.txt", steps))
    first, *stops = (*log.all(BLOCK_START), *log.all(BLOCK_STOP))

    assert timeline.intervals(log, BLOCK_START, BLOCK_STOP) == (timeline.Interval(first, stops[0]),)
    assert timeline.intervals(log, BLOCK_STOP, BLOCK_START) == tuple(timeline.Interval(stop, None) for stop in stops)


@pytest.mark.parametrize(
    ("values", "count"), [((), 0), ((0.95, 0.5), 0), ((0.5, 0.95, 0.9), 2), ((0.95, 0.5, 0.9), 1), ((0.9, 0.9), 2)]
)
def test_confirmed_are_those_that_reach_the_target_without_a_gap(values: tuple[float, ...], count: int) -> None:
    """Counted from the last one back: an evaluation below the target begins the count anew."""
    assert timeline.num_confirmed(values, fabricate.benchmark_rules(target=0.9)) == count
