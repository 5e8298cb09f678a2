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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are no errors on an accelerator: what libraries advise there differs between devices and releases."""
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is marked `gpu` is of CUDA devices: without one there is nothing to test."""
    if item.get_closest_marker("gpu") is not None and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is no CUDA device")
