"""A run's energy from odd power logs: no number that the logs do not support, and no crash."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.energy import from_logs
from harness.energy.from_logs import energy_of, idle_w, mean_power_w
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import RunEnergy
from harness.log import power_format, run_log
from harness.log.events import TOKEN, Event
from harness.log.keys import RUN_START, RUN_STOP
from harness.log.power_files import with_power
from harness.log.power_format import ClockOffset, NodePower, Sample
from harness.log.run_log import RunLog
from tests import fabricate, powertrace

MONO_NS = fabricate.MONO_NS
SPANS_S = (2.2, 9.9)  # run_start and run_stop of a fabricated run


def metered(folder: Path, num_nodes: int = 1) -> Path:
    """The log of a metered run."""
    steps = fabricate.events(mono_ns=MONO_NS, num_nodes=num_nodes)
    path = fabricate.write_log(folder / "result_0.txt", steps)
    fabricate.write_power(path, steps, "node", num_nodes)
    return path


def energy(log: RunLog) -> RunEnergy:
    found = energy_of(log, EnergyLimits())
    assert found is not None
    return found


def test_intact_run_has_the_joules_that_were_drawn_added_up_once(tmp_path: Path) -> None:
    """About 300 W over 7.7 s, which nothing voids and every check uses; without power logs, there is no energy."""
    log = with_power(run_log.read(metered(tmp_path)))
    found = energy(log)

    assert found.joules == pytest.approx(300 * (SPANS_S[1] - SPANS_S[0]), rel=0.02)
    assert found.void == ()
    assert energy(log) is found
    assert energy_of(dataclasses.replace(log, nodes=()), EnergyLimits()) is None


def test_power_logs_that_cannot_be_aligned_with_the_run_give_no_joules(tmp_path: Path) -> None:
    """A run whose log has no clock is unplaced; it never has zero joules."""
    path = metered(tmp_path, num_nodes=2)
    fabricate.write_log(path, fabricate.events(num_nodes=2))

    found = energy(with_power(run_log.read(path)))

    assert (found.joules, found.void, found.num_nodes) == (None, ("no_energy", "unplaced"), 2)
    assert (found.coverage, found.longest_gap_s, found.num_samples, found.share_estimated) == (0.0, 0.0, 0, 0.0)


def test_run_without_duration_on_a_clock_centuries_away_gives_no_joules(tmp_path: Path) -> None:
    """A nanosecond is lost in the node's huge times: a forged log gives neither a crash nor an energy."""
    path = metered(tmp_path)
    steps = fabricate.events(mono_ns=MONO_NS)
    fabricate.find(steps, RUN_STOP).at_s = fabricate.find(steps, RUN_START).at_s + 1e-9
    fabricate.write_log(path, steps)
    log = with_power(run_log.read(path))
    node = dataclasses.replace(log.nodes[0], offsets=(ClockOffset(0, 1 << 62, 1000),))

    found = energy(dataclasses.replace(log, nodes=(node,)))

    assert (found.joules, "unplaced" in found.void) == (None, True)


def with_another_run_id(node: NodePower) -> NodePower:
    return dataclasses.replace(node, run_id="f" * 32)


def without_run_id(node: NodePower) -> NodePower:
    return dataclasses.replace(node, run_id=None)


def with_a_late_reading(node: NodePower) -> NodePower:
    [(meter, samples)] = node.samples.items()
    late = Sample(samples[-1].mono_ns + powertrace.ns(10), 300.0)
    return dataclasses.replace(node, samples={meter: (*samples, late)})


@pytest.mark.parametrize(
    ("change", "void"),
    [(with_another_run_id, "other_run"), (without_run_id, "other_run"), (with_a_late_reading, "other_time")],
)
def test_one_power_log_of_another_run_or_time_voids_and_is_shown(
    change: Callable[[NodePower], NodePower], void: str, tmp_path: Path
) -> None:
    """The joules of such a log are shown and never ranked."""
    log = with_power(run_log.read(metered(tmp_path, num_nodes=2)))

    found = energy(dataclasses.replace(log, nodes=(log.nodes[0], change(log.nodes[1]))))

    assert found.joules is not None
    assert found.void == (void,)


def ended(node: NodePower, **changes: int | None) -> NodePower:
    return dataclasses.replace(node, **{"start_ns": powertrace.ns(0), "stop_ns": powertrace.ns(60), **changes})  # type: ignore[arg-type]


