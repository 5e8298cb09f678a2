"""`tta doctor`: what it reports and marks, and the file it writes."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from harness.commands import doctor
from harness.errors import ExitStatus, OutputError, UsageError
from harness.log.power_format import MeterSpec
from harness.metering.catalog import Survey
from harness.run import preflight
from harness.run.preflight import BUSY_FRACTION, LOW_DISK_BYTES, MAX_CLOCK_STEP_NS, MIN_OPEN_FILES
from harness.submission.system import (
    FIELDS,
    Accelerator,
    Accelerators,
    ClockFacts,
    Interface,
    Machine,
    Processor,
    Storage,
    system_description,
)
from tests.fabricate import ISOLATION, SYSTEM

HEALTHY = Machine(
    processor=Processor("Example 9000", 1, 4, 8, 8, None, 3000, ("L2 1 MiB x 4",), 1, "performance", True),
    memory_bytes=16 << 30,
    memory_available_bytes=12 << 30,
    storage=Storage("/runs", "SSD", "ext4", 100 << 30, 50 << 30),
    interfaces=(Interface("eth0", 25000),),
    accelerators=Accelerators(),
    clock=ClockFacts("tsc", 1, 40),
    os="Example Linux 12",
    kernel="6.1.0",
    architecture="x86_64",
    virtualisation=None,
    container=None,
    load_1min=0.0,
    max_open_files=4096,
    python="3.11.7",
    packages={"torch": "2.14.1", "mlflow": None},
)
METERS = {
    "powercap": Survey(
        None,
        (
            MeterSpec("powercap:package-0", "cpu_package", "package", "C", "energy_j", 1.0, "a file"),
            MeterSpec("powercap:package-1", "cpu_package", "package", "C", "energy_j", 1.0, "a file"),
            MeterSpec("powercap:package-0/dram", "dram", "package", "C", "energy_j", 1.0, "a file"),
        ),
    ),
    "estimate": Survey("no wattage"),
}


def machine(**changes: Any) -> Machine:
    """The healthy machine with some facts changed; a processor's facts by their own names."""
    processor = {name: changes.pop(name) for name in list(changes) if name in Processor.__dataclass_fields__}
    return dataclasses.replace(HEALTHY, processor=dataclasses.replace(HEALTHY.processor, **processor), **changes)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        pytest.param({}, None, id="healthy"),
        pytest.param({"load_1min": BUSY_FRACTION * 8}, None, id="just not busy"),
        pytest.param({"load_1min": BUSY_FRACTION * 8 + 0.01}, "load, last minute", id="busy"),
        pytest.param({"quota": 2.0}, "usable CPUs", id="quota"),
        pytest.param({"quota": 8.0}, None, id="quota of everything"),
        pytest.param({"quota": 16.0}, None, id="quota of more than everything"),
        pytest.param({"num_allowed": 7}, "usable CPUs", id="affinity"),
        pytest.param({"governor": "performance, powersave"}, "frequency governor", id="governor"),
        pytest.param({"storage": Storage("/", None, None, 1 << 40, LOW_DISK_BYTES - 1)}, "free", id="disk"),
        pytest.param({"storage": Storage("/", None, None, 1 << 40, LOW_DISK_BYTES)}, None, id="just enough disk"),
        pytest.param({"max_open_files": MIN_OPEN_FILES - 1}, "open files allowed", id="open files"),
        pytest.param({"max_open_files": MIN_OPEN_FILES}, None, id="just enough files"),
        pytest.param({"clock": ClockFacts("hpet", 1, MAX_CLOCK_STEP_NS + 1)}, "monotonic clock", id="coarse clock"),
        pytest.param({"clock": ClockFacts("tsc", 1, MAX_CLOCK_STEP_NS)}, None, id="clock just fine enough"),
        pytest.param({"clock": ClockFacts(None, 1, None)}, "monotonic clock", id="clock does not advance"),
        pytest.param({"packages": {"torch": None}}, "to train", id="no torch"),
        pytest.param({"accelerators": Accelerators((), None, "on the PCI bus: 1 x NVIDIA")}, "seen", id="no driver"),
        pytest.param({"accelerators": Accelerators((Accelerator("X", num_processes=2),))}, "0", id="busy accelerator"),
        pytest.param({"accelerators": Accelerators((Accelerator("X", num_processes=0),))}, None, id="idle accelerator"),
        pytest.param(
            {"load_1min": None, "max_open_files": None, "governor": None, "is_turbo": None}, None, id="unknown"
        ),
        pytest.param(
            {"num_threads": None, "num_allowed": None, "memory_bytes": None, "os": None}, None, id="unknown 2"
        ),
    ],
)
def test_disturbance_is_marked(changes: dict[str, Any], name: str | None) -> None:
    """One disturbance, one mark; exactly the limit is fine, and what cannot be seen is not a fault."""
    report = preflight.examine(machine(**changes), METERS, SYSTEM, ISOLATION)

    assert [line.name for line in preflight.lines_with_advice(report)] == ([] if name is None else [name])
    assert doctor.as_text(report).endswith("nothing needs attention" if name is None else "1 item needs attention")


def test_placeholders_are_marked() -> None:
    """An unnamed submitter and unknown fields are listed by name."""
    report = preflight.examine(HEALTHY, METERS, system_description(HEALTHY), ISOLATION)
    (line,) = preflight.lines_with_advice(report)

    assert line.name == "to fill in by hand"
    assert line.value.split(", ") == ["submitter", "host_memory_configuration", "cooling"]


