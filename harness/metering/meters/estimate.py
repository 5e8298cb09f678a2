"""An estimate from CPU utilisation, between two declared wattages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import printable
from harness.log.power_format import MeterSpec
from harness.submission.system import IDLE_POWER_KEY, MAX_POWER_KEY

PERIOD_S = 1.0
METER_ID = "estimate:node"


class EstimateMeter:
    """idle_power_w + (max_power_w - idle_power_w) x utilisation since the previous read.

    Utilisation is the share of all CPU time in /proc/stat that was neither idle, nor waiting for a disk, nor stolen by
    a hypervisor: for the whole machine, whichever process used it. It sees no accelerator. The two wattages are in the
    system description; no table of processors replaces them, because no one answers for a number that no one declared.
    """

    name = "estimate"
    period_s = PERIOD_S

    def __init__(self, system: Mapping[str, Any], root: Path = Path("/")) -> None:
        self._stat = root / "proc" / "stat"
        self._wattages = _wattages(system)
        self._before: tuple[int, int] | None = None
        self._power_w: float | None = None

    def probe(self) -> str | None:
        if isinstance(self._wattages, str):
            return self._wattages
        return f"{self._stat}: no CPU time can be read from it" if self._cpu_time() is None else None

    def specs(self) -> tuple[MeterSpec, ...]:
        if isinstance(self._wattages, str):
            return ()
        idle_w, max_w = self._wattages
        spec = MeterSpec(
            id=METER_ID,
            component="node",
            scope="model",
            meter_class="E",
            kind="power_w",
            period_s=self.period_s,
            source=f"declared {idle_w:g} W idle and {max_w:g} W at full load, CPU utilisation of {self._stat}",
        )
        return (spec,)

    def read(self) -> dict[str, float | None]:
        """Mean watts since the previous read; None on the first; within a tick of it (10 ms), the same value again."""
        now, before = self._cpu_time(), self._before
        if isinstance(self._wattages, str) or now is None:
            return {METER_ID: None}
        if before is None or now[1] <= before[1]:
            self._before = before or now
            return {METER_ID: self._power_w}
        self._before = now
        idle_w, max_w = self._wattages
        # The counters of iowait and steal are known to step back by some ticks; utilisation stays within 0 and 1.
        utilisation = min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1])))
        self._power_w = idle_w + (max_w - idle_w) * utilisation
        return {METER_ID: self._power_w}

    def close(self) -> None:
        """Nothing is held open."""

    def _cpu_time(self) -> tuple[int, int] | None:
        """(busy, all) ticks since boot over all CPUs; None if they cannot be read.

        Source: proc_stat(5): user nice system idle iowait irq softirq steal; guest time is inside user.
        """
        try:
            fields = self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()
            if fields[:1] != ["cpu"] or len(fields) < 9:
                return None
            user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
        except (OSError, ValueError):
            return None
        busy = user + nice + system + irq + softirq
        return busy, busy + idle + iowait + steal


def _wattages(system: Mapping[str, Any]) -> tuple[float, float] | str:
    """(idle, full load) in watts as declared, or why there is no estimate."""
    wattages = []
    for key in (IDLE_POWER_KEY, MAX_POWER_KEY):
        if system.get(key) is None:
            return f"the system description declares no {key} (watts of the whole node)"
        watts = _watts(system[key])
        if watts is None:
            return f"{key} is {printable(system[key])!r}; it must be watts, finite and not negative"
        wattages.append(watts)
    idle_w, max_w = wattages
    if idle_w > max_w or max_w == 0:
        return f"{MAX_POWER_KEY} is {max_w:g} W and {IDLE_POWER_KEY} {idle_w:g} W; full load draws at least as much"
    if str(system.get("number_of_nodes", "1")) != "1":
        return f"it sees this node only, and number_of_nodes is {printable(system['number_of_nodes'])!r}"
    if str(system.get("accelerators_per_node", "0")) not in ("0", "none", ""):
        return f"it sees no accelerator, and accelerators_per_node is {printable(system['accelerators_per_node'])!r}"
    return idle_w, max_w


def _watts(value: object) -> float | None:
    """Watts from a number or a string; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        watts = float(value)
    except (ValueError, OverflowError):
        return None
    return watts if math.isfinite(watts) and watts >= 0 else None
