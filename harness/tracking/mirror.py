"""Starts and ends the process that mirrors a result folder into MLflow. Does not import MLflow.

The process follows the logs at the lowest priority. The run never waits for it, and goes on if it fails.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.base.processes import python_environment

# One thread and no accelerator: the machine belongs to the run.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
}
DONE = b"done"


def tracking_uri(chosen: str | None = None) -> str:
    """Return the store to use: the chosen one, else `MLFLOW_TRACKING_URI` of the environment, else ./mlflow.db."""
    return chosen or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"


@dataclass(slots=True)
class Mirror:
    """The mirror process; None if it could not be started."""

    process: subprocess.Popen[bytes] | None

    def finish(self, timeout_s: float) -> bool:
        """Tell the process that the logs are complete and wait until it has sent the rest.

        It is killed if it has not finished after `timeout_s` seconds.

        Returns:
            Whether everything is in the store. If not, `tta sync` adds what is missing.
        """
        process = self.process
        if process is None:
            return False
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it may have ended
            process.stdin.write(DONE + b" %d\n" % max(0, int(timeout_s)))
            process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def start_mirror(folder: Path, chosen_uri: str | None = None) -> Mirror:
    """Start to mirror the logs that are in `folder` or will appear there; return immediately."""
    command = [sys.executable, "-P", "-m", "harness.tracking", str(folder.absolute())]
    command += [f"--tracking-uri={tracking_uri(chosen_uri)}", f"--parent-pid={os.getpid()}"]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # standard output belongs to the verb
            env={**python_environment(), **_ENVIRONMENT},
            start_new_session=True,  # Ctrl-C is for the run, which then ends the mirror
        )
    except OSError as error:
        print(f"tta: the MLflow mirror cannot be started: {error.strerror}", file=sys.stderr)
        return Mirror(None)
    return Mirror(process)
