"""Power logs are read back as written; every oddity is a defect of its own kind."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LogError
from harness.log import power_files, power_format, power_log
from harness.log.power_format import ClockOffset, MeterSpec, NodePower, Sample
from harness.log.power_log import MAX_DEFECTS_PER_KIND
from tests.powertrace import WALL_MS, gpu, mlperf_line, mlperf_log, ns, package, spec

SPECS = (spec(), package(), gpu(averaging_s=0.5, resolution_j=0.001, period_s=0.1, accuracy_pct=None))
READINGS = [(WALL_MS + 1000 * second, 300) for second in range(5)]


def log_text(specs: tuple[MeterSpec, ...] = SPECS, seconds: int = 3) -> str:
    """A whole log: all meters once a second, the counters' second read failing."""
    lines = [power_format.opening_line(WALL_MS, node="node_2", host="n17", machine="m", run_id="r")]
    lines += [power_format.meter_line(WALL_MS, each) for each in specs]
    lines.append(power_format.start_line(WALL_MS, ns(1)))
    lines.append(power_format.clock_offset_line(WALL_MS, ClockOffset(ns(1), -7, 50)))
    for seq in range(seconds):
        for each in specs:
            value = None if seq == 1 and each.kind == "energy_j" else 100.0 + seq
            lines.append(power_format.reading_line(WALL_MS + 1000 * seq, each, Sample(ns(1 + seq), value), seq))
    lines.append(power_format.sampler_line(WALL_MS + 3000, ns(4), 0.004))
    lines.append(power_format.stop_line(WALL_MS + 3000, ns(4)))
    return "".join(lines)


def read_text(folder: Path, text: str | bytes, name: str = "node_2.txt") -> NodePower:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return power_log.read(path)


def tta_log(*lines: str, is_open: bool = True) -> str:
    """A log of `tta` with these lines in its middle."""
    head = [power_format.opening_line(WALL_MS, node="node_2", host="h")] if is_open else []
    head += [power_format.meter_line(WALL_MS, spec()), power_format.start_line(WALL_MS, 0)]
    return "".join([*head, *lines, power_format.stop_line(WALL_MS + 9000, ns(9))])


def reading(second: float, value: Any = 300.0, seq: Any = 0, key: str = "power_reading", **metadata: Any) -> str:
    where = {"meter": "csv:wall", "seq": seq, "mono_ns": ns(second), **metadata}
    return mlperf_line(WALL_MS + round(1000 * second), key, value, where)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Meters, readings, failed reads, offsets, processor time and edges, without a defect."""
    path = tmp_path / "node_2.txt"
    path.write_text(log_text())

    log = power_log.read(path)

    assert log.defects == ()
    assert (log.dialect, log.node, log.host, log.machine, log.run_id) == ("tta", "node_2", "n17", "m", "r")
    assert tuple(log.specs.values()) == SPECS
    assert log.samples["csv:wall"] == (Sample(ns(1), 100.0), Sample(ns(2), 101.0), Sample(ns(3), 102.0))
    assert log.samples[package().id] == (Sample(ns(1), 100.0), Sample(ns(2), None), Sample(ns(3), 102.0))
    assert log.offsets == (ClockOffset(ns(1), -7, 50),)
    assert (log.start_ns, log.stop_ns, log.sampler_cpu_s) == (ns(1), ns(4), 0.004)


def test_nan_cannot_be_written() -> None:
    """JSON has no NaN: a sensor that reports it has failed."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        power_format.reading_line(WALL_MS, spec(), Sample(0, float("nan")), 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"component": "fan"}, "component is 'fan'; it must be one of node, pdu"),
        ({"meter_class": "a"}, "meter_class is 'a'"),
        ({"kind": "kwh"}, "kind is 'kwh'"),
        ({"period_s": 0}, "period_s is 0; it must be a number above zero"),
        ({"period_s": True}, "period_s is True"),
        ({"period_s": float("nan")}, "period_s is nan"),
        ({"accuracy_pct": -1}, "accuracy_pct is -1"),
        ({"wrap_at_j": 0}, "wrap_at_j is 0"),
        ({"averaging_s": "long"}, "averaging_s is long"),
        ({"resolution_j": -1.0}, "resolution_j is -1.0; it must be a number from 0 up"),
        ({"id": ""}, "id is not a text"),
        ({"id": "a\nb"}, "id is not a text"),
        ({"device": 5}, "device is not a text"),
        ({"source": "x" * 501}, "source is not a text"),
        ({"acuracy_pct": 1}, "did you mean 'accuracy_pct'"),
        *(({name: ...}, f"the meter has no '{name}'") for name in ("id", "component", "scope", "meter_class", "kind")),
        *(({name: ...}, f"the meter has no '{name}'") for name in ("period_s", "source")),
    ],
)
def test_a_malformed_meter_is_refused(change: dict[str, Any], message: str) -> None:
    """The message names the field, its value and what is permitted; every required field is required."""
    fields = {**dataclasses.asdict(spec()), **change}

    with pytest.raises(ValueError, match=message):
        power_format.spec_of({name: value for name, value in fields.items() if value is not ...})


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_declared_value_is_a_meter_or_a_sentence(value: object) -> None:
    """No value of a line of JSON raises anything else."""
    for field in dataclasses.fields(MeterSpec):
        with contextlib.suppress(ValueError):
            power_format.spec_of({**dataclasses.asdict(spec()), field.name: value})


