"""Makes valid logs, results and submissions in no time, and damages them on request.

`events()` is the list that the referee would have written for a run; a test changes the list (or the
text) and writes it with `write_log`, which chains it anew, as a careful forger would.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.events import CHAIN_START, Event, digest_of, format_line, line_digest
from harness.ruleset import BenchmarkRules, Constraint, ReferenceConvergence, RuleSet, Timing
from harness.submission import (
    CLAIM_NAME,
    CODE_NAME,
    MANIFEST_NAME,
    SYSTEM_NAME,
    FileEntry,
    manifest_text,
    sha256_of,
)
from harness.workload import Metric

WALL_START_MS = 1_763_683_200_000
METRIC = Metric("top1_accuracy", "fraction", "max")
DATA_DIGEST = "d" * 64
SYSTEM: dict[str, Any] = {
    "submitter": "acme",
    "division": "closed",
    "status": "onprem",
    "system_name": "box1",
    "number_of_nodes": "1",
    "host_processors_per_node": "1",
    "host_processor_model_name": "Example 9000",
    "host_processor_core_count": "2",
    "host_processor_vcpu_count": "2",
    "host_processor_frequency": "3000 MHz",
    "host_processor_caches": "L2 2 MiB",
    "host_processor_interconnect": "none",
    "host_memory_capacity": "16 GiB",
    "host_storage_type": "SSD",
    "host_storage_capacity": "100 GiB",
    "host_networking": "none",
    "host_networking_topology": "none",
    "host_memory_configuration": "2 x 8 GiB",
    "accelerators_per_node": "0",
    "accelerator_model_name": "none",
    "accelerator_host_interconnect": "none",
    "accelerator_frequency": "none",
    "accelerator_on-chip_memories": "none",
    "accelerator_memory_configuration": "none",
    "accelerator_memory_capacity": "none",
    "accelerator_interconnect": "none",
    "accelerator_interconnect_topology": "none",
    "cooling": "air",
    "hw_notes": "",
    "framework": "PyTorch 2.14.1",
    "other_software_stack": "Python 3.11",
    "operating_system": "Linux 6.1",
    "sw_notes": "",
}


def benchmark_rules(**changes: Any) -> BenchmarkRules:
    """Rules of a benchmark `toy_mini`: evaluate every 1,000 samples, stop at 0.9, at most 10,000 samples."""
    fields: dict[str, Any] = {
        "workload": "toy",
        "suite": "mini",
        "metric": METRIC,
        "target": 0.9,
        "eval_every_samples": 1000,
        "max_samples": 10_000,
        "max_seconds": 600.0,
        "train_examples": 5000,
        "eval_examples": 500,
        "quality_range": (0.0, 1.0),
        "data_digest": DATA_DIGEST,
        "hyperparameters": {
            "global_batch_size": Constraint(default=100, one_of=(50, 100, 200)),
            "opt_name": Constraint(default="sgd", fixed=True),
            "opt_base_learning_rate": Constraint(default=0.1, range=(0.01, 1.0)),
        },
        "reference_convergence": (ReferenceConvergence(100, tuple(2800 + 200 * (i % 5) for i in range(20))),),
    }
    return BenchmarkRules(**{**fields, **changes})


def ruleset(codes: dict[str, str], rules: BenchmarkRules | None = None, **changes: Any) -> RuleSet:
    """A ruleset with `toy_mini` in it."""
    rules = rules or benchmark_rules()
    fields: dict[str, Any] = {
        "version": "v1",
        "digest": "r" * 64,
        "divisions": ("closed", "open"),
        "timing": Timing(max_init_s={"closed": 1800.0, "open": 14400.0}),
        "codes": codes,
        "benchmarks": {rules.name: rules},
    }
    return RuleSet(**{**fields, **changes})


MODULE_NAME = "fast.py"
MODULE = "def build_model(suite):\n    return None\n"


def module_record(text: str, name: str = MODULE_NAME) -> dict[str, Any]:
    """What a log says of a module with this text."""
    return {"name": name, "sha256": hashlib.sha256(text.encode()).hexdigest(), "parts": ["build_model"]}


@dataclass
class Step:
    """An event before it is written: time in seconds on the run's clock."""

    at_s: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    event_type: str = "POINT_IN_TIME"


