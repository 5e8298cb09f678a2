"""What holds for the whole suite."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from harness.ruleset import load
from harness.ruleset.model import BenchmarkRules


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


@pytest.fixture(autouse=True, scope="session")
def rules_files_are_parsed_once() -> Iterator[None]:
    """Parsing them is most of what a verb does on a small tree: the same bytes at the same path are parsed once."""
    original = load._load_workload

    @functools.cache
    def remembered(path: Path, data: bytes) -> list[BenchmarkRules]:
        return original(path)

    def load_workload(path: Path) -> list[BenchmarkRules]:
        is_plain = path.is_file() and path.stat().st_size < 1 << 20
        return remembered(path, path.read_bytes()) if is_plain else original(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "_load_workload", load_workload)
        yield
