"""Meters described by a file, and zeus with doubles of its modules."""

from __future__ import annotations

import dataclasses
import json
import queue
import types
from pathlib import Path
from typing import Any

import pytest

from harness.errors import RulesError, TtaError, UsageError
from harness.metering import session
from harness.metering.catalog import open_source
from harness.metering.meters.ipmi import IpmiSource
from harness.metering.meters.redfish import RedfishSource
from harness.metering.meters.snmp import SnmpSource
from harness.metering.meters.zeus import ZeusMeter
from harness.metering.session import MeterRequest
from harness.metering.sources import LocalSource, Source, source_of, sources_of

FILE = """
meters:
  - {kind: redfish, url: "https://bmc7/redfish/v1/Chassis/1/EnvironmentMetrics", user: reader, password_env: PW}
  - {kind: ipmi, host: bmc8, user: reader, password_env: PW, node: 1, accuracy_pct: 4}
  - {kind: snmp, host: pdu1, oid: 1.3.6.1.4.1, watts_per_unit: 0.1, calibrated: true, accuracy_pct: 1}
  - {kind: local, name: nvml, node: 1}
"""


def test_file_names_every_kind_of_meter(tmp_path: Path) -> None:
    """Each with its node and its defaults, together with meters by name."""
    path = tmp_path / "meters.yaml"
    path.write_text(FILE)

    wanted = session.meter_plan(MeterRequest(f"powercap,{path}", num_nodes=2, listen="127.0.0.1:1"))

    assert wanted is not None
    assert (wanted.names, wanted.is_strict) == (("powercap",), True)
    assert wanted.sources == (
        RedfishSource("https://bmc7/redfish/v1/Chassis/1/EnvironmentMetrics", "reader", "PW"),
        IpmiSource("bmc8", "reader", "PW", 4.0, node=1),
        SnmpSource("pdu1", "1.3.6.1.4.1", 0.1, True, 1.0),
        LocalSource("nvml", node=1),
    )


def test_auto_is_every_local_meter_and_none_is_nothing() -> None:
    """An estimate is used only if requested by name."""
    auto = session.meter_plan(MeterRequest("auto"))

    assert auto is not None
    assert auto.names == ("powercap", "nvml", "ipmi", "zeus")
    assert not auto.is_strict
    assert session.meter_plan(MeterRequest()) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "'meters' must be a list"),
        ({"meters": []}, "'meters' must be a list"),
        ({"metres": []}, "did you mean 'meters'"),
        ({"meters": ["nvml"]}, r"meters\[0\]: must be a mapping"),
        ({"meters": [{"host": "x"}]}, "has no kind; it must be one of: ipmi, redfish, snmp, local"),
        ({"meters": [{"kind": "snmb"}]}, "did you mean 'snmp'"),
        ({"meters": [{"kind": ["snmp"]}]}, "unknown kind"),
        ({"meters": [{"kind": "snmp", "host": "x"}]}, "'oid' is missing"),
        ({"meters": [{"kind": "snmp", "host": "x", "oid": "1", "community": "public"}]}, "unknown key 'community'"),
        ({"meters": [{"kind": "ipmi", "host": "x", "password": "secret"}]}, "did you mean 'password_env'"),
        ({"meters": [{"kind": "ipmi", "host": "x", "node": -1}]}, "node is -1"),
        ({"meters": [{"kind": "ipmi", "host": "x", "node": "a"}]}, "node is 'a'; it must be a whole number"),
        ({"meters": [{"kind": "ipmi", "host": "x", "node": True}]}, "node is 'True'; it must be a whole number"),
        ({"meters": [{"kind": "ipmi", "host": ["x"]}]}, "host is .*; it must be text"),
        ({"meters": [{"kind": "ipmi", "host": ""}]}, "host must have 1 to 500 printable characters"),
        ({"meters": [{"kind": "ipmi", "host": "x", "user": "a\n"}]}, "user must have 1 to 500 printable characters"),
        ({"meters": [{"kind": "ipmi", "host": "x", "accuracy_pct": float("nan")}]}, "accuracy_pct is 'nan'"),
        (
            {"meters": [{"kind": "ipmi", "host": "x", "accuracy_pct": 10**400}]},
            "it must be a number",
        ),
        ({"meters": [{"kind": "ipmi", "host": "-oProxy=x"}]}, "does not begin with -"),
        ({"meters": [{"kind": "ipmi", "host": "a b"}]}, "must be one word"),
        ({"meters": [{"kind": "ipmi", "host": "x", "accuracy_pct": 0}]}, "accuracy_pct is 0"),
        ({"meters": [{"kind": "snmp", "host": "x", "oid": "1", "watts_per_unit": 0}]}, "watts_per_unit is 0"),
        ({"meters": [{"kind": "snmp", "host": "x", "oid": "1", "calibrated": True}]}, "must declare its accuracy"),
        ({"meters": [{"kind": "ipmi", "host": "x"}, {"kind": "ipmi", "host": "x"}]}, "is listed twice"),
    ],
)
def test_malformed_file_is_an_error(content: dict[str, Any], message: str) -> None:
    """One sentence with the place in the file."""
    with pytest.raises((RulesError, UsageError), match=message) as raised:
        sources_of(content, "meters.yaml")

    assert str(raised.value).startswith("meters.yaml")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "source",
    [
        RedfishSource("https://bmc7/x", "reader", "PW", "ca.pem", 3.0, 2),
        IpmiSource("bmc8", "reader", "PW", 4.0, node=1),
        SnmpSource("pdu1", "1.3.6.1.4.1", 0.1, True, 1.0),
        LocalSource("nvml", node=1),
    ],
)
def test_a_source_reaches_a_nodes_agent_unchanged(source: Source) -> None:
    """It is sent as JSON, with its kind; the agent validates it again."""
    sent = json.loads(json.dumps(dataclasses.asdict(source)))

    assert source_of(sent, "a source of power") == source
    with pytest.raises(UsageError, match="a source of power: node is -1"):
        source_of({**sent, "node": -1}, "a source of power")
    with pytest.raises(RulesError, match="a source of power: unknown key 'shell'"):
        source_of({**sent, "shell": "true"}, "a source of power")


