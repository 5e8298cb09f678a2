"""A stream whose reader may go away: what is said then is lost, the work is not."""

from __future__ import annotations

import contextlib
from typing import Any, TextIO


class Unheard:
    """Writes to `stream`, and goes on where that fails in a way that `lost` names.

    `tta run 2>&1 | head -1` must not end the run; and a verb that was ended by `tta check x | head -1` would have
    submitted nothing, or called a result valid, and nobody would know.
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
