"""`tta power import`: the CSV of an external meter placed over a run; and every kind of bad CSV by its line."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness import cli
from harness.commands import power
from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.errors import LogError, OutputError, UsageError
from harness.log import power_csv, run_log
from harness.log.keys import RUN_START, RUN_STOP
from harness.log.power_csv import read_csv
from harness.log.power_files import with_power
from tests.fabricate import WALL_START_MS, events, find, write_log

MONO_NS = 3_000_000_000_000
LIMITS = EnergyLimits(min_samples=5)


def result(folder: Path) -> Path:
    """A result of one run, and its log; run_start at 2.2 s of its clock."""
    folder.mkdir()
    write_log(folder / "result_0.txt", events(mono_ns=MONO_NS))
    return folder


def edges(folder: Path) -> tuple[float, float]:
    """run_start and run_stop in seconds since the epoch."""
    log = run_log.read(folder / "result_0.txt")
    start, stop = log.one(RUN_START), log.one(RUN_STOP)
    return tuple(WALL_START_MS / 1e3 + (event.elapsed_ns or 0) / 1e9 for event in (start, stop))  # type: ignore[return-value]


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def write_csv(path: Path, from_s: float, to_s: float, shown: Callable[[float], str], watts: float = 400.0) -> Path:
    """A reading every half second, in a file with one column too many."""
    lines = ["Outlet,When,Active Power"]
    for number in range(round((to_s - from_s) * 2) + 1):
        lines.append(f"7,{shown(from_s + number / 2)},{watts}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def covered(tmp_path: Path) -> tuple[Path, Path]:
    """A result, and a CSV from five seconds before its run to five seconds after it."""
    folder = result(tmp_path / "run")
    start_s, stop_s = edges(folder)
    return folder, write_csv(tmp_path / "pdu.csv", start_s - 5, stop_s + 5, iso)


def bring(folder: Path, csv: Path, *more: str) -> int:
    where = ("--run", "0", "--csv", str(csv), "--time-column", "When", "--power-column", "Active Power")
    return cli.main(["power", "import", str(folder), *where, "--class", "A", "--accuracy", "1", *more])


@pytest.mark.parametrize("shown", [iso, lambda at_s: f"{at_s:.3f}"], ids=["iso", "epoch"])
def test_readings_become_the_energy_of_the_run(tmp_path: Path, shown: Callable[[float], str]) -> None:
    """400 W over the run, as read from the power log; class A, of the node that the log names."""
    folder = result(tmp_path / "run")
    start_s, stop_s = edges(folder)
    csv = write_csv(tmp_path / "pdu.csv", start_s - 30, stop_s + 30, shown)

    assert bring(folder, csv, "--clock-error", "0.05") == 0

    log = with_power(run_log.read(folder / "result_0.txt"))
    energy = energy_of(log, LIMITS)
    assert energy is not None
    assert energy.joules == pytest.approx(400 * (stop_s - start_s), rel=1e-6)
    assert (energy.void, energy.meter_class, energy.scope) == ((), "A", "node (ac)")
    assert energy.clock_error_s == pytest.approx(0.05)
    assert log.nodes[0].defects == ()
    assert log.nodes[0].specs["csv:pdu.csv"].period_s == 0.5


def test_offset_corrects_a_wrong_clock(tmp_path: Path) -> None:
    """The meter's clock is an hour behind: without the offset its readings do not overlap the run, an error."""
    folder = result(tmp_path / "run")
    start_s, stop_s = edges(folder)
    csv = write_csv(tmp_path / "pdu.csv", start_s - 3605, stop_s - 3595, iso)

    assert bring(folder, csv) == 2
    assert not (folder / "power").exists()
    assert bring(folder, csv, "--offset", "3600") == 0


