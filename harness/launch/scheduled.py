"""A job for a scheduler, as Slurm's scripts and Kubernetes' manifests have it in common, and the tasks of one.

The scheduler starts one task on each node, and all of them run the same command. A task knows from its environment
which node it is on: the first node's is the referee, the others' are the helpers of their nodes.
"""

from __future__ import annotations

import platform
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base.clock import boot_id
from harness.base.values import int_of_digits
from harness.errors import TtaError, UsageError, printable
from harness.launch import helper
from harness.launch.launchers import Nothing, Started, resolved
from harness.launch.protocol import NODES, Handle, Node

SCHEDULERS = {"slurm": "SLURM_NODEID", "k8s": "JOB_COMPLETION_INDEX"}  # the variable with a task's number
# What a script or a manifest puts into the environment of the tasks, besides the token.
NODES_VARIABLE = "TTA_NODES"  # the names of the nodes, in the order of their numbers, separated by spaces
FIRST_VARIABLE = "TTA_FIRST_NODE"  # HOST:PORT, where the referee listens for the helpers
IMAGE_VARIABLE = "TTA_IMAGE_DIGEST"  # of the container's image
VERSION_VARIABLE = "TTA_SLURM_VERSION"
_SLURM_NODE = "SLURMD_NODENAME"  # the name of this node; only on the nodes of a job
ARRIVAL_S = 300.0  # containers may start minutes apart, and the referee examines the data before it listens
# Below the range from which the kernel takes the ports of outgoing connections.
FIRST_PORT, NUM_PORTS = 20_000, 10_000
_DIGEST = re.compile(r"(?:(?P<tag>:[\w.-]+)?@|:)sha256:(?P<hex>[0-9a-f]{64})\Z")
_IMAGE_FILES = (".sif", ".sqsh", ".squashfs")
# What a shell, `sbatch` and YAML read alike, without quotes.
_PLAIN = re.compile(r"[\w@%:.,/+=&|*!^()\[\]-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Container:
    """What the tasks run in. mounts: SRC:DST[:FLAGS] each. options: further ones of pyxis, by name."""

    image: str
    mounts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def digest(self) -> str | None:
        """The digest in the image's name; None for a file, of which the job computes it.

        Raises:
            UsageError: the name is a tag's, which may mean another image tomorrow.
        """
        if found := _DIGEST.search(self.image):
            return f"sha256:{found['hex']}"
        if self.is_file:
            return None
        raise UsageError(
            f"--container-image {printable(self.image)}: a tag may name another image tomorrow; give "
            f"NAME@sha256:DIGEST, or a file ({', '.join(_IMAGE_FILES)})"
        )

    @property
    def is_file(self) -> bool:
        return self.image.endswith(_IMAGE_FILES)

    @property
    def for_apptainer(self) -> str:
        """The name as apptainer reads it, which takes no tag next to a digest."""
        if self.is_file:
            return self.image
        return "docker://" + _DIGEST.sub(r"@sha256:\g<hex>", self.image.removeprefix("docker://"))

    @property
    def for_enroot(self) -> str:
        """The name as enroot reads it, which takes a digest in the place of a tag, after a colon."""
        return _DIGEST.sub(r":sha256:\g<hex>", self.image)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of several nodes.

    name: of the job. command: of every task. num_devices: on each node. output: what its files are named after.
    options: of the scheduler, by name, without the dashes. runtime: "pyxis" or "apptainer". last_start_s: in so many
    last seconds of its time no run begins. port: where the referee listens; None: one that follows from the job's
    number.
    """

    name: str
    command: tuple[str, ...]
    num_nodes: int
    num_devices: int
    output: Path
    options: Mapping[str, str] = field(default_factory=dict)
    container: Container | None = None
    runtime: str = "pyxis"
    last_start_s: int = 300
    port: int | None = None


def plain(option: str, value: str) -> str:
    """Return the value of a scheduler's option.

    Raises:
        UsageError: it has characters that would need quotes, which a shell and `sbatch` read differently.
    """
    if not _PLAIN.fullmatch(value):
        raise UsageError(f"--{option} {printable(value)!r}: must be letters, digits and @%:.,/+=&|*!^()[]-")
    return value


@dataclass(frozen=True, slots=True)
class Task:
    """One of a job's tasks. number: of its node. names: of all nodes. host, port: where the referee listens."""

    kind: str
    number: int
    names: tuple[str, ...]
    host: str
    port: int


def task_of(kind: str, environment: Mapping[str, str]) -> Task | None:
    """Return which task of a job this process is; None if no script or manifest of a job has started it.

    Raises:
        UsageError: its environment is not that of a task.
    """
    if FIRST_VARIABLE not in environment:
        return None
    host, _, port = environment[FIRST_VARIABLE].rpartition(":")
    names = tuple(environment.get(NODES_VARIABLE, "").split())
    number = int_of_digits(environment.get(SCHEDULERS[kind]))
    if not host or int_of_digits(port) is None or number is None or number >= len(names):
        values = {name: environment.get(name) for name in (FIRST_VARIABLE, NODES_VARIABLE, SCHEDULERS[kind])}
        raise UsageError(f"--launcher {kind}: the environment is not that of a task: {printable(values, 500)}")
    return Task(kind, number, names, host, int(port))


def hold_warning() -> None:
    """Keep USR1 from ending this process and all that it starts; `is_warned` sees it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)  # what is ignored may not be kept pending


def is_warned() -> bool:
    """Whether the scheduler has said that the job's time is nearly over."""
    return signal.SIGUSR1 in signal.sigpending()


def help_referee(task: Task, interface: str | None, address_of: str | None) -> None:
    """Serve as the helper of this task's node until the referee is done.

    A TERM goes to all tasks at once, and is for the referee, which ends the run; so it does not end this one.

    Raises:
        TtaError: what `helper.main` raises, with the node.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    name = task.names[task.number]
    try:
        host = task.host if address_of is None else address_of.replace("{}", task.names[0])
        helper.main(f"{host}:{task.port}", task.number, NODES.token(), interface, ARRIVAL_S)
    except TtaError as error:
        raise type(error)(f"node {task.number} ({printable(name)}): {error}") from None


class ScheduledLauncher:
    """The nodes of a job, whose helpers are tasks of it and come by themselves.

    facts: what the log says of the job.
    """

    arrival_s = ARRIVAL_S

    def __init__(self, task: Task, address_of: str | None, facts: Mapping[str, Any]) -> None:
        """Raises:
        UsageError: the first node has no address where the others reach it.
        """
        wanted = task.host if address_of is None else address_of.replace("{}", task.names[0])
        first = Node(0, task.names[0], resolved(wanted, "the first node"))
        self.nodes = [first, *(Node(number, name) for number, name in enumerate(task.names[1:], 1))]
        self._coming = {node.number for node in self.nodes}
        self._facts = facts

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        """Nothing, the first time; later, where a helper is gone, run a command on its node."""
        if node.number in self._coming:
            self._coming.remove(node.number)
            return Nothing()
        if shutil.which("srun") is None:
            raise UsageError(f"node {node.number} ({node.name}): cannot be reached from a task")
        where = ["--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={node.name}"]
        return Started(["srun", *where, *command], token)

    def facts(self) -> Mapping[str, Any]:
        return self._facts


def facts_of(kind: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what the log says of a job: its number, the scheduler's version, and the digest of the image."""
    named = {"job": "SLURM_JOB_ID", "version": VERSION_VARIABLE} if kind == "slurm" else {}
    named["image"] = IMAGE_VARIABLE
    return {"kind": kind, **{name: environment.get(variable) for name, variable in named.items()}}


def launch_here(kind: str | None, environment: Mapping[str, str], num_ranks: int) -> dict[str, Any] | None:
    """Return what the log says of a job with one node, which this process is on; None where it is in no job.

    kind: the scheduler, if one has started this as a task; None: a program that a batch script of Slurm may have in it.
    The variables of a job alone do not say that this is one of its nodes: `salloc` sets them where it was typed.
    """
    if kind not in SCHEDULERS:
        if "SLURM_JOB_ID" not in environment or _SLURM_NODE not in environment:
            return None
        kind = "slurm"
    names = environment.get(NODES_VARIABLE) or environment.get(_SLURM_NODE)
    node = {"node": 0, "name": names or platform.node(), "host": platform.node(), "boot_id": boot_id()}
    return {"launcher": facts_of(kind, environment), "ranks_per_node": num_ranks, "nodes": [node]}
