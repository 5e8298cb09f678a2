"""What the starter does to confine the ranks, where the command before it does not do it all.

Landlock for files, signals and TCP (landlock(7)), a filter of system calls (seccomp(2)), an empty set of capabilities,
a user of its own, and, in a namespace of mounts of its own, empty folders over others.
"""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import os
import platform
import pwd
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABI_OF_TCP, ABI_OF_SIGNALS = 4, 6
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ABI_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # the rights that a file can have
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # from which ABI on
_TCP, _SCOPES = 3, 3  # bind and connect; abstract sockets and signals
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 24, 22, 2
_CAPABILITY_VERSION_3 = 0x20080522
_MS_NOSUID, _MS_NODEV = 2, 4
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
# System calls with which a process reaches into others, the kernel or the mounts, by number on each architecture.
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_MOUNTS = (428, 429, 430, 431, 432, 433, 442)  # open_tree, move_mount, fsopen to fspick, mount_setattr
_DENIED = {
    # ptrace, process_vm_readv and _writev, kcmp, add_key, request_key, keyctl, bpf, perf_event_open, mount, umount2,
    # pivot_root, unshare, setns, open_by_handle_at, init_module, finit_module, delete_module, kexec_load; pidfd_getfd
    "x86_64": (101, 310, 311, 312, 248, 249, 250, 321, 298, 165, 166, 155, 272, 308, 304, 175, 313, 176, 246, 438),
    "aarch64": (117, 270, 271, 272, 217, 218, 219, 280, 241, 40, 39, 41, 97, 268, 265, 105, 273, 106, 104, 438),
}
_X32_BIT = 0x40000000
_LOAD, _JUMP_EQUAL, _JUMP_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # classic BPF: <linux/bpf_common.h>
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What to do. Nothing is confined by Landlock and seccomp if nothing is readable.

    readable, writable: files and folders that a rank may use; nothing else. listable: folders in which it may learn the
    names of files. covered: folders over which an empty one is mounted. user: the id of the user that a rank becomes.
    owned: folders that are to belong to that user.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    listable: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    has_loopback: bool = False
    is_without_tcp: bool = False
    user: int | None = None
    owned: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def prepare(self, private: str) -> int | None:
        """Set up what all ranks share, and return the descriptor of a Landlock ruleset; None without one.

        private: the worker's own folder, which is writable too.
        """
        if self.user is not None:
            for folder in (private, *self.owned):
                os.chown(folder, self.user, self.user)
        ruleset = None
        if self.readable:
            ruleset = _ruleset(self.is_without_tcp)
            for path in self.readable:  # before they are covered: the rules are about files, not about paths
                _permit(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
            for path in self.listable:
                _permit(ruleset, path, _READ_DIR)
        for folder in self.covered:
            _check(_libc.mount(b"tta", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, None), f"mount on {folder}")
        if self.has_loopback:
            _bring_up("lo")
        if ruleset is not None:
            for path in (*self.writable, private):
                _permit(ruleset, path, _rights(landlock_abi()))
        return ruleset

    def enter(self, ruleset: int | None) -> None:
        """Between fork and exec of a rank: give up what it may not have."""
        if self.user is not None:
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        if ruleset is not None:
            _drop_capabilities()
            _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
            _filter_calls(platform.machine())


def landlock_abi() -> int:
    """Return the version of Landlock in this kernel; 0 or less without it."""
    return int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ABI_VERSION))


def unused_user() -> int:
    """Return the id of a user that no account and no process has."""
    taken = {account.pw_uid for account in pwd.getpwall()}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            taken.add(path.stat().st_uid)
    return next(number for number in range(61184, 65519) if number not in taken)  # systemd's dynamic users


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _ruleset(is_without_tcp: bool) -> int:
    abi = landlock_abi()
    attributes = struct.pack("=QQQ", _rights(abi), _TCP if is_without_tcp else 0, _SCOPES)
    size = 24 if abi >= ABI_OF_SIGNALS else 16 if abi >= ABI_OF_TCP else 8
    return _check(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock_create_ruleset")


def _rights(abi: int) -> int:
    return _FILE_RIGHTS[max(first for first in _FILE_RIGHTS if first <= abi)]


def _permit(ruleset: int, path: str, rights: int) -> None:
    """Permit a file, or a folder and all that is in it; nothing if it does not exist."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        attributes = struct.pack("=Qi", rights, fd)
        _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, attributes, 0), f"landlock_add_rule of {path}")
        os.close(fd)


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH22x", interface.encode(), 0)
        (flags,) = struct.unpack("16xH22x", fcntl.ioctl(probe, _SIOCGIFFLAGS, request))
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH22x", interface.encode(), flags | _IFF_UP))


def _drop_capabilities() -> None:
    number = 0
    while _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:  # fails past the last one, and without privileges
        number += 1
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def _filter_calls(machine: str) -> None:
    """Let the system calls of `_DENIED` fail with EPERM."""
    if machine not in _DENIED:
        return
    denied = (*_DENIED[machine], *_NEW_MOUNTS)
    program = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 0, len(denied) + 3, _AUDIT_ARCH[machine]), (_LOAD, 0, 0, 0)]
    program.append((_JUMP_LEAST, len(denied) + 1, 0, _X32_BIT))
    program += [(_JUMP_EQUAL, len(denied) - place, 0, number) for place, number in enumerate(denied)]
    program = [*program, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    described = struct.pack("@HxxxxxxP", len(program), ctypes.addressof(code))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0), "seccomp")