def test_an_incomplete_source_is_an_error_at_the_agent() -> None:
    """One sentence with what is missing."""
    with pytest.raises(RulesError, match="a source of power: 'oid' is missing"):
        source_of({"kind": "snmp", "host": "pdu1"}, "a source of power")


def test_password_comes_from_the_environment_by_name() -> None:
    """A variable that is not set, or a missing file of certificates, is an error before any request; the password is in
    no declaration."""
    source = RedfishSource("https://bmc7/x", "reader", "PW")
    with pytest.raises(UsageError, match="variable PW for the password is not set"):
        open_source(source, {}, {})
    with pytest.raises(TtaError, match=r"ca_file nowhere\.pem: No such file"):
        open_source(RedfishSource("https://bmc7/x", ca_file="nowhere.pem"), {}, {})

    meter = open_source(source, {}, {"PW": "secret"})

    assert "secret" not in str(meter.specs())
    assert open_source(IpmiSource("bmc8", password_env="PW"), {}, {"PW": "secret"}).specs()[0].device == "bmc8"


class BaseGPUError(Exception):
    """Like zeus's own."""


class InitError(BaseGPUError):
    """Neither NVML nor AMD SMI."""


class BaseSoCError(Exception):
    """Like zeus's own."""


class AMDGPU:
    """A device in zeus 0.16."""

    def __init__(self, name: str = "MI300X", mj: float | None = 5_000.0, is_supported: bool = True) -> None:
        self.name, self.mj, self.is_supported = name, mj, is_supported

    def get_name(self) -> str:
        return self.name

    def supports_get_total_energy_consumption(self) -> bool:
        return self.is_supported

    def get_total_energy_consumption(self) -> float:
        if self.mj is None or not self.is_supported:
            raise BaseGPUError("lost")
        return self.mj


class NVIDIAGPU(AMDGPU):
    """A device of the other vendor."""


class OldGPU:
    """From before the names changed."""

    def getTotalEnergyConsumption(self) -> int:
        return 1


