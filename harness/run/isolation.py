"""What confines a worker on this machine: the strongest form that works here, tried by doing it once.

    bubblewrap  namespaces of users, processes, IPC, host names, network and mounts; a read-only root; no capabilities
    unshare     the same namespaces by util-linux; files by Landlock; system calls by seccomp
    landlock    no namespaces: files, signals and TCP by Landlock, system calls by seccomp, a user of its own under root
    none        a private folder as its home

In every form the worker gains no privileges, all that descends from it ends with it, and the referee is not dumpable:
no process of the same user can attach to it or write to its memory.
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.base.processes import SOURCE_ROOT, isolated_paths
from harness.errors import UsageError
from harness.log import isolation as logged_isolation
from harness.run import confinement
from harness.run.confinement import Confinement
from harness.run.starter import Place

MODES = ("auto", "full", "none")
HOME = "/tmp/home"  # noqa: S108  (in a /tmp of the worker's own)
_DEVICES = ("nvidia*", "dri", "kfd", "infiniband", "dxg")  # of accelerators and their network, in /dev
_CHARACTERS = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/sys", "/nix")
_SHARED = ("/home", "/root", "/run", "/tmp", "/var/tmp")  # noqa: S108
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108
_NAMESPACES = {"files": "confined", "processes": "confined", "network": "loopback", "data": "at start"}
_OPEN = {"files": "open", "processes": "same user", "network": "open", "data": "from the beginning"}


@dataclass(frozen=True, slots=True)
class Places:
    """What a run has on disk.

    data: a worker sees it from `start` on. hidden: folders that it never sees. shown: files in them that it needs.
    own: a folder in them that it may write to, for its checkpoints; None without any.
    """

    data: Path
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    own: Path | None = None

    @property
    def writable(self) -> tuple[str, ...]:
        return () if self.own is None else (str(self.own.resolve()),)


@dataclass(frozen=True, slots=True)
class Isolation:
    """A form of confinement.

    facts: for the log. prefix: the command before that of the starter. confinement: what the starter does in addition.
    home: the worker's private folder, if the prefix makes one. covered: the folder of the data, if it is hidden until
    it is uncovered.
    """

    facts: dict[str, Any]
    prefix: tuple[str, ...] = ()
    confinement: Confinement = field(default_factory=Confinement)
    home: str | None = None
    covered: str | None = None

    @property
    def gaps(self) -> str:
        """What is weaker than it could be, in words; empty if nothing is."""
        return ", ".join(logged_isolation.gaps(self.facts))


def choose(mode: str, places: Places, place: Place, works: Callable[[Isolation, Places], str | None]) -> Isolation:
    """Return the strongest form of confinement that works here.

    works: tries a form; returns why it does not work, None if it does.

    Raises:
        UsageError: `mode` is "full", and no form is.
    """
    if mode == "none":
        return _form("none", _OPEN, {"none": "as requested"})
    reasons: dict[str, str] = {}
    for name, forms in _FORMS.items():
        for form in forms(places, place):
            if isinstance(form, str):
                reasons[name] = form
            elif (reason := works(form, places)) is not None:
                reasons[name] = reason
            else:
                form.facts["reasons"] = reasons
                if mode == "full" and form.gaps:
                    raise _not_full(reasons | {name: form.gaps})
                return form
    if mode == "full":
        raise _not_full(reasons)
    return _form("none", _OPEN, reasons)


def moved(isolation: Isolation, places: Places, place: Place) -> Isolation:
    """Return the same form of confinement for other places."""
    for form in _FORMS.get(isolation.facts["means"], _nothing)(places, place):
        if isinstance(form, Isolation) and form.facts["user"] == isolation.facts["user"]:
            return replace(form, facts=isolation.facts)
    return isolation


def _nothing(places: Places, place: Place) -> Iterator[Isolation | str]:
    yield from ()


def _not_full(reasons: dict[str, str]) -> UsageError:
    why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return UsageError(f"--isolation full: this machine does not permit it: {why}")


def _form(means: str, facts: dict[str, str], reasons: dict[str, str] | None = None, **fields: Any) -> Isolation:
    both = {"no_new_privs": True, "referee_dumpable": False}
    return Isolation({"means": means, **facts, **both, "reasons": reasons or {}}, **fields)


def _bubblewrap(places: Places, place: Place) -> Iterator[Isolation | str]:
    if shutil.which("bwrap") is None:
        yield "not installed"
        return
    hidden = _hidden(places)
    covers = [word for folder in hidden for word in ("--tmpfs", str(folder))]
    closed = [word for folder in hidden if str(folder) not in _TEMPORARY for word in ("--remount-ro", str(folder))]
    needed = [
        word
        for source, place in _needed(places)
        if any(place.is_relative_to(folder) for folder in hidden)
        for word in ("--ro-bind", str(source), str(place))
    ]
    needed += [word for path in places.writable for word in ("--bind", path, path)]
    devices = [word for path in _accelerators() for word in ("--dev-bind-try", path, path)]
    data = str(places.data.resolve())
    for users in (["--unshare-user"], []):
        spaces = [*users, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        spaces += ["--unshare-net"] if place.num_nodes == 1 else []
        prefix = ["bwrap", *spaces, "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
        prefix += ["--dev", "/dev", *devices, "--proc", "/proc", *covers, *needed]
        prefix += ["--ro-bind", data, data, "--tmpfs", data, *closed, "--dir", HOME, "--chdir", HOME, "--"]
        user = "own namespace" if users else "the referee's, without capabilities"
        facts = {**_NAMESPACES, **_network(place), "user": user}
        yield _form(
            "bubblewrap",
            facts,
            prefix=tuple(prefix),
            home=HOME,
            covered=data,
        )
        if os.geteuid() != 0:
            return  # only root needs no namespace of users for the others


def _unshare(places: Places, place: Place) -> Iterator[Isolation | str]:
    if shutil.which("unshare") is None:
        yield "not installed"
        return
    if (abi := confinement.landlock_abi()) < 1:
        yield "this kernel has no Landlock"
        return
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child"]
    prefix += [*(["--net"] if place.num_nodes == 1 else []), "--ipc", "--uts", "--"]
    data = str(places.data.resolve())
    confined = Confinement(
        readable=(*_readable(places), data),
        writable=(_SHARED_MEMORY, *_accelerators(), *_characters(), *places.writable),
        listable=(str(SOURCE_ROOT),),  # to import from it
        covered=(_SHARED_MEMORY, data),
        has_loopback=place.num_nodes == 1,
    )
    facts = {**_NAMESPACES, **_network(place), "user": "own namespace", "landlock_abi": str(abi)}
    yield _form("unshare", facts, prefix=tuple(prefix), confinement=confined, covered=data)


def _landlock(places: Places, place: Place) -> Iterator[Isolation | str]:
    abi = confinement.landlock_abi()
    if abi < 1:
        yield "this kernel has no Landlock"
        return
    facts = {
        "files": "confined except /dev/shm",
        "processes": "confined" if abi >= confinement.ABI_OF_SIGNALS else "signals open",
        "network": "no TCP" if abi >= confinement.ABI_OF_TCP and place.world_size == 1 else "open",
        "data": "from the beginning",
        "landlock_abi": str(abi),
    }
    confined = Confinement(
        readable=(*_readable(places), str(places.data.resolve())),
        writable=(_SHARED_MEMORY, *_accelerators(), *_characters(), *places.writable),
        owned=places.writable,
        listable=(str(SOURCE_ROOT),),
        is_without_tcp=place.world_size == 1,
    )
    for user in (confinement.unused_user(), None) if os.geteuid() == 0 else (None,):
        whose = "the referee's" if user is None else "its own"
        own = Confinement(**{**confined.record(), "user": user})
        yield _form("landlock", {**facts, "user": whose}, confinement=own)


def _network(place: Place) -> dict[str, str]:
    """The ranks of several nodes speak with each other over the network, which therefore stays open."""
    return {} if place.num_nodes == 1 else {"network": "open"}


def _hidden(places: Places) -> list[Path]:
    """Return the folders to hide, outer ones first: those requested, homes, the current one, what programs share."""
    homes = [Path.cwd(), *map(Path, _SHARED), *map(Path, filter(None, [os.environ.get("HOME")]))]
    with suppress(KeyError):  # a user without an account
        homes.append(Path(pwd.getpwuid(os.geteuid()).pw_dir))
    system = [Path("/dev"), *map(Path, _SYSTEM)]
    resolved = {path.resolve() for path in homes if path.is_dir()}
    wanted = {path for path in resolved if not any(path.is_relative_to(folder) for folder in system)}
    wanted |= {path.resolve() for path in places.hidden if path.is_dir()}
    # A folder with the system in it, such as the home "/" of a service, cannot be hidden.
    return sorted(path for path in wanted if not any(folder.is_relative_to(path) for folder in system))


def _needed(places: Places) -> list[tuple[Path, Path]]:
    """Return what a worker imports and reads, as pairs of what there is and where it expects it."""
    paths, *prefixes = isolated_paths()
    wanted = [SOURCE_ROOT / name for name in ("harness", "workloads", "rules")]
    wanted += map(Path, [*paths, *prefixes, sys.base_prefix, sys.base_exec_prefix])
    wanted += map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))
    wanted += places.shown
    found: dict[Path, Path] = {}
    for path in wanted:
        if path.is_absolute() and path.exists():
            found[path.parent.resolve() / path.name] = found[path.resolve()] = path.resolve()
    inner = {
        place
        for place, source in found.items()
        if any((found[outer] / place.relative_to(outer)) == source for outer in place.parents if outer in found)
    }
    return [(found[place], place) for place in sorted(found.keys() - inner - {Path("/")})]


def _readable(places: Places) -> tuple[str, ...]:
    """Return what a worker may read where files are confined by what they are, not by where they are mounted."""
    return (*_SYSTEM, *sorted({str(source) for source, _ in _needed(places)}))


def _accelerators() -> list[str]:
    return sorted(str(path) for pattern in _DEVICES for path in Path("/dev").glob(pattern))


def _characters() -> list[str]:
    return [f"/dev/{name}" for name in _CHARACTERS]


_FORMS: dict[str, Callable[[Places, Place], Iterator[Isolation | str]]] = {
    "bubblewrap": _bubblewrap,
    "unshare": _unshare,
    "landlock": _landlock,
}
