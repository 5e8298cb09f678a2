"""A module that reaches for the referee, the results, the data before their time, or the next run: in each form of
isolation that this machine permits, as the user of the tests and as an ordinary one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.log.run_log import RunLog
from harness.run import confinement
from tests import users
from tests.killing import Running, toy_tree, until
from tests.users import User

pytestmark = pytest.mark.slow
# What each form needs beyond the one after it.
FORMS = {"bubblewrap": (), "unshare": ("bwrap",), "landlock": ("bwrap", "unshare")}
# Imported in `prepare`'s time, before the clock; `quality` is asked after `start`.
MODULE = """
import ctypes, glob, json, os, signal, socket, subprocess

FOUND = {}
LIBC = ctypes.CDLL(None, use_errno=True)
PLACES = json.loads(%r)


def _try(name, action):
    try:
        FOUND[name] = action()
    except Exception as error:
        FOUND[name] = type(error).__name__


def _read(path):
    with open(path, "rb") as stream:
        return len(stream.read())


# Of this run, not of the tests beside it: the referee is told where its results go, the evaluator is its child.
def _referees():
    commands = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with open(path, "rb") as stream:
            commands[int(path.split("/")[2])] = stream.read()
    words = (b"harness.cli", os.fsencode(PLACES["out"]))
    referees = {pid for pid, command in commands.items() if all(word in command for word in words)}
    for pid, command in commands.items():
        if b"harness.run.evaluator" in command:
            with open(f"/proc/{pid}/stat") as stream:
                if int(stream.read().rpartition(")")[2].split()[1]) in referees:
                    referees.add(pid)
    return sorted(referees)


def _memory():
    return [pid for pid in _referees() if open(f"/proc/{pid}/mem", "r+b")]


def _attached():
    return [pid for pid in _referees() if LIBC.ptrace(16, pid, 0, 0) == 0]


def _stopped():
    return [pid for pid in _referees() if os.kill(pid, signal.SIGSTOP) is None]


def _uncovered():
    for command in ("umount %%s", "unshare -Urm umount %%s", "unshare -Um umount %%s"):
        subprocess.run(["/bin/sh", "-c", command %% PLACES["data"]], capture_output=True)
    return _read(PLACES["data"] + "/metadata.json")


