"""A log that is read while it grows: whole lines, each once; and files that are not logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import LogError
from harness.log.run_log import MAX_LINE_BYTES
from harness.log.tail import Tail
from tests.fabricate import events, text_of

TEXT = text_of(events())


@pytest.mark.parametrize("step", [17, 40, 1000])
def test_every_line_comes_once_however_the_log_grows(tmp_path: Path, step: int) -> None:
    """Cut anywhere, with another program's lines in between: the same events with the same line numbers."""
    text = TEXT.replace("\n", "\nepoch 1: loss falls\n", 3)[:4000]
    path = tmp_path / "log"
    tail, found = Tail(path), []
    for end in range(0, len(text), step):
        path.write_text(text[:end])
        found += list(tail.events())
    path.write_text(text)
    found += list(tail.events())
    assert list(tail.events()) == []

    lines = text.split("\n")[:-1]
    assert [event.lineno for event in found] == [n for n, line in enumerate(lines, 1) if line.startswith(":::MLLOG")]


def test_log_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    """It is tried again, and read once it exists."""
    tail = Tail(tmp_path / "log")
    assert list(tail.events()) == []
    (tmp_path / "log").write_text(TEXT)

    assert len(list(tail.events())) == len(events())


def test_what_is_no_log_is_one_sentence_and_does_not_block(tmp_path: Path) -> None:
    """A folder, a pipe, a link; a place below a file."""
    (tmp_path / "log").write_text(TEXT)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(LogError, match="is not a regular file"):
            list(Tail(path).events())
    with pytest.raises(LogError, match="log/below: cannot be read: Not a directory"):
        list(Tail(tmp_path / "log" / "below").events())


def test_log_that_becomes_shorter_is_no_longer_followed(tmp_path: Path) -> None:
    """What was read of it is gone."""
    path = tmp_path / "log"
    path.write_text(TEXT)
    tail = Tail(path)
    list(tail.events())
    path.write_text(TEXT[:1000])

    with pytest.raises(LogError, match="became shorter while it was read"):
        list(tail.events())


def test_line_without_end_is_skipped_and_the_next_is_read(tmp_path: Path) -> None:
    """Megabytes of another program's progress bar, and a damaged line: neither is an event."""
    path = tmp_path / "log"
    first, second, _ = TEXT.split("\n", 2)
    tail = Tail(path)
    path.write_text(f"{first}\n" + "x" * (2 * MAX_LINE_BYTES))
    assert [event.lineno for event in tail.events()] == [1]
    with path.open("a") as stream:
        stream.write(f"y {first}\n:::MLLOG {{\n{second}\n")

    assert [(event.lineno, event.key) for event in tail.events()] == [(4, "tta_rules")]
