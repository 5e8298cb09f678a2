"""Reads a log while it grows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from harness.errors import LogError
from harness.log.events import TOKEN, Event, line_digest
from harness.log.parse import parse_line
from harness.log.run_log import MAX_LINE_BYTES

_TOKEN = TOKEN.encode()
_PIECE_BYTES = 1 << 20


class Tail:
    """Reads the whole lines that were appended to a log since the last call, each once.

    Lines that are not events are skipped; what is wrong with them is for the checks to say.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0  # of the first byte after the last whole line that was read
        self._size = 0
        self._num_lines = 0
        self._is_skipping = False  # inside an overlong line
        self._last = b""  # the text of the event that was yielded last

    @property
    def head(self) -> str:
        """The digest of the event that was yielded last, as the next line has it in `prev`."""
        return line_digest(self._last[: self._last.rfind(b"}") + 1].decode("utf-8", "replace"))

    def events(self) -> Iterator[Event]:
        """Yield the events in the new lines; none if the file does not exist yet.

        Raises:
            LogError: the file is not a regular file, cannot be read, or became shorter.
        """
        try:
            status = self.path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise LogError(f"{self.path}: is not a regular file")
            if status.st_size < self._offset:
                raise LogError(f"{self.path}: became shorter while it was read")
            if status.st_size == self._size:
                return
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb", buffering=0) as stream:
                stream.seek(self._offset)
                rest = b""
                while piece := stream.read(_PIECE_BYTES):
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield from self._take(line)
                    if len(rest) > MAX_LINE_BYTES:
                        self._offset += len(rest)
                        rest, self._is_skipping = b"", True
                self._size = self._offset + len(rest)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogError(f"{self.path}: cannot be read: {error.strerror}") from None

    def _take(self, line: bytes) -> Iterator[Event]:
        self._offset += len(line) + 1
        self._num_lines += 1
        is_rest, self._is_skipping = self._is_skipping, False
        start = line.find(_TOKEN)
        if is_rest or start < 0 or len(line) > MAX_LINE_BYTES:
            return
        try:
            event = parse_line(line[start:].rstrip(b"\r"), self._num_lines)
        except ValueError:
            return
        self._last = line[start:]
        yield event
