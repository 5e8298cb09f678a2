"""Meters: what a node can be asked about the power and energy it draws. One file a meter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.errors import UsageError, unknown_name
from harness.log.power_format import MeterSpec
from harness.metering.sources import IpmiSource, LocalSource, RedfishSource, Source


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
    from harness.metering.meters.estimate import EstimateMeter

    return EstimateMeter(system)


def _ipmi(system: Mapping[str, Any]) -> Meter:
    from harness.metering.meters.ipmi import IpmiMeter

    return IpmiMeter()


def _nvml(system: Mapping[str, Any]) -> Meter:
    from harness.metering.meters.nvml import NvmlMeter, load_nvml

    return NvmlMeter(load_nvml())


def _powercap(system: Mapping[str, Any]) -> Meter:
    from harness.metering.meters.powercap import PowercapMeter

    return PowercapMeter()


def _zeus(system: Mapping[str, Any]) -> Meter:
    from harness.metering.meters.zeus import ZeusMeter

    return ZeusMeter()


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


def open_source(source: Source, system: Mapping[str, Any], environment: Mapping[str, str]) -> Meter:
    """The meter that a file describes; a password is taken from `environment`. `system` as for `open_meter`.

    Raises:
        UsageError: the variable of its password is not there, or it cannot be such a meter.
    """
    from functools import partial

    from harness.metering.meters.ipmi import IpmiMeter, run_program
    from harness.metering.meters.redfish import RedfishMeter
    from harness.metering.meters.snmp import SnmpMeter

    if isinstance(source, LocalSource):
        return open_meter(source.name, system)
    password: str | None = None
    if isinstance(source, IpmiSource | RedfishSource) and source.password_env is not None:
        password = environment.get(source.password_env)
        if password is None:
            raise UsageError(f"the environment has no {source.password_env}, where the password should be")
    if isinstance(source, IpmiSource):
        own = None if password is None else {**environment, "IPMI_PASSWORD": password}
        return IpmiMeter(source.host, source.user, source.accuracy_pct, partial(run_program, environment=own))
    if isinstance(source, RedfishSource):
        return RedfishMeter(source.url, source.user, password, source.ca_file, source.accuracy_pct)
    return SnmpMeter(source.host, source.oid, source.watts_per_unit, source.accuracy_pct, source.calibrated)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a meter would give here. reason: why it gives nothing, None if it does."""

    reason: str | None
    specs: tuple[MeterSpec, ...] = ()

    @property
    def told(self) -> str:
        """What it gives, by class, or why it does not, for a person."""
        if self.reason is not None:
            return f"not available: {self.reason}"
        counts = Counter((spec.meter_class, spec.component, spec.scope) for spec in self.specs)
        parts = [
            f"{'estimates' if meter_class == 'E' else 'measures'} {component} ({scope}), class {meter_class}"
            + (f", {count} of them" if count > 1 else "")
            for (meter_class, component, scope), count in counts.items()
        ]
        return "; ".join(parts)


# Both are told where to ask.
FILE_METERS = ("redfish", "snmp")


def survey(system: Mapping[str, Any]) -> dict[str, Survey]:
    """Every meter there is, by name, as it is on this node."""
    found = {}
    for name in LOCAL_METERS:
        meter = open_meter(name, system)
        reason = meter.probe()
        found[name] = Survey(reason, meter.specs() if reason is None else ())
        meter.close()
    for name in FILE_METERS:
        found[name] = Survey("needs a file that says where it is: --meter FILE, see docs/energy.md")
    return found
