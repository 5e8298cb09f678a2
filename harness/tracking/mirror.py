"""Starts the process that mirrors a result folder into MLflow. Does not import MLflow.

The process follows the logs at the lowest priority. The run never waits for it, and goes on if it fails; `tta sync`
adds what is missing then.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.base import companion
from harness.base.companion import Companion


def tracking_uri(chosen: str | None = None) -> str:
    """Return the store to use: the chosen one, else `MLFLOW_TRACKING_URI` of the environment, else ./mlflow.db."""
    return chosen or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"


def start_mirror(folder: Path, chosen_uri: str | None = None) -> Companion:
    """Start to mirror the logs that are in `folder` or will appear there; return immediately."""
    arguments = [str(folder.absolute()), f"--tracking-uri={tracking_uri(chosen_uri)}"]
    return companion.start("harness.tracking", "the MLflow mirror", arguments)
