"""The writer of run logs on a faulty disk, and the clock it writes by."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from harness.base.clock import MonotonicClock, boot_id
from harness.errors import OutputError
from harness.log import run_log
from harness.log.events import line_digest
from harness.log.writer import LogEnd, LogWriter
from tests.scripted import FakeClock


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("result_0.txt", "exists already; a run never overwrites another"),
        ("gone/result_0.txt", "cannot be created: No such file or directory"),
    ],
)
def test_log_that_cannot_be_created_is_one_sentence(tmp_path: Path, name: str, why: str) -> None:
    """Before anything is trained; an existing file stays as it is."""
    (tmp_path / "result_0.txt").write_text("another run")

    with pytest.raises(OutputError, match=f"{name}: {why}"):
        LogWriter(tmp_path / name, FakeClock())

    assert (tmp_path / "result_0.txt").read_text() == "another run"


def test_line_that_the_system_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """write(2) may write less than it was given; the reader and the chain see whole lines."""
    write = os.write
    writer = LogWriter(tmp_path / "log", FakeClock())
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
    for number in range(3):
        writer.event("seed", number, {"text": "x" * 500})
    monkeypatch.undo()
    writer.close()

    log = run_log.read(tmp_path / "log")
    assert log.defects == ()
    assert [event.value for event in log.events] == [0, 1, 2]


def test_disk_that_fills_up_in_mid_line_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a line was written: it is removed again, so that the log up to there can be read."""
    write = os.write
    writer = LogWriter(tmp_path / "log", FakeClock())
    writer.event("seed", 1)
    written: list[int] = []

    def fills_up(fd: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write(fd, data[:20]))
        return 20

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OutputError, match="cannot be written: No space left on device; the run is not complete"):
        writer.event("seed", 2)
    monkeypatch.undo()
    writer.close()

    assert written == [20]
    log = run_log.read(tmp_path / "log")
    assert (log.defects, [event.value for event in log.events]) == ((), [1])


def test_log_that_does_not_reach_the_disk_is_reported_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsync fails: the run is not reported as finished, and a second close does nothing."""
    writer = LogWriter(tmp_path / "log", FakeClock())
    descriptors: list[int] = []

    def failing(fd: int) -> None:
        descriptors.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OutputError, match="cannot be flushed to the disk: Input/output error"):
        writer.close()
    writer.close()

    (descriptor,) = descriptors
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_step_of_the_wall_clock_is_reported_and_changes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is set back by an hour during the run: the drift shows it, and the run's wall time continues."""
    clock = MonotonicClock()
    before_ms = clock.time_ms(clock.elapsed_ns())
    assert abs(clock.wall_drift_ms()) < 1000
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000)

    assert clock.wall_drift_ms() == pytest.approx(-3_600_000, abs=1000)
    assert 0 <= clock.time_ms(clock.elapsed_ns()) - before_ms < 10_000


def test_zero_of_the_clock_is_on_the_systems_own() -> None:
    """Other processes of the machine read the same clock, so that power logs can be aligned with the run."""
    clock = MonotonicClock()

    before_ns = time.clock_gettime_ns(clock.clock_id())
    now_ns = clock.origin_ns + clock.elapsed_ns()

    assert before_ns <= now_ns <= time.clock_gettime_ns(clock.clock_id())
    assert 1 <= clock.resolution_ns < 1_000_000_000


def test_clock_goes_on_from_another_process() -> None:
    """Its zeros are given: elapsed time and wall time are as that process would state them."""
    first = MonotonicClock()
    elapsed_ns = first.elapsed_ns()

    second = MonotonicClock(first.origin_ns, first.time_ms(0))

    assert 0 <= second.elapsed_ns() - elapsed_ns < 1_000_000_000
    assert second.time_ms(5_000_000) == first.time_ms(5_000_000)


def test_clock_by_the_wall_counts_what_passed_while_the_machine_was_off() -> None:
    """It began an hour ago; from now on it is monotonic."""
    wall_start_ms = time.time_ns() // 1_000_000 - 3_600_000

    clock = MonotonicClock.by_wall(wall_start_ms)

    assert 3600 <= clock.elapsed_ns() / 1e9 < 3610
    assert clock.time_ms(0) == wall_start_ms
    assert abs(clock.wall_drift_ms()) < 1000
    assert len(boot_id()) == 36


def test_log_is_continued_where_its_whole_lines_end(tmp_path: Path) -> None:
    """What is after them is cut off; number and chain go on; a log that is not there is not begun."""
    writer = LogWriter(tmp_path / "log", FakeClock())
    writer.event("seed", 1)
    writer.close()
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole + b":::ML")
    end = LogEnd(len(whole), 1, line_digest(whole.decode().strip()))

    writer = LogWriter(tmp_path / "log", FakeClock(), end)
    writer.event("train_samples", 2)
    writer.flush()
    writer.close()

    log = run_log.read(tmp_path / "log")
    assert (log.defects, [event.value for event in log.events], writer.num_events) == ((), [1, 2], 2)
    with pytest.raises(OutputError, match="cannot be created: No such file"):
        LogWriter(tmp_path / "other", FakeClock(), end)