def test_folder_without_a_power_log_is_one_sentence(tmp_path: Path) -> None:
    """Whether it is empty or missing."""
    with pytest.raises(LogError, match="nowhere: cannot be read: No such file"):
        power_log.read_folder(tmp_path / "nowhere")
    with pytest.raises(LogError, match="has no power log; their names are node_<i>"):
        power_log.read_folder(tmp_path)


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\n\n", b"\0" * 100_000, bytes(range(256)) * 1000])
def test_file_without_the_token_is_empty(tmp_path: Path, data: bytes) -> None:
    """No meter, no reading, one defect."""
    log = read_text(tmp_path, data)

    assert log.defect_counts["empty"] == 1
    assert (log.specs, log.samples) == ({}, {})


def test_log_cut_off_anywhere_is_read_up_to_there(tmp_path: Path) -> None:
    """A crash in mid-line loses that line and nothing before it."""
    text = log_text().encode()
    whole = read_text(tmp_path, text)
    for cut in range(0, len(text), 97):
        log = read_text(tmp_path, text[:cut])
        assert set(log.defect_counts) <= {"cut_off", "start_missing", "stop_missing", "empty"}
        for meter, samples in log.samples.items():
            assert samples == whole.samples[meter][: len(samples)]
        assert sum(map(len, log.samples.values())) >= text[:cut].count(b'"seq"') - 1


def test_last_line_without_its_end_counts_if_it_is_whole(tmp_path: Path) -> None:
    """MLPerf's logs may lack the last line end; a JSON object that is closed was not cut."""
    path = mlperf_log(tmp_path / "node_0.txt", READINGS)
    path.write_bytes(path.read_bytes()[:-1])

    assert power_log.read(path).defects == ()


def test_endless_line_costs_no_memory(tmp_path: Path) -> None:
    """A line of 30 MB is reported and skipped; the lines around it are read."""
    path = mlperf_log(tmp_path / "node_0.txt", READINGS)
    path.write_bytes(b":::MLLOG {" + b"x" * 30_000_000 + b"\n" + path.read_bytes())
    tracemalloc.start()

    log = power_log.read(path)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert log.defect_counts == {"overlong": 1}
    assert len(log.samples["mlperf:node"]) == 5
    assert peak < 8_000_000


def test_defects_of_one_kind_are_counted_and_a_hundred_are_listed(tmp_path: Path) -> None:
    """The same defect in each line, as in a long log of MLPerf's."""
    readings = [(WALL_MS + 1000 * second, 300) for second in range(MAX_DEFECTS_PER_KIND)]
    log = power_log.read(mlperf_log(tmp_path / "node_0.txt", readings, metadata=""))

    assert log.defect_counts["metadata_empty"] == MAX_DEFECTS_PER_KIND + 2
    assert len(log.defects_of("metadata_empty")) == MAX_DEFECTS_PER_KIND


