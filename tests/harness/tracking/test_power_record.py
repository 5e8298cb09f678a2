"""Watts of a run by the second from irregular power logs: unknown seconds have no point, and nothing crashes."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.cost.price_book import PriceBooks
from harness.log.events import Event
from harness.log.power_format import MeterSpec
from harness.log.tail import Tail
from harness.submission import result as results
from harness.tracking.power_record import PowerFollower, PowerRecord, billed_usd, power_files, read_energy
from harness.tracking.record import ClockZero, MlflowRun, Point
from tests import fabricate
from tests.harness.board.test_index import BILL, SKU, prices
from tests.powertrace import package, spec

MONO_NS = 5_000_000_000


def new_record(clock: ClockZero | None = ClockZero(MONO_NS, 1_000_000.0)) -> MlflowRun:  # noqa: B008  (frozen)
    return MlflowRun(lambda ruleset, benchmark: None, clock=clock, is_initialised=True)


def event(key: str, value: Any, time_ms: float = 1_000_000, **metadata: Any) -> Event:
    return Event(time_ms, "POINT_IN_TIME", key, value, metadata, 1)


def meter(each: MeterSpec) -> Event:
    return event("tta_meter", dataclasses.asdict(each))


def reading(at_s: float, value: Any, each: MeterSpec | str = "csv:wall", **metadata: Any) -> Event:
    name, key = (each, "power_reading") if isinstance(each, str) else (each.id, "tta_energy_counter")
    return event(key, value, **{"meter": name, "mono_ns": MONO_NS + round(at_s * 1e9), **metadata})


def watts(*events: Event, record: MlflowRun | None = None) -> dict[int, float]:
    """Return the watts by second of one node's log."""
    record, power = record or new_record(), PowerRecord()
    for each in events:
        power.take("node_0", each, record)
    power.add_seconds(record, is_last=True)
    return {point.step: point.value for point in record.points}


def test_counter_gives_the_watts_between_its_readings() -> None:
    """Ten joules a second are ten watts; the second in which the counter restarted is lost, without a peak."""
    joules = [100.0, 110.0, 120.0, 5.0, 15.0]
    readings = [reading(second, value, package()) for second, value in enumerate(joules)]

    assert watts(meter(package()), *readings) == {0: 10.0, 1: 10.0, 3: 10.0}


def test_meter_that_is_declared_wrongly_is_skipped() -> None:
    """The valid meter next to it is drawn."""
    wrong = event("tta_meter", {"id": "csv:other"})

    assert watts(wrong, event("tta_meter", None), meter(spec()), reading(0, 300.0), reading(1, 300.0)) == {0: 300.0}


def test_meter_that_is_declared_after_the_first_reading_is_not_added() -> None:
    """The meters to add up are selected once; otherwise tampering with a log would make the curve jump."""
    late = spec(id="csv:late", component="pdu")
    readings = [reading(0, 300.0), meter(late), reading(0, 900.0, "csv:late"), reading(1, 300.0)]

    assert watts(meter(spec()), *readings, reading(1, 900.0, "csv:late")) == {0: 300.0}


@pytest.mark.parametrize("offset_ns", [None, "5", 1.5, 1 << 63])
def test_invalid_offset_moves_nothing(offset_ns: Any) -> None:
    """The first valid one counts, and another changes nothing: a curve never moves."""
    offsets = [event("tta_clock_offset", {"offset_ns": value}) for value in (offset_ns, 2_000_000_000, 9_000_000_000)]
    readings = [reading(2, 300.0), reading(3, 300.0)]

    assert watts(meter(spec()), offsets[0], *readings) == {2: 300.0}
    assert watts(meter(spec()), *offsets, *readings) == {0: 300.0}


@pytest.mark.parametrize(
    "odd", [{"mono_ns": "5"}, {"mono_ns": True}, {"mono_ns": 1 << 70}, {"meter": 5}, {"meter": "x"}]
)
def test_reading_without_a_time_or_meter_is_passed_over(odd: dict[str, Any]) -> None:
    """The other readings give the same seconds."""
    assert watts(meter(spec()), reading(0, 300.0), reading(0.5, 900.0, **odd), reading(1, 300.0)) == {0: 300.0}


def test_nothing_is_laid_over_a_run_whose_clock_is_not_known() -> None:
    """Readings before the clock's zero is known have no place, then or later."""
    record, power = new_record(clock=None), PowerRecord()
    for each in (meter(spec()), reading(0, 300.0), reading(1, 300.0)):
        power.take("node_0", each, record)
    power.add_seconds(record, is_last=True)
    record.clock = ClockZero(MONO_NS, 1_000_000.0)
    power.add_seconds(record, is_last=True)

    assert record.points == []


def test_run_before_1970_has_no_points() -> None:
    """The clock of a machine without a battery may give times that no store accepts."""
    record = new_record(ClockZero(MONO_NS, -1500.0))

    assert watts(meter(spec()), *[reading(second, 300.0) for second in range(4)], record=record) == {1: 300, 2: 300}


def on_the_wall(at_s: float, value: Any) -> Event:
    """A reading without a meter or monotonic time, as in MLPerf's logs."""
    return event("power_reading", value, 1_000_000 + round(1000 * at_s))


