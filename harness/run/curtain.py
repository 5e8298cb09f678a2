"""Uncovers the data in a worker's namespace of mounts when the clock has started.

Until then an empty folder is mounted over the data, which no process without privileges over those mounts can remove.
Started as `python -m harness.run.curtain PID FOLDER`; enters the namespace of the process PID, says so, waits for a
line on standard input, and removes the mount.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_CLONE_NEWUSER, _CLONE_NEWNS, _MNT_DETACH = 0x10000000, 0x20000, 2


def enter(pid: int) -> None:
    """Enter the namespace of mounts of a process, and first the user namespace that has power over it.

    Raises:
        OSError: this process may not.
    """
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    users = fcntl.ioctl(mounts, _NS_GET_USERNS)
    if not os.path.samestat(os.fstat(users), os.stat("/proc/self/ns/user")):  # noqa: PTH116
        _call("setns", users, _CLONE_NEWUSER)
    _call("setns", mounts, _CLONE_NEWNS)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main(pid: str, folder: str) -> int:
    try:
        enter(int(pid))
        print("ready", flush=True)
        if not sys.stdin.readline():
            return 0  # the launcher has ended
        _call("umount2", os.fsencode(folder), _MNT_DETACH)
    except OSError as error:
        print(error.strerror, flush=True)
        return 1
    print("open", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