def zeus(gpus: list[Any] | None, chip: Any = None) -> Any:
    """An importer of the modules that the meter needs; gpus None: neither library is installed."""

    def get_gpus() -> Any:
        if gpus is None:
            raise InitError("NVML and AMDSMI unavailable")
        return types.SimpleNamespace(gpus=gpus)

    def get_soc() -> Any:
        if chip is None:
            raise BaseSoCError("No observable SoC was found")
        return chip

    modules = {
        "zeus.device.exception": types.SimpleNamespace(ZeusBaseGPUError=BaseGPUError, ZeusBaseSoCError=BaseSoCError),
        "zeus.device.gpu": types.SimpleNamespace(get_gpus=get_gpus, ZeusGPUInitError=InitError),
        "zeus.device.soc": types.SimpleNamespace(get_soc=get_soc),
    }
    return modules.__getitem__


def absent(name: str) -> Any:
    raise ImportError(name)


def test_zeus_reads_the_counters_of_amd_devices() -> None:
    """Millijoules since the driver was loaded; a failed read is None, and the next is good."""
    first, second = AMDGPU(), AMDGPU(mj=7_000.0)
    meter = ZeusMeter(zeus([first, second]))

    assert meter.probe() is None
    assert [spec.meter_class for spec in meter.specs()] == ["C", "C"]
    assert len({spec.device for spec in meter.specs()}) == 2
    assert meter.read() == {"zeus:0:energy": 5.0, "zeus:1:energy": 7.0}
    first.mj = None
    assert meter.read() == {"zeus:0:energy": None, "zeus:1:energy": 7.0}


def test_second_half_of_a_split_device_is_in_the_first_half() -> None:
    """AMD's driver reports the power of both chips of an MI250 for the first."""
    meter = ZeusMeter(zeus([AMDGPU("MI250X"), AMDGPU("MI250X", is_supported=False)]))

    assert meter.probe() is None
    assert list(meter.read()) == ["zeus:0:energy"]


class Chip:
    """A system on a chip."""

    def __init__(self, error: Exception | None = None, **fields: float | list[int] | None) -> None:
        self.error, self.fields = error, fields

    def get_total_energy_consumption(self) -> Any:
        if self.error is not None:
            raise self.error
        return types.SimpleNamespace(**self.fields)


def test_apple_has_parts_and_jetson_a_whole() -> None:
    """Cores are inside the processor and left out; power that zeus polls and sums up is class D."""
    apple = Chip(cpu_total_mj=2_000, gpu_mj=500, ane_mj=None, dram_mj=250, performance_cores_mj=[1_000])
    jetson = Chip(cpu_energy_mj=1_000.0, gpu_energy_mj=2_000.0, total_energy_mj=4_000.0)

    parts, whole = ZeusMeter(zeus(None, apple)), ZeusMeter(zeus(None, jetson))

    assert (parts.probe(), whole.probe()) == (None, None)
    assert parts.read() == {"zeus:cpu_total": 2.0, "zeus:gpu": 0.5, "zeus:dram": 0.25}
    assert [spec.component for spec in parts.specs()] == ["cpu_package", "gpu", "dram"]
    assert whole.read() == {"zeus:total_energy": 4.0}
    assert [(spec.component, spec.meter_class) for spec in whole.specs()] == [("node", "D")]


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (absent, "zeus is not installed"),
        (zeus([]), "sees no device"),
        (zeus([NVIDIAGPU()]), "--meter nvml"),
        (zeus([OldGPU()]), "pip install -U zeus"),
        (zeus([AMDGPU(is_supported=False)]), "no energy counter that agrees"),
        (zeus([AMDGPU(mj=None)]), "cannot be read"),
        (zeus(None), "NVML and AMDSMI unavailable; No observable SoC"),
        (zeus(None, Chip(queue.Empty())), "NVML and AMDSMI unavailable"),
        (zeus(None, Chip(cpu_total_mj=None, gpu_mj=None)), "no energy counter here"),
    ],
)
def test_zeus_without_a_device_is_a_reason_and_not_a_zero(load: Any, reason: str) -> None:
    """zeus would silently give 0 J, which wins every ranking."""
    meter = ZeusMeter(load)

    assert reason in str(meter.probe())
    assert meter.specs() == ()
    assert meter.read() == {}
