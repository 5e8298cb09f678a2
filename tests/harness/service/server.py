"""A real `tta board serve` in a process of its own, with a team that has a real result."""

from __future__ import annotations

import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.base.processes import SOURCE_ROOT, python_environment
from harness.submission.layout import CLAIM_NAME, MANIFEST_NAME, SYSTEM_NAME

REFERENCE = SOURCE_ROOT / "submissions" / "reference"
_START_S = 60.0


@dataclass
class Server:
    """A running service. token: of its organiser. environment: of commands of the user who has this token."""

    address: str
    folder: Path
    token: str
    process: subprocess.Popen[str]
    environment: dict[str, str]

    def tta(
        self, *arguments: str, token: str | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `tta`."""
        environment = {**self.environment, "TTA_BOARD_TOKEN": token or self.token}
        command = [sys.executable, "-m", "harness.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextmanager
def serving(folder: Path, *options: str, organisation: str = "reference") -> Iterator[Server]:
    """A service with one round and one organiser, who is of the organisation whose results there are."""
    data, environment = folder / "data", {**python_environment(), "XDG_CONFIG_HOME": str(folder / "config")}
    tta = [sys.executable, "-m", "harness.cli", "board"]
    made = subprocess.run(
        [*tta, "init", str(data), "--organisation", organisation, "--organiser", "olga", *options],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    process = start(data, environment)
    try:
        yield Server(address_of(process), data, made.stdout.strip(), process, environment)
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(data: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness.cli", "board", "serve", "--data", str(data), "--port", "0"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def address_of(process: subprocess.Popen[str]) -> str:
    """The address that a server prints when it answers."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + _START_S
    ready, _, _ = select.select([process.stdout], [], [], deadline_s - time.monotonic())
    assert ready, "the service did not start"
    return process.stdout.readline().strip()


def reference_result(folder: Path, benchmark: str = "recommendation_mini") -> Path:
    """A real result as `tta run` left it: a copy of the reference's, without claim and manifest."""
    [system] = (REFERENCE / "results").iterdir()
    target = folder / benchmark
    shutil.copytree(system / benchmark, target)
    for name in (CLAIM_NAME, MANIFEST_NAME):
        (target / name).unlink()
    shutil.copy(REFERENCE / "systems" / f"{system.name}.json", target / SYSTEM_NAME)
    return target
