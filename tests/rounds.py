"""Results of rounds of MLPerf in their folders, and the board of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.board.rounds import RoundBoard, read_rounds
from tests import mlperflog
from tests.mlperflog import Entry
from tests.rules.box import TODAY
from tests.rules.roundbox import RoundBox, metered


def submit(
    tree: Path,
    submitter: str = "Toymaker",
    system: str = "toybox",
    change: Callable[[int, list[Entry]], None] | None = None,
    faster: float = 1.0,
    power: bool = False,
    division: str = "closed",
    num_runs: int = 5,
    **description: Any,
) -> RoundBox:
    """A result of RetinaNet, each run `faster` times as fast; change: what else differs in each log, by its number."""
    box = RoundBox(tree, num_runs, division)
    box.folder = tree / submitter / "results" / system / "retinanet"
    box.description |= {"accelerators_per_node": "8", "accelerator_model_name": "Toy X1", **description}
    for number, log in enumerate(box.logs):
        mlperflog.find(log, "seed").value = int(hashlib.sha256(str((box.folder, number)).encode()).hexdigest()[:6], 16)
        for entry in log:
            entry.at_s = 60.5 + (entry.at_s - 60.5) / faster if entry.at_s > 60.5 else entry.at_s
        if change is not None:
            change(number, log)
    others = box.system_path.read_bytes() if box.system_path.exists() else None
    if power:
        metered(box)
    else:
        box.write()
    if system != "toybox":
        box.system_path.rename(box.system_path.with_name(f"{system}.json"))
        if others is not None:
            box.system_path.write_bytes(others)
    return box


def rounds_of(*trees: Path, ruleset: str = "auto", jobs: int | None = 1) -> RoundBoard:
    return read_rounds(trees, ruleset, TODAY, jobs)


def dated_earlier(number: int, log: list[Entry]) -> None:
    """Each line 200 days earlier: a log of the round before."""
    for entry in log:
        entry.at_s -= 200 * 86_400.0