def test_mlperf_log_has_wall_time() -> None:
    """Its readings are placed by the wall clock; seconds without a reading and invalid values have no point."""
    readings = [on_the_wall(at_s, 100.0) for at_s in (0.0, 1.0, 2.0, 22.0, 23.0)]
    readings += [on_the_wall(2.5, "many"), on_the_wall(2.6, -3.0)]
    record = new_record()

    assert watts(*readings, record=record) == {0: 100, 1: 100, 22: 100}
    assert record.points[-1] == Point("power/watts", 100.0, 1_022_500, 22)


def test_clock_far_ahead_is_not_waited_for() -> None:
    """The seconds in between are unknown, and too many to iterate over."""
    assert watts(*[on_the_wall(at_s, 300.0) for at_s in (3.0, 4.0, 1e14, 1e14 + 1)])[3] == 300.0


def test_very_long_run_stays_within_the_limit_of_points() -> None:
    """A day with one reading per second: every second at first, then every tenth, then every hundredth."""
    record, power = new_record(), PowerRecord()
    for second in range(86_400):
        power.take("node_0", on_the_wall(second, 100.0), record)
        if second % 1000 == 0:
            power.add_seconds(record, is_last=False)
    power.add_seconds(record, is_last=True)

    assert len(record.points) == 5_000 + 4_500 + 364


def test_nothing_is_added_before_the_run_is_initialised() -> None:
    """Another node may not have started its log, and the watts of one would pass for those of all."""
    record, power = new_record(), PowerRecord()
    record.is_initialised = False
    for second in range(10):
        power.take("node_0", on_the_wall(second, 100.0), record)
    power.add_seconds(record, is_last=False)
    assert record.points == []
    record.is_initialised = True
    power.add_seconds(record, is_last=False)

    assert len(record.points) == 9


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return fabricate.write_result(tmp_path / "result", num_runs=1, power="node", num_nodes=2)


def followed(log: Path) -> MlflowRun:
    record = new_record(clock=None)
    for each in Tail(log).events():
        record.take(each)
    return record


def steps(record: MlflowRun, name: str) -> list[int]:
    return [point.step for point in record.points if point.name == name]


def test_power_log_that_becomes_shorter_is_left_and_the_others_go_on(result: Path) -> None:
    """A truncated log is not read again, and its points stay; the sum is over the same seconds of both nodes."""
    log, node = result / "result_0.txt", result / "power" / "result_0" / "node_1.txt"
    whole = node.read_text().splitlines(keepends=True)
    other = result / "power" / "result_0" / "node_0.txt"
    lines = other.read_text().splitlines(keepends=True)
    other.write_text("".join(lines[: len(lines) // 2]))
    record, following = followed(log), PowerFollower(log)
    following.read(record)
    node.write_text("".join(whole[:10]))
    following.read(record)
    node.write_text("".join(whole))
    other.write_text("".join(lines))
    following.finish(record)

    one, two, total = (
        {point.step: point.value for point in record.points if point.name == f"power/watts{name}"}
        for name in ("_node_0", "_node_1", "")
    )
    assert sorted(one) == sorted(two) == sorted(total) == list(range(1, 11))
    assert total == pytest.approx({second: one[second] + two[second] for second in total}, abs=0.002)


def test_nothing_is_followed_before_the_runs_clock_is_known(result: Path) -> None:
    """Otherwise readings would be consumed before they have a time; where one node falls silent, the sum ends."""
    log = result / "result_0.txt"
    silent = result / "power" / "result_0" / "node_1.txt"
    lines = silent.read_text().splitlines(keepends=True)
    silent.write_text("".join(lines[: len(lines) // 2]))
    following = PowerFollower(log)
    following.read(new_record(clock=None))
    record = followed(log)
    following.finish(record)

    assert steps(record, "power/watts_node_0") == list(range(1, 11))
    assert 4 <= len(steps(record, "power/watts")) <= 6


def test_run_whose_log_cannot_be_read_has_no_energy(result: Path) -> None:
    """Power logs alone give no total: the mirror continues without one."""
    log = result / "result_0.txt"
    assert read_energy(log, None) is not None
    log.write_text("no log")
    assert read_energy(log, None) is None
    assert sorted(power_files(log)) == [
        "tta.power/idle/node_0_sha256",
        "tta.power/idle/node_1_sha256",
        "tta.power/node_0_sha256",
        "tta.power/node_1_sha256",
    ]


def test_power_logs_behind_a_link_are_not_taken(result: Path, tmp_path: Path) -> None:
    """A link may point to any file: none is read or sent."""
    (result / "power").rename(tmp_path / "elsewhere")
    (result / "power").symlink_to(tmp_path / "elsewhere")

    assert read_energy(result / "result_0.txt", None) is None
    assert power_files(result / "result_0.txt") == {}


def test_bill_that_cannot_be_read_is_no_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an invalid declaration, or a folder with too many files, the mirror continues without it."""
    system = {**fabricate.SYSTEM, "tta_price_sku": SKU}
    log = fabricate.write_result(tmp_path / "result", num_runs=1, system=system) / "result_0.txt"
    books = PriceBooks((prices(),))
    billing = log.parent / "billing.yaml"
    assert billed_usd(log, books) is None
    billing.write_text(BILL)
    assert billed_usd(log, books) == Decimal("60.01")

    monkeypatch.setattr(results, "MAX_FILES", 1)
    assert billed_usd(log, books) is None
    monkeypatch.undo()
    billing.write_text("[")
    assert billed_usd(log, books) is None
