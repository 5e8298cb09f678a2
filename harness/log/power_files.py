"""Finds and reads the power logs of a run: once, bounded, links not followed.

    <result>/power/result_<k>/node_<i>.txt      of result_<k>.txt, one per node (sw_<j>.txt: a switch)
    <result>/power/idle/node_<i>.txt            the idle baseline of the result

A log that cannot be read becomes one without readings and with the defect "unreadable", so that it is not overlooked.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import LogError
from harness.log.run_log import RunLog

if TYPE_CHECKING:
    from harness.log.power_format import NodePower

POWER_FOLDER, IDLE_FOLDER = "power", "idle"
# The path of a power log in its result; the first group is the run's name, None for the idle baseline.
POWER_PATTERN = re.compile(r"power/(?:(result_[^/]+)|idle)/(?:node|sw)_[0-9]{1,6}\.txt")
MAX_LOGS = 1_024  # per run
MAX_LOG_BYTES = 512 << 20
MAX_RESULT_BYTES = 2 << 30  # of all power logs of a result; parsed, they take about half as much memory


@dataclass(slots=True)
class Budget:
    """How many bytes of a result's power logs may still be read."""

    num_bytes: int = MAX_RESULT_BYTES


def with_power(log: RunLog, budget: Budget | None = None, idle: tuple[NodePower, ...] | None = None) -> RunLog:
    """Return the log with its power logs. idle: the idle baseline, if it has been read already."""
    budget = budget or Budget()
    power = log.path.parent / POWER_FOLDER
    nodes = read_nodes(power / log.path.stem, budget)
    baseline = read_nodes(power / IDLE_FOLDER, budget) if idle is None else idle
    return replace(log, nodes=nodes, idle=baseline) if nodes or baseline else log


def read_nodes(folder: Path, budget: Budget) -> tuple[NodePower, ...]:
    """Return the power logs in `folder`; none if it is not a folder, or if it or its parent is a link."""
    try:
        if not all(stat.S_ISDIR(place.lstat().st_mode) for place in (folder.parent, folder)):
            return ()
        # Most results have none, and importing the reader takes longer than reading such a result.
        from harness.log import power_log

        names = power_log.log_names(path.name for path in folder.iterdir())
    except OSError:
        return ()
    logs = [_read(folder / name, budget) for name in names[:MAX_LOGS]]
    if len(names) > MAX_LOGS:
        logs[0] = power_log.with_defect(logs[0], "too_many", f"{len(names):,} power logs; {MAX_LOGS:,} are read")
    return power_log.judged_together(logs)


def _read(path: Path, budget: Budget) -> NodePower:
    from harness.log import power_log

    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return _unreadable(path, "is not a regular file")
        if status.st_size > min(MAX_LOG_BYTES, budget.num_bytes):
            return _unreadable(path, f"has {status.st_size:,} bytes, more than may be read")
        budget.num_bytes -= status.st_size
        return power_log.read(path)
    except OSError as error:
        return _unreadable(path, f"cannot be read: {error.strerror}")
    except LogError as error:
        return _unreadable(path, str(error).removeprefix(f"{path}: "))


def _unreadable(path: Path, why: str) -> NodePower:
    from harness.log import power_log
    from harness.log.power_format import NodePower

    return power_log.with_defect(NodePower(path.stem, path, None, {}, {}), "unreadable", why)
