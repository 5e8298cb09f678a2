"""A node's own power sensor through its management controller: `ipmitool dcmi power reading`.

Whole-node power in whole watts, updated about once a second. It lags, and is known to read a few per cent above a wall
meter. The tool needs root and /dev/ipmi0, or a controller that it reaches over the network.

Source: DCMI specification 1.5, Get Power Reading; ipmitool(1).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import printable
from harness.log.power_format import MeterSpec

PERIOD_S = 1.0
TIMEOUT_S = 5.0
_READING = re.compile(rb"Instantaneous power reading:\s*([0-9]{1,7}) Watts")

Runner = Callable[[Sequence[str], float], bytes]


def run_program(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> bytes:
    """Return the standard output of a program that must succeed within `timeout_s`. environment: default: this
    process's.

    Raises:
        OSError, subprocess.SubprocessError: it is missing, failed, or took too long.
    """
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=True, env=environment
    )
    return done.stdout


@dataclass(frozen=True, slots=True)
class IpmiSource:
    """A management controller that ipmitool reaches over the network."""

    host: str
    user: str | None = None
    password_env: str | None = None
    accuracy_pct: float | None = None
    node: int = 0
    kind: str = "ipmi"

    @property
    def name(self) -> str:
        return f"ipmi {self.host}"


class IpmiMeter:
    """The whole node, as seen by its management controller."""

    name = "ipmi"
    period_s = PERIOD_S

    def __init__(
        self,
        host: str | None = None,
        user: str | None = None,
        accuracy_pct: float | None = None,
        run: Runner = run_program,
    ) -> None:
        """host, user: of a controller over the network; ipmitool takes the password from IPMI_PASSWORD."""
        remote = [] if host is None else ["-I", "lanplus", "-H", host, *(["-U", user] if user else []), "-E"]
        self._command = ["ipmitool", *remote, "dcmi", "power", "reading"]
        self._run = run
        self._spec = MeterSpec(
            id=f"ipmi:{host or 'local'}",
            component="node",
            scope="ac",
            meter_class="B",
            kind="power_w",
            period_s=self.period_s,
            source=" ".join(self._command),
            accuracy_pct=accuracy_pct,
            averaging_s=1.0,
            device=host,
        )

    def probe(self) -> str | None:
        try:
            output = self._run(self._command, TIMEOUT_S)
        except FileNotFoundError:
            return "ipmitool is not installed"
        except subprocess.TimeoutExpired:
            return f"ipmitool did not answer within {TIMEOUT_S:g} s"
        except subprocess.CalledProcessError as error:
            stderr = printable(bytes(error.stderr or b"").decode("utf-8", "replace").strip(), 200)
            return f"ipmitool failed: {stderr or f'exit status {error.returncode}'}"
        except OSError as error:
            return f"ipmitool cannot be started: {error.strerror}"
        return (
            None if _watts(output) is not None else "ipmitool shows no power reading: the controller has no such sensor"
        )

    def specs(self) -> tuple[MeterSpec, ...]:
        return (self._spec,)

    def read(self) -> dict[str, float | None]:
        try:
            return {self._spec.id: _watts(self._run(self._command, TIMEOUT_S))}
        except (OSError, subprocess.SubprocessError):
            return {self._spec.id: None}

    def close(self) -> None:
        """Nothing to close: every reading is a separate program."""


def _watts(output: bytes) -> float | None:
    match = _READING.search(output)
    return float(match[1]) if match else None
