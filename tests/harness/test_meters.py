"""Meters: nothing is invented, and a sensor that fails gives no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.energy import IDLE_POWER_KEY, MAX_POWER_KEY
from harness.errors import UsageError
from harness.meters import METERS, Reading, open_meter
from harness.meters.estimate import EstimateMeter
from tests.fabricate import SYSTEM

DECLARED: dict[str, Any] = {**SYSTEM, IDLE_POWER_KEY: "100", MAX_POWER_KEY: 300}
SECOND_NS = 1_000_000_000


def proc(root: Path, busy: int, idle: int, iowait: int = 0, steal: int = 0) -> Path:
    """A /proc/stat with `busy` ticks in user time."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {busy} 0 0 {idle} {iowait} 0 0 {steal} 0 0\ncpu0 {busy} 0 0 {idle}\n")
    return root


def test_every_name_opens_its_meter() -> None:
    """A meter is known by the name it was opened with."""
    assert [open_meter(name, DECLARED).name for name in METERS] == list(METERS)


def test_unknown_meter_is_refused_with_a_suggestion() -> None:
    """A slip of the finger is answered with the name that was meant."""
    with pytest.raises(UsageError, match="did you mean 'estimate'"):
        open_meter("estimat", DECLARED)


def test_no_meter_is_available_and_says_nothing() -> None:
    """`none` never gives a number, not even 0."""
    meter = open_meter("none", {})

    assert meter.probe() is None
    assert meter.source == "none"
    assert meter.read(5) == Reading(5, None, None)


def test_estimate_lies_between_the_declared_wattages(tmp_path: Path) -> None:
    """A quarter of the time busy: 100 + 200 / 4 W; idle: 100 W; busy: 300 W."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 1000, 1000))
    assert meter.probe() is None
    assert meter.source == "estimated"

    readings = [meter.read(0)]
    for number, (busy, idle) in enumerate([(1050, 1150), (1050, 1350), (1250, 1350)], 1):
        proc(tmp_path, busy, idle)
        readings.append(meter.read(number * SECOND_NS))

    assert [reading.power_w for reading in readings] == [None, 150.0, 100.0, 300.0]
    assert [reading.elapsed_ns for reading in readings] == [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS]


def test_waiting_and_stolen_time_is_not_busy(tmp_path: Path) -> None:
    """A disk that is waited for and a hypervisor that takes its time are not this system's work."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 0, 0))
    meter.read(0)
    proc(tmp_path, busy=50, idle=50, iowait=50, steal=50)

    assert meter.read(SECOND_NS).power_w == 150.0


def test_read_within_a_tick_repeats_the_answer(tmp_path: Path) -> None:
    """The reading right after run_stop may follow another by less than 10 ms; it is no gap."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 0, 0))
    assert meter.read(0).power_w is None
    assert meter.read(1).power_w is None
    proc(tmp_path, 100, 100)

    assert meter.read(2).power_w == 200.0
    assert meter.read(3).power_w == 200.0


def test_counter_that_steps_back_keeps_the_estimate_in_bounds(tmp_path: Path) -> None:
    """The kernel corrects idle and iowait by some ticks; utilisation stays within 0 and 1."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 100, 100))
    meter.read(0)
    proc(tmp_path, busy=200, idle=95)

    assert meter.read(1).power_w == 300.0


def test_failed_read_is_covered_by_the_next(tmp_path: Path) -> None:
    """An unreadable /proc/stat gives no number, and the next answer is the mean since the last good one."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 0, 0))
    meter.read(0)
    (tmp_path / "proc/stat").unlink()
    assert meter.read(1).power_w is None
    proc(tmp_path, busy=50, idle=150)

    assert meter.read(2).power_w == 150.0


@pytest.mark.parametrize(
    "content", ["", "cpu", "cpu  1 2 3 4", "cpu  a 0 0 0 0 0 0 0", "intr 1 2", "cpu  é 0 0 0 0 0 0 0"]
)
def test_malformed_proc_stat_is_a_reason(tmp_path: Path, content: str) -> None:
    """What is no /proc/stat makes the estimate unavailable, not wrong."""
    proc(tmp_path, 0, 0)
    (tmp_path / "proc/stat").write_text(content)
    meter = EstimateMeter(DECLARED, tmp_path)

    assert "no CPU time can be read" in str(meter.probe())
    assert meter.read(0).power_w is None


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        pytest.param({IDLE_POWER_KEY: None}, "declares no tta_idle_power_w", id="no idle"),
        pytest.param({MAX_POWER_KEY: None}, "declares no tta_max_power_w", id="no max"),
        pytest.param({IDLE_POWER_KEY: "little"}, "tta_idle_power_w is 'little'", id="a word"),
        pytest.param({IDLE_POWER_KEY: "nan"}, "tta_idle_power_w is 'nan'", id="not a number"),
        pytest.param({MAX_POWER_KEY: "inf"}, "tta_max_power_w is 'inf'", id="infinite"),
        pytest.param({IDLE_POWER_KEY: -1}, "tta_idle_power_w is '-1'", id="negative"),
        pytest.param({MAX_POWER_KEY: True}, "tta_max_power_w is 'True'", id="a truth value"),
        pytest.param({MAX_POWER_KEY: 99}, "full load draws at least as much", id="less than idle"),
        pytest.param({IDLE_POWER_KEY: 0, MAX_POWER_KEY: 0}, "full load draws at least as much", id="nothing at all"),
        pytest.param({"number_of_nodes": "2"}, "sees this node only", id="two nodes"),
        pytest.param({"accelerators_per_node": "8"}, "sees no accelerator", id="accelerators"),
    ],
)
def test_estimate_is_unavailable_unless_declared(tmp_path: Path, declared: dict[str, Any], reason: str) -> None:
    """Without two wattages that a person answers for there is a reason and no number."""
    meter = EstimateMeter({**DECLARED, **declared}, proc(tmp_path, 0, 0))
    reading_before = meter.read(0)
    proc(tmp_path, 100, 100)

    assert reason in str(meter.probe())
    assert (reading_before.power_w, meter.read(1).power_w) == (None, None)


def test_idle_may_equal_full_load(tmp_path: Path) -> None:
    """The boundary: a machine that always draws the same."""
    meter = EstimateMeter({**DECLARED, IDLE_POWER_KEY: 300}, proc(tmp_path, 0, 0))
    meter.read(0)
    proc(tmp_path, 1, 199)

    assert meter.probe() is None
    assert meter.read(1).power_w == 300.0