def _connected(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.connect(address)


def _left(folder):
    with open(folder + "/" + PLACES["left"], "w") as stream:
        stream.write("for the next run")


_try("data", lambda: _read(PLACES["data"] + "/metadata.json"))
_try("uncovered", _uncovered)
_try("cache", lambda: _read(PLACES["data"] + "/../../digests.json"))
_try("labels", lambda: _read(PLACES["data"] + "/../labels/labels.txt"))
_try("log", lambda: _read(PLACES["out"] + "/result_0.txt"))
_try("changed_log", lambda: open(PLACES["out"] + "/result_0.txt", "a").close())
_try("home", lambda: _read(PLACES["home"] + "/secret"))
_try("memory", _memory)
_try("attached", _attached)
if PLACES["is_confined"]:
    _try("stopped", _stopped)
_try("tcp", lambda: _connected(socket.AF_INET, ("127.0.0.1", PLACES["port"])))
_try("abstract", lambda: _connected(socket.AF_UNIX, PLACES["abstract"]))
for _folder in ("/tmp", "/var/tmp", "/dev/shm", "/etc", PLACES["tree"], PLACES["source"]):
    _try("left in " + _folder, lambda: _left(_folder))
_try("left at home", lambda: _left(os.environ["HOME"]))
FOUND["environment"] = dict(os.environ)
subprocess.Popen(["/bin/sh", "-c", "(/usr/bin/env -i /usr/bin/setsid /bin/sleep 1000 &) &"])
subprocess.Popen(["/usr/bin/env", "-i", "/usr/bin/setsid", "--fork", "/bin/sleep", "1000"])
print("FOUND " + json.dumps(FOUND), flush=True)


def quality():
    print("LATER " + str(_read(PLACES["data"] + "/metadata.json")), flush=True)
    return 0.5
"""
PREVENTED = ("FileNotFoundError", "PermissionError", "ProcessLookupError", "OSError", "ConnectionRefusedError", [])


class Attack:
    """A toy tree that belongs to `user`, a home with a secret, and a run in it with a hostile module."""

    def __init__(self, folder: Path, user: User, form: str) -> None:
        self.user, self.tree, self.home = user, toy_tree(folder / "tree"), folder / "home"
        self.home.mkdir()
        (self.home / "secret").write_text("mine")
        self.leaves = f"tta_left_by_a_worker_{folder.name}"  # the tests beside this one leave files, too
        self.environment = {"HOME": str(self.home), "TMPDIR": tempfile.gettempdir(), "SECRET": "mine"}
        if FORMS.get(form):
            self.environment["PATH"] = users.path_without(folder / "bin", FORMS[form])

    def left(self) -> list[Path]:
        """What the module left where programs share files."""
        places = [Path(folder) / self.leaves for folder in ("/tmp", "/var/tmp", "/dev/shm")]
        return [path for path in places if path.exists()]

    def run(self, *arguments: str, **environment: str) -> tuple[Running, dict[str, Any], RunLog]:
        """Runs the module; returns the process, what the module found, and the log."""
        with socket.socket() as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract:
            tcp.bind(("127.0.0.1", 0))
            abstract.bind(f"\0tta-test-{os.getpid()}")
            for listener in (tcp, abstract):
                listener.listen(5)
            places = {
                "data": str(self.tree / "data/toy_mini/prepared/data"),
                "out": str(self.tree / "out"),
                "home": str(self.home),
                "tree": str(self.tree),
                "source": str(Path(__file__).parents[2] / "harness"),
                "is_confined": "none" not in arguments,
                "port": tcp.getsockname()[1],
                "abstract": abstract.getsockname().decode(),
                "left": self.leaves,
            }
            (self.tree / "hostile.py").write_text(MODULE % json.dumps(places))
            if os.geteuid() == 0:
                self.user.own(self.tree.parent)
            command = ["run", "toy", "--ruleset", "toy_rules", "--out", places["out"], "--data", "data", "--no-mlflow"]
            command += ["--division", "open", "--module", "hostile.py", "--seed", "1", *arguments]
            everything = {**self.environment, **environment}
            running = Running(command, self.tree, everything, self.user.prefix, self.user.python)
            try:
                running.wait()
                assert until(lambda: not running.relatives(), 60), running.relatives()
            finally:
                running.end()
        assert (self.tree / "out/output").exists(), running.errors
        output = (self.tree / "out/output/worker_0.txt").read_text()
        assert "FOUND " in output, (output, running.errors)
        found = json.loads(output.split("FOUND ")[1].splitlines()[0])
        found["data later"] = output.count("LATER 2")
        return running, found, run_log.read(self.tree / "out/result_0.txt")


@contextmanager
def attack(form: str, who: str) -> Iterator[Attack]:
    """A folder that other users may enter, which pytest's may not be."""
    if form == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap")
    if form in ("unshare", "landlock") and confinement.landlock_abi() < confinement.ABI_OF_SIGNALS:
        pytest.skip("this kernel's Landlock does not confine signals")
    with tempfile.TemporaryDirectory(prefix="attack-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        user = users.itself() if who == "itself" else users.ordinary(folder / "python")
        if isinstance(user, str):
            pytest.skip(user)
        hostile = Attack(folder, user, form)
        try:
            yield hostile
        finally:
            for path in hostile.left():
                path.unlink()


def prevented(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """What was not prevented of `names`."""
    return {name: found[name] for name in names if found[name] not in PREVENTED}


EVERYWHERE = (
    "cache",
    "labels",
    "log",
    "changed_log",
    "home",
    "memory",
    "attached",
    "stopped",
    "tcp",
    "abstract",
    "left in /etc",
)


@pytest.mark.parametrize("who", ["itself", "ordinary"])
@pytest.mark.parametrize("form", FORMS)
def test_module_reaches_nothing_but_its_data_after_the_start(form: str, who: str) -> None:
    """Not the referee, the log, the home, the network or the data before their time; nothing outlives the run."""
    with attack(form, who) as hostile:
        running, found, log = hostile.run()
        left = [*hostile.left(), *hostile.tree.rglob(hostile.leaves)]

    isolation = log.value("tta_isolation")
    assert isolation["means"] == form, isolation["reasons"]
    assert prevented(found, *EVERYWHERE) == {}
    assert found["data later"] == 4
    assert log.one("run_stop").metadata["reason"] == "budget"
    assert "SECRET" not in found["environment"]
    assert found["environment"]["HOME"] != str(hostile.home)
    assert isolation["environment"] == found["environment"]
    if form == "landlock":  # which cannot hide data and show them later; the log says so, and the user was told
        assert found["data"] == 2
        assert (isolation["data"], isolation["files"]) == ("from the beginning", "confined except /dev/shm")
        assert left == [Path("/dev/shm") / hostile.leaves]
        assert "not fully isolated: files confined except /dev/shm, network no TCP, data from" in running.errors
    else:
        assert prevented(found, "data", "uncovered") == {}
        assert left == []
        assert "isolated" not in running.errors


def test_machine_without_isolation_is_reported() -> None:
    """On standard error and in the log; the referee's memory is closed to its user; `full` is refused."""
    with attack("none", "ordinary") as hostile:
        running, found, log = hostile.run("--isolation", "none")
        path = users.path_without(hostile.tree / "bin", ("bwrap", "unshare"))
        refused = Running(
            ["run", "toy", "--ruleset", "toy_rules", "--out", "other", "--data", "data", "--isolation", "full"],
            hostile.tree,
            {"PATH": path},
            hostile.user.prefix,
            hostile.user.python,
        )
        status = refused.wait()
        is_made = (hostile.tree / "other").exists()

    isolation = log.value("tta_isolation")
    assert "the worker is not fully isolated: files open, processes same user, network open" in running.errors
    assert (isolation["means"], isolation["reasons"]) == ("none", {"none": "as requested"})
    assert isolation["no_new_privs"] is True
    assert isolation["referee_dumpable"] is False
    assert prevented(found, "memory", "attached") == {}
    assert "SECRET" not in found["environment"]
    assert found["environment"]["HOME"] != str(hostile.home)
    assert status == 2
    assert "--isolation full: this machine does not permit it: bubblewrap: not installed" in refused.errors
    assert not is_made


def test_code_in_the_users_environment_does_not_reach_a_worker() -> None:
    """A `sitecustomize` and a `usercustomize`, an injected library, and a PATH of the user's own site."""
    with attack("bubblewrap", "itself") as hostile:
        injected = hostile.tree.parent / "injected"
        injected.mkdir()
        for name in ("sitecustomize.py", "usercustomize.py"):
            (injected / name).write_text("import sys; sys.stderr.write('taken in\\n')\n")
        environment = {
            "PYTHONPATH": str(injected),
            "PYTHONUSERBASE": str(injected),
            "LD_PRELOAD": "libutil.so.1",
            "OMP_TOOL_LIBRARIES": "libutil.so.1",
            "CUDA_INJECTION64_PATH": "libutil.so.1",
            "NCCL_NET_PLUGIN": "libutil.so.1",
            "OMP_NUM_THREADS": "1",
        }
        running, found, log = hostile.run(**environment)
        output = (hostile.tree / "out/output/worker_0.txt").read_text()

    assert "taken in" in running.errors  # the referee is the user's own
    assert "taken in" not in output
    assert found["environment"].keys() & environment.keys() == {"OMP_NUM_THREADS"}
    assert log.value("tta_isolation")["environment"] == found["environment"]
