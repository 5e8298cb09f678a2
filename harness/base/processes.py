"""Child processes: the source that they import, the interpreter that runs them, and their end."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SOURCE_ROOT = Path(__file__).parents[2]  # the folder that has `harness` in it
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_DYING_S = 2.0
_END_EVERY_S = 0.02
# Runs a module by name as `__main__`, after setting what `-S` leaves unset. argv: ["-c", places, module, arguments...].
_BOOTSTRAP = (
    "import json, runpy, sys; sys.path[:], sys.prefix, sys.exec_prefix = json.loads(sys.argv[1]); "
    "del sys.argv[:2]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
_PLACES = "import json, sys; print(json.dumps([sys.path, sys.prefix, sys.exec_prefix]))"


def python_environment() -> dict[str, str]:
    """Return a copy of this process's environment in which a Python child imports the same source.

    `PYTHONPATH` begins with the source's folder, whatever the child's working folder is.
    """
    paths = (str(SOURCE_ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def isolated_python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this source, and lets no one else's code into the interpreter.

    Neither environment variables nor the current folder, the user's site-packages, `.pth` files or `sitecustomize`
    reach it: it imports from the source and from the folders of the installation.
    """
    paths, prefix, exec_prefix = isolated_paths()
    source = [str(SOURCE_ROOT), *(path for path in paths if path != str(SOURCE_ROOT))]
    places = json.dumps([source, prefix, exec_prefix])
    return [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, places, module, *arguments]


@functools.cache
def isolated_paths() -> tuple[list[str], str, str]:
    """Return the path of modules and the prefixes of this interpreter, as it has them in isolated mode."""
    command = [sys.executable, "-I", "-c", _PLACES]
    shown = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
    paths, prefix, exec_prefix = json.loads(shown)
    # An editable installation adds a name that only its own `.pth` file gives a meaning.
    return [path for path in paths if Path(path).is_absolute()], prefix, exec_prefix


@functools.cache
def _libc() -> ctypes.CDLL:
    """Return the C library: opened once, since each of ctypes's objects for it is a cycle of references."""
    return ctypes.CDLL(None)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Does nothing except on Linux.

    Safe between fork and exec. A parent that has ended already is not noticed; the caller checks for that.
    """
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def refuse_tracing() -> None:
    """Keep other processes of this user from attaching to this one, from its memory and environment. Only on Linux."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of descendants whose own parent ends. Only on Linux."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Return the ids of this process's children, including those that have ended and were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            # "<pid> (<name>) <state> <ppid> ...", where a name may have any characters: proc_pid_stat(5).
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            found |= {int(path.parent.name)} if int(fields[1]) == os.getpid() else set()
    return found


def marked(entry: str) -> list[int]:
    """Return the ids of the other processes whose environment has an entry that begins like this.

    Those of other users cannot be read and are left out.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            entries = path.read_bytes().split(b"\0")
            if any(known.startswith(entry.encode()) for known in entries) and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return sorted(found)


def end_marked(entry: str) -> list[str]:
    """Kill every process that `marked` finds, and those that it starts meanwhile; return their names.

    Those that end by themselves within two seconds are not among them: the kernel ends what is in a namespace of
    processes after its first one.
    """
    names: list[str] = []
    deadline_s = time.monotonic() + _DYING_S
    while marked(entry) and time.monotonic() < deadline_s:
        time.sleep(_END_EVERY_S)
    while found := marked(entry):
        for pid in found:
            with suppress(OSError):  # it has ended meanwhile
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                os.kill(pid, signal.SIGKILL)
                names.append(name)
        time.sleep(_END_EVERY_S)
    return names


def end_children(spared: set[int] | frozenset[int] = frozenset()) -> None:
    """Kill every child but those `spared`, wait for them, and go on with the children whose parent that was.

    After `adopt_orphans`, nothing that descends from the children is left, whatever session it is in.
    """
    while found := children() - spared:
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        for pid in found:
            os.waitpid(pid, 0)
