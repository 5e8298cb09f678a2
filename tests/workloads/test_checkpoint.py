"""What all sessions save."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
import resource, sys, torch
from pathlib import Path
from workloads import checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # a disk with so much room
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    checkpoint.write({"weights": torch.rand(100_000)}, Path(sys.argv[1]) / "session.pt")
except OSError as error:
    print(type(error).__name__, error.strerror)
"""


def test_full_disk_is_an_oserror(tmp_path: Path) -> None:
    """In the middle of a tensor, where torch alone reports positions."""
    import sys

    from tests.workloads.sessions import ROOT

    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)

    assert done.stdout == "OSError File too large\n"


def test_fault_that_is_not_the_disks_is_torchs_own(tmp_path: Path) -> None:
    """Nothing is taken for a full disk."""
    from workloads import checkpoint

    class Broken:
        def __reduce__(self) -> object:
            raise RuntimeError("not to be saved")

    with pytest.raises(RuntimeError, match="not to be saved"):
        checkpoint.write({"broken": Broken()}, tmp_path / "session.pt")
