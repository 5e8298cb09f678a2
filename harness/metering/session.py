"""The meters of one `tta run`: what `--meter` asks for, and the power logs of each run of the result.

Without `--meter` no process is started and nothing is printed. A meter requested by name must be readable on every
node; `auto` uses what there is. Whatever goes wrong while recording is reported once per run and never reaches the run:
its energy is then void, because of what its power logs lack.
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
from harness.base.typed_yaml import load_yaml
from harness.energy.from_logs import mean_power_w
from harness.energy.run_energy import EnergySource
from harness.errors import Interrupted, LogError, OutputError, TtaError, UsageError, printable, unknown_name
from harness.log import power_log
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.power_format import NodePower
from harness.metering.catalog import FILE_METERS, LOCAL_METERS
from harness.metering.recorder import PowerRecorder
from harness.metering.sources import LocalSource, Source, sources_of

NONE, AUTO = "none", "auto"
MODEL = "estimate"
IDLE_S = 60.0  # a server's fans take over two minutes to slow down; a user can be kept waiting for one
_FILE_ENDS = (".yaml", ".yml")
_STEP_S = 0.1
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MeterRequest:
    """What the command line requests.

    meters: `--meter`. num_nodes, listen: `--power-nodes` and `--power-listen`. idle_s, period_s: None for the default.
    token: that the agents of the other nodes know; None: the one of the environment.
    """

    meters: str = NONE
    num_nodes: int = 1
    listen: str | None = None
    idle_s: float | None = None
    period_s: float | None = None
    token: bytes | None = None


@dataclass(frozen=True, slots=True)
class MeterPlan:
    """The meters of a request. is_strict: every one of them must be readable."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]
    is_strict: bool


