"""The power of a machine while it trains: scripted meters, and what becomes of their readings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.base.clock import Clock
from harness.characterise.power import UNKNOWN, Drawn, as_record, drawn, of_record
from harness.characterise.wattmeter import SUSTAINED_S, Wattmeter, opened
from harness.errors import WorkerError
from harness.log.power_format import NodePower
from harness.metering.session import MeterRequest
from harness.scoring.estimate import Power
from tests.scripted import scripted_node

S = 1_000_000_000
POWER = Power(300.0, 15.0, "B", "node (ac)")


class Readings:
    """The power of a run, of meters that read 300 W since a second before it began."""

    source, num_nodes = "measured", 1

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def begin(self, clock: Clock, run_id: str) -> None:
        self._calls.append("begin")
        self._origin_ns = clock.origin_ns

    def watts(self) -> float | None:
        return None

    def end(self) -> tuple[NodePower, ...]:
        self._calls.append("end")
        return (scripted_node(0, 300.0, self._origin_ns - S, self._origin_ns + 30 * S),)


class Meters:
    """What `session.opened` yields; scripted. calls: what was asked of it, in order."""

    def __init__(self, why_not: str = "") -> None:
        self.why_not = why_not
        self.calls: list[str] = []

    def recording(self, result: Path, index: int) -> Any:
        self.calls.append(f"recording {index}")
        self._last = Readings(self.calls)
        return self._last

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Steps from 5 s to 25 s after the recording began."""
        self.calls.append(f"steps of {command.get('sustained_s')} s")
        if not self.calls[0].startswith("recording"):
            return {"ok": True}
        begun_ns = self._last._origin_ns
        return {"ok": True, "sustained": {"start_ns": begun_ns + 5 * S, "stop_ns": begun_ns + 25 * S, "num_steps": 9}}


def test_meters_are_read_around_what_is_measured(tmp_path: Path) -> None:
    """The power is that of the further steps; each measurement has its own logs."""
    meters = Meters()
    wattmeter = Wattmeter(meters, tmp_path)

    for number in range(2):
        answer, found = wattmeter.asked(meters.ask, {"do": "window"})

        assert answer == {"ok": True}
        assert found.power is not None
        assert found.power.mean_w == pytest.approx(300.0)
        assert (found.power.meter_class, found.power.scope, found.power.source) == ("B", "node (ac)", "measured")
        expected = [f"recording {number}", "begin", f"steps of {SUSTAINED_S} s", "end"]
        assert meters.calls[-4:] == expected


def test_without_a_meter_nothing_more_is_done(tmp_path: Path) -> None:
    meters = Meters("no meter here: node 0: nvml: none")

    answer, found = Wattmeter(meters, tmp_path).asked(meters.ask, {"do": "window"})

    assert (answer, meters.calls) == ({"ok": True}, ["steps of None s"])
    assert found.words == "not available: no meter here: node 0: nvml: none"


def test_meters_are_let_go_of_where_measuring_fails(tmp_path: Path) -> None:
    meters = Meters()

    def fail(command: Mapping[str, Any]) -> dict[str, Any]:
        raise WorkerError("it failed")

    with suppress(WorkerError):
        Wattmeter(meters, tmp_path).asked(fail, {})

    assert meters.calls == ["recording 0", "begin", "end"]


def test_no_meter_is_opened_that_was_not_asked_for() -> None:
    with opened(MeterRequest(), {}, pytest.fail) as meters:
        _, found = meters.asked(lambda command: {}, {})

    assert found.why_not == "no --meter was asked for"


@pytest.mark.parametrize(
    ("nodes", "start_s", "stop_s", "said"),
    [
        ((), 0, 10, "a node of the run has no power log"),
        ((scripted_node(0, 300.0, 0, 5 * S),), 0, 10, "cover less than 98 % of a run"),
        ((scripted_node(0, 0.0, 0, 10 * S),), 0, 10, "the meters show no power"),
        ((scripted_node(0, -1.0, 0, 10 * S),), 0, 10, "-1"),
        ((scripted_node(0, 300.0, 0, 10 * S),), 10, 10, "the run starts at"),
        (
            (scripted_node(0, 300.0, 0, 10 * S), scripted_node(1, 300.0, 0, 10 * S)),
            0,
            10,
            "does not belong to any node",
        ),
    ],
    ids=["no log", "lost", "nothing drawn", "impossible", "no time", "two nodes"],
)
def test_power_that_is_not_known(nodes: tuple[NodePower, ...], start_s: int, stop_s: int, said: str) -> None:
    """With the reason, in the words of the checks."""
    found = drawn(nodes, start_s * S, stop_s * S)

    assert found.power is None
    assert said in found.why_not


def test_ten_readings_are_enough() -> None:
    """Ten seconds of a meter that is read once a second could not be ranked."""
    slow = scripted_node(0, 300.0, 0, 20 * S)
    ((meter, series),) = slow.samples.items()

    found = drawn((replace(slow, samples={meter: series[::10]}),), 5 * S, 15 * S)

    assert found.power is not None
    assert found.power.mean_w == pytest.approx(300.0)
    assert found.power.u95_w >= 15.0  # 5 %, where a meter does not declare its accuracy


@pytest.mark.parametrize("found", [Drawn(POWER), Drawn(None, "no meter here"), UNKNOWN])
def test_power_survives_its_record(found: Drawn) -> None:
    assert of_record(json.loads(json.dumps(as_record(found)))) == found


def test_record_of_an_earlier_version_has_no_power() -> None:
    assert of_record(None) == UNKNOWN
    assert of_record({"mean_w": None}).why_not == "not stated"


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (3, "no object"),
        ({**as_record(Drawn(POWER)), "mean_w": 0}, "no number above 0"),
        ({**as_record(Drawn(POWER)), "mean_w": "300"}, "no number above 0"),
        ({**as_record(Drawn(POWER)), "u95_w": -1}, "no number above 0"),
        ({**as_record(Drawn(POWER)), "class": "F"}, "no class that there is"),
        ({**as_record(Drawn(POWER)), "class": ["B"]}, "no class that there is"),
        ({**as_record(Drawn(POWER)), "scope": ""}, "scope of the power is missing"),
    ],
)
def test_record_that_is_no_power(record: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of_record(record)
