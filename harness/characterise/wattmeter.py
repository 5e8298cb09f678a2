"""Reads the meters of this machine while it makes steps for them."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from harness.base.clock import MonotonicClock
from harness.characterise.asking import Ask
from harness.characterise.power import Drawn, drawn
from harness.metering import session
from harness.metering.session import MeterRequest

SUSTAINED_S = 10.0  # ten readings of a node's controller, a hundred of an accelerator


class Recordings(Protocol):
    """`harness.metering.session.Metering`, as far as it is needed here; scripted in tests."""

    why_not: str

    def recording(self, result: Path, index: int) -> session.Power: ...


class Wattmeter:
    """The meters of this machine. folder: of power logs that no one keeps."""

    def __init__(self, metering: Recordings, folder: Path) -> None:
        self._metering = metering
        self._folder = folder
        self._index = 0

    def asked(self, ask: Ask, command: Mapping[str, Any]) -> tuple[dict[str, Any], Drawn]:
        """Ask for a measurement, and where there is a meter for steps in which it is read; return answer and power."""
        if self._metering.why_not:
            return ask(command), Drawn(None, self._metering.why_not)
        power = self._metering.recording(self._folder, self._index)
        self._index += 1
        power.begin(MonotonicClock(), secrets.token_hex(16))
        try:
            answer = ask({**command, "sustained_s": SUSTAINED_S})
        finally:
            nodes = power.end()
        steps = answer.pop("sustained")
        return answer, drawn(nodes, int(steps["start_ns"]), int(steps["stop_ns"]))


@contextmanager
def opened(request: MeterRequest, system: Mapping[str, Any], say: Callable[[str], None]) -> Iterator[Wattmeter]:
    """Open the meters that are asked for.

    Raises:
        UsageError: one that was named cannot be read. TtaError: an agent fails.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tta-watts-") as folder,
        session.opened(request, system, say, say) as metering,
    ):
        yield Wattmeter(metering, Path(folder))
