"""A result as MLPerf programs leave it: logs without monotonic time, between the framework's own lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.log.events import TOKEN

START_MS = 1_760_000_000_000  # 9 October 2025
BATCH, EVERY, NUM_EVALUATIONS = 100, 5_000, 8
TARGET = 0.9
SPEED = 250.0  # samples a second
ZONE_S = -7 * 3600  # of the framework's clock


@dataclass
class Row:
    """One line: an MLPerf event at a time, or another program's line, in which {now} is its clock."""

    at_s: float
    key: str = ""
    value: Any = None
    event_type: str = "POINT_IN_TIME"
    metadata: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    rank: str = "0: "

    def line(self, start_ms: int) -> str:
        time_ms = start_ms + round(self.at_s * 1e3)
        if self.text:
            now = datetime.fromtimestamp(time_ms / 1e3 + ZONE_S, UTC)
            return self.text.replace("{now}", f"{now:%Y-%m-%d %H:%M:%S}")
        record = {
            "namespace": "",
            "time_ms": time_ms,
            "event_type": self.event_type,
            "key": self.key,
            "value": self.value,
            "metadata": {"file": "/workspace/llm/callbacks.py", "lineno": 10, **self.metadata},
        }
        return f"{self.rank}{TOKEN}{json.dumps(record)}"


def rows(index: int = 0, has_stats: bool = False) -> list[Row]:
    """A run that reaches its target at the eighth evaluation; no two are alike.

    has_stats: it states the times of its steps and evaluations.
    """
    seed = 4711 + 997 * index
    wave = math.sin(7 * index + 1)  # from one run to the next, a little
    found = [
        Row(0.0, text=f"+ export SEED={seed}", rank=""),
        Row(0.0, text=" 0: Hello from: node1"),
        Row(0.5, text=" 0: [NeMo I {now} utils:1] data in /home/alice/data"),
    ]

    def put(at_s: float, key: str, value: Any = None, kind: str = "POINT_IN_TIME", **metadata: Any) -> None:
        found.append(Row(at_s, key, value, kind, metadata))

    put(1.0, "cache_clear", True)
    put(2.0, "init_start", None, "INTERVAL_START")
    header = {
        "submission_benchmark": "toy",
        "submission_division": "closed",
        "submission_org": "Toy",
        "submission_platform": "toybox",
        "submission_status": "onprem",
        "seed": seed,
        "global_batch_size": BATCH,
        "train_samples": 1_000_000,
        "eval_samples": 500,
    }
    for place, (name, value) in enumerate(header.items()):
        put(2.0 + 0.013 * place, name, value)
    put(60.0 + wave, "init_stop", None, "INTERVAL_END")
    put(60.5 + wave, "run_start", None, "INTERVAL_START", samples_count=0)
    now, samples = 60.5 + wave, 0
    for nth in range(NUM_EVALUATIONS):
        put(now, "block_start", None, "INTERVAL_START", samples_count=samples)
        begin = len(found)
        found.append(Row(now + 3.0, text=f" 0: [NeMo I {{now}} training:{nth}] step"))
        block_s = EVERY / SPEED * (1 + 0.004 * wave + 0.002 * math.sin(3 * nth + index))
        found += [
            Row(now + block_s * part / 5, text=f" 0: [NeMo I {{now}} training:{nth}] step {part} of 5")
            for part in (1, 2, 3, 4)
        ]
        found += [
            Row(
                now + block_s * part / 5,
                "tracked_stats",
                {"train_step_time": block_s * BATCH / EVERY},
                metadata={"step": (samples + EVERY * part / 5) / BATCH},
            )
            for part in ((1, 2, 3, 4, 5) if has_stats else ())
        ]
        found[begin:] = sorted(found[begin:], key=lambda row: row.at_s)
        now += block_s
        samples += EVERY
        put(now, "block_stop", None, "INTERVAL_END", samples_count=samples)
        put(now + 0.001, "tracked_stats", {"throughput": EVERY / block_s}, samples_count=samples)
        put(now + 0.002, "eval_start", None, "INTERVAL_START", samples_count=samples)
        eval_s = 1.0 + 0.01 * math.sin(nth + 5 * index)
        now += eval_s
        value = TARGET + 0.012 - 0.6 * math.exp(-0.62 * nth) * (nth < 7) + 0.0008 * math.sin(11 * nth + 3 * index)
        found.append(Row(now, text=f" 0: 'eval_quality_accuracy': {value:.6f}"))
        put(now, "eval_accuracy", value, samples_count=samples)
        if has_stats:
            put(now, "tracked_stats", {"validation_time": eval_s}, samples_count=samples)
        put(now + 0.001, "eval_stop", None, "INTERVAL_END", samples_count=samples)
    put(now + 0.01, "run_stop", None, "INTERVAL_END", samples_count=samples, status="success")
    total_s = math.ceil(now + 5)
    found.append(Row(now + 5, text=f"RESULT,TOY,,{total_s},toy,{{now}}", rank=""))
    return found


def of(run: list[Row], key: str, nth: int = 0) -> Row:
    """The nth event of `key`."""
    return [row for row in run if row.key == key][nth]


def write(
    folder: Path, runs: list[list[Row]], pause_s: float = 60.0, names: Callable[[int], str] | None = None
) -> Path:
    """The runs, one after another, as result_<k>.txt in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    start_ms = START_MS
    for index, run in enumerate(runs):
        name = f"result_{index}.txt" if names is None else names(index)
        (folder / name).write_text("".join(row.line(start_ms) + "\n" for row in run))
        start_ms += round(1e3 * (max(row.at_s for row in run) + pause_s)) + 137 * (index + 1)
    return folder


def result(tree: Path, num_runs: int = 5) -> Path:
    """The place of a result in an MLPerf submission, not created yet."""
    return tree / "Toy" / "results" / "toybox" / "toy"
