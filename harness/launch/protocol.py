"""What launchers, helpers and the referee's side of them share: the service, its times, and the launcher's protocol.

    referee's node (0)                              every further node
      tta run … --nodes N                             tta node, the helper
        launcher.start(node, command, token)  ----->    started by ssh, srun, a person, …
        control port  <---------------------------      connects, with the token
        rank 0 …                                        the node's ranks

A launcher only reaches the nodes. What happens there is the same for all of them: `harness.launch.helper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.base.greeting import Service

NODES = Service("node", 1, "TTA_NODE_TOKEN", "helper")
PROGRAMS = {name: f"harness.run.{name}" for name in ("worker", "all_reduce")}  # what ranks may run
BEAT_S = 2.0  # between the beats of either side
LATE_S = 10.0  # a helper that is silent for as long is lost, and the run with it
SILENCE_S = 15.0  # a referee that is silent for as long is gone; the helper ends its ranks


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the allocation.

    number: node 0 is the referee's. name: as the launcher reaches it. address: where the others reach it; None: known
    when its helper connects.
    """

    number: int
    name: str
    address: str | None = None


class Handle(Protocol):
    """What keeps a node's helper running."""

    def ended(self) -> str | None:
        """Return why it has ended, as a clause; None while it has not."""
        ...

    def close(self, grace_s: float) -> None:
        """Wait at most `grace_s` seconds for the helper to end, then give it up."""
        ...


class Launcher(Protocol):
    """How the nodes are reached.

    nodes: in the order of their ranks, the same for all runs; the first is the referee's own and has an address.
    arrival_s: how long helpers may take to connect.
    """

    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def arrival_s(self) -> float: ...

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        """Run `command` on a node. It reads the token from the first line of its standard input, or from the variable
        `TTA_NODE_TOKEN`; a command line never has it.

        Raises:
            UsageError: the node cannot be reached like this.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what the log says of the launcher: `kind`, versions, job number, options."""
        ...
