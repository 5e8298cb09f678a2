"""An outlet or a branch of a power distribution unit over SNMP: net-snmp's `snmpget`, one object per reading.

Which object has the active power, and in which unit, depends on the maker; both are declared.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from harness.log.power_format import MeterSpec
from harness.metering.meters.ipmi import TIMEOUT_S, Runner, run_program

PERIOD_S = 1.0
_NUMBER = re.compile(rb"\s*(-?[0-9]{1,12}(\.[0-9]{1,6})?)\s*")


@dataclass(frozen=True, slots=True)
class SnmpSource:
    """An outlet of a power distribution unit."""

    host: str
    oid: str
    watts_per_unit: float = 1.0
    calibrated: bool = False
    accuracy_pct: float | None = None
    node: int = 0
    kind: str = "snmp"

    @property
    def name(self) -> str:
        return f"snmp {self.host} {self.oid}"


class SnmpMeter:
    """One object of one unit; community and credentials are in the user's own snmp.conf."""

    name = "snmp"
    period_s = PERIOD_S

    def __init__(
        self,
        host: str,
        oid: str,
        watts_per_unit: float = 1.0,
        accuracy_pct: float | None = None,
        is_calibrated: bool = False,
        run: Runner = run_program,
    ) -> None:
        """is_calibrated: an external meter with a certificate (class A) rather than a unit's own sensor (class B)."""
        self._command = ["snmpget", "-Oqv", "-t", "1", "-r", "1", host, oid]
        self._factor = watts_per_unit
        self._run = run
        self._spec = MeterSpec(
            id=f"snmp:{host}:{oid}",
            component="pdu",
            scope="ac",
            meter_class="A" if is_calibrated else "B",
            kind="power_w",
            period_s=self.period_s,
            source=" ".join(self._command),
            device=f"{host} {oid}",
            accuracy_pct=accuracy_pct,
            averaging_s=1.0,
        )

    def probe(self) -> str | None:
        try:
            self._run(self._command, TIMEOUT_S)
        except FileNotFoundError:
            return "snmpget (net-snmp) is not installed"
        except (OSError, subprocess.SubprocessError) as error:
            return f"snmpget failed: {type(error).__name__}"
        return None if self.read()[self._spec.id] is not None else f"{self._spec.source}: the answer is not a number"

    def specs(self) -> tuple[MeterSpec, ...]:
        return (self._spec,)

    def read(self) -> dict[str, float | None]:
        try:
            match = _NUMBER.fullmatch(self._run(self._command, TIMEOUT_S))
        except (OSError, subprocess.SubprocessError):
            match = None
        return {self._spec.id: float(match[1]) * self._factor if match else None}

    def close(self) -> None:
        """Nothing to close: every reading is a separate program."""
