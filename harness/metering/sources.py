"""The reader of the file of `tta run --meter` and `tta agent --meter`: meters in a network, and local ones. Pure.

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
from typing import Any

from harness.base.values import MAX_TEXT, finite_number, is_whole, short_text
from harness.errors import RulesError, UsageError, printable, unknown_name
from harness.metering.meters.ipmi import IpmiSource
from harness.metering.meters.redfish import RedfishSource
from harness.metering.meters.snmp import SnmpSource

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


# What a field may be, by its annotation.
_TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str)),
    "int": ("a whole number", is_whole),
    "float": ("a number", lambda value: finite_number(value) is not None),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "None": ("nothing", lambda value: value is None),
}


def source_of(content: object, place: str) -> Source:
    """Read one entry of the list; it may come from anyone.

    Raises:
        RulesError: it is not a mapping, its kind is unknown, or a key is unknown, missing or of the wrong type.
        UsageError: a value is not permitted.
    """
    if not isinstance(content, dict):
        raise RulesError(f"{place}: must be a mapping")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        if kind is None:
            raise RulesError(f"{place}: has no kind; it must be one of: {', '.join(KINDS)}")
        raise RulesError(f"{place}: {unknown_name('kind of meter', printable(kind), KINDS)}")
    fields = {field.name: field for field in dataclasses.fields(KINDS[kind])}
    for name, value in content.items():
        if name not in fields:
            raise RulesError(f"{place}: {unknown_name('key', printable(name), fields)}")
        types = str(fields[name].type).split(" | ")
        if not any(_TYPES[each][1](value) for each in types):
            raise RulesError(f"{place}: {name} is {printable(value)!r}; it must be {_TYPES[types[0]][0]}")
    for name, field in fields.items():
        if field.default is dataclasses.MISSING and name not in content:
            raise RulesError(f"{place}: {name!r} is missing")
    source = KINDS[kind](**content)
    _validate(source, place)
    return source


def sources_of(content: dict[str, Any], place: str) -> tuple[Source, ...]:
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
    found = tuple(source_of(entry, f"{place}: meters[{number}]") for number, entry in enumerate(entries))
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
    for field in dataclasses.fields(source):
        text = getattr(source, field.name)
        if isinstance(text, str) and short_text(text) is None:
            raise UsageError(f"{place}: {field.name} must have 1 to {MAX_TEXT} printable characters")
    for name in ("host", "oid"):
        text = getattr(source, name, None)
        if text is not None and (text.startswith("-") or not text.isprintable() or " " in text):
            raise UsageError(f"{place}: {name} is {printable(text)!r}; it must be one word that does not begin with -")
