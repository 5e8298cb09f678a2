"""Every meter there is: what a meter must do, and how one is opened by its name or from a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from harness.errors import UsageError, unknown_name
from harness.log.power_format import MeterSpec
from harness.metering.meters.estimate import EstimateMeter
from harness.metering.meters.ipmi import IpmiMeter, IpmiSource, run_program
from harness.metering.meters.nvml import NvmlMeter, load_nvml
from harness.metering.meters.powercap import PowercapMeter
from harness.metering.meters.redfish import RedfishMeter, RedfishSource
from harness.metering.meters.snmp import SnmpMeter
from harness.metering.meters.zeus import ZeusMeter
from harness.metering.sources import LocalSource, Source


class Meter(Protocol):
    """Something of this node that can be read. It has no clock and no thread, and does not decide when it is read.

    name: its name on the command line. period_s: how often reading gives something new.
    """

    @property
    def name(self) -> str: ...
    @property
    def period_s(self) -> float: ...

    def probe(self) -> str | None:
        """Why it cannot give readings here, as a sentence for a user; None if it can.

        A meter that sees only a part of what it should (one processor of two) cannot: part of the energy would look
        like a frugal run.
        """
        ...

    def specs(self) -> tuple[MeterSpec, ...]:
        """What it meters, if `probe` gives no reason against it."""
        ...

    def read(self) -> dict[str, float | None]:
        """Watts or joules by meter id, according to each `kind`; None for a reading that failed.

        Never raises if a sensor fails, and never returns zero for one that did not answer.
        """
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


# What can be read on this node without configuration.
LOCAL_METERS: dict[str, Callable[[Mapping[str, Any]], Meter]] = {
    "powercap": lambda system: PowercapMeter(),
    "nvml": lambda system: NvmlMeter(load_nvml()),
    "ipmi": lambda system: IpmiMeter(),
    "zeus": lambda system: ZeusMeter(),
    "estimate": EstimateMeter,
}
FILE_METERS = ("redfish", "snmp")  # need a file that says where they are; so does a remote `ipmi`


def open_meter(name: str, system: Mapping[str, Any]) -> Meter:
    """Return the meter of this node called `name`. system: the system description, which declares what an estimate
    needs.

    A meter that cannot work here is opened all the same; its `probe` says why.

    Raises:
        UsageError: there is no such meter.
    """
    if name not in LOCAL_METERS:
        raise UsageError(unknown_name("meter", name, LOCAL_METERS))
    return LOCAL_METERS[name](system)


def open_source(source: Source, system: Mapping[str, Any], environment: Mapping[str, str]) -> Meter:
    """Return the meter that a file describes, with its password from `environment`. system: as for `open_meter`.

    Raises:
        UsageError: the variable of its password is not set, or there can be no such meter.
    """
    if isinstance(source, LocalSource):
        return open_meter(source.name, system)
    password: str | None = None
    if isinstance(source, IpmiSource | RedfishSource) and source.password_env is not None:
        password = environment.get(source.password_env)
        if password is None:
            raise UsageError(f"the environment variable {source.password_env} for the password is not set")
    if isinstance(source, IpmiSource):
        own = None if password is None else {**environment, "IPMI_PASSWORD": password}
        return IpmiMeter(source.host, source.user, source.accuracy_pct, partial(run_program, environment=own))
    if isinstance(source, RedfishSource):
        return RedfishMeter(source.url, source.user, password, source.ca_file, source.accuracy_pct)
    return SnmpMeter(source.host, source.oid, source.watts_per_unit, source.accuracy_pct, source.calibrated)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a meter would give here. reason: why it gives nothing; None if it does."""

    reason: str | None
    specs: tuple[MeterSpec, ...] = ()

    @property
    def summary(self) -> str:
        """What it gives, by class, or why it gives nothing."""
        if self.reason is not None:
            return f"not available: {self.reason}"
        counts = Counter((spec.meter_class, spec.component, spec.scope) for spec in self.specs)
        parts = [
            f"{'estimates' if meter_class == 'E' else 'measures'} {component} ({scope}), class {meter_class}"
            + (f", {count} of them" if count > 1 else "")
            for (meter_class, component, scope), count in counts.items()
        ]
        return "; ".join(parts)


def survey(system: Mapping[str, Any]) -> dict[str, Survey]:
    """Survey every meter on this node, by name."""
    found = {}
    for name in LOCAL_METERS:
        meter = open_meter(name, system)
        reason = meter.probe()
        found[name] = Survey(reason, meter.specs() if reason is None else ())
        meter.close()
    for name in FILE_METERS:
        found[name] = Survey("needs a file that says where it is: --meter FILE, see docs/how-to/measure-energy.md")
    return found
