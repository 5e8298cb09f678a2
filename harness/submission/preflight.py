"""The preflight in a system description: what the machine reached in single operations, by the submitter's measurement.

Pure. `harness.characterise.preflight` measures and writes it; names of rates are its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.base.values import finite_number, int_of_digits, is_whole, short_text
from harness.errors import printable
from harness.submission.system import NONE, PREFLIGHT_KEY, UNKNOWN

# What tells machines apart; the rest of a description may differ between two that are alike.
LIKE = (
    "accelerators_per_node",
    "accelerator_model_name",
    "host_processor_model_name",
    "host_processor_vcpu_count",
)
PRODUCT, CONVOLUTION, COPY, DISK = "matrix product", "convolution", "copy", "reading the disk"
VARYING = ": its times vary by"  # after the name of an operation, in a warning
FROM_HOST = f"{COPY} host to device"  # only a machine with accelerators has it
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_MAX_COUNT = 10**6
_MIN_RATE, _MAX_RATE = 1e-3, 1e21  # FLOP/s and B/s
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class CarriedPreflight:
    """A preflight as a description has it.

    num_devices: that were measured at once; num_threads: of all their processes, None where it is not stated. rates: by
    operation, those of the slowest device. num_varying: of how many the preflight says that their times vary. digest:
    of the whole preflight, which the description does not have. kind: what machines that are alike have in common; None
    where the description does not name its processors.
    """

    num_devices: int
    num_threads: int | None
    rates: Mapping[str, float]
    num_varying: int
    digest: str
    kind: tuple[object, ...] | None

    @property
    def has_accelerators(self) -> bool:
        return FROM_HOST in self.rates

    @property
    def varying_fraction(self) -> float:
        return self.num_varying / len(self.rates)

    def device_peak(self, precision: str) -> float | None:
        """FLOP/s of the fastest product or convolution that a run in a precision may do on one device.

        Those in fp32 are among them, since some of them stay in it in every precision. None where the precision was not
        measured.
        """
        rates: dict[str, list[float]] = {}
        for name, rate in self.rates.items():
            if name.startswith((PRODUCT, CONVOLUTION)):
                rates.setdefault(name.rpartition(", ")[2], []).append(rate)
        return max(rates[precision] + rates.get("fp32", [])) if precision in rates else None


def carried(description: Mapping[str, Any] | None) -> CarriedPreflight | None:
    """The preflight of a system description; None if it has none.

    Raises:
        ValueError: it is none, or not one of the machine that is described.
    """
    record = (description or {}).get(PREFLIGHT_KEY)
    if description is None or record is None:
        return None
    if not isinstance(record, dict):
        raise ValueError(f"{PREFLIGHT_KEY} is {printable(record, 60)!r}, not an object")
    num_devices, digest = _count(record, "devices"), record.get("digest")
    num_threads = _count(record, "threads") if "threads" in record else None
    _check_time(record.get("made"))
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"digest is {printable(digest, 80)!r}, not a SHA-256")
    rates, warnings = _rates(record), record.get("warnings")
    if not isinstance(warnings, list) or not all(isinstance(words, str) for words in warnings):
        raise ValueError("its warnings are no list of texts")
    num_varying = sum(words.partition(VARYING)[0] in rates for words in warnings if VARYING in words)
    kind = _kind(description, num_devices)
    found = CarriedPreflight(num_devices, num_threads, rates, num_varying, digest, kind)
    number = int_of_digits(description.get("accelerators_per_node"))
    if number is not None and found.has_accelerators != (number > 0):
        has = "has copies between host and accelerator" if found.has_accelerators else "has no operation of one"
        raise ValueError(f"it {has}; the description has {number} accelerators per node")
    if number and num_devices > number:
        raise ValueError(f"it is of {num_devices} devices; the description has {number} accelerators per node")
    return found


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    if not is_whole(value) or not 0 < value <= _MAX_COUNT:
        raise ValueError(f"{name} is {printable(value, 60)!r}, not a number of them")
    return value


def _check_time(made: object) -> None:
    try:
        time.strptime(made if isinstance(made, str) else "", TIME_FORMAT)
    except ValueError:
        raise ValueError(f"made is {printable(made, 60)!r}, not a time such as 2026-11-26T12:00:00Z") from None


def _rates(record: Mapping[str, Any]) -> dict[str, float]:
    rates = record.get("rates")
    if not isinstance(rates, dict) or not rates:
        raise ValueError("it has no rates")
    found = {}
    for name, value in rates.items():
        rate = finite_number(value)
        if rate is None or not _MIN_RATE <= rate <= _MAX_RATE:
            raise ValueError(f"{printable(name, 100)} is {printable(value, 60)!r}, no rate of a machine")
        found[str(name)] = rate
    return found


def _kind(description: Mapping[str, Any], num_devices: int) -> tuple[object, ...] | None:
    values = [short_text(description.get(name)) for name in LIKE]
    is_named = None not in values and UNKNOWN not in values and description["host_processor_model_name"] != NONE
    return (num_devices, *values) if is_named else None
