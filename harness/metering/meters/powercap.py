"""Linux powercap: the energy counters of processor packages and their DRAM (RAPL on Intel and AMD).

Zones overlap, so summing them all counts energy twice. `core` and `uncore` are inside `package`, `psys` covers the
whole board, and a zone under intel-rapl-mmio is the same counter as its namesake under intel-rapl, read in another way:
only packages and DRAM are metered, each once. Since 2020 only root can read `energy_uj` (CVE-2020-8694); what cannot be
read is unavailable, never zero.

Source: kernel.org, Documentation/power/powercap/powercap.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import printable
from harness.log.power_format import MeterSpec

PERIOD_S = 1.0
_PLACE = Path("sys/class/powercap")
# A control type's own folder, and one of its zones: intel-rapl:0, intel-rapl:0:2, intel-rapl-mmio:0, amd-rapl:0.
_ZONE = re.compile(r"(?P<type>[a-z]+-rapl(?P<mmio>-mmio)?):[0-9]+(:[0-9]+)?")
_MICRO = 1e-6
_REFRESH_S = 1e-3  # Intel, Software Developer's Manual, volume 3, "RAPL interfaces": about a millisecond
_RESOLUTION_J = 2**-14  # its default unit of energy, 61 µJ; those of DRAM and of AMD are smaller

Reader = Callable[[Path], str]


def _read_text(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # ten times a second; Path.read_text takes three times as long
    try:
        return os.read(fd, 256).decode("ascii")
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Zone:
    """One counter."""

    path: Path
    name: str
    spec: MeterSpec


class PowercapMeter:
    """Every package and DRAM zone of this node."""

    name = "powercap"
    period_s = PERIOD_S

    def __init__(self, root: Path = Path("/"), read_text: Reader = _read_text) -> None:
        """root, read_text: for tests; the root user ignores file modes, so a refusal has to be simulated."""
        self._read_text = read_text
        self._place = root / _PLACE
        self._zones, self._reasons = self._find()

    def probe(self) -> str | None:
        """None if every package and DRAM zone of this node can be read."""
        if not self._place.is_dir():
            return f"{self._place}: this kernel has no powercap (virtual machines have none)"
        if self._reasons:
            return "; ".join(self._reasons)
        return None if self._zones else f"{self._place}: no processor package has a counter there"

    def specs(self) -> tuple[MeterSpec, ...]:
        return tuple(zone.spec for zone in self._zones)

    def read(self) -> dict[str, float | None]:
        """Joules by meter id; None if a read failed, which costs nothing if a later one succeeds."""
        return {zone.spec.id: self._joules(zone.path / "energy_uj") for zone in self._zones}

    def close(self) -> None:
        """Nothing is held open, because a zone can vanish with its driver."""

    def _find(self) -> tuple[tuple[Zone, ...], list[str]]:
        zones: dict[str, Zone] = {}
        reasons: list[str] = []
        for path, name in self._candidates():
            if name in zones:
                continue  # the memory-mapped twin of a counter that was already found
            if self._joules(path / "energy_uj") is None:
                reasons.append(
                    f"{path / 'energy_uj'} cannot be read (root, or a udev rule that lets your group read it)"
                )
                continue
            zones[name] = Zone(path, name, self._spec(path, name))
        return tuple(zones.values()), reasons

    def _candidates(self) -> Iterator[tuple[Path, str]]:
        """Package and DRAM zones with names that are unique in the machine, model-specific registers first."""
        if not self._place.is_dir():
            return
        found = [(path, match) for path in self._place.iterdir() if (match := _ZONE.fullmatch(path.name))]
        for path, _ in sorted(found, key=lambda item: (item[1]["mmio"] is not None, _numbers(item[0].name))):
            name = self._text(path / "name") or ""
            if name.startswith("package-"):
                yield path, name
            elif name == "dram":
                parent = self._text(path.parent / path.name.rpartition(":")[0] / "name") or path.name
                yield path, f"{parent}/dram"

    def _spec(self, path: Path, name: str) -> MeterSpec:
        wrap_at_j = self._joules(path / "max_energy_range_uj")
        return MeterSpec(
            id=f"powercap:{name}",
            component="dram" if name.endswith("/dram") else "cpu_package",
            scope="package",
            meter_class="C",
            kind="energy_j",
            period_s=self.period_s,
            source=f"{path}/energy_uj",
            device=name,
            averaging_s=_REFRESH_S,
            wrap_at_j=wrap_at_j if wrap_at_j else None,
            resolution_j=_RESOLUTION_J,
        )

    def _joules(self, path: Path) -> float | None:
        try:
            text = self._read_text(path).strip()
        except (OSError, ValueError):
            return None
        return int(text) * _MICRO if text.isascii() and text.isdigit() else None

    def _text(self, path: Path) -> str | None:
        try:
            return printable(self._read_text(path).strip())
        except (OSError, ValueError):
            return None


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", name))
