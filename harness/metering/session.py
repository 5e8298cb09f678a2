"""What `tta run` is asked to meter, and the recorder that does it, for the runs of one result.

Without a meter nothing is started and nothing said. What is asked for by name must be there, whole, on every node;
`auto` takes what there is.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.base import signals
from harness.base.clock import Clock, MonotonicClock
from harness.base.typed_yaml import build, load_yaml
from harness.energy.from_logs import mean_power_w
from harness.energy.run_energy import EnergySource
from harness.errors import Interrupted, LogError, OutputError, TtaError, UsageError, printable, unknown_name
from harness.log import power_log
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.power_format import NodePower
from harness.metering.meters import FILE_METERS, LOCAL_METERS
from harness.metering.recorder import PowerRecorder
from harness.metering.sources import LocalSource, Source, sources_of

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


class Power(Protocol):
    """What the referee needs of the meters; scripted in tests. Nothing here raises, and nothing changes a run: what
    goes wrong is told to a person, and shows in the logs.

    source: what readings are expected. num_nodes: how many nodes are metered; 0 without a meter.
    """

    @property
    def source(self) -> EnergySource: ...
    @property
    def num_nodes(self) -> int: ...

    def begin(self, clock: Clock, run_id: str) -> None:
        """Starts the readings of one run; returns when every meter has its first, or after some seconds."""
        ...

    def watts(self) -> float | None:
        """What all nodes draw now; None while that is not known."""
        ...

    def end(self) -> tuple[NodePower, ...]:
        """A last reading of every meter; then the logs are closed, and are returned as they can be read back. A second
        call does nothing and returns nothing."""
        ...


NONE, AUTO = "none", "auto"
MODEL = "estimate"
IDLE_S = 60.0  # of the two minutes and more that a server's fans take to slow down, as much as can be asked of a person
_FILE_ENDS = (".yaml", ".yml")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MeterRequest:
    """What the command line asks for.

    meters: `--meter`. num_nodes, listen: `--power-nodes` and `--power-listen`. idle_s, period_s: None: the default.
    """

    meters: str = NONE
    num_nodes: int = 1
    listen: str | None = None
    idle_s: float | None = None
    period_s: float | None = None


@dataclass(frozen=True, slots=True)
class MeterPlan:
    """The meters of a request. is_choosy: each of them must be there."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]
    is_choosy: bool


def meter_plan(request: MeterRequest) -> MeterPlan | None:
    """What is to be metered; None for nothing.

    Raises:
        UsageError: an unknown meter, or options that have no meaning together. RulesError: a file of meters is none.
    """
    parts = [part.strip() for part in request.meters.split(",")]
    if parts == [NONE]:
        for option, value in (
            ("--power-nodes", None if request.num_nodes == 1 else request.num_nodes),
            ("--power-listen", request.listen),
            ("--idle", request.idle_s or None),
            ("--meter-period", request.period_s),
        ):
            if value is not None:
                raise UsageError(f"{option} {printable(value)}: there is nothing to read without --meter")
        return None
    if request.listen is not None and request.num_nodes == 1:
        raise UsageError("--power-listen: on one node nobody connects; say how many there are: --power-nodes")
    if parts == [AUTO]:
        return MeterPlan(tuple(name for name in LOCAL_METERS if name != MODEL), (), is_choosy=False)
    names: list[str] = []
    sources: list[Source] = []
    for part in parts:
        if part.endswith(_FILE_ENDS) or "/" in part:
            found = sources_of(load_yaml(Path(part)), part, build)
            sources += [source for source in found if source not in sources]
            continue
        _refuse_unknown(part)
        if part in names:
            raise UsageError(f"--meter {printable(request.meters)}: names {part} twice")
        names.append(part)
    for source in sources:
        if isinstance(source, LocalSource):
            _refuse_unknown(source.name)
            if source.name in names:
                raise UsageError(f"--meter {printable(request.meters)}: names {source.name} twice")
    return MeterPlan(tuple(names), tuple(sources), is_choosy=True)


def _refuse_unknown(name: str) -> None:
    if name in FILE_METERS:
        raise UsageError(f"--meter {name}: needs a file that says where it is: --meter FILE.yaml, see docs/energy.md")
    if name in (NONE, AUTO):
        raise UsageError(f"--meter: {name} stands alone")
    if name not in LOCAL_METERS:
        raise UsageError(f"--meter: {unknown_name('meter', name, [*LOCAL_METERS, AUTO, NONE])}")


def _set_aside(result: Path) -> None:
    """Moves an idle baseline that was broken off to `unfinished/`; nothing is deleted."""
    idle = idle_folder(result)
    try:
        if idle.exists():
            (result / "unfinished").mkdir(exist_ok=True)
            shutil.move(idle, result / "unfinished" / f"idle.{idle.stat().st_mtime_ns}.power")
    except OSError as error:
        raise OutputError(f"{idle}: cannot be moved: {error.strerror}") from None


class Metering:
    """The meters of the runs of one result."""

    def __init__(self, recorder: PowerRecorder | None, request: MeterRequest, say: Say, complain: Say) -> None:
        self._recorder = recorder
        self._request = request
        self._say = say
        self._complain = complain

    def recording(self, result: Path, index: int) -> Power:
        """The power of one run."""
        if self._recorder is None:
            return NotMetered()
        return RunRecording(self._recorder, run_folder(result, index), self._complain, self._request.period_s)

    def baseline(self, result: Path) -> None:
        """What the nodes draw while nothing runs, once a result; shown, and taken from nothing.

        Raises:
            Interrupted: by a signal.
        """
        recorder = self._recorder
        if recorder is None:
            return
        seconds = self._request.idle_s
        if seconds is None:
            seconds = IDLE_S if recorder.source == "measured" else 0.0
        if seconds == 0 or has_idle(result):
            return
        _set_aside(result)
        self._say(f"power: idle baseline, {seconds:g} s")
        recording = RunRecording(recorder, idle_folder(result), self._complain, self._request.period_s)
        with signals.collected() as seen:
            watts = record_idle(recording, secrets.token_hex(16), seconds, lambda: bool(seen))
        self._say("power: idle, not known" if watts is None else f"power: idle, {watts:,.1f} W")


@contextmanager
def opened(request: MeterRequest, system: Mapping[str, Any], say: Say, complain: Say) -> Iterator[Metering]:
    """The meters, as long as they are needed. say: tells what goes on; complain: what went wrong.

    Raises:
        UsageError: a meter that was asked for by name cannot be read, or a node's agent is missing.
        TtaError: an agent fails.
    """
    asked = meter_plan(request)
    if asked is None:
        yield Metering(None, request, say, complain)
        return
    with PowerRecorder.start(
        asked.names,
        system,
        num_nodes=request.num_nodes,
        listen=request.listen,
        sources=asked.sources,
        is_choosy=asked.is_choosy,
        say=say,
    ) as recorder:
        unmetered = recorder.unmetered
        if len(unmetered) == recorder.num_nodes:
            say(f"power: no meter, energy is not measured: {'; '.join(unmetered)}")
            yield Metering(None, request, say, complain)
            return
        if unmetered:
            complain(f"power: no meter on {'; '.join(unmetered)}; the energy of these runs will be void")
        say(f"power: {', '.join(recorder.meters)}")
        yield Metering(recorder, request, say, complain)