def test_more_readings_than_a_run_has_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is bounded, and the excess is reported."""
    monkeypatch.setattr("harness.log.power_log.MAX_SAMPLES", 3)
    log = power_log.read(mlperf_log(tmp_path / "node_0.txt", READINGS))

    assert len(log.samples["mlperf:node"]) == 3
    assert log.defect_counts == {"too_many": 2}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b":::MLLOG \xff\xfe\n", "not_utf8"),
        (b":::MLLOG {\n", "malformed"),
        (b":::MLLOG []\n", "malformed"),
        (b":::MLLOG {}\n", "malformed"),
        (b':::MLLOG {"key": 5}\n', "malformed"),
        (b":::MLLOG " + b"[" * 50_000 + b"\n", "malformed"),
        (b':::MLLOG {"key": "power_reading", "value": ' + b"9" * 5000 + b"}\n", "malformed"),
        (b':::MLLOG {"key": "a", "key": "power_reading"}\n', "key_doubled"),
        (mlperf_line(WALL_MS, "power_reeding", 300).encode(), "key_unknown"),
        (b"a\x07b\n", "control_character"),
        (mlperf_line(WALL_MS, "power_reading", 299, {}, "INTERVAL_END").encode(), "event_type_wrong"),
        (mlperf_line(WALL_MS, "power_reading", 299, 5).encode(), "metadata_malformed"),
        (mlperf_line(WALL_MS, "power_reading", 299, None).encode(), "metadata_empty"),
        (mlperf_line(WALL_MS, "power_reading", 299, "").encode(), "metadata_empty"),
        (mlperf_line(WALL_MS, "power_reading", "300", {}).encode(), "value_malformed"),
        (mlperf_line(WALL_MS, "power_reading", None, {}).encode(), "value_malformed"),
        (mlperf_line(WALL_MS, "power_reading", True, {}).encode(), "value_malformed"),
        (mlperf_line(WALL_MS, "power_reading", -1, {}).encode(), "value_negative"),
        (mlperf_line(WALL_MS, "power_reading", float("nan"), {}).encode(), "not_a_number"),
        (mlperf_line(WALL_MS, "power_reading", float("-inf"), {}).encode(), "not_a_number"),
        (b':::MLLOG {"key": "power_reading", "event_type": "POINT_IN_TIME", "time_ms": 1, "value": 1e999, '
         b'"metadata": {}}\n', "not_a_number"),
        (mlperf_line("noon", "power_reading", 299, {}).encode(), "time_malformed"),
        (mlperf_line(float("nan"), "power_reading", 299, {}).encode(), "time_malformed"),
        (mlperf_line(WALL_MS, "power_measurement_start", None, {}).encode(), "start_doubled"),
        (mlperf_line(WALL_MS, "interconnect_power_est", "much", {}).encode(), "interconnect_malformed"),
        (mlperf_line(WALL_MS, "conversion_eff", 1.2, {"measurement_type": "AC"}).encode(), "conversion_eff_malformed"),
        (mlperf_line(WALL_MS, "conversion_eff", 0.9, {"measurement_type": "ac"}).encode(), "measurement_type_unknown"),
        (mlperf_line(WALL_MS, "tta_meter", {"id": "a"}, {}).encode(), "meter_malformed"),
        (mlperf_line(WALL_MS, "tta_meter", [], {}).encode(), "meter_malformed"),
        (mlperf_line(WALL_MS, "tta_clock_offset", {}, {}).encode(), "offset_malformed"),
        (mlperf_line(WALL_MS, "tta_sampler", {"cpu_s": -1}, {}).encode(), "sampler_malformed"),
        (mlperf_line(WALL_MS, "tta_power_format", {"version": 2}, {}).encode(), "format_malformed"),
    ],
)  # fmt: skip
def test_10_damaged_line_is_a_defect_of_its_kind_and_no_more(tmp_path: Path, line: bytes, kind: str) -> None:
    """One damaged line in a sound log: its kind, its number, and the other readings as they were."""
    path = mlperf_log(tmp_path / "node_0.txt", READINGS)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], line, *lines[3:]]))

    log = power_log.read(path)

    assert kind in log.defect_counts
    assert log.defects_of(kind)[0].lineno == 4
    assert [sample for sample in log.samples["mlperf:node"] if sample.value == 300] == [
        Sample(at_ms * 1_000_000, 300.0) for at_ms, _ in READINGS
    ]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([reading(1, meter="no such")], "meter_undeclared"),
        ([reading(1, meter=None)], "meter_undeclared"),
        ([reading(1, key="tta_energy_counter")], "kind_wrong"),
        ([reading(1), reading(2, seq=2)], "sequence"),
        ([reading(1), reading(2, seq=True)], "sequence"),
        ([reading(1), reading(1, seq=1)], "time_doubled"),
        ([reading(2), reading(1, seq=1)], "time_backwards"),
        ([reading(1, mono_ns=1.5)], "time_malformed"),
        ([reading(1, mono_ns=-1)], "time_malformed"),
        ([power_format.meter_line(WALL_MS, spec())], "meter_doubled"),
        ([power_format.opening_line(WALL_MS, node="node_2", host="h")], "format_doubled"),
        ([mlperf_line(WALL_MS, "power_reading", 300, {})], "dialect_mixed"),
        ([power_format.stop_line(WALL_MS + 9000, ns(9))], "stop_doubled"),
    ],
)
def test_10_line_that_contradicts_the_log_is_a_defect_of_its_kind(tmp_path: Path, lines: list[str], kind: str) -> None:
    """Order, time and names within a log of `tta`."""
    log = read_text(tmp_path, tta_log(*lines))

    assert set(log.defect_counts) == {kind}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (tta_log(is_open=False), "format_missing"),
        (tta_log().replace("node_2", "node_3"), "node_differs"),
        (tta_log().replace('"host": "h"', '"host": null'), "format_malformed"),
        ("".join(tta_log().splitlines(keepends=True)[:-1]), "stop_missing"),
        ("".join(tta_log().splitlines(keepends=True)[:2]), "start_missing"),
        (tta_log().replace(f'"mono_ns": {ns(9)}', '"mono_ns": 0'), "stop_equals_start"),
        (tta_log().replace('"mono_ns": 0}', f'"mono_ns": {ns(10)}}}'), "stop_before_start"),
    ],
)
def test_10_log_as_a_whole_may_be_defective(tmp_path: Path, text: str, kind: str) -> None:
    """What is missing or misplaced is reported."""
    assert kind in read_text(tmp_path, text).defect_counts


def test_10_wall_clock_that_steps_is_reported_and_changes_no_time(tmp_path: Path) -> None:
    """time_ms jumps back by an hour in mid-run: one defect, and the readings keep their monotonic times."""
    lines = [reading(second, seq=second) for second in range(1, 4)]
    lines[2] = lines[2].replace(str(WALL_MS + 3000), str(WALL_MS + 3000 - 3_600_000))

    log = read_text(tmp_path, tta_log(*lines))

    assert [sample.mono_ns for sample in log.samples["csv:wall"]] == [ns(1), ns(2), ns(3)]
    assert "moved by -3600.000 s" in log.defects_of("wall_moved")[0].message


def test_reading_without_a_value_keeps_its_time_as_a_failed_read(tmp_path: Path) -> None:
    """NaN is not a power, but the time of the reading is known."""
    log = read_text(tmp_path, tta_log(reading(1, float("nan")), reading(2, None, seq=1), reading(3, -5.0, seq=2)))

    assert log.samples["csv:wall"] == (Sample(ns(1), None), Sample(ns(2), None), Sample(ns(3), None))
    assert log.defect_counts == {"not_a_number": 1, "value_negative": 1}  # null is a failed read


def test_10_every_oddity_of_the_published_logs_has_a_name(tmp_path: Path) -> None:
    """stop bearing start's time, "null" as text, empty metadata, numbers from 1, -259 ms, a switch stamped in 2022."""
    start = WALL_MS
    readings = [(start + 2006 * index, 300) for index in range(40)]
    readings[20] = (readings[19][0] - 259, 310)
    readings[30] = (readings[29][0], 310)
    mlperf_log(tmp_path / "node_1.txt", readings, start, start, null="null", metadata="")
    mlperf_log(tmp_path / "node_2.txt", [(at_ms, watts + 1) for at_ms, watts in readings], metadata="")
    (tmp_path / "sw_0.txt").write_text(
        mlperf_line(1_652_749_794_206, "interconnect_power_est", 16_100, {"switch_id": "sw_01"})
    )
    (tmp_path / "nodes_1_to_2.png").write_bytes(b"\x89PNG")

    first, second, switch = power_log.read_folder(tmp_path)

    assert first.defect_counts == {
        "metadata_empty": 42,
        "null_as_text": 2,
        "stop_equals_start": 1,
        "time_backwards": 1,
        "time_doubled": 1,
        "numbered_from_one": 1,
    }
    assert "259 ms before" in first.defects_of("time_backwards")[0].message
    assert set(second.defect_counts) == {"metadata_empty", "time_backwards", "time_doubled"}
    assert set(switch.defect_counts) == {"stamp_far"}
    assert (switch.interconnect_w, switch.is_switch, switch.specs) == (16_100.0, True, {})


