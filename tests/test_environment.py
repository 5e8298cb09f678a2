"""The environment of the quick start and of the tests: what an interrupted call left is made again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "environment.sh"
# Instead of Python: `-m venv` makes an interpreter with pip, unless ensurepip is missing; it notes what it installs.
BASE = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
*--clear*) rm -rf .venv ;;
esac
mkdir -p .venv/bin
echo >.venv/pyvenv.cfg
printf '#!/bin/sh\\ncase "$*" in\\n*--version) test -e no_ensurepip && exit 1 || exit 0 ;;\\nesac\\n' >.venv/bin/python
echo 'echo "$*" >>installed' >>.venv/bin/python
chmod +x .venv/bin/python
test ! -e no_ensurepip
"""
Call = Callable[[], subprocess.CompletedProcess[str]]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Call the script in a folder that has what it reads of a checkout."""
    (tmp_path / "harness").mkdir()
    for name in ("pyproject.toml", "harness/__init__.py"):
        (tmp_path / name).touch()
    base = tmp_path / "base"
    base.write_text(BASE)
    base.chmod(0o755)
    command = ["bash", "-euo", "pipefail", "-c", f'. "{SCRIPT}"; environment .venv train; echo "$python"']
    environment = {**os.environ, "PYTHON": str(base)}
    return lambda: subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_an_environment_is_made_once(call: Call, tmp_path: Path) -> None:
    """The second call has nothing to do."""
    for _ in range(2):
        done = call()
        assert (done.returncode, done.stdout) == (0, ".venv/bin/python\n"), done.stderr

    assert (tmp_path / "installed").read_text().count("-e .[train]\n") == 1


def test_without_ensurepip_it_says_what_to_install(call: Call, tmp_path: Path) -> None:
    """Each time, though `venv` left an interpreter; once it is installed, the next call goes on."""
    (tmp_path / "no_ensurepip").touch()
    for _ in range(2):
        done = call()
        assert done.returncode == 2
        assert "apt install python3-venv" in done.stderr
    (tmp_path / "no_ensurepip").unlink()

    assert call().returncode == 0


def test_an_interpreter_without_pip_is_made_again(call: Call, tmp_path: Path) -> None:
    """As an interrupted `venv` leaves it, with nothing of the former attempt."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)

    assert call().returncode == 0
    assert not (tmp_path / ".venv" / "lib").exists()
    assert (tmp_path / "installed").exists()


def test_a_folder_that_is_no_environment_is_not_emptied(call: Call, tmp_path: Path) -> None:
    """Whatever TTA_VENV names."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "notes").touch()

    assert call().returncode == 0
    assert (tmp_path / ".venv" / "notes").exists()
