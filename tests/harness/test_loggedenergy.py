"""A run's energy from odd power logs: no number is given that the logs do not bear out, and nothing crashes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import loggedenergy, powerlines, runlog
from harness.events import RUN_START, RUN_STOP
from harness.loggedenergy import energy_of, idle_w, mean_power_w
from harness.power import ClockOffset, NodePower
from harness.powerfolders import with_power
from harness.runenergy import EnergyLimits
from harness.runlog import RunLog
from tests import fabricate, powertrace

MONO_NS = fabricate.MONO_NS
SPANS_S = (2.2, 9.9)  # run_start and run_stop of a fabricated run


def metered(folder: Path, change: Callable[[list[fabricate.Step]], object] | None = None, num_nodes: int = 1) -> Path:
    """The log of a metered run; `change` is made to the log after the power logs were written."""
    steps = fabricate.events(mono_ns=MONO_NS, num_nodes=num_nodes)
    path = folder / "result_0.txt"
    fabricate.write_log(path, steps)
    fabricate.write_power(path, steps, "node", num_nodes)
    if change is not None:
        change(steps)
        fabricate.write_log(path, steps)
    return path


def without_clock(steps: list[fabricate.Step]) -> None:
    steps.remove(fabricate.find(steps, "tta_clock"))


def strange_clock(steps: list[fabricate.Step]) -> None:
    fabricate.find(steps, "tta_clock").value["mono_ns"] = 1 << 63


def without_start(steps: list[fabricate.Step]) -> None:
    steps.remove(fabricate.find(steps, RUN_START))


def without_stop(steps: list[fabricate.Step]) -> None:
    steps.remove(fabricate.find(steps, RUN_STOP))


def stop_before_start(steps: list[fabricate.Step]) -> None:
    fabricate.find(steps, RUN_STOP).at_s = 1.0


def test_sound_run_has_the_joules_that_were_drawn(tmp_path: Path) -> None:
    """Some 300 W over 7.7 s, and nothing against it."""
    energy = energy_of(with_power(runlog.read(metered(tmp_path))), EnergyLimits())

    assert energy is not None
    assert energy.joules == pytest.approx(300 * (SPANS_S[1] - SPANS_S[0]), rel=0.02)
    assert energy.void == ()


@pytest.mark.parametrize("change", [without_clock, strange_clock, without_start, without_stop, stop_before_start])
def test_power_logs_that_cannot_be_laid_over_the_run_give_no_joules(
    tmp_path: Path, change: Callable[[list[fabricate.Step]], None]
) -> None:
    """A run that does not say when it began, ended, or what its clock reads is unplaced; it is never zero joules."""
    energy = energy_of(with_power(runlog.read(metered(tmp_path, change, num_nodes=2))), EnergyLimits())

    assert energy is not None
    assert (energy.joules, energy.void, energy.num_nodes) == (None, ("no_energy", "unplaced"), 2)


def test_run_of_no_length_on_a_clock_centuries_away_gives_no_joules(tmp_path: Path) -> None:
    """A nanosecond that is lost in the node's huge times: a forged log is no crash and no energy."""
    path = metered(tmp_path)
    steps = fabricate.events(mono_ns=MONO_NS)
    fabricate.find(steps, RUN_STOP).at_s = fabricate.find(steps, RUN_START).at_s + 1e-9
    fabricate.write_log(path, steps)
    log = with_power(runlog.read(path))
    node = dataclasses.replace(log.nodes[0], offsets=(ClockOffset(0, 1 << 62, 1000),))

    energy = energy_of(dataclasses.replace(log, nodes=(node,)), EnergyLimits())

    assert energy is not None
    assert (energy.joules, "unplaced" in energy.void) == (None, True)


def test_power_log_of_another_run_is_void_and_shown(tmp_path: Path) -> None:
    """The joules of a run with another identity, or none, are told and never ranked."""
    path = metered(tmp_path)
    log = with_power(runlog.read(path))
    for run_id in ("f" * 32, None):
        other = dataclasses.replace(log, nodes=(dataclasses.replace(log.nodes[0], run_id=run_id),))
        energy = energy_of(other, EnergyLimits())
        assert energy is not None
        assert energy.joules is not None
        assert energy.void == ("other_run",)


