"""Failures of a recorder are reported once and void the run's energy; the run continues."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.base.clock import Clock, MonotonicClock
from harness.energy.run_energy import EnergySource
from harness.errors import Interrupted, OutputError, TtaError
from harness.metering.session import RunRecording, has_idle, idle_folder, record_idle, run_folder
from tests import fabricate


class ScriptedRecorder:
    """Writes the power logs of `num_nodes` nodes when it ends, unless it fails before."""

    source: EnergySource = "measured"

    def __init__(
        self,
        num_nodes: int = 1,
        begin_error: Exception | None = None,
        end_error: Exception | None = None,
        faults: tuple[str, ...] = (),
        has_logs: bool = True,
    ) -> None:
        self.num_nodes = num_nodes
        self.begin_error, self.end_error = begin_error, end_error
        self.found = list(faults)
        self.has_logs = has_logs
        self.calls: list[str] = []
        self.period_s: float | None = None
        self._folder = Path()

    def begin(self, folder: Path, clock: Clock, run_id: str, period_s: float | None = None) -> None:
        self.calls.append("begin")
        self._folder, self.period_s = folder, period_s
        if self.begin_error is not None:
            raise self.begin_error

    def end(self) -> None:
        self.calls.append("end")
        if self.has_logs:
            self._folder.mkdir(parents=True)
            for node in range(self.num_nodes):
                text = fabricate.power_text(
                    0.0, 10.0, fabricate.meters("node", node), node=node, watts=lambda at_s: 80.0
                )
                (self._folder / f"node_{node}.txt").write_text(text)
        if self.end_error is not None:
            raise self.end_error

    def watts(self) -> float | None:
        return 123.0

    def faults(self) -> list[str]:
        return self.found


def recording(recorder: ScriptedRecorder, folder: Path, messages: list[str]) -> RunRecording:
    return RunRecording(recorder, folder, messages.append, 0.5)


def test_intact_recording_is_read_back_without_messages(tmp_path: Path) -> None:
    """Watts during the recording and not before or after; a second end returns nothing."""
    recorder, messages = ScriptedRecorder(2), list[str]()
    power = recording(recorder, run_folder(tmp_path, 3), messages)

    assert (power.source, power.num_nodes, power.watts()) == ("measured", 2, None)
    assert power.end() == ()
    power.begin(MonotonicClock(), "ab" * 16)
    assert (power.watts(), recorder.period_s) == (123.0, 0.5)
    nodes = power.end()

    assert [node.path for node in nodes] == [tmp_path / f"power/result_3/node_{number}.txt" for number in (0, 1)]
    assert [node.defects for node in nodes] == [(), ()]
    assert (power.watts(), power.end(), messages) == (None, (), [])
    assert recorder.calls == ["begin", "end"]


@pytest.mark.parametrize("error", [OutputError("out/power: cannot be written: No space"), OSError(28, "No space left")])
def test_recorder_that_cannot_begin_is_reported_and_stopped(tmp_path: Path, error: Exception) -> None:
    """Even if stopping fails too: one sentence, no exception, no watts."""
    recorder, messages = ScriptedRecorder(begin_error=error, end_error=TtaError("gone"), has_logs=False), list[str]()
    power = recording(recorder, tmp_path / "power", messages)

    power.begin(MonotonicClock(), "ab" * 16)

    assert (power.watts(), power.end()) == (None, ())
    assert recorder.calls == ["begin", "end"]
    assert messages == [f"power: {error}; the energy of this run is not measured"]


@pytest.mark.parametrize("error", [TtaError("node 1 is gone"), OSError(5, "Input/output error")])
def test_recorder_that_cannot_end_is_reported_and_its_logs_are_read(tmp_path: Path, error: Exception) -> None:
    """What was written until then can be judged."""
    recorder, messages = ScriptedRecorder(end_error=error, faults=("node 0: its log cannot be written",)), list[str]()
    power = recording(recorder, tmp_path / "power", messages)
    power.begin(MonotonicClock(), "ab" * 16)

    assert len(power.end()) == 1
    assert messages == [
        f"power: {error}; node 0: its log cannot be written; the energy of this run is void, its time is not affected"
    ]


def test_logs_that_cannot_be_read_back_are_reported(tmp_path: Path) -> None:
    """The folder was deleted during the run: no nodes, one sentence with the path."""
    messages: list[str] = []
    power = recording(ScriptedRecorder(has_logs=False), tmp_path / "power", messages)
    power.begin(MonotonicClock(), "ab" * 16)

    assert power.end() == ()
    (sentence,) = messages
    assert sentence.startswith(f"power: {tmp_path}/power: cannot be read: No such file")
    assert sentence.endswith("the energy of this run is void, its time is not affected")


def test_idle_baseline_is_the_mean_power_of_all_nodes(tmp_path: Path) -> None:
    """It takes the requested time; two nodes of 80 W are 160 W."""
    messages: list[str] = []
    began = time.monotonic()

    watts = record_idle(recording(ScriptedRecorder(2), idle_folder(tmp_path), messages), "ab" * 16, 0.15, lambda: False)

    assert time.monotonic() - began >= 0.15
    assert watts == pytest.approx(160.0)
    assert messages == []
    assert has_idle(tmp_path)


def after(polls: int) -> Callable[[], bool]:
    """A signal that arrives after n polls."""
    counted = itertools.count(1)
    return lambda: next(counted) > polls


@pytest.mark.parametrize("polls", [0, 1])
def test_signal_ends_the_idle_baseline_at_once(tmp_path: Path, polls: int) -> None:
    """Ctrl-C ends a minute of waiting, and the recorder ends."""
    recorder = ScriptedRecorder()
    began = time.monotonic()

    with pytest.raises(Interrupted):
        record_idle(recording(recorder, idle_folder(tmp_path), []), "ab" * 16, 60.0, after(polls))

    assert time.monotonic() - began < 10
    assert recorder.calls == ["begin", "end"]


def test_interrupted_idle_baseline_does_not_count(tmp_path: Path) -> None:
    """It is complete only if every node's log has its stop."""
    assert not has_idle(tmp_path)
    fabricate.write_idle(tmp_path, "node", 2)
    assert has_idle(tmp_path)
    log = idle_folder(tmp_path) / "node_1.txt"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))

    assert not has_idle(tmp_path)
