"""The power of a machine while it trained, as a profile and the cells of a sweep have it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.base.values import finite_number, short_text
from harness.energy.accounting import run_energy
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import CLASSES
from harness.errors import LogError, printable
from harness.log.power_format import NodePower
from harness.scoring.estimate import Power, measured_power

_MAX_W = 1e12


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the machine drew; None where that is not known, and `why_not` says why."""

    power: Power | None
    why_not: str = ""

    @property
    def words(self) -> str:
        return f"not available: {self.why_not}" if self.power is None else self.power.words


UNKNOWN = Drawn(None, "no meter was read while this was measured")


def drawn(nodes: Sequence[NodePower], start_ns: int, stop_ns: int) -> Drawn:
    """The mean power from one time to another on the system's monotonic clock, of a machine that is one node."""
    limits = EnergyLimits()
    try:
        found = measured_power([run_energy(nodes, start_ns, stop_ns, num_nodes=1)], limits)
    except LogError as error:
        return Drawn(None, str(error))
    return Drawn(None, found) if isinstance(found, str) else Drawn(found)


def as_record(found: Drawn) -> dict[str, Any]:
    """As JSON has it; `of_record` takes it back."""
    if found.power is None:
        return {"mean_w": None, "why_not": printable(found.why_not, 400)}
    power = found.power
    known = {"mean_w": power.mean_w, "u95_w": power.u95_w, "class": power.meter_class, "scope": power.scope}
    return {**known, "source": power.source}


def of_record(record: object) -> Drawn:
    """The power in a file; files of earlier versions have none.

    Raises:
        ValueError: it is no power.
    """
    if record is None:
        return UNKNOWN
    if not isinstance(record, dict):
        raise ValueError("power is no object")
    if record.get("mean_w") is None:
        return Drawn(None, short_text(record.get("why_not")) or "not stated")
    mean_w, u95_w, scope = finite_number(record["mean_w"]), finite_number(record.get("u95_w")), record.get("scope")
    meter_class = record.get("class")
    if mean_w is None or u95_w is None or not (0 < mean_w <= _MAX_W and 0 <= u95_w <= _MAX_W):
        raise ValueError("mean_w or u95_w of the power is no number above 0")
    if short_text(scope) is None or meter_class not in tuple(CLASSES):
        raise ValueError("class or scope of the power is missing, or no class that there is")
    return Drawn(Power(mean_w, u95_w, meter_class, str(scope)))
