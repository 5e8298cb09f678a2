"""The nodes of a run as `tta_launch` lists them."""

from __future__ import annotations

from typing import Any

from harness.base.values import mapping_or_empty
from harness.log import keys
from harness.log.run_log import RunLog


def nodes_of(log: RunLog) -> list[dict[str, Any]]:
    """Return the nodes of a run; empty where the log names none, as on one node."""
    nodes = mapping_or_empty(log.value(keys.TTA_LAUNCH)).get("nodes")
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