def test_mean_power_is_the_sum_over_the_nodes() -> None:
    """Each node from its own start to its own stop; it does not matter that their clocks differ."""
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
def test_mean_power_is_not_known_if_that_of_one_node_is_not(node: NodePower) -> None:
    """The watts of one node never pass for those of two."""
    assert mean_power_w([ended(powertrace.node(0)), node]) is None


def test_idle_power_is_known_if_every_node_has_a_complete_baseline(tmp_path: Path) -> None:
    """It is their sum; unknown if one was cut off before power_measurement_stop, or is missing."""
    path = metered(tmp_path, num_nodes=2)
    fabricate.write_idle(tmp_path, "node", 2)
    idle = tmp_path / "power/idle/node_1.txt"
    lines = idle.read_text().splitlines(keepends=True)
    assert power_format.POWER_STOP in lines[-1]

    whole = idle_w(with_power(run_log.read(path)))
    idle.write_text("".join(lines[:-1]))
    cut = idle_w(with_power(run_log.read(path)))
    idle.unlink()
    missing = idle_w(with_power(run_log.read(path)))

    assert whole == pytest.approx(161.0, abs=2.0)
    assert (cut, missing) == (None, None)


def log_of(*events: Event, nodes: Sequence[NodePower] = ()) -> RunLog:
    """A log in memory."""
    by_key = {event.key: tuple(other for other in events if other.key == event.key) for event in events}
    return RunLog(Path("result_0.txt"), events, (), "", 0, len(events), {}, by_key, False, nodes=tuple(nodes))


def at(event_key: str, elapsed_ns: int | None, time_ms: float = 0.0, value: object = None) -> Event:
    return Event(time_ms, "POINT_IN_TIME", event_key, value, {} if elapsed_ns is None else {"elapsed_ns": elapsed_ns})


def clocked(mono_ns: object, *elapsed_ns: int | None) -> RunLog:
    """A log with a start, stops, and a power log in `tta`'s format."""
    start, *stops = elapsed_ns
    clock = at("tta_clock", 0, value={"mono_ns": mono_ns})
    return log_of(clock, at(RUN_START, start), *(at(RUN_STOP, stop) for stop in stops), nodes=[powertrace.node()])


MAX_NS = (1 << 63) - 1


@pytest.mark.parametrize(
    ("log", "window"),
    [
        pytest.param(clocked(100, 5, 9), (105, 109), id="from start to stop"),
        pytest.param(clocked(100, 5, 9, 12), (105, 112), id="to the last stop"),
        pytest.param(clocked(-100, 5, 9), (-95, -91), id="a clock below zero"),
        pytest.param(clocked(100, 0, 1), (100, 101), id="a start with the log"),
        pytest.param(clocked(100, -1, 1), None, id="a start before the log"),
        pytest.param(clocked(100, 5, 5), None, id="no time"),
        pytest.param(clocked(100, 5, 4), None, id="backwards"),
        pytest.param(clocked(0, 5, MAX_NS), (5, MAX_NS), id="as long as 64 bits"),
        pytest.param(clocked(0, 5, MAX_NS + 1), None, id="longer"),
        pytest.param(clocked(MAX_NS, 5, 9), (MAX_NS + 5, MAX_NS + 9), id="as late as 64 bits"),
        pytest.param(clocked(MAX_NS + 1, 5, 9), None, id="later"),
        pytest.param(clocked(-MAX_NS - 1, 5, 9), None, id="earlier than that"),
        pytest.param(clocked(100, None, 9), None, id="a start without monotonic time"),
        pytest.param(clocked(100, 5, None), None, id="a stop without"),
        pytest.param(clocked(True, 5, 9), None, id="a clock that is true"),
        pytest.param(clocked("100", 5, 9), None, id="a clock that is a text"),
        pytest.param(clocked(1.5, 5, 9), None, id="a clock with a fraction"),
        pytest.param(log_of(at(RUN_START, 5), at(RUN_STOP, 9), nodes=[powertrace.node()]), None, id="no clock"),
        pytest.param(log_of(at(RUN_START, 5)), None, id="no stop"),
        pytest.param(log_of(at(RUN_STOP, 5)), None, id="no start"),
        pytest.param(
            log_of(at(RUN_START, 5, 1.5), at(RUN_STOP, 9, 2.5), at(RUN_STOP, 11, 3.5)),
            (1_500_000, 3_500_000),
            id="wall",
        ),
        pytest.param(log_of(at(RUN_START, 5, 1e308), at(RUN_STOP, 9, 2.5)), None, id="beyond any wall time"),
        pytest.param(log_of(at(RUN_START, 5, 1.5), at(RUN_STOP, 9, -1e308)), None, id="before any wall time"),
    ],
)
def test_the_window_is_the_run_on_the_clock_of_the_power_logs(log: RunLog, window: tuple[int, int] | None) -> None:
    """Monotonic if one of them is in `tta`'s format, else wall time; an impossible time gives no window."""
    assert from_logs.window_ns(log) == window