def test_energy_is_added_up_once_and_not_at_all_without_power_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every check asks for it; a run without power logs is not measured, which is not void."""
    log = with_power(runlog.read(metered(tmp_path)))
    first = energy_of(log, EnergyLimits())
    monkeypatch.setattr(loggedenergy, "run_energy", None)

    assert energy_of(log, EnergyLimits()) is first
    assert energy_of(dataclasses.replace(log, nodes=()), EnergyLimits()) is None


def test_mlperf_log_beside_one_of_ours_is_laid_over_the_same_run(tmp_path: Path) -> None:
    """It has wall time and no other: it is moved onto the monotonic clock, and both nodes' joules are added."""
    path = metered(tmp_path)
    readings = [(fabricate.WALL_START_MS + 100 * step, 200) for step in range(120)]
    powertrace.mlperf_log(tmp_path / "power/result_0/node_1.txt", readings)

    energy = energy_of(with_power(runlog.read(path)), EnergyLimits())

    assert energy is not None
    assert energy.joules == pytest.approx(500 * (SPANS_S[1] - SPANS_S[0]), rel=0.02)


def mlperf_run(folder: Path, start_ms: float, stop_ms: float) -> RunLog:
    """A run log of MLPerf's with a power log beside it: 300 W in the first 70 seconds of 1970."""
    lines = [
        powertrace.mlperf_line(start_ms, RUN_START, None, {"file": "a.py", "lineno": 1}, "INTERVAL_START"),
        powertrace.mlperf_line(stop_ms, RUN_STOP, None, {"file": "a.py", "lineno": 2}, "INTERVAL_END"),
    ]
    (folder / "result_0.txt").write_text("".join(lines))
    powertrace.mlperf_log(folder / "power/result_0/node_0.txt", [(1000 * second, 300) for second in range(70)])
    return with_power(runlog.read(folder / "result_0.txt"))


def test_mlperf_logs_alone_have_wall_time(tmp_path: Path) -> None:
    """Run log and power log by the same clock: nothing is moved."""
    energy = energy_of(mlperf_run(tmp_path, 2_500, 65_000), EnergyLimits())

    assert energy is not None
    assert energy.joules == pytest.approx(300 * 62.5)


@pytest.mark.parametrize("at_ms", [1e308, -1e308])
def test_wall_time_beyond_all_numbers_is_no_place(tmp_path: Path, at_ms: float) -> None:
    """A log of MLPerf's whose run_start bears 1e308 ms: JSON has the number, nanoseconds of it do not exist."""
    energy = energy_of(mlperf_run(tmp_path, at_ms, at_ms), EnergyLimits())

    assert energy is not None
    assert (energy.joules, "unplaced" in energy.void) == (None, True)


def ended(node: NodePower, **changes: int | None) -> NodePower:
    return dataclasses.replace(node, **{"start_ns": powertrace.ns(0), "stop_ns": powertrace.ns(60), **changes})  # type: ignore[arg-type]


def test_mean_power_is_the_sum_over_the_nodes() -> None:
    """Each node from its own start to its own stop; clocks that differ are nothing to it."""
    late = powertrace.node(1, {powertrace.spec(device="b"): powertrace.power(80.0, 10.0)})
    nodes = [ended(powertrace.node(0, {powertrace.spec(device="a"): powertrace.power(100.0)})), late]

    assert mean_power_w([nodes[0], ended(late, start_ns=powertrace.ns(20))]) == pytest.approx(180.0)
    assert mean_power_w([]) is None


@pytest.mark.parametrize(
    "node",
    [
        ended(powertrace.node(1), start_ns=None),
        ended(powertrace.node(1), stop_ns=None),
        ended(powertrace.node(1), stop_ns=powertrace.ns(0)),
        ended(powertrace.node(1), stop_ns=powertrace.ns(-1)),
        ended(powertrace.node(1, {powertrace.spec(): ()})),
    ],
    ids=["cut before its start", "cut before its stop", "stop is start", "stop before start", "no reading"],
)
def test_mean_power_is_not_known_where_one_node_is_not(node: NodePower) -> None:
    """The watts of one node are never given out as those of two."""
    assert mean_power_w([ended(powertrace.node(0)), node]) is None


def test_idle_power_of_fewer_nodes_than_ran_is_not_known(tmp_path: Path) -> None:
    """One baseline, two metered nodes; with both it is their sum."""
    path = metered(tmp_path, num_nodes=2)
    fabricate.write_idle(tmp_path, "node", 2)
    assert idle_w(with_power(runlog.read(path))) == pytest.approx(161.0, abs=2.0)

    (tmp_path / "power/idle/node_1.txt").unlink()
    assert idle_w(with_power(runlog.read(path))) is None


def test_idle_baseline_that_was_cut_off_is_not_known(tmp_path: Path) -> None:
    """No power_measurement_stop: how long nothing ran is not said."""
    path = metered(tmp_path)
    fabricate.write_idle(tmp_path, "node")
    idle = tmp_path / "power/idle/node_0.txt"
    lines = idle.read_text().splitlines(keepends=True)
    assert powerlines.POWER_STOP in lines[-1]
    idle.write_text("".join(lines[:-1]))

    assert idle_w(with_power(runlog.read(path))) is None
