"""The signals that end a run: those that the shell did not set to be ignored."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from harness.base import signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore the signal handlers of this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_is_noted_and_not_raised(number: signal.Signals) -> None:
    """The signal is recorded; the referee acts at its next tick."""
    signal.signal(number, signal.SIG_DFL)
    with signals.collected() as seen:
        os.kill(os.getpid(), number)

        assert seen == [number]
    assert signal.getsignal(number) is signal.SIG_DFL


def test_hangup_under_nohup_stays_ignored() -> None:
    """A run started with nohup outlives the terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.collected() as seen:
        os.kill(os.getpid(), signal.SIGHUP)

        assert seen == []
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
