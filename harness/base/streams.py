"""A stream whose reader may go away: the output is lost then, the work is not."""

from __future__ import annotations

import contextlib
from typing import Any, TextIO


class TolerantStream:
    """Write to `stream`, and carry on if that fails with an error of the type `lost`.

    `program 2>&1 | head -1` must not end the program's work, nor change its exit status.
    """

    def __init__(self, stream: TextIO, lost: type[OSError] = OSError) -> None:
        self._stream, self._lost = stream, lost

    def write(self, text: str) -> int:
        with contextlib.suppress(self._lost):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(self._lost):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
