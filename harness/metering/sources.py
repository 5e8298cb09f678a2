"""The reader of `tta run --meter FILE`: meters that are reached over a network, and local ones. Pure.

meters:
  - kind: redfish
    url: https://bmc7/redfish/v1/Chassis/1/EnvironmentMetrics
    user: reader
    password_env: BMC_PASSWORD        # the name of a variable, never the password
    ca_file: /etc/ssl/bmc.pem         # default: the system's
    accuracy_pct: 3                   # the maker's 95 % half width, % of reading; default: undeclared
    node: 0                           # the node that it meters, whose agent reads it; default: 0
  - kind: ipmi
    host: bmc8
    user: reader
    password_env: BMC_PASSWORD
    node: 1
  - kind: snmp
    host: pdu1
    oid: 1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.1
    watts_per_unit: 0.1
    calibrated: true                  # with a certificate: class A; default: false, class B
    accuracy_pct: 1
  - kind: local
    name: nvml                        # a meter of the node itself, together with the others
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.errors import RulesError, UsageError, printable, unknown_name
from harness.metering.meters.ipmi import IpmiSource
from harness.metering.meters.redfish import RedfishSource
from harness.metering.meters.snmp import SnmpSource

T = TypeVar("T")
Build = Callable[[type[T], object, str], T]
MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A meter of the node itself, by its name."""

    name: str
    node: int = 0
    kind: str = "local"


Source = IpmiSource | RedfishSource | SnmpSource | LocalSource
KINDS: dict[str, type[Source]] = {
    "ipmi": IpmiSource,
    "redfish": RedfishSource,
    "snmp": SnmpSource,
    "local": LocalSource,
}


def source_of(content: object, place: str, build: Build[Any] | None = None) -> Source:
    """Read one entry of the list. `build` makes the dataclass and checks types; without it, types are not checked.

    Raises:
        RulesError: it is not a mapping, or its kind is unknown. UsageError: a value is not permitted.
    """
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        if kind is None:
            raise RulesError(f"{place}: has no kind; it must be one of: {', '.join(KINDS)}")
        raise RulesError(f"{place}: {unknown_name('kind of meter', str(kind), KINDS)}")
    known_keys = [field.name for field in dataclasses.fields(KINDS[kind])]
    for name in content:
        if name not in known_keys:
            raise RulesError(f"{place}: {unknown_name('key', str(name), known_keys)}")
    if build is None:
        try:
            source: Source = KINDS[kind](**content)
        except TypeError as error:
            raise RulesError(f"{place}: {printable(error)}") from None
    else:
        source = build(KINDS[kind], content, place)
    _validate(source, place)
    return source


def sources_of(content: dict[str, Any], place: str, build: Build[Any]) -> tuple[Source, ...]:
    """Read the whole file.

    Raises:
        RulesError: it has no list of meters, or an entry is not a meter. UsageError: a value is not permitted.
    """
    for name in content:
        if name != "meters":
            raise RulesError(f"{place}: {unknown_name('key', name, ['meters'])}")
    entries = content.get("meters")
    if not isinstance(entries, list) or not entries:
        raise RulesError(f"{place}: 'meters' must be a list of at least one meter")
    found = tuple(source_of(entry, f"{place}: meters[{number}]", build) for number, entry in enumerate(entries))
    for number, source in enumerate(found):
        same = [other for other in found[:number] if (other.name, other.node) == (source.name, source.node)]
        if same:
            raise RulesError(f"{place}: meters[{number}]: {printable(source.name)} is listed twice")
    return found


def _validate(source: Source, place: str) -> None:
    if not 0 <= source.node < MAX_NODES:
        raise UsageError(f"{place}: node is {source.node}; it must be from 0 up")
    accuracy_pct = getattr(source, "accuracy_pct", None)
    if accuracy_pct is not None and not 0 < accuracy_pct <= 100:
        raise UsageError(f"{place}: accuracy_pct is {accuracy_pct:g}; it must be over 0 and at most 100")
    if isinstance(source, SnmpSource):
        if not 0 < source.watts_per_unit <= 1e6:
            raise UsageError(f"{place}: watts_per_unit is {source.watts_per_unit:g}; it must be over 0")
        if source.calibrated and accuracy_pct is None:
            raise UsageError(f"{place}: a calibrated meter must declare its accuracy: accuracy_pct")
    for field in ("host", "oid"):
        text = getattr(source, field, None)
        if text is not None and (not text or text.startswith("-") or not text.isprintable() or " " in text):
            raise UsageError(f"{place}: {field} is {printable(text)!r}; it must be one word that does not begin with -")