def test_existing_log_is_never_overwritten(covered: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it was measured or imported before."""
    folder, csv = covered
    assert bring(folder, csv) == 0
    path = folder / "power/result_0/node_0.txt"
    before = path.read_bytes()

    assert bring(folder, csv) == 2

    assert "exists already" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["node_0.txt"]


@pytest.mark.parametrize("key", ["tta_clock", "run_start", "tta_world"])
def test_log_without_a_place_for_readings_is_refused(
    covered: tuple[Path, Path], key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No clock, no clock's zero, no host: nothing is guessed."""
    folder, csv = covered
    steps = events(mono_ns=MONO_NS)
    steps.remove(find(steps, key))
    write_log(folder / "result_0.txt", steps)

    assert bring(folder, csv) == 2
    assert capsys.readouterr().err.count("\n") == 1


HEAD = "When,Active Power\n"
GOOD = "2026-01-01T00:00:00Z,5\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (HEAD, "fewer than two readings"),
        (HEAD + GOOD, "fewer than two readings"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,\n", "fewer than two readings"),
        (HEAD + "2026-01-01 00:00:00,5\n", "line 2: the time '2026-01-01 00:00:00' has no zone"),
        (HEAD + "01/02/2026 10:00,5\n", "line 2: '01/02/2026 10:00' is not a time"),
        (HEAD + "nan,5\n", "line 2: 'nan' is not a time"),
        (HEAD + "1e9,5\n", "line 2: '1e9' is not a time"),
        (HEAD + "-5,5\n", "line 2: '-5' is not a time"),
        (HEAD + GOOD + GOOD, "line 3: the time '2026-01-01T00:00:00Z' is that of the previous reading"),
        (HEAD + GOOD + "2025-12-31T23:59:59Z,5\n", "line 3: .* is before that of the previous reading"),
        (HEAD + GOOD + "1767225601,5\n", "line 3: .* is epoch seconds; those before are ISO 8601"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,-5\n", "line 3: -5 W is negative"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,nan\n", "line 3: 'nan' is not a power"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,1e999\n", "line 3: 1e999 W is more than any machine draws"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,5 W\n", "line 3: '5 W' is not a power"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z\n", "line 3: has 1 cells; the header has 2"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,5,6\n", "line 3: has 3 cells; the header has 2"),
        (HEAD + GOOD + '2026-01-01T00:00:01Z,"5\n', "line 3: not CSV"),
        (HEAD + GOOD + "2026-01-01T00:00:01Z,\0\n", "line 3: has a NUL"),
    ],
)
def test_bad_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Nothing is skipped and nothing repaired."""
    path = tmp_path / "pdu.csv"
    path.write_text(text)

    with pytest.raises(LogError, match=message):
        read_csv(path, "When", "Active Power")


@pytest.mark.parametrize(
    ("head", "message"),
    [("When;Active Power", "no column 'When'"), ("When,When,Active Power", "2 columns 'When'")],
)
def test_column_that_is_not_there_once_is_refused(tmp_path: Path, head: str, message: str) -> None:
    """A column must occur exactly once."""
    path = tmp_path / "pdu.csv"
    path.write_text(head + "\n")

    with pytest.raises(UsageError, match=f"line 1: --time-column: {message}"):
        read_csv(path, "When", "Active Power")


def test_what_spreadsheets_add_is_taken(tmp_path: Path) -> None:
    """A byte order mark, Windows' line ends, spaces, empty lines; an empty cell is a reading that failed."""
    path = tmp_path / "pdu.csv"
    path.write_bytes(b"\xef\xbb\xbfWhen , Active Power\r\n1767225600, 5 \r\n\r\n1767225601,\r\n1767225602.5,.5\r\n")

    trace = read_csv(path, "When", "Active Power")

    assert trace.watts == (5.0, None, 0.5)
    assert trace.wall_ns[2] - trace.wall_ns[0] == 2_500_000_000


def test_place_that_cannot_be_written_is_one_sentence(covered: tuple[Path, Path]) -> None:
    """The power folder is a file."""
    folder, csv = covered
    (folder / "power").write_text("")

    with pytest.raises(OutputError, match=r"its folder cannot be made: "):
        power.import_readings(power.Request(folder, 0, csv, "When", "Active Power", "B", 3.0))


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("folder", "is not a file"),
        ("nowhere.csv", "is not a file"),
        ("pipe", "is not a file"),
        ("latin", "is not UTF-8"),
        ("damaged", "cannot be read: Input/output error"),
    ],
)
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, place: str, why: str) -> None:
    """A pipe is not waited for; a bad block on the meter's memory stick is one sentence."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"When,Active Power\n\xff\xfe,5\n")
    (tmp_path / "damaged").symlink_to("/proc/self/mem")  # a regular file whose first byte cannot be read

    with pytest.raises(LogError, match=f"{place}: {why}"):
        read_csv(tmp_path / place, "When", "Active Power")


def test_file_larger_than_any_measurement_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in bytes nor in readings; the line is named at which there are too many."""
    path = tmp_path / "pdu.csv"
    path.write_text(HEAD + "".join(f"{1767225600 + second},5\n" for second in range(4)))
    monkeypatch.setattr(power_csv, "MAX_SAMPLES", 3)
    with pytest.raises(LogError, match="line 5: more than 3 readings"):
        read_csv(path, "When", "Active Power")
    with path.open("a") as stream:
        stream.truncate(power_csv.MAX_BYTES + 1)
    with pytest.raises(LogError, match="has more than 256 MiB"):
        read_csv(path, "When", "Active Power")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0001-01-01T00:00:00+23:59,5\n9999-12-31T23:59:59-23:59,5\n", "before the machine of the run was booted"),
        ("0,5\n999999999999,5\n", "before the machine of the run was booted"),
        ("0001-01-01T00:00:00+23:59,5\n0001-01-01T00:00:01+23:59,5\n", "they do not overlap"),
        ("999999999998,5\n999999999999,5\n", "from a time beyond the calendar to a time beyond the calendar"),
    ],
)
def test_impossible_times_are_placed_over_no_run(tmp_path: Path, text: str, message: str) -> None:
    """The first and the last that can be written: an error, and no power log with impossible times."""
    log = run_log.read(result(tmp_path / "run") / "result_0.txt")
    path = tmp_path / "pdu.csv"
    path.write_text(HEAD + text)
    trace = read_csv(path, "When", "Active Power")

    with pytest.raises(LogError, match=message):
        power_csv.node_log(log, 0, trace, power_csv.spec_for("pdu.csv", trace, "A", 1.0, "ac"), 0.0, 0.5)
