"""Signals that end a process, collected instead of raised."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def collected() -> Iterator[list[int]]:
    """Collect SIGINT, SIGTERM and SIGHUP in the yielded list instead of raising, so that nothing is written half."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    before = {
        number: signal.signal(number, note)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup and background jobs rely on that
    }
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
