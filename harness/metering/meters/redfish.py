"""A node's own power sensor through Redfish over HTTP(S): EnvironmentMetrics, Power, or a Sensor resource.

Source: DMTF DSP2046 (Redfish resource and schema guide): EnvironmentMetrics.PowerWatts.Reading,
Power.PowerControl[].PowerConsumedWatts, Sensor.Reading with ReadingUnits "W". Its energy counters are in kWh with
few digits, too coarse for a run of minutes, and are not used.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from harness.base.values import is_number
from harness.errors import UsageError, printable
from harness.log.power_format import MeterSpec

PERIOD_S = 1.0
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RedfishSource:
    """A resource of a Redfish service."""

    url: str
    user: str | None = None
    password_env: str | None = None
    ca_file: str | None = None
    accuracy_pct: float | None = None
    node: int = 0
    kind: str = "redfish"

    @property
    def name(self) -> str:
        return f"redfish {self.url}"


class RedfishMeter:
    """One resource of one service."""

    name = "redfish"
    period_s = PERIOD_S

    def __init__(
        self,
        url: str,
        user: str | None = None,
        password: str | None = None,
        ca_file: str | None = None,
        accuracy_pct: float | None = None,
    ) -> None:
        """url: of the resource, for example https://bmc/redfish/v1/Chassis/1/EnvironmentMetrics.

        Raises:
            UsageError: the address is not http or https, a password would cross a network unencrypted, or the
                certificates cannot be read.
        """
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise UsageError(f"redfish: url is {printable(url)!r}: {printable(error)}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"redfish: url is {printable(url)!r}; it must begin with https:// or http://")
        if parts.scheme == "http" and password and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise UsageError(f"redfish: url is {printable(url)!r}; a password is sent over https only")
        self._request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
        if user is not None:
            token = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            self._context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        except OSError as error:  # SSLError is one too
            raise UsageError(f"redfish: ca_file {printable(ca_file)}: {error.strerror or printable(error)}") from None
        self._spec = MeterSpec(
            id=f"redfish:{parts.hostname}{parts.path}",
            component="node",
            scope="ac",
            meter_class="B",
            kind="power_w",
            period_s=self.period_s,
            source=url,
            device=f"{parts.hostname}{parts.path}",
            accuracy_pct=accuracy_pct,
            averaging_s=1.0,
        )

    def probe(self) -> str | None:
        try:
            answer = self._get()
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            return f"{self._spec.source}: {printable(reason, 200)}"
        except (ValueError, RecursionError):
            return f"{self._spec.source}: the answer is not JSON"
        return None if power_w(answer) is not None else f"{self._spec.source}: the answer has no power reading"

    def specs(self) -> tuple[MeterSpec, ...]:
        return (self._spec,)

    def read(self) -> dict[str, float | None]:
        try:
            return {self._spec.id: power_w(self._get())}
        except (OSError, HTTPException, ValueError, RecursionError):
            return {self._spec.id: None}

    def close(self) -> None:
        """Nothing to close: every reading is a separate request."""

    def _get(self) -> Any:
        with urllib.request.urlopen(self._request, timeout=TIMEOUT_S, context=self._context) as response:  # noqa: S310
            return json.loads(response.read(MAX_ANSWER_BYTES))


def power_w(answer: Any) -> float | None:
    """Watts in one of the three resources; None if it is none of them, or its sensor has no value now."""
    if not isinstance(answer, dict):
        return None
    reading = answer.get("PowerWatts")
    if isinstance(reading, dict):
        return _watts(reading.get("Reading"))
    controls = answer.get("PowerControl")
    if isinstance(controls, list) and controls and isinstance(controls[0], dict):
        return _watts(controls[0].get("PowerConsumedWatts"))
    return _watts(answer.get("Reading")) if answer.get("ReadingUnits") == "W" else None


def _watts(value: Any) -> float | None:
    return float(value) if is_number(value) and 0 <= value < 1e9 else None