def test_isolation_that_is_not_full_says_why() -> None:
    """What is weaker, and what stands in the way of the stronger forms."""
    weaker = {
        **ISOLATION,
        "means": "landlock",
        "data": "from the beginning",
        "reasons": {"bubblewrap": "not installed"},
    }
    (line,) = preflight.lines_with_advice(preflight.examine(HEALTHY, METERS, SYSTEM, weaker))

    assert line.value == "by landlock: data from the beginning"
    assert line.advice is not None
    assert "install bubblewrap (bubblewrap: not installed)" in line.advice


def test_meter_that_is_unavailable_says_why() -> None:
    """Every meter is listed, with the reason of each that cannot be read."""
    text = doctor.as_text(preflight.examine(HEALTHY, METERS, SYSTEM, ISOLATION))

    assert "not available: no wattage" in text
    assert "measures cpu_package (package), class C, 2 of them; measures dram (package), class C" in text


def test_text_is_aligned_and_printable() -> None:
    """One line per item, values in one column, advice below, no control characters."""
    text = doctor.as_text(preflight.examine(machine(max_open_files=1), METERS, SYSTEM, ISOLATION))
    lines = text.splitlines()
    marked = [number for number, line in enumerate(lines) if line.startswith("  look  ")]

    assert len(marked) == 1
    assert "-> " in lines[marked[0] + 1]
    column = lines[1].index("Example 9000")
    assert all(line[column - 1] == " " != line[column] for line in lines if line.startswith(("  ok", "  look")))
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(("check", "status"), [(False, ExitStatus.OK), (True, ExitStatus.FINDINGS)])
def test_report_goes_to_standard_output(check: bool, status: ExitStatus, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the real machine; an unnamed submitter always needs attention, and `check` makes that a finding."""
    assert doctor.run(None, None, None, None, check=check) == status
    out, err = capsys.readouterr()

    assert "monotonic clock" in out
    assert "submitter" in out
    assert "look" in out
    assert err == ""


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --format json nothing else is on standard output, and the file written is in it."""
    output = tmp_path / "box1.json"
    assert doctor.run(output, "acme", "box1", "cloud", "json") == ExitStatus.OK
    document = json.loads(capsys.readouterr().out)

    assert set(document) == {"machine", "meters", "isolation", "looks", "system_description", "written"}
    assert document["written"] == str(output)
    assert document["system_description"] == json.loads(output.read_text())
    assert list(document["meters"]) == ["powercap", "nvml", "ipmi", "zeus", "estimate", "redfish", "snmp"]
    assert "needs a file" in document["meters"]["snmp"]["reason"]
    for found in document["meters"].values():
        assert found["available"] == (found["reason"] is None) == bool(found["meters"])
    assert "tta_idle_power_w" in document["meters"]["estimate"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "ac/me", None, None), "submitter is 'ac/me'"),
        ((None, None, None, "avail"), "unknown status 'avail'"),
        ((None, None, None, None, "jsn"), "did you mean 'json'"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    """Nothing is printed for a request that cannot be met."""
    with pytest.raises(UsageError, match=message):
        doctor.run(*arguments)


def test_description_is_written_whole(tmp_path: Path) -> None:
    """One JSON object with a line end, readable by others as the umask allows; the same is not written again."""
    output = tmp_path / "box1.json"
    umask = os.umask(0o022)
    try:
        doctor.write_description(output, SYSTEM)
    finally:
        os.umask(umask)
    before = output.stat()
    doctor.write_description(output, SYSTEM)

    assert json.loads(output.read_text()) == SYSTEM
    assert output.read_text().endswith("}\n")
    assert stat.S_IMODE(output.stat().st_mode) == 0o644
    assert output.stat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("there", ["{}", "a folder", "a broken link"])
def test_existing_content_is_never_overwritten(tmp_path: Path, there: str) -> None:
    """A file edited by hand, a folder and a broken link all stay."""
    output = tmp_path / "box1.json"
    if there == "a folder":
        output.mkdir()
    elif there == "a broken link":
        output.symlink_to(tmp_path / "nowhere")
    else:
        output.write_text(there)

    with pytest.raises(OutputError, match="exists already with other content"):
        doctor.write_description(output, SYSTEM)
    assert list(tmp_path.iterdir()) == [output]
    assert there != "{}" or output.read_text() == "{}"


def test_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The place and the system's reason are named; missing folders are made."""
    doctor.write_description(tmp_path / "new" / "box1.json", SYSTEM)

    with pytest.raises(OutputError, match="cannot be written: "):
        doctor.write_description(tmp_path / ("x" * 250), SYSTEM)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("status", ["onprem", "cloud", "preview", "rdi", None])
@pytest.mark.parametrize("ruleset", ["4.0.0", "5.1.0"])
def test_mlperfs_own_checker_accepts_it(tmp_path: Path, status: str | None, ruleset: str) -> None:
    """The description passes MLPerf's checker."""
    checker = pytest.importorskip("mlperf_logging.system_desc_checker.system_desc_checker")
    output = tmp_path / "box1.json"
    doctor.write_description(output, system_description(HEALTHY, "acme", "box1", status))

    is_valid, name, _, _ = checker.check_system_desc(str(output), "training", ruleset)

    assert is_valid
    assert name == "box1"
    assert set(json.loads(output.read_text())) == set(FIELDS)
