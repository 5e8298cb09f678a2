"""Meters: what the referee asks about once a second for the power that is drawn. One file a meter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.energy import EnergySource
from harness.errors import UsageError, unknown_name


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of a meter.

    elapsed_ns: when it was asked, as the caller said. power_w: watts now, or mean watts since the read
    before. energy_j: joules since the meter was opened, of a meter that counts them. None is "no answer".
    """

    elapsed_ns: int
    power_w: float | None = None
    energy_j: float | None = None


class Meter(Protocol):
    """Something that can be asked for power. It has no clock, no thread, and no say in when it is asked.

    The referee reads it while the worker starts, right before `run_start`, about once a second, and right
    after `run_stop`, so that the readings reach over the whole run; one without `power_w` is not written down.
    """

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> EnergySource:
        """What its readings are."""
        ...

    @property
    def scope(self) -> str:
        """What it meters, in words; only equal scopes can be compared."""
        ...

    def probe(self) -> str | None:
        """Why it cannot give readings here, as a sentence for a person; None if it can."""
        ...

    def read(self, elapsed_ns: int) -> Reading:
        """The reading at `elapsed_ns` (nanoseconds on the caller's clock). Never raises for a sensor that fails."""
        ...


METERS = ("none", "estimate")


def open_meter(name: str, system: Mapping[str, Any]) -> Meter:
    """The meter called `name`; `system` is the system description, where a person declares what a meter needs.

    A meter that cannot work here is opened all the same: `probe` says why.

    Raises:
        UsageError: there is no such meter.
    """
    from harness.meters.estimate import EstimateMeter
    from harness.meters.null import NullMeter

    if name == "none":
        return NullMeter()
    if name == "estimate":
        return EstimateMeter(system)
    raise UsageError(unknown_name("meter", name, METERS))
