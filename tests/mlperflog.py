"""A log as MLPerf programs leave it, of RetinaNet in round 5.1: valid, small, and easy to falsify."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness.log.events import TOKEN
from harness.mlperf.model import Round
from harness.ruleset import catalog, load

START_MS = 1_755_000_000_000  # 12 August 2025
NUM_EPOCHS, EPOCH_S, EVAL_S = 5, 240.0, 20.0
SAMPLES, BATCH = 1_170_301, 256
START, STOP, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"


@dataclass
class Entry:
    """A line: an MLPerf event or, with a text, another program's."""

    at_s: float
    key: str = ""
    value: Any = None
    event_type: str = POINT
    metadata: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def line(self) -> str:
        if self.text:
            return self.text
        record = {
            "namespace": "",
            "time_ms": START_MS + round(self.at_s * 1e3),
            "event_type": self.event_type,
            "key": self.key,
            "value": self.value,
            "metadata": {"file": "/workspace/ssd/train.py", "lineno": 100, **self.metadata},
        }
        return TOKEN + json.dumps(record)


def retinanet(division: str = "closed") -> list[Entry]:
    """A run that reaches the target of 0.34 at its fifth evaluation."""
    log = [Entry(0.0, text="+ python train.py --dataset openimages-mlperf")]

    def put(at_s: float, key: str, value: Any = None, event_type: str = POINT, **metadata: Any) -> None:
        log.append(Entry(at_s, key, value, event_type, metadata))

    put(0.0, "cache_clear", True)
    put(1.0, "init_start", None, START)
    header = {
        "submission_benchmark": "retinanet",
        "submission_org": "Toymaker",
        "submission_division": division,
        "submission_status": "onprem",
        "submission_platform": "toybox",
        "seed": 4711,
        "global_batch_size": BATCH,
        "train_samples": SAMPLES,
        "eval_samples": 24_781,
        "gradient_accumulation_steps": 1,
        "opt_name": "adam",
        "opt_base_learning_rate": 0.0001,
        "opt_weight_decay": 0,
        "opt_learning_rate_warmup_epochs": 1,
        "opt_learning_rate_warmup_factor": 0.001,
    }
    for name, value in header.items():
        put(2.0, name, value)
    put(60.0, "init_stop", None, STOP)
    put(60.5, "run_start", None, START)
    now = 60.5
    for epoch in range(NUM_EPOCHS):
        put(now, "block_start", None, START, first_epoch_num=epoch, epoch_count=1)
        log.append(Entry(now, text=f"epoch {epoch}: loss falls"))
        now += EPOCH_S
        put(now, "block_stop", None, STOP, first_epoch_num=epoch)
        put(now, "tracked_stats", {"throughput": SAMPLES / EPOCH_S}, step=epoch + 1)
        put(now, "eval_start", None, START, epoch_num=epoch + 1)
        now += EVAL_S
        put(now, "eval_accuracy", (0.1, 0.2, 0.28, 0.32, 0.345)[epoch], epoch_num=epoch + 1)
        put(now, "eval_stop", None, STOP, epoch_num=epoch + 1)
    put(now + 1.0, "run_stop", None, STOP, status="success")
    log.append(Entry(now + 2.0, text="done"))
    return log


@cache
def round_of(version: str = "5.1.0") -> Round:
    """The round, as it comes with the harness."""
    name = f"mlperf_training/{version}"
    found = load.load_ruleset(catalog.ruleset_folder(name), name).round
    assert found is not None
    return found


def find(log: list[Entry], key: str, nth: int = 0) -> Entry:
    """The nth event of `key`."""
    return [entry for entry in log if entry.key == key][nth]


def drop(log: list[Entry], key: str, nth: int | None = None) -> None:
    """Removes the nth event of `key`, or all of them."""
    doomed = [entry for entry in log if entry.key == key]
    doomed = doomed if nth is None else [doomed[nth]]
    log[:] = [entry for entry in log if not any(entry is other for other in doomed)]


def put_after(log: list[Entry], anchor: Entry, entry: Entry) -> None:
    """Puts `entry` right after `anchor`."""
    place = next(place for place, other in enumerate(log) if other is anchor)
    log.insert(place + 1, entry)


def write(path: Path, log: Iterable[Entry]) -> Path:
    path.write_text("".join(entry.line() + "\n" for entry in log))
    return path
