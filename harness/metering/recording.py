"""A recorder as the referee sees it: one run, in one folder, and nothing that it does wrong reaches the run.

What goes wrong is said once a run; the run's energy is void then, by what its power logs lack.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.base.clock import Clock, MonotonicClock
from harness.energy.energyreading import EnergySource
from harness.energy.from_logs import mean_power_w
from harness.errors import Interrupted, LogError, TtaError
from harness.log import power_log
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.power_format import NodePower

_STEP_S = 0.1


class Recorder(Protocol):
    """What has the agents write; `harness.metering.recorder.PowerRecorder` is one."""

    @property
    def source(self) -> EnergySource: ...
    @property
    def num_nodes(self) -> int: ...
    def begin(self, folder: Path, clock: Clock, run_id: str, period_s: float | None = None) -> None: ...
    def end(self) -> None: ...
    def watts(self) -> float | None: ...
    def faults(self) -> list[str]: ...


class NotMetered:
    """No meter was asked for: no process, no reading, no word."""

    source: EnergySource = "none"
    num_nodes = 0

    def begin(self, clock: Clock, run_id: str) -> None:
        pass

    def watts(self) -> float | None:
        return None

    def end(self) -> tuple[NodePower, ...]:
        return ()


class RunRecording:
    """The power logs of one run in `folder`, which must not be there yet. say: tells a person what went wrong."""

    def __init__(
        self, recorder: Recorder, folder: Path, say: Callable[[str], None], period_s: float | None = None
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._say = say
        self._period_s = period_s
        self._is_begun = False

    @property
    def source(self) -> EnergySource:
        return self._recorder.source

    @property
    def num_nodes(self) -> int:
        return self._recorder.num_nodes

    def begin(self, clock: Clock, run_id: str) -> None:
        """Starts the readings; a recorder that cannot is told of, and the run goes on without."""
        try:
            self._recorder.begin(self._folder, clock, run_id, self._period_s)
        except (TtaError, OSError) as error:
            self._say(f"power: {error}; the energy of this run is not measured")
            self._stop()
        else:
            self._is_begun = True

    def watts(self) -> float | None:
        """What all nodes draw now; None while that is not known."""
        return self._recorder.watts() if self._is_begun else None

    def end(self) -> tuple[NodePower, ...]:
        """A last reading; the logs are closed, and are returned as anybody else would read them."""
        if not self._is_begun:
            return ()
        self._is_begun = False
        faults = [*self._stop(), *self._recorder.faults()]
        try:
            nodes = power_log.read_folder(self._folder)
        except LogError as error:
            faults.append(str(error))
            nodes = ()
        if faults:
            self._say(f"power: {'; '.join(faults)}; the energy of this run is void, its time is not touched")
        return nodes

    def _stop(self) -> list[str]:
        try:
            self._recorder.end()
        except (TtaError, OSError) as error:
            return [str(error)]
        return []


def run_folder(result: Path, index: int) -> Path:
    """Where the power logs of a run stand in its result."""
    return result / POWER_FOLDER / f"result_{index}"


def idle_folder(result: Path) -> Path:
    """Where the idle baseline of a result stands."""
    return result / POWER_FOLDER / IDLE_FOLDER


def has_idle(result: Path) -> bool:
    """Whether the result has an idle baseline that was measured to its end."""
    try:
        nodes = power_log.read_folder(idle_folder(result))
    except LogError:
        return False
    return all(node.stop_ns is not None for node in nodes)


def record_idle(recording: RunRecording, run_id: str, seconds: float, is_over: Callable[[], bool]) -> float | None:
    """Records for `seconds` while nothing runs, and returns the mean watts of all nodes together; None: not known.

    Raises:
        Interrupted: `is_over` became true.
    """
    recording.begin(MonotonicClock(), run_id)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not is_over():
        time.sleep(min(_STEP_S, max(0.0, deadline - time.monotonic())))
    nodes = recording.end()
    if is_over():
        raise Interrupted("interrupted by a signal")
    return mean_power_w(nodes)
