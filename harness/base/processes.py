"""Child processes: the folder they import the source from, and their end when their parent is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

SOURCE_ROOT = Path(__file__).parents[2]  # the folder that has `harness` in it
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def python_environment() -> dict[str, str]:
    """Return a copy of this process's environment in which a Python child imports the same source.

    `PYTHONPATH` begins with the source's folder, whatever the child's working folder is.
    """
    paths = (str(SOURCE_ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Does nothing except on Linux.

    Safe between fork and exec. A parent that has ended already is not noticed; the caller checks for that.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
