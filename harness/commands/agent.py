"""`tta agent`: this node's power agent, for a run whose referee is on another node."""

from __future__ import annotations

import os

from harness.errors import ExitStatus, UsageError
from harness.log.power_format import TOKEN_VARIABLE
from harness.metering import agent


def run(address: str, node: int, patience_s: float) -> ExitStatus:
    """Waits for the referee at `address` and serves it to the end of its runs.

    Raises:
        UsageError: no token in the environment, or no such address. TtaError: nobody is there, or sends it away.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise UsageError(f"the environment has no {TOKEN_VARIABLE}; it must be the one that `tta run` has")
    agent.main(address, node, token, patience_s)
    return ExitStatus.OK
