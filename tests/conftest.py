"""What holds for the whole suite."""

from __future__ import annotations

import signal

import hypothesis
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Signals as a terminal gives them: a suite that a shell starts in the background has SIGINT ignored, and every
    program it starts would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says something about the machine, not about the property.
    hypothesis.settings.register_profile("tta", deadline=None)
    hypothesis.settings.load_profile("tta")