def test_mlperf_reading_is_a_class_b_meter_of_the_node_on_the_side_the_log_declares(tmp_path: Path) -> None:
    """conversion_eff states AC or DC; without it the side is unstated. The period is the median step."""
    path = mlperf_log(tmp_path / "node_0.txt", [(WALL_MS + 2006 * index, 300) for index in range(5)])
    plain = power_log.read(path)
    path.write_text(path.read_text() + mlperf_line(WALL_MS, "conversion_eff", 0.94, {"measurement_type": "AC"}))

    stated = power_log.read(path)

    assert (plain.dialect, plain.conversion_eff, plain.specs["mlperf:node"].scope) == ("mlperf", None, "unstated")
    assert (stated.conversion_eff, stated.specs["mlperf:node"].scope) == (0.94, "ac")
    assert (stated.specs["mlperf:node"].meter_class, stated.specs["mlperf:node"].period_s) == ("B", 2.006)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["node_0", "node_1"], None),
        (["node_1", "node_2"], "numbered_from_one"),
        (["node_0", "node_2"], "numbering_gap"),
        (["node_0", "node_00"], "number_doubled"),
    ],
)
def test_numbers_of_the_nodes_are_0_to_n(tmp_path: Path, names: list[str], kind: str | None) -> None:
    """A file that is missing or doubled shows in the numbers."""
    for name in names:
        mlperf_log(tmp_path / f"{name}.txt", READINGS)

    logs = power_log.read_folder(tmp_path)

    assert [log.node for log in logs] == sorted(names)
    assert logs[0].defect_counts == ({} if kind is None else {kind: 1})


