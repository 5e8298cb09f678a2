"""harness.base.processes: what a child process imports."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.base.processes import (
    SOURCE_ROOT,
    adopt_orphans,
    children,
    die_with_parent,
    end_children,
    isolated_python,
    python_environment,
    refuse_tracing,
)


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


def test_isolated_python_imports_the_source_and_the_installation_alone(tmp_path: Path) -> None:
    """Neither `PYTHONPATH`, the current folder nor a `sitecustomize` reaches it; prefix and arguments are right."""
    for folder in (tmp_path / "path", tmp_path / "here"):
        folder.mkdir()
        for name in ("sitecustomize", "usercustomize", "random"):
            (folder / f"{name}.py").write_text("raise SystemExit('taken in')")
    (tmp_path / "shown.py").write_text("")
    command = isolated_python("tests.harness.base.interpreter", "-n", "a b")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "path"), "PYTHONSTARTUP": str(tmp_path / "shown.py")}

    found = subprocess.run(
        command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=True
    ).stdout

    paths, prefix, arguments, place = json.loads(found)
    assert paths[0] == str(SOURCE_ROOT)
    assert paths.count(str(SOURCE_ROOT)) == 1
    assert all(Path(path).is_absolute() and not Path(path).is_relative_to(tmp_path) for path in paths)
    assert prefix == sys.prefix
    assert arguments == ["-n", "a b"]
    assert not Path(place).is_relative_to(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_no_descendant_escapes_its_end() -> None:
    """A child in a session of its own, whose parent has ended and whose environment is empty; another is spared."""
    program = (
        "import os, subprocess; from harness.base.processes import adopt_orphans, children, end_children\n"
        "adopt_orphans(); spared = subprocess.Popen(['sleep', '60']); before = children()\n"
        "subprocess.run('(env -i setsid sleep 60 & echo $! ) & wait', shell=True, check=True)\n"
        "assert len(children() - before) == 1; end_children(frozenset(before))\n"
        "assert children() == before == {spared.pid}; os.kill(spared.pid, 0); end_children()\n"
        "assert children() == set()"
    )
    subprocess.run([sys.executable, "-P", "-c", program], env=python_environment(), check=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_children_are_ended_and_waited_for() -> None:
    """Afterwards the system knows nothing of them any more."""
    before = frozenset(children())
    process = subprocess.Popen(["sleep", "60"])
    adopt_orphans()
    try:
        assert children() - before == {process.pid}
    finally:
        end_children(before)

    assert children() == before
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
def test_process_that_refuses_tracing_is_not_dumpable() -> None:
    """Then its memory and environment in /proc belong to root."""
    get_dumpable, set_dumpable = 3, 4  # <linux/prctl.h>
    refuse_tracing()

    assert ctypes.CDLL(None).prctl(get_dumpable) == 0
    ctypes.CDLL(None).prctl(set_dumpable, 1, 0, 0, 0)


def test_elsewhere_than_on_linux_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no `prctl` to call."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr("ctypes.CDLL")

    die_with_parent()
    adopt_orphans()
    refuse_tracing()


def test_calls_of_the_kernel_leave_nothing_for_the_collector_of_cycles() -> None:
    """They are made for every worker of every run."""
    adopt_orphans()
    gc.collect()
    gc.disable()
    try:
        adopt_orphans()
        num_unreachable = gc.collect()
    finally:
        gc.enable()

    assert num_unreachable == 0