def events(
    index: int = 0,
    seed: int | None = None,
    rules: BenchmarkRules | None = None,
    qualities: Iterable[float] = (0.5, 0.8, 0.95),
    batch_size: int = 100,
    block_s: float = 2.0,
    eval_s: float = 0.5,
    status: str = "success",
    reason: str = "target",
    start_s: float = 0.0,
    system: dict[str, Any] | None = None,
    division: str = "closed",
    module: str | None = None,
) -> list[Step]:
    """The events of one run, as the referee writes them.

    Every block trains `eval_every_samples` samples in `block_s` seconds (of which 0.1 s wait for data).
    module: the text of fast.py, with which a run of the open division was made.
    """
    rules = rules or benchmark_rules()
    system = system or SYSTEM
    seed = 100 + index if seed is None else seed
    hyperparameters = {**rules.defaults(), "global_batch_size": batch_size}
    config = {
        "benchmark": rules.name,
        "workload": rules.workload,
        "suite": rules.suite,
        "division": division,
        "seed": seed,
        "num_devices": 1,
        "precision": "fp32",
        "full_curve": False,
        "module": None if module is None else module_record(module),
        "hyperparameters": hyperparameters,
    }
    steps: list[Step] = []

    def at(s: float, key: str, value: Any = None, event_type: str = "POINT_IN_TIME", **metadata: Any) -> None:
        steps.append(Step(start_s + s, key, value, metadata, event_type))

    result_id = "ab" * 16
    at(
        0.0,
        "tta_format",
        {"version": 1, "harness": "0.1.0", "run_id": f"{index:032x}", "result_id": result_id, "index": index},
    )
    at(0.0, "tta_rules", {"ruleset": "v1", "terms_digest": rules.terms_digest})
    at(0.0, "submission_benchmark", rules.name)
    at(0.0, "submission_division", division)
    at(0.0, "submission_org", system["submitter"])
    at(0.0, "submission_platform", system["system_name"])
    at(0.0, "submission_status", system["status"])
    at(0.0, "tta_system", {"name": system["system_name"], "digest": digest_of(system)})
    at(0.0, "tta_config", config, digest=digest_of(config))
    at(0.0, "seed", seed)
    at(0.0, "train_samples", rules.train_examples)
    at(0.0, "eval_samples", rules.eval_examples)
    for name, value in hyperparameters.items():
        at(0.0, name, value)
    at(0.1, "tta_data", {"digest": rules.data_digest or DATA_DIGEST, "num_files": 5, "num_bytes": 12345})
    at(0.2, "cache_clear", True, method="posix_fadvise", num_files=5)
    at(
        1.0,
        "tta_world",
        [{"rank": 0, "world_size": 1, "host": "h", "pid": 42, "device": "cpu", "versions": {"torch": "2.14.1"}}],
    )
    at(1.1, "init_start", None, "INTERVAL_START")
    at(2.1, "init_stop", None, "INTERVAL_END")
    at(2.1, "tta_resolved", config, digest=digest_of(config))
    at(2.2, "run_start", None, "INTERVAL_START", samples_count=0)
    at(2.2, "tta_data_open_start", None, "INTERVAL_START")
    at(2.4, "tta_data_open_stop", None, "INTERVAL_END")
    at(2.4, "tta_data_touched_early", [])
    now, samples, last = 2.4, 0, None
    waiting_s = 0.0
    for quality in qualities:
        at(now, "block_start", None, "INTERVAL_START", samples_count=samples)
        now += block_s
        batches = -(-rules.eval_every_samples // batch_size)
        samples += batches * batch_size
        at(now, "block_stop", None, "INTERVAL_END", samples_count=samples)
        waiting_s += 0.1
        at(
            now,
            "tracked_stats",
            {"train_loss": 1.0 / samples, "data_wait_s": 0.1, "throughput": batches * batch_size / block_s},
            samples_count=samples,
        )
        at(now, "eval_start", None, "INTERVAL_START", samples_count=samples)
        now += eval_s
        at(now, "eval_stop", None, "INTERVAL_END", samples_count=samples)
        at(now, "eval_accuracy", quality, samples_count=samples, num_examples=rules.eval_examples)
        last = quality
    at(
        now,
        "run_stop",
        None,
        "INTERVAL_END",
        status=status,
        reason=reason,
        samples_count=samples,
        evidence=f"quality {last} at {samples} samples",
    )
    blocks = len([step for step in steps if step.key == "block_start"])
    run_s = now - 2.2
    ledger = {
        "run_s": run_s,
        "init_s": 1.0,
        "data_s": 0.2 + waiting_s,
        "train_s": blocks * block_s - waiting_s,
        "eval_s": blocks * eval_s,
        "checkpoint_s": 0.0,
        "other_s": 0.0,
    }
    at(now, "tta_energy", {"energy_j": None, "source": "none", "meter": "none"})
    at(now, "tta_ledger", {name: round(value, 6) for name, value in ledger.items()})
    at(now, "tta_end", {"num_events": len(steps) + 1, "wall_drift_ms": 0})
    return steps


def find(steps: list[Step], key: str, nth: int = 0) -> Step:
    """The nth event of `key`."""
    return [step for step in steps if step.key == key][nth]


def text_of(steps: Iterable[Step], wall_start_ms: int = WALL_START_MS) -> str:
    """The log's text, with a sound chain."""
    lines, prev = [], CHAIN_START
    for seq, step in enumerate(steps):
        elapsed_ns = round(step.at_s * 1e9)
        metadata = {
            "file": "harness/referee.py",
            "lineno": 1,
            "seq": seq,
            "elapsed_ns": elapsed_ns,
            "prev": prev,
            **step.metadata,
        }
        line = format_line(
            Event(wall_start_ms + elapsed_ns // 1_000_000, step.event_type, step.key, step.value, metadata, 0)
        )
        lines.append(line)
        prev = line_digest(line)
    return "\n".join(lines) + "\n"


def write_log(path: Path, steps: Iterable[Step], wall_start_ms: int = WALL_START_MS) -> Path:
    """Writes the events as a log."""
    path.write_text(text_of(steps, wall_start_ms))
    return path


def write_result(
    folder: Path,
    num_runs: int = 5,
    change: Callable[[int, list[Step]], list[Step]] | None = None,
    system: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """A folder as `tta run` leaves it; `change(index, steps)` returns the steps of a run as they shall be.

    The runs start a minute apart and differ a little in speed and curve.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(num_runs):
        curve = (0.5 + 0.003 * index, 0.8 + 0.002 * index, 0.95 + 0.001 * index)
        steps = events(index, qualities=curve, block_s=2.0 + 0.01 * index, system=system, **options)
        steps = change(index, copy.deepcopy(steps)) if change else steps
        write_log(folder / f"result_{index}.txt", steps, WALL_START_MS + 60_000 * index)
    (folder / "system.json").write_text(json.dumps(system or SYSTEM, indent=2))
    if options.get("module") is not None:
        (folder / CODE_NAME).mkdir()
        (folder / CODE_NAME / MODULE_NAME).write_text(options["module"])
    return folder


def reseal(folder: Path) -> None:
    """Writes the manifest anew over what lies in `folder`, as a careful forger would."""
    files = {
        path.relative_to(folder).as_posix(): FileEntry("file", path.stat().st_size, sha256_of(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    (folder / MANIFEST_NAME).write_text(manifest_text(files))


def write_submission(
    tree: Path,
    num_runs: int = 5,
    change: Callable[[int, list[Step]], list[Step]] | None = None,
    system: dict[str, Any] | None = None,
    claim: dict[str, str] | None = None,
    rules: BenchmarkRules | None = None,
    **options: Any,
) -> Path:
    """A submission in its place in `tree`, with description, claim and manifest; returns its folder.

    `claim` replaces fields of the claim that the logs would give.
    """
    described = system or SYSTEM
    rules = rules or benchmark_rules()
    submitter, name = described["submitter"], described["system_name"]
    folder = tree / submitter / "results" / name / rules.name
    write_result(folder, num_runs, change, system, rules=rules, **options)
    description = tree / submitter / "systems" / f"{name}.json"
    description.parent.mkdir(parents=True, exist_ok=True)
    (folder / SYSTEM_NAME).rename(description)
    if (folder / CODE_NAME).exists():
        (tree / submitter / "benchmarks").mkdir(exist_ok=True)
        (folder / CODE_NAME).rename(tree / submitter / "benchmarks" / rules.name)
    fields = {
        "submitter": submitter,
        "system": name,
        "benchmark": rules.name,
        "division": options.get("division", "closed"),
        "category": "available",
        "ruleset": "v1",
        "system_sha256": sha256_of(description),
        "submitted": "2025-11-21",
        "notes": "",
        **(claim or {}),
    }
    (folder / CLAIM_NAME).write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items()))
    reseal(folder)
    return folder
