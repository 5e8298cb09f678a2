"""Looks at the machine it runs on: `look` reads the facts, `system_description` puts them in MLPerf's words."""

from __future__ import annotations

from pathlib import Path

from harness.run.accelerators import find_nvml, read_accelerators
from harness.run.machine import read_host
from harness.submission.system import Machine, system_description

__all__ = ["look", "system_description"]


def look(folder: Path | None = None) -> Machine:
    """The facts of this machine; `folder` is where runs will be written, the current folder if None.

    Raises:
        OutputError: `folder` is not there.
    """
    return read_host(folder or Path(), read_accelerators(nvml=find_nvml()))
