"""harness.base.processes: what a child process imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.base.processes import SOURCE_ROOT, die_with_parent, python_environment


def test_a_child_imports_the_same_source_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source comes first in the child's path, and no empty entry, which would be its working folder, is added."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert python_environment()["PYTHONPATH"] == str(SOURCE_ROOT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    (tmp_path / "harness.py").write_text("")
    command = [sys.executable, "-P", "-c", "import harness; print(harness.__file__)"]

    found = subprocess.run(command, cwd=tmp_path, env=python_environment(), capture_output=True, text=True, check=True)

    assert Path(found.stdout.strip()).parents[1] == SOURCE_ROOT
    assert python_environment()["PYTHONPATH"].split(os.pathsep)[1:] == [str(tmp_path / "elsewhere")]
    assert python_environment() is not os.environ


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
def test_a_child_asks_to_be_killed_when_its_parent_ends() -> None:
    """The kernel reports SIGKILL as its parent-death signal."""
    program = (
        "import ctypes; from harness.base.processes import die_with_parent; die_with_parent(); "
        "number = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(number)); print(number.value)"
    )
    command = [sys.executable, "-P", "-c", program]

    found = subprocess.run(command, env=python_environment(), capture_output=True, text=True, check=True)

    assert int(found.stdout) == signal.SIGKILL


def test_elsewhere_than_on_linux_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no `prctl` to call."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr("ctypes.CDLL")

    die_with_parent()
