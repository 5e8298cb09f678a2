"""A log that is read while it grows: whole lines, each once; and files that are not logs."""

from __future__ import annotations

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
    assert list(tail.events()) == []  # the log does not exist yet
    for end in range(0, len(text), step):
        path.write_text(text[:end])
        found += list(tail.events())
    path.write_text(text)
    found += list(tail.events())
    assert list(tail.events()) == []

    lines = text.split("\n")[:-1]
    assert [event.lineno for event in found] == [n for n, line in enumerate(lines, 1) if line.startswith(":::MLLOG")]


def test_link_to_a_log_is_not_followed(tmp_path: Path) -> None:
    """A growing log is the file itself."""
    (tmp_path / "log").write_text(TEXT)
    (tmp_path / "link").symlink_to(tmp_path / "log")

    with pytest.raises(LogError, match="is not a regular file"):
        list(Tail(tmp_path / "link").events())


def test_log_that_becomes_shorter_is_no_longer_followed(tmp_path: Path) -> None:
    """The offset of the next line is no longer known."""
    path = tmp_path / "log"
    path.write_text(TEXT)
    tail = Tail(path)
    list(tail.events())
    path.write_text(TEXT[:1000])

    with pytest.raises(LogError, match="became shorter while it was read"):
        list(tail.events())


def test_line_without_end_is_skipped_and_the_next_is_read(tmp_path: Path) -> None:
    """A progress bar of megabytes and a damaged line are not events."""
    path = tmp_path / "log"
    first, second, _ = TEXT.split("\n", 2)
    tail = Tail(path)
    path.write_text(f"{first}\n" + "x" * (2 * MAX_LINE_BYTES))
    assert [event.lineno for event in tail.events()] == [1]
    with path.open("a") as stream:
        stream.write(f"y {first}\n:::MLLOG {{\n{second}\n")

    assert [(event.lineno, event.key) for event in tail.events()] == [(4, "tta_rules")]
