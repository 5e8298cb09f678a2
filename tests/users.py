"""Runs a command as an ordinary user, where the tests run as root; and without the programs that make namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ORDINARY = 61000


@dataclass(frozen=True)
class User:
    """Who runs a command. prefix: what comes before it. python: the interpreter. id: the user's."""

    prefix: tuple[str, ...]
    python: str
    id: int

    def own(self, folder: Path) -> None:
        """Gives a folder to the user, with everything in it."""
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                os.chown(path, self.id, self.id)


def itself() -> User:
    return User((), sys.executable, os.geteuid())


def ordinary(folder: Path) -> User | str:
    """Return an ordinary user, or why there is none here. `folder`: for an interpreter that this user may run."""
    if os.geteuid() != 0:
        return itself()
    if shutil.which("setpriv") is None:
        return "there is no setpriv"
    # setpriv itself still finds what root may see; env, which it starts, does not.
    prefix = ("setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "env")
    for python in (sys.executable, "/usr/bin/python3"):
        shown = "import sys; print(sys.version_info[:2])"
        found = subprocess.run([*prefix, python, "-c", shown], capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip() == str(sys.version_info[:2]):
            # With the packages of the interpreter that runs the tests.
            subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
            (site,) = folder.glob("lib/python*/site-packages")
            (site / "packages.pth").write_text("".join(f"{path}\n" for path in sys.path if "site-packages" in path))
            user = User(prefix, str(folder / "bin/python"), ORDINARY)
            user.own(folder)
            finds = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
            if subprocess.run([*prefix, user.python, "-c", finds], check=False).returncode != 0:
                return "the packages of this environment are in a folder that an ordinary user may not enter"
            return user
    return "no interpreter here is for an ordinary user"


def path_without(folder: Path, programs: Sequence[str]) -> str:
    """Return a `PATH` with everything on the present one but `programs`."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(":")):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name not in programs and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)