def test_switches_come_after_the_nodes_by_number(tmp_path: Path) -> None:
    """node_10 after node_9, sw after node."""
    for number in range(11):
        mlperf_log(tmp_path / f"node_{number}.txt", READINGS)
    mlperf_log(tmp_path / "sw_0.txt", READINGS)

    logs = power_log.read_folder(tmp_path)

    assert [log.node for log in logs] == [*[f"node_{number}" for number in range(11)], "sw_0"]
    assert logs[-1].specs["mlperf:switch"].component == "switch"


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=400), seed=st.integers(0, 2**32))
def test_10_no_bytes_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes, seed: int) -> None:
    """Bytes of any kind, and a sound log with bytes changed, doubled and cut out."""
    folder = tmp_path_factory.mktemp("fuzz")
    read_text(folder, b":::MLLOG " + data)
    draws = random.Random(seed)
    text = bytearray(log_text().encode())
    for _ in range(draws.randrange(1, 20)):
        at = draws.randrange(len(text))
        text[at : at + draws.randrange(3)] = draws.randbytes(draws.randrange(3))

    log = read_text(folder, bytes(text))

    assert all(sample.value is None or 0 <= sample.value <= 1e15 for each in log.samples.values() for sample in each)
    assert set(log.samples) == set(log.specs)


