"""Meters: what a node can be asked about the power and energy it draws. One file a meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from harness.errors import UsageError, unknown_name
from harness.power import MeterSpec


class Meter(Protocol):
    """Something of this node that can be asked. It has no clock, no thread, and no say in when it is asked.

    name: what a person calls it on the command line. period_s: how often asking brings something new.
    """

    @property
    def name(self) -> str: ...
    @property
    def period_s(self) -> float: ...

    def probe(self) -> str | None:
        """Why it cannot give readings here, as a sentence for a person; None if it can.

        A meter that sees only a part of what it should (one processor of two) cannot: a part of the energy would look
        like a frugal run.
        """
        ...

    def specs(self) -> tuple[MeterSpec, ...]:
        """What it meters, where `probe` has no reason against it."""
        ...

    def read(self) -> dict[str, float | None]:
        """Watts or joules by meter id, as each one's `kind` says; None for a reading that failed.

        Never raises for a sensor that fails, and never answers with zero for one that did not answer.
        """
        ...

    def close(self) -> None:
        """Let go of what was opened."""
        ...


def _estimate(system: Mapping[str, Any]) -> Meter:
    from harness.meters.estimate import EstimateMeter

    return EstimateMeter(system)


def _ipmi(system: Mapping[str, Any]) -> Meter:
    from harness.meters.ipmi import IpmiMeter

    return IpmiMeter()


def _nvml(system: Mapping[str, Any]) -> Meter:
    from harness.machine.accelerators import find_nvml
    from harness.meters.nvml import NvmlMeter

    return NvmlMeter(find_nvml())


def _powercap(system: Mapping[str, Any]) -> Meter:
    from harness.meters.powercap import PowercapMeter

    return PowercapMeter()


def _zeus(system: Mapping[str, Any]) -> Meter:
    from harness.meters.zeus import ZeusMeter, find_zeus

    return ZeusMeter(find_zeus())


# What this node can be asked without being told more; the rest (`redfish`, `snmp`, a remote `ipmi`) needs a file.
LOCAL_METERS: dict[str, Callable[[Mapping[str, Any]], Meter]] = {
    "powercap": _powercap,
    "nvml": _nvml,
    "ipmi": _ipmi,
    "zeus": _zeus,
    "estimate": _estimate,
}


def open_meter(name: str, system: Mapping[str, Any]) -> Meter:
    """The meter of this node called `name`; `system` is the system description, where a person declares what an
    estimate needs.

    A meter that cannot work here is opened all the same: `probe` says why.

    Raises:
        UsageError: there is no such meter.
    """
    if name not in LOCAL_METERS:
        raise UsageError(unknown_name("meter", name, LOCAL_METERS))
    return LOCAL_METERS[name](system)
