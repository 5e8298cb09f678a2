"""Meters without hardware: the names, and the estimate. No number is invented; a failed read gives None."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.metering.catalog import LOCAL_METERS, open_meter
from harness.metering.meters.estimate import METER_ID, EstimateMeter
from harness.metering.meters.nvml import NvmlMeter
from harness.metering.meters.powercap import PowercapMeter
from harness.submission.system import IDLE_POWER_KEY, MAX_POWER_KEY
from tests.fabricate import SYSTEM

DECLARED: dict[str, Any] = {**SYSTEM, IDLE_POWER_KEY: "100", MAX_POWER_KEY: 300}


def proc(root: Path, busy: int, idle: int, iowait: int = 0, steal: int = 0) -> Path:
    """A /proc/stat with `busy` ticks in user time."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {busy} 0 0 {idle} {iowait} 0 0 {steal} 0 0\ncpu0 {busy} 0 0 {idle}\n")
    return root


def watts(meter: EstimateMeter) -> float | None:
    found = meter.read()
    assert set(found) == {METER_ID}
    return found[METER_ID]


def test_every_name_opens_its_meter() -> None:
    """A meter has the name that it was opened with, and says in one line why it cannot work here."""
    for name in LOCAL_METERS:
        meter = open_meter(name, SYSTEM)
        assert meter.name == name
        assert "\n" not in (meter.probe() or "")
        meter.close()


def test_no_meter_of_this_machine_invents_a_number(tmp_path: Path) -> None:
    """Without a counter, a driver or a controller, each says why, and none reads zero."""
    for meter in (PowercapMeter(tmp_path), NvmlMeter(None), EstimateMeter(SYSTEM, tmp_path)):
        reason = meter.probe()
        assert reason
        assert "\n" not in reason
        assert meter.specs() == ()
        assert all(value is None for value in meter.read().values())


def test_unknown_meter_is_refused_with_a_suggestion() -> None:
    """A typo is answered with the intended name."""
    with pytest.raises(UsageError, match="did you mean 'estimate'"):
        open_meter("estimat", DECLARED)


def test_estimate_declares_itself_a_model(tmp_path: Path) -> None:
    """Class E, with the wattages that it is made of."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 1000, 1000))
    assert meter.probe() is None
    (spec,) = meter.specs()
    assert (spec.meter_class, spec.scope, spec.accuracy_pct) == ("E", "model", None)
    assert "100 W idle and 300 W" in spec.source


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [
        pytest.param(
            [(1050, 1150), (1050, 1350), (1250, 1350)], [150.0, 100.0, 300.0], id="a quarter busy, idle, all busy"
        ),
        pytest.param([(1050, 1050, 50, 50)], [150.0], id="waiting for a disk and stolen time are not busy"),
        pytest.param([(1000, 1000), (1100, 1100), (1100, 1100)], [None, 200.0, 200.0], id="within a tick it repeats"),
        pytest.param([(1200, 995)], [300.0], id="a counter that steps back stays within bounds"),
        pytest.param([None, (1050, 1150)], [None, 150.0], id="a failed read is covered by the next"),
    ],
)
def test_estimate_lies_between_the_declared_wattages(
    tmp_path: Path, ticks: list[tuple[int, ...] | None], expected: list[float | None]
) -> None:
    """100 W idle and 300 W busy, by the processor's time since the last good read."""
    meter = EstimateMeter(DECLARED, proc(tmp_path, 1000, 1000))
    found = [watts(meter)]
    for each in ticks:
        if each is None:
            (tmp_path / "proc/stat").unlink()
        else:
            proc(tmp_path, *each)
        found.append(watts(meter))

    assert found == [None, *expected]


@pytest.mark.parametrize(
    "content", ["", "cpu", "cpu  1 2 3 4", "cpu  a 0 0 0 0 0 0 0", "intr 1 2", "cpu  é 0 0 0 0 0 0 0"]
)
def test_malformed_proc_stat_is_a_reason(tmp_path: Path, content: str) -> None:
    """It makes the estimate unavailable, not wrong."""
    proc(tmp_path, 0, 0)
    (tmp_path / "proc/stat").write_text(content)
    meter = EstimateMeter(DECLARED, tmp_path)

    assert "no CPU time can be read" in str(meter.probe())
    assert watts(meter) is None


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
    """Without two declared wattages, there is a reason and no number."""
    meter = EstimateMeter({**DECLARED, **declared}, proc(tmp_path, 0, 0))
    before = watts(meter)
    proc(tmp_path, 100, 100)

    assert reason in str(meter.probe())
    assert (before, watts(meter)) == (None, None)


def test_idle_may_equal_full_load(tmp_path: Path) -> None:
    """A machine that always draws the same."""
    meter = EstimateMeter({**DECLARED, IDLE_POWER_KEY: 300}, proc(tmp_path, 0, 0))
    watts(meter)
    proc(tmp_path, 1, 199)

    assert meter.probe() is None
    assert watts(meter) == 300.0
