"""The powercap meter on trees of files: what is counted, what must not be, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.metering.meters.powercap import PowercapMeter

PACKAGE_RANGE_UJ = 262_143_328_850
DRAM_RANGE_UJ = 65_712_999_613


def zone(root: Path, folder: str, name: str, energy_uj: int | str, range_uj: int | None = PACKAGE_RANGE_UJ) -> Path:
    place = root / "sys/class/powercap" / folder
    place.mkdir(parents=True)
    (place / "name").write_text(f"{name}\n")
    (place / "energy_uj").write_text(f"{energy_uj}\n")
    if range_uj is not None:
        (place / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return place


def server(root: Path) -> None:
    """Two packages with core, uncore and DRAM each, psys over all, and a memory-mapped twin of package 0."""
    for package in (0, 1):
        zone(root, f"intel-rapl:{package}", f"package-{package}", 1_000_000 * (package + 1))
        zone(root, f"intel-rapl:{package}:0", "core", 700_000)
        zone(root, f"intel-rapl:{package}:1", "uncore", 10_000)
        zone(root, f"intel-rapl:{package}:2", "dram", 250_000 * (package + 1), DRAM_RANGE_UJ)
    zone(root, "intel-rapl:2", "psys", 9_000_000)
    zone(root, "intel-rapl-mmio:0", "package-0", 1_000_000)
    zone(root, "intel-rapl", "", 0)  # the control type itself is no zone
    zone(root, "dtpm", "dtpm", 5)


def test_packages_and_dram_are_counted_once_and_nothing_else(tmp_path: Path) -> None:
    """Core and uncore are inside a package, psys is all of them, the memory-mapped zone is package 0 again; each zone
    has its own range, and a device name that reveals a twin."""
    server(tmp_path)

    meter = PowercapMeter(tmp_path)
    specs = {spec.id: spec for spec in meter.specs()}

    assert meter.probe() is None
    assert meter.read() == pytest.approx(
        {
            "powercap:package-0": 1.0,
            "powercap:package-1": 2.0,
            "powercap:package-0/dram": 0.25,
            "powercap:package-1/dram": 0.5,
        }
    )
    assert {(spec.meter_class, spec.kind) for spec in specs.values()} == {("C", "energy_j")}
    assert specs["powercap:package-0"].component == "cpu_package"
    assert specs["powercap:package-0/dram"].component == "dram"
    assert specs["powercap:package-0"].wrap_at_j == pytest.approx(262_143.32885)
    assert specs["powercap:package-1/dram"].wrap_at_j == pytest.approx(65_712.999613)
    assert len({spec.device for spec in specs.values()}) == len(specs)


def test_memory_mapped_zone_counts_if_it_is_the_only_one(tmp_path: Path) -> None:
    """Some kernels show only that one."""
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 3_000_000)

    assert PowercapMeter(tmp_path).read() == {"powercap:package-0": 3.0}


def test_unreadable_counter_is_a_reason_and_not_a_zero(tmp_path: Path) -> None:
    """Root ignores file modes, so the refusal is simulated. Half of the packages would look like a frugal machine."""
    server(tmp_path)

    def refusing(path: Path) -> str:
        if path.parent.name == "intel-rapl:1" and path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return path.read_text()

    meter = PowercapMeter(tmp_path, refusing)

    assert "intel-rapl:1/energy_uj cannot be read" in str(meter.probe())
    assert "powercap:package-1" not in meter.read()
    assert "powercap:package-0" in meter.read()


def test_unreadable_range_allows_no_wrap(tmp_path: Path) -> None:
    """Without a range, it is unknown where the counter wraps."""
    zone(tmp_path, "intel-rapl:0", "package-0", 5, range_uj=None)

    (spec,) = PowercapMeter(tmp_path).specs()

    assert spec.wrap_at_j is None


@pytest.mark.parametrize("garbage", ["", "nonsense", "-5", "1.5", "\u0661", None])
def test_failed_read_gives_none_and_the_next_is_good(tmp_path: Path, garbage: str | None) -> None:
    """One bad answer is one failed reading, whatever its content; a driver can also be unloaded during a run."""
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000) / "energy_uj"
    meter = PowercapMeter(tmp_path)
    if garbage is None:
        counter.unlink()
    else:
        counter.write_text(garbage)
    bad = meter.read()
    counter.write_text("2000000\n")

    assert bad == {"powercap:package-0": None}
    assert meter.read() == {"powercap:package-0": 2.0}


def test_tree_without_packages_is_a_reason(tmp_path: Path) -> None:
    """A kernel without powercap, such as that of every virtual machine, or a folder without any usable zone."""
    assert "no powercap" in str(PowercapMeter(tmp_path).probe())

    zone(tmp_path, "intel-rapl:0", "psys", 1)
    assert "no processor package" in str(PowercapMeter(tmp_path).probe())
