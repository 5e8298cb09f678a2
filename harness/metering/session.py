"""What `tta run` is asked to meter, and the recorder that does it, for the runs of one result.

Without a meter nothing is started and nothing said. What is asked for by name must be there, whole, on every node;
`auto` takes what there is.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import signals
from harness.base.typed_yaml import build, load_yaml
from harness.errors import OutputError, UsageError, printable, unknown_name
from harness.metering.meters import FILE_METERS, LOCAL_METERS
from harness.metering.recorder import PowerRecorder
from harness.metering.recording import NotMetered, RunRecording, has_idle, idle_folder, record_idle, run_folder
from harness.metering.sources import LocalSource, Source, sources_of
from harness.run.plan import Power

NONE, AUTO = "none", "auto"
MODEL = "estimate"
IDLE_S = 60.0  # of the two minutes and more that a server's fans take to slow down, as much as can be asked of a person
_FILE_ENDS = (".yaml", ".yml")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for.

    meters: `--meter`. num_nodes, listen: `--power-nodes` and `--power-listen`. idle_s, period_s: None: the default.
    """

    meters: str = NONE
    num_nodes: int = 1
    listen: str | None = None
    idle_s: float | None = None
    period_s: float | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The meters of a wish. is_choosy: each of them must be there."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]
    is_choosy: bool


def wanted(wish: Wish) -> Wanted | None:
    """What is to be metered; None for nothing.

    Raises:
        UsageError: an unknown meter, or options that have no meaning together. RulesError: a file of meters is none.
    """
    parts = [part.strip() for part in wish.meters.split(",")]
    if parts == [NONE]:
        for option, value in (
            ("--power-nodes", None if wish.num_nodes == 1 else wish.num_nodes),
            ("--power-listen", wish.listen),
            ("--idle", wish.idle_s or None),
            ("--meter-period", wish.period_s),
        ):
            if value is not None:
                raise UsageError(f"{option} {printable(value)}: there is nothing to read without --meter")
        return None
    if wish.listen is not None and wish.num_nodes == 1:
        raise UsageError("--power-listen: on one node nobody connects; say how many there are: --power-nodes")
    if parts == [AUTO]:
        return Wanted(tuple(name for name in LOCAL_METERS if name != MODEL), (), is_choosy=False)
    names: list[str] = []
    sources: list[Source] = []
    for part in parts:
        if part.endswith(_FILE_ENDS) or "/" in part:
            found = sources_of(load_yaml(Path(part)), part, build)
            sources += [source for source in found if source not in sources]
            continue
        _refuse_unknown(part)
        if part in names:
            raise UsageError(f"--meter {printable(wish.meters)}: names {part} twice")
        names.append(part)
    for source in sources:
        if isinstance(source, LocalSource):
            _refuse_unknown(source.name)
            if source.name in names:
                raise UsageError(f"--meter {printable(wish.meters)}: names {source.name} twice")
    return Wanted(tuple(names), tuple(sources), is_choosy=True)


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

    def __init__(self, recorder: PowerRecorder | None, wish: Wish, say: Say, complain: Say) -> None:
        self._recorder = recorder
        self._wish = wish
        self._say = say
        self._complain = complain

    def recording(self, result: Path, index: int) -> Power:
        """The power of one run."""
        if self._recorder is None:
            return NotMetered()
        return RunRecording(self._recorder, run_folder(result, index), self._complain, self._wish.period_s)

    def baseline(self, result: Path) -> None:
        """What the nodes draw while nothing runs, once a result; shown, and taken from nothing.

        Raises:
            Interrupted: by a signal.
        """
        recorder = self._recorder
        if recorder is None:
            return
        seconds = self._wish.idle_s
        if seconds is None:
            seconds = IDLE_S if recorder.source == "measured" else 0.0
        if seconds == 0 or has_idle(result):
            return
        _set_aside(result)
        self._say(f"power: idle baseline, {seconds:g} s")
        recording = RunRecording(recorder, idle_folder(result), self._complain, self._wish.period_s)
        with signals.collected() as seen:
            watts = record_idle(recording, secrets.token_hex(16), seconds, lambda: bool(seen))
        self._say("power: idle, not known" if watts is None else f"power: idle, {watts:,.1f} W")


@contextmanager
def opened(wish: Wish, system: Mapping[str, Any], say: Say, complain: Say) -> Iterator[Metering]:
    """The meters, as long as they are needed. say: tells what goes on; complain: what went wrong.

    Raises:
        UsageError: a meter that was asked for by name cannot be read, or a node's agent is missing.
        TtaError: an agent fails.
    """
    asked = wanted(wish)
    if asked is None:
        yield Metering(None, wish, say, complain)
        return
    with PowerRecorder.start(
        asked.names,
        system,
        num_nodes=wish.num_nodes,
        listen=wish.listen,
        sources=asked.sources,
        is_choosy=asked.is_choosy,
        say=say,
    ) as recorder:
        unmetered = recorder.unmetered
        if len(unmetered) == recorder.num_nodes:
            say(f"power: no meter, energy is not measured: {'; '.join(unmetered)}")
            yield Metering(None, wish, say, complain)
            return
        if unmetered:
            complain(f"power: no meter on {'; '.join(unmetered)}; the energy of these runs will be void")
        say(f"power: {', '.join(recorder.meters)}")
        yield Metering(recorder, wish, say, complain)