def meter_plan(request: MeterRequest) -> MeterPlan | None:
    """Return what is to be metered; None for nothing.

    Raises:
        UsageError: a meter is unknown, or options make no sense together. RulesError: a file of meters is malformed.
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
        raise UsageError("--power-listen: with one node, no agent connects; give the number of nodes: --power-nodes")
    if parts == [AUTO]:
        return MeterPlan(tuple(name for name in LOCAL_METERS if name != MODEL), (), is_strict=False)
    names: list[str] = []
    sources: list[Source] = []
    for part in parts:
        if part.endswith(_FILE_ENDS) or "/" in part:
            found = sources_of(load_yaml(Path(part)), part)
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
    return MeterPlan(tuple(names), tuple(sources), is_strict=True)


def _refuse_unknown(name: str) -> None:
    if name in FILE_METERS:
        raise UsageError(
            f"--meter {name}: needs a file that says where it is: --meter FILE.yaml, see docs/how-to/measure-energy.md"
        )
    if name in (NONE, AUTO):
        raise UsageError(f"--meter: {name} cannot be combined with other meters")
    if name not in LOCAL_METERS:
        raise UsageError(f"--meter: {unknown_name('meter', name, [*LOCAL_METERS, AUTO, NONE])}")


class Power(Protocol):
    """What the referee needs of the meters of one run; scripted in tests.

    Nothing here raises, and nothing changes a run: failures are reported to the user, and show in the logs.

    source: what readings are expected. num_nodes: how many nodes are metered; 0 without a meter.
    """

    @property
    def source(self) -> EnergySource: ...
    @property
    def num_nodes(self) -> int: ...

    def begin(self, clock: Clock, run_id: str) -> None:
        """Start the readings of one run; return when every meter has its first, or after some seconds."""
        ...

    def watts(self) -> float | None:
        """What all nodes draw now; None while that is not known."""
        ...

    def end(self) -> tuple[NodePower, ...]:
        """Read every meter once more, close the logs, and return them as anyone can read them back. A second call does
        nothing and returns nothing.
        """
        ...


class NotMetered:
    """The power of a run without meters: no process, no reading, no message."""

    source: EnergySource = "none"
    num_nodes = 0

    def begin(self, clock: Clock, run_id: str) -> None:
        pass

    def watts(self) -> float | None:
        return None

    def end(self) -> tuple[NodePower, ...]:
        return ()


class Recorder(Protocol):
    """What has the agents record; `harness.metering.recorder.PowerRecorder` is one."""

    @property
    def source(self) -> EnergySource: ...
    @property
    def num_nodes(self) -> int: ...
    def begin(self, folder: Path, clock: Clock, run_id: str, period_s: float | None = None) -> None: ...
    def end(self) -> None: ...
    def watts(self) -> float | None: ...
    def faults(self) -> list[str]: ...


class RunRecording:
    """The power of a metered run, recorded in `folder`, which must not exist yet. complain: reports what went wrong."""

    def __init__(self, recorder: Recorder, folder: Path, complain: Say, period_s: float | None = None) -> None:
        self._recorder = recorder
        self._folder = folder
        self._complain = complain
        self._period_s = period_s
        self._is_begun = False

    @property
    def source(self) -> EnergySource:
        return self._recorder.source

    @property
    def num_nodes(self) -> int:
        return self._recorder.num_nodes

    def begin(self, clock: Clock, run_id: str) -> None:
        """Start the readings; if the recorder cannot, that is reported, and the run continues without it."""
        try:
            self._recorder.begin(self._folder, clock, run_id, self._period_s)
        except (TtaError, OSError) as error:
            self._complain(f"power: {error}; the energy of this run is not measured")
            self._stop()
        else:
            self._is_begun = True

    def watts(self) -> float | None:
        return self._recorder.watts() if self._is_begun else None

    def end(self) -> tuple[NodePower, ...]:
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
            self._complain(f"power: {'; '.join(faults)}; the energy of this run is void, its time is not affected")
        return nodes

    def _stop(self) -> list[str]:
        try:
            self._recorder.end()
        except (TtaError, OSError) as error:
            return [str(error)]
        return []


class Metering:
    """The meters of the runs of one result. why_not: why there is none; empty if there is one."""

    def __init__(
        self, recorder: PowerRecorder | None, request: MeterRequest, say: Say, complain: Say, why_not: str = ""
    ) -> None:
        self.why_not = why_not
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
        """Record what the nodes draw while nothing runs, once per result; it is shown, and subtracted from nothing.

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
    """Open the requested meters for as long as they are needed. say: reports progress; complain: what went wrong.

    Raises:
        UsageError: a meter requested by name cannot be read, or a node's agent is missing.
        TtaError: an agent fails.
    """
    plan = meter_plan(request)
    if plan is None:
        yield Metering(None, request, say, complain, "no --meter was asked for")
        return
    with PowerRecorder.start(
        plan.names,
        system,
        num_nodes=request.num_nodes,
        listen=request.listen,
        sources=plan.sources,
        is_strict=plan.is_strict,
        say=say,
        token=request.token,
    ) as recorder:
        unmetered = recorder.unmetered
        if len(unmetered) == recorder.num_nodes:
            why_not = f"no meter here: {'; '.join(unmetered)}"
            say(f"power: energy is not measured: {why_not}")
            yield Metering(None, request, say, complain, why_not)
            return
        if unmetered:
            complain(f"power: no meter on {'; '.join(unmetered)}; the energy of these runs will be void")
        say(f"power: {', '.join(recorder.meters)}")
        yield Metering(recorder, request, say, complain)


def run_folder(result: Path, index: int) -> Path:
    """Where a result has the power logs of a run."""
    return result / POWER_FOLDER / f"result_{index}"


def idle_folder(result: Path) -> Path:
    """Where a result has its idle baseline."""
    return result / POWER_FOLDER / IDLE_FOLDER


def has_idle(result: Path) -> bool:
    """Whether the result has a complete idle baseline."""
    try:
        nodes = power_log.read_folder(idle_folder(result))
    except LogError:
        return False
    return all(node.stop_ns is not None for node in nodes)


def record_idle(recording: RunRecording, run_id: str, seconds: float, is_over: Callable[[], bool]) -> float | None:
    """Record for `seconds` while nothing runs; return the mean watts of all nodes together, or None if not known.

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


def _set_aside(result: Path) -> None:
    """Move an interrupted idle baseline to `unfinished/`; nothing is deleted."""
    idle = idle_folder(result)
    try:
        if idle.exists():
            (result / "unfinished").mkdir(exist_ok=True)
            shutil.move(idle, result / "unfinished" / f"idle.{idle.stat().st_mtime_ns}.power")
    except OSError as error:
        raise OutputError(f"{idle}: cannot be moved: {error.strerror}") from None
