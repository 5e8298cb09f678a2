"""No meter: never a reading, so the run's energy is not measured."""

from __future__ import annotations

from harness.energy import EnergySource
from harness.meters import Reading


class NullMeter:
    """Always available, never an answer."""

    name = "none"
    source: EnergySource = "none"
    scope = "not measured"

    def probe(self) -> str | None:
        return None

    def read(self, elapsed_ns: int) -> Reading:
        return Reading(elapsed_ns)
