"""Out-of-band meters: the management controller, Redfish, a power distribution unit."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from harness.errors import UsageError
from harness.metering.meters.ipmi import IpmiMeter
from harness.metering.meters.redfish import RedfishMeter, power_w
from harness.metering.meters.snmp import SnmpMeter

IPMITOOL = b"""
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 18 Watts
    Maximum during sampling period:                415 Watts
    Average power reading over sample period:      219 Watts
"""


Run = Callable[[Sequence[str], float], bytes]


def answering(output: bytes) -> Run:
    return lambda command, timeout_s: output


def raising(error: Exception) -> Run:
    def run(command: Sequence[str], timeout_s: float) -> bytes:
        raise error

    return run


def test_controller_gives_the_instantaneous_watts() -> None:
    """Not the minimum, maximum or average over a period."""
    meter = IpmiMeter(run=answering(IPMITOOL))

    assert meter.probe() is None
    assert meter.read() == {"ipmi:local": 220.0}
    assert meter.specs()[0].meter_class == "B"


def test_remote_controller_never_shows_a_password() -> None:
    """ipmitool takes it from the environment; the command in the log does not have it."""
    seen: list[Sequence[str]] = []

    def run(command: Sequence[str], timeout_s: float) -> bytes:
        seen.append(command)
        return IPMITOOL

    meter = IpmiMeter("bmc7", "reader", run=run)

    assert meter.read() == {"ipmi:bmc7": 220.0}
    assert seen == [["ipmitool", "-I", "lanplus", "-H", "bmc7", "-U", "reader", "-E", "dcmi", "power", "reading"]]


def ipmi(run: Run) -> IpmiMeter:
    return IpmiMeter(run=run)


def snmp(run: Run) -> SnmpMeter:
    return SnmpMeter("pdu", "1.2", run=run)


@pytest.mark.parametrize(
    ("meter", "reason"),
    [
        (ipmi(raising(FileNotFoundError(2, "No such file"))), "ipmitool is not installed"),
        (ipmi(raising(PermissionError(13, "Permission denied"))), "cannot be started: Permission denied"),
        (ipmi(raising(subprocess.TimeoutExpired("ipmitool", 5))), "did not answer within 5 s"),
        (
            ipmi(raising(subprocess.CalledProcessError(1, "x", b"", b"Could not open device\n"))),
            "Could not open device",
        ),
        (ipmi(raising(subprocess.CalledProcessError(1, "x"))), "exit status 1"),
        (ipmi(answering(b"DCMI request failed")), "no power reading"),
        (snmp(raising(FileNotFoundError(2, "x"))), "snmpget"),
        (snmp(raising(subprocess.TimeoutExpired("snmpget", 5))), "snmpget"),
    ],
)
def test_controller_or_unit_that_cannot_be_read_is_a_reason(meter: IpmiMeter | SnmpMeter, reason: str) -> None:
    """One line, and no number."""
    assert reason in str(meter.probe())
    assert list(meter.read().values()) == [None]


@pytest.mark.parametrize(
    ("output", "watts"), [(b"1234\n", 123.4), (b"12.5", 1.25), (b"No Such Object", None), (b"", None)]
)
def test_outlet_is_scaled_to_watts(output: bytes, watts: float | None) -> None:
    """Here the unit counts tenths of a watt. Only an external meter with a certificate is class A."""
    meter = SnmpMeter("pdu", "1.3.6.1.4.1.318.1.1.26.6.3.1.7.1", 0.1, run=answering(output))
    calibrated = SnmpMeter("pdu", "1.2", is_calibrated=True)

    (found,) = meter.read().values()

    assert found == (None if watts is None else pytest.approx(watts))
    assert (meter.probe() is None) == (watts is not None)
    assert (meter.specs()[0].meter_class, calibrated.specs()[0].meter_class) == ("B", "A")


@pytest.mark.parametrize(
    ("answer", "watts"),
    [
        ({"PowerWatts": {"Reading": 344.5}}, 344.5),
        ({"PowerControl": [{"PowerConsumedWatts": 8000}]}, 8000.0),
        ({"Reading": 374, "ReadingUnits": "W"}, 374.0),
        ({"Reading": 37, "ReadingUnits": "Cel"}, None),
        ({"PowerWatts": {"Reading": None}}, None),
        ({"PowerWatts": {"Reading": True}}, None),
        ({"PowerWatts": {"Reading": -3}}, None),
        ({"PowerControl": []}, None),
        ({"PowerControl": ["x"]}, None),
        ([], None),
        ("344", None),
    ],
)
def test_redfish_resources_with_power(answer: Any, watts: float | None) -> None:
    """Three resources have it; a temperature, an absent value and nonsense do not."""
    assert power_w(answer) == watts


@pytest.fixture
def service() -> Iterator[tuple[str, dict[str, Any]]]:
    """A Redfish service on this machine: its URL, its answers and its requests."""
    state: dict[str, Any] = {"body": b"{}", "status": 200, "asked": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state["asked"].append(self.headers.get("Authorization"))
            self.send_response(state["status"])
            self.end_headers()
            self.wfile.write(state["body"])

        def log_message(self, format: str, *args: object) -> None:
            """A quiet server."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/redfish/v1/Chassis/1/EnvironmentMetrics", state
        server.shutdown()
        thread.join()


def test_redfish_is_read_over_http(service: tuple[str, dict[str, Any]]) -> None:
    """With its credentials, which are not in the log."""
    url, state = service
    state["body"] = json.dumps({"PowerWatts": {"Reading": 500}}).encode()

    meter = RedfishMeter(url, "reader", "secret")

    assert meter.probe() is None
    assert list(meter.read().values()) == [500.0]
    assert state["asked"][0].startswith("Basic ")
    assert "secret" not in str(meter.specs())


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b"", "Not Found"),
        (200, b"<html>", "not JSON"),
        (200, b"[" * 100_000, "not JSON"),
        (200, b"{}", "no power"),
    ],
)
def test_redfish_that_gives_no_power_is_a_reason(
    service: tuple[str, dict[str, Any]], status: int, body: bytes, reason: str
) -> None:
    """Whatever the service answers."""
    url, state = service
    state.update(status=status, body=body)
    meter = RedfishMeter(url)

    assert reason in str(meter.probe())
    assert list(meter.read().values()) == [None]


def test_connection_refused_is_a_reason() -> None:
    """Nothing listens on the port."""
    assert "refused" in str(RedfishMeter("http://127.0.0.1:9/redfish/v1/x").probe())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "must begin with https"),
        ("ftp://bmc/x", "must begin with https"),
        ("bmc/redfish", "must begin with https"),
        ("https:///x", "must begin with https"),
        ("http://bmc/redfish/v1/x", "over https only"),
    ],
)
def test_address_that_is_malformed_or_reveals_the_password_is_refused(url: str, message: str) -> None:
    """Before anything is opened; a password is sent encrypted, except on this machine itself."""
    with pytest.raises(UsageError, match=message):
        RedfishMeter(url, "reader", "secret")