@settings(max_examples=100, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    )
)
def test_10_no_value_crashes_the_reader(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    """Any JSON as value, metadata and time of every key."""
    folder = tmp_path_factory.mktemp("fuzz")
    keys = ["power_reading", "power_measurement_start", "power_measurement_stop", "conversion_eff"]
    keys += ["interconnect_power_est", "tta_energy_counter", "tta_meter", "tta_power_format", "tta_clock_offset"]
    keys.append("tta_sampler")
    lines = [mlperf_line(WALL_MS, key, value, {"mono_ns": 1, "meter": "csv:wall"}) for key in keys]
    lines += [mlperf_line(value, key, 1, value) for key in keys]
    lines += [mlperf_line(1, key, 1, {"mono_ns": value, "meter": value, "seq": value}) for key in keys]

    read_text(folder, tta_log(*lines))


def test_folder_with_a_log_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    """A bad block is not the end of a log, whose energy would be that of a frugal run."""
    (tmp_path / "node_0.txt").symlink_to("/proc/self/mem")  # a regular file whose first byte cannot be read

    with pytest.raises(LogError, match=r"node_0\.txt: cannot be read: Input/output error"):
        power_log.read_folder(tmp_path)


@pytest.mark.parametrize("when", ["before its size is taken", "before it is opened"])
def test_log_that_disappears_while_the_folder_is_read_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is a defect of that node; the other node's readings are read."""
    paths = [mlperf_log(tmp_path / "result_0" / f"node_{number}.txt", READINGS) for number in range(2)]
    list_names, read_log = power_log.log_names, power_log.read

    def listed(names: Iterable[str]) -> list[str]:
        found = list_names(names)
        paths[1].unlink()
        return found

    def opened(path: Path) -> NodePower:
        if path == paths[1]:
            path.unlink()
        return read_log(path)

    if when == "before its size is taken":
        monkeypatch.setattr(power_log, "log_names", listed)
    else:
        monkeypatch.setattr(power_log, "read", opened)

    first, second = power_files.read_nodes(tmp_path / "result_0", power_files.Budget())

    assert first.defects == ()
    assert [(defect.kind, defect.message) for defect in second.defects] == [
        ("unreadable", "cannot be read: No such file or directory")
    ]


@pytest.mark.parametrize("which", ["start", "stop"])
def test_edge_without_a_time_is_no_edge(tmp_path: Path, which: str) -> None:
    """The readings are read; the missing edge is reported in addition to its fault."""
    path = mlperf_log(tmp_path / "node_0.txt", READINGS)
    place = 0 if which == "start" else -1
    lines = path.read_text().splitlines(keepends=True)
    lines[place] = mlperf_line("noon", f"power_measurement_{which}", None, {})
    path.write_text("".join(lines))

    log = power_log.read(path)

    assert log.defect_counts == {"time_malformed": 1, f"{which}_missing": 1}
    assert (log.start_ns is None, log.stop_ns is None) == (which == "start", which == "stop")
    assert len(log.samples["mlperf:node"]) == len(READINGS)


@pytest.mark.parametrize("time_ms", ['"noon"', "null", "NaN", "1e999"])
def test_wall_time_of_a_reading_decides_nothing(tmp_path: Path, time_ms: str) -> None:
    """A reading without a time stamp is placed by the monotonic clock, and no clock has moved."""
    lines = [reading(second, seq=second - 1) for second in (1, 2, 3)]
    lines[1] = lines[1].replace(str(WALL_MS + 2000), time_ms)

    log = read_text(tmp_path, tta_log(*lines))

    assert [sample.mono_ns for sample in log.samples["csv:wall"]] == [ns(1), ns(2), ns(3)]
    assert log.defect_counts == {}


def test_clock_offset_without_a_time_is_none(tmp_path: Path) -> None:
    """A clock is not corrected by a measurement without a time."""
    offset = power_format.clock_offset_line(WALL_MS, ClockOffset(ns(1), 5, 7))
    log = read_text(tmp_path, tta_log(offset, offset.replace(f'"mono_ns": {ns(1)}', '"mono_ns": "now"')))

    assert log.offsets == (ClockOffset(ns(1), 5, 7),)
    assert log.defect_counts == {"time_malformed": 1}


def test_first_estimate_of_a_switch_counts(tmp_path: Path) -> None:
    """A second, lower one is reported and does not replace it."""
    estimates = [mlperf_line(WALL_MS, "interconnect_power_est", watts, {}) for watts in (16_100, 1)]
    log = read_text(tmp_path, "".join(estimates), "sw_0.txt")

    assert log.interconnect_w == 16_100
    assert log.defect_counts == {"interconnect_doubled": 1}


def test_more_meters_than_a_node_has_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of meters is bounded and the excess reported; readings of a meter beyond it belong to none."""
    monkeypatch.setattr("harness.log.power_log.MAX_METERS", 2)
    more = [power_format.meter_line(WALL_MS, spec(id=f"csv:{number}")) for number in range(3)]
    log = read_text(tmp_path, tta_log(*more, reading(1, meter="csv:0"), reading(1, meter="csv:2")))

    assert sorted(log.specs) == ["csv:0", "csv:wall"]
    assert log.defect_counts == {"too_many": 2, "meter_undeclared": 1}


def test_first_conversion_factor_counts(tmp_path: Path) -> None:
    """A second one, of the other side, is reported and changes neither the factor nor the side."""
    factors = [
        mlperf_line(WALL_MS, "conversion_eff", factor, {"measurement_type": side})
        for factor, side in ((0.94, "DC"), (0.5, "AC"))
    ]
    path = mlperf_log(tmp_path / "node_0.txt", READINGS)
    path.write_text(path.read_text() + "".join(factors))

    log = power_log.read(path)

    assert (log.conversion_eff, log.specs["mlperf:node"].scope) == (0.94, "dc")
    assert log.defect_counts == {"conversion_eff_doubled": 1}
