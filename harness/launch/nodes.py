"""From what a command line asks for to connected nodes."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Iterator

from harness.errors import UsageError
from harness.launch import cluster, facts
from harness.launch.cluster import Cluster
from harness.launch.launchers import SSH, ByHandLauncher, HostsLauncher, LocalLauncher, read_hosts
from harness.launch.protocol import NODES, Launcher
from harness.launch.scheduled import SCHEDULERS, ScheduledLauncher, facts_of, task_of
from harness.run.benchmark import Launch

OPTIONS = ("hosts", "address_of", "ssh", "interface", "port")


def asked(arguments: argparse.Namespace) -> Launch:
    """Return what the arguments of `add_nodes` say."""
    return Launch(
        launcher=arguments.launcher,
        hosts=arguments.hosts,
        address_of=arguments.address_of,
        is_by_hand=arguments.by_hand,
        ssh=arguments.ssh,
        interface=arguments.interface,
        port=arguments.port,
    )


def launcher_of(launch: Launch, num_nodes: int, say: Callable[[str], None]) -> Launcher:
    """Return the launcher that was asked for.

    Raises:
        UsageError: options make no sense together, or a node cannot be used.
    """
    if launch.launcher in SCHEDULERS:
        task = task_of(launch.launcher, os.environ)
        assert task is not None  # else the job would have been made
        return ScheduledLauncher(task, launch.address_of, facts_of(launch.launcher, os.environ))
    if launch.launcher is None:
        raise UsageError(f"--nodes {num_nodes}: also needs --launcher, which says how the other nodes are reached")
    if launch.launcher == "local":
        if unfit := [option for option in ("hosts", "address_of", "ssh") if getattr(launch, option) is not None]:
            raise UsageError(f"--{unfit[0].replace('_', '-')}: --launcher local has all nodes on this machine")
        return LocalLauncher(num_nodes)
    if launch.hosts is None:
        raise UsageError("--launcher hosts: also needs --hosts FILE, a line NAME [ADDRESS] for every node")
    nodes = read_hosts(launch.hosts, num_nodes, launch.address_of)
    if launch.is_by_hand:
        if launch.ssh is not None:
            raise UsageError("--by-hand: nothing is started by --ssh then; leave one of them out")
        return ByHandLauncher(nodes, say, NODES.variable in os.environ)
    return HostsLauncher(nodes, SSH if launch.ssh is None else shlex.split(launch.ssh))


def refuse_alone(launch: Launch) -> None:
    """Refuse options for several nodes where there is one.

    Raises:
        UsageError: there is one.
    """
    options = {name: getattr(launch, name) for name in ("launcher", *OPTIONS)}
    options["by_hand"] = launch.is_by_hand or None
    for name, value in options.items():
        if value is not None and not (name == "launcher" and value in ("local", *SCHEDULERS)):
            raise UsageError(f"--{name.replace('_', '-')}: with one node, there is no other to reach; see --nodes")


def refuse_too_many(num_devices: int, say: Callable[[str], None]) -> None:
    """Refuse more processes than this machine has devices; say what they are if it has none.

    Raises:
        UsageError: it has fewer.
    """
    num_here = len(facts.devices_here())
    if reason := facts.too_many_devices(num_devices, num_here):
        raise UsageError(f"this machine: {reason} (tta doctor lists them)")
    if shared := facts.shared_cores(num_devices, num_here, len(os.sched_getaffinity(0))):
        say(shared)


@contextlib.contextmanager
def opened(launch: Launch, num_nodes: int, say: Callable[[str], None]) -> Iterator[Cluster | None]:
    """The nodes, connected; None where this machine is the only one.

    Raises:
        UsageError: they cannot be used: which, and why.
    """
    if num_nodes == 1:
        refuse_alone(launch)
        yield None
        return
    launcher = launcher_of(launch, num_nodes, say)
    say(f"waiting for {num_nodes - 1} other nodes")
    token = NODES.token().decode() if NODES.variable in os.environ else None
    with cluster.opened(launcher, say, token, launch.interface, launch.port) as found:
        yield found