def mixed_run(folder: Path, start_ms: float | None = None) -> RunLog:
    """A node in `tta`'s format, and one in MLPerf's whose watts rise by 10 a second from 100, from second 0 to 12."""
    path = metered(folder)
    if start_ms is not None:
        lines = path.read_text().splitlines(keepends=True)
        [place] = [place for place, line in enumerate(lines) if f'"{RUN_START}"' in line]
        record = json.loads(lines[place].removeprefix(TOKEN))
        lines[place] = TOKEN + json.dumps({**record, "time_ms": start_ms}) + "\n"
        path.write_text("".join(lines))
    readings = [(fabricate.WALL_START_MS + 100 * step, 100 + step) for step in range(121)]
    powertrace.mlperf_log(folder / "power/result_0/node_1.txt", readings)
    return with_power(run_log.read(path))


RAMP_J = (122 + 199) / 2 * 7.7  # 122 W at 2.2 s and 199 W at 9.9 s


def test_mlperf_readings_are_aligned_exactly_with_the_run(tmp_path: Path) -> None:
    """On a ramp, every shift of their wall time shows. That `tta` did not write them voids the energy."""
    found = energy(mixed_run(tmp_path))

    [own, theirs] = [part.joules or 0.0 for part in found.parts]
    assert theirs == pytest.approx(RAMP_J, rel=1e-3)
    assert found.joules == pytest.approx(own + theirs)
    assert "of_nobody" in found.void


def test_a_start_out_of_range_moves_nothing(tmp_path: Path) -> None:
    """The node whose clock cannot be placed has no joules, and the run's are void; nothing crashes."""
    found = energy(mixed_run(tmp_path, 1e308))

    assert not [part for part in found.parts if part.node == "node_1" and part.joules is not None]
    assert "node_missing" in found.void
    assert "of_nobody" not in found.void  # there is no energy to attribute


def test_a_run_with_only_mlperf_power_logs_uses_wall_time(tmp_path: Path) -> None:
    """Nothing moves, although the run has a monotonic clock."""
    log = mixed_run(tmp_path)

    found = energy(dataclasses.replace(log, nodes=log.nodes[1:]))

    assert found.joules == pytest.approx(RAMP_J, rel=1e-3)


def test_which_power_logs_are_of_another_run() -> None:
    """Logs in `tta`'s format have the run's id; MLPerf's have none, and an unreadable log has no say."""
    log = log_of(at("tta_format", 0, value={"run_id": "a"}))
    unnamed = log_of(at(RUN_START, 0))
    own, other, nameless = (powertrace.node(run_id=run_id) for run_id in ("a", "b", None))
    unreadable = powertrace.node(run_id=None, defect_counts={"unreadable": 1})
    damaged = powertrace.node(run_id="b", defect_counts={"malformed": 1})
    mlperf = powertrace.node(dialect="mlperf")

    judged = [from_logs.is_of_another_run(node, log) for node in (own, other, nameless, unreadable, damaged, mlperf)]

    assert judged == [False, True, True, False, True, False]
    assert from_logs.is_of_another_run(nameless, unnamed) is True


@pytest.mark.parametrize(
    ("world", "hosts"),
    [
        ([{"host": "a"}, {"host": "b"}, {"host": "a"}], {"a", "b"}),
        ([{"host": "a"}, "b", None, {"host": 5}, {}], {"a"}),
        ([{"rank": 0}], None),
        ([], None),
        ({"host": "a"}, None),
        (None, None),
    ],
)
def test_the_hosts_are_those_of_the_ranks(world: object, hosts: set[str] | None) -> None:
    """Whatever else the value has; without any, they are unknown."""
    assert from_logs.hosts_of(log_of(at("tta_world", 0, value=world))) == hosts
