"""Makes valid logs, results and submissions quickly, and damages them on request.

`events()` is the list that the referee would have written for a run; a test changes the list (or the
text) and writes it with `write_log`, which chains it again, as a careful forger would.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base.files import sha256_of
from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import energy_value
from harness.log import power_files, power_format, run_log
from harness.log.events import CHAIN_START, Event, digest_of, format_line, line_digest
from harness.log.numerics import flags_of
from harness.log.power_files import IDLE_FOLDER, POWER_FOLDER
from harness.log.power_format import ClockOffset, MeterSpec, Sample
from harness.log.replay import weighed
from harness.ruleset.model import BenchmarkRules, Constraint, ReferenceConvergence, RuleSet, Timing
from harness.run.identity import Identity
from harness.submission.claim import FileEntry, digest_lines, manifest_text
from harness.submission.layout import (
    CLAIM_NAME,
    CODE_LIST,
    CODE_NAME,
    MANIFEST_NAME,
    PACKAGES_LIST,
    SYSTEM_NAME,
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
    """Rules of a benchmark `toy_mini`: evaluate every 1,000 samples, stop at 0.9, at most 10,000 samples.

    The reference needs 2,600 samples (geometric mean); the runs of `write_result` need 2,667 to 2,630.
    """
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
        "open_runs": 5,
        "reference_convergence": (ReferenceConvergence(100, (2080, 2500, 2600, 2704, 3250) * 4),),
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
        "releases": {"0.1.0": CODE},
    }
    return RuleSet(**{**fields, **changes})


PREDICTIONS_DIGEST = "9d" * 32


def weights_digest(seed: int) -> str:
    """The digest of initial weights, which the seed gives."""
    return hashlib.sha256(str(seed).encode()).hexdigest()


NETWORK: dict[str, Any] = {
    "parameters": "a1" * 32,
    "network": "b2" * 32,
    "forward": "c3" * 32,
    "num_parameters": 78_010,
    "num_trainable": 78_010,
    "num_buffers": 681,
}


def replay_record(seed: int, num_steps: int) -> dict[str, Any]:
    """The first steps of a run: its losses and digests follow from the seed."""
    digests = [hashlib.sha256(f"{seed} {step}".encode()).hexdigest() for step in range(num_steps + 1)]
    weights = {name: digests[int(name)] for name in weighed(num_steps)} | {"0": weights_digest(seed)}
    losses = [struct.pack(">d", 2.0 + seed / 1000 - step / 100).hex() for step in range(num_steps)]
    steps = {"steps": num_steps, "losses": losses, "batches": digests[:num_steps], "weights": weights}
    return {**steps, "network": {**NETWORK}}


NUMERICS: dict[str, Any] = {
    "flags": {
        **flags_of("fp32"),
        "deterministic_algorithms": False,
        "cudnn_deterministic": False,
        "cudnn_benchmark": False,
    },
    "versions": {"torch": "2.14.1", "cuda": None, "hip": None, "cudnn": None, "nccl": None, "driver": None},
    "environment": {"OMP_NUM_THREADS": "1"},
}

CODE = {"harness/run/referee.py": "1" * 64, "workloads/toy/workload.py": "2" * 64}
PACKAGES = {"numpy-2.4.1": "3" * 64, "torch-2.14.1": "4" * 64}
IDENTITY = Identity(CODE, PACKAGES, commit="c0ffee" + "0" * 34, is_clean=True)
LOADED: dict[str, Any] = {
    "num_files": 2000,
    "num_outside": 0,
    "outside": [],
    "num_changed": 0,
    "changed": [],
    "num_compiled": 0,
    "num_system": 1,
    "system": ["libc.so.6"],
}

ISOLATION: dict[str, Any] = {
    "means": "bubblewrap",
    "files": "confined",
    "processes": "confined",
    "network": "loopback",
    "data": "at start",
    "user": "own namespace",
    "no_new_privs": True,
    "referee_dumpable": False,
    "reasons": {},
    "environment": {"OMP_NUM_THREADS": "1"},
}

MODULE_NAME = "fast.py"
MODULE = "def build_model(suite):\n    return None\n"


def module_record(text: str, name: str = MODULE_NAME) -> dict[str, Any]:
    """A log's record of a module with this text."""
    return {"name": name, "sha256": hashlib.sha256(text.encode()).hexdigest(), "parts": ["build_model"]}


def equivalence_record(text: str, seed: int, num_steps: int = 100) -> dict[str, Any]:
    """What the log of run `seed` says of a module with this text that computes what the reference does."""
    module = module_record(text)
    seeds = [1000 + 2 * seed, 1001 + 2 * seed]
    found = {"difference": 1e-7, "tolerance": 1e-5, "seed": seeds[0], "step": 7}
    quantities = {name: {**found} for name in ("initial_weights", "batches", "loss", "gradient_norm", "update")}
    return {
        "module": module["name"],
        "sha256": module["sha256"],
        "seeds": seeds,
        "steps": num_steps,
        "quantities": {**quantities, "tensor_update": {**found, "tensor": "head.bias"}},
        "is_equivalent": True,
    }


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
    is_equivalent: bool = False,
    num_nodes: int = 1,
    mono_ns: int | None = None,
) -> list[Step]:
    """The events of one run, as the referee writes them.

    Every block trains `eval_every_samples` samples in `block_s` seconds (of which 0.1 s wait for data).
    module: the text of fast.py, with which a run of the open division was made; with is_equivalent, one of the closed.
    num_nodes: hosts h, h1, ..., a rank on each. mono_ns: where the clock's zero is; a log without it has no tta_clock.
    """
    rules = rules or benchmark_rules()
    system = system or SYSTEM
    seed = 100 + index if seed is None else seed
    weights = weights_digest(seed)
    hyperparameters = {**rules.defaults(), "global_batch_size": batch_size}
    config = {
        "benchmark": rules.name,
        "workload": rules.workload,
        "suite": rules.suite,
        "division": division,
        "seed": seed,
        "num_devices": num_nodes,
        "precision": "fp32",
        "execution": {"compile": False},
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
        {"version": 2, "harness": "0.1.0", "run_id": f"{index:032x}", "result_id": result_id, "index": index},
    )
    at(0.0, "tta_rules", {"ruleset": "v1", "terms_digest": rules.terms_digest})
    at(0.0, "tta_code", IDENTITY.code_event)
    at(0.0, "tta_packages", IDENTITY.packages_event)
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
    if mono_ns is not None:
        at(0.3, "tta_clock", {"mono_ns": mono_ns})
    ranks = [
        {"rank": rank, "world_size": num_nodes, "host": host_of(rank), "pid": 42 + rank, "device": "cpu"}
        for rank in range(num_nodes)
    ]
    if module is not None and is_equivalent:
        at(0.7, "tta_equivalent", equivalence_record(module, seed))
    if rules.replay_steps:
        replayed = replay_record(seed, rules.replay_steps)
        replayed["network"]["parameters"] = rules.network_digest or NETWORK["parameters"]
        at(0.8, "tta_replay", replayed)
    at(0.9, "tta_initial", {"weights_digest": weights, "quality": 0.1, "num_examples": rules.eval_examples})
    at(1.0, "tta_world", [{**rank, "versions": {"torch": "2.14.1"}} for rank in ranks])
    at(1.0, "tta_isolation", copy.deepcopy(ISOLATION))
    at(1.1, "init_start", None, "INTERVAL_START")
    at(2.1, "init_stop", None, "INTERVAL_END")
    at(2.1, "tta_resolved", config, digest=digest_of(config))
    at(2.1, "tta_numerics", copy.deepcopy(NUMERICS))
    at(2.2, "run_start", None, "INTERVAL_START", samples_count=0, weights_digest=weights)
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
        counts = {"samples_count": samples, "num_examples": rules.eval_examples}
        at(now, "eval_accuracy", quality, **counts, predictions=PREDICTIONS_DIGEST)
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
    at(now, "tta_predictions", {"file": None, "num_bytes": 1 << 30})
    at(now, "tta_energy", {"energy_j": None, "source": "none", "meter": "none"})
    at(now, "tta_ledger", {name: round(value, 6) for name, value in ledger.items()})
    at(now, "tta_loaded", {process: copy.deepcopy(LOADED) for process in ("referee", "worker", "evaluator")})
    at(now, "tta_end", {"num_events": len(steps) + 1, "wall_drift_ms": 0})
    return steps


CHECKPOINT_DIGEST = "cc" * 32
CLOCK_ZERO_NS = 7_000_000_000


def interrupt(steps: list[Step], away_s: float = 15.0, lost_s: float = 1.0) -> None:
    """Interrupt a run in its second block: it goes on from a checkpoint that was made after its first evaluation.

    The checkpoint takes half a second, the way back to it one.
    """
    place = next(place for place, step in enumerate(steps) if step.key == "eval_accuracy") + 1
    now, samples = steps[place - 1].at_s, steps[place - 1].metadata["samples_count"]
    values = {step.key: step.value for step in steps}
    metadata = {step.key: step.metadata for step in steps}
    resume = {
        "checkpoint": 1,
        "digest": CHECKPOINT_DIGEST,
        "run_id": values["tta_format"]["run_id"],
        "seed": values["seed"],
        "config_digest": metadata["tta_config"]["digest"],
        "terms_digest": values["tta_rules"]["terms_digest"],
        "code_digest": values["tta_code"]["digest"],
        "packages_digest": values["tta_packages"]["digest"],
        "data_digest": values["tta_data"]["digest"],
        "lost_s": lost_s,
        "away_s": away_s,
        "clock": "monotonic",
        "mono_ns": CLOCK_ZERO_NS,
        "boot_id": "b",
        "wall_drift_ms": 0,
        "cut_bytes": 0,
    }
    restored = {
        "world": copy.deepcopy(values["tta_world"]),
        "isolation": copy.deepcopy(values["tta_isolation"]),
        "numerics": copy.deepcopy(values["tta_numerics"]),
        "resolved_digest": metadata["tta_resolved"]["digest"],
        "weights_digest": metadata["run_start"]["weights_digest"],
    }
    number = {"samples_count": samples, "number": 1}
    kept = {**number, "digest": CHECKPOINT_DIGEST, "num_bytes": 1000, "reason": None}
    ended = {"reason": "interrupted", "evidence": "interrupted by a signal", "checkpoint": 1}
    back_s = now + 0.5 + lost_s + away_s
    inserted = [
        Step(now, "tta_checkpoint_start", None, dict(number), "INTERVAL_START"),
        Step(now + 0.5, "tta_checkpoint_stop", None, kept, "INTERVAL_END"),
        Step(now + 0.5, "block_start", None, {"samples_count": samples}, "INTERVAL_START"),
        Step(now + 0.5 + lost_s, "tta_interrupted", ended, {"samples_count": samples}),
        Step(back_s, "tta_resume", resume, {"samples_count": samples}),
        Step(back_s, "tta_restore_start", None, {"samples_count": samples}, "INTERVAL_START"),
        Step(back_s + 1.0, "tta_restore_stop", None, {"samples_count": samples}, "INTERVAL_END"),
        Step(back_s + 1.0, "tta_restored", restored, {"samples_count": samples}),
    ]
    later_s = 1.5 + lost_s + away_s
    for step in steps[place:]:
        step.at_s += later_s
    steps[place:place] = inserted
    ledger = find(steps, "tta_ledger").value
    ledger["run_s"] = round(ledger["run_s"] + later_s, 6)
    ledger["checkpoint_s"], ledger["interrupted_s"] = 1.5, lost_s + away_s
    if "tta_clock" not in values:
        cleared = find(steps, "cache_clear")
        steps.insert(steps.index(cleared) + 1, Step(cleared.at_s, "tta_clock", {"mono_ns": CLOCK_ZERO_NS}))
    find(steps, "tta_end").value["num_events"] = len(steps)


def host_of(node: int) -> str:
    return f"h{node}" if node else "h"


def keep_weights(steps: list[Step], path: Path, text: bytes, is_apart: bool = False) -> None:
    """Keeps `text` at `path` as the weights of a run, and says so among its last events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    end = find(steps, "tta_end")
    name = None if is_apart else path.name
    value = {"file": name, "num_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(), "reason": None}
    steps.insert(steps.index(end), Step(end.at_s, "tta_weights", value))
    end.value["num_events"] = len(steps)


def find(steps: list[Step], key: str, nth: int = 0) -> Step:
    """The nth event of `key`."""
    return [step for step in steps if step.key == key][nth]


def text_of(steps: Iterable[Step], wall_start_ms: int = WALL_START_MS) -> str:
    """The log's text, with a valid chain."""
    lines, prev = [], CHAIN_START
    for seq, step in enumerate(steps):
        elapsed_ns = round(step.at_s * 1e9)
        metadata = {
            "file": "harness/run/referee.py",
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


MONO_NS = 7_000_000_000_000  # where the first run's clock has its zero; the others follow a minute apart
POWER_STEP_S = 0.1  # a run of 7.7 s needs 60 readings
NODE_CLOCK_NS = 3_000_000_000  # how far the clock of every further node is ahead of the one before it


def meters(kind: str, node: int = 0) -> list[MeterSpec]:
    """The meters of one node: "node" its power supply's sensor (B), "counters" processor and accelerator (C), "sampled"
    an accelerator's power (D), "wall" a calibrated analyser (A), "model" a model (E)."""

    def meter(name: str, component: Any, scope: Any, meter_class: Any, **more: Any) -> MeterSpec:
        fields = {"kind": "power_w", "accuracy_pct": 2.0, "period_s": POWER_STEP_S, "source": "fabricated", **more}
        return MeterSpec(id=name, component=component, scope=scope, meter_class=meter_class, **fields)

    board = f"GPU-{node}"
    return {
        "wall": [meter("csv:wall", "node", "ac", "A", device=f"analyser-{node}")],
        "node": [meter("ipmi:dcmi", "node", "ac", "B", device=f"bmc-{node}")],
        "counters": [
            meter(f"nvml:{board}:energy", "gpu", "board", "C", kind="energy_j", device=board),
            meter(
                "powercap:package-0",
                "cpu_package",
                "package",
                "C",
                kind="energy_j",
                device="package-0",
                wrap_at_j=262_143.0,
                max_power_w=500.0,
            ),
        ],
        "sampled": [meter(f"nvml:{board}:power", "gpu", "board", "D", device=board)],
        "model": [meter("model:node", "node", "model", "E", accuracy_pct=None)],
    }[kind]


def watts_at(at_s: float, index: int, node: int) -> float:
    """About 300 W that vary a little; no two runs and no two nodes are alike."""
    return 300.0 + index + 10 * node + 5 * math.sin(3 * at_s + node)


def power_text(
    start_s: float,
    stop_s: float,
    specs: Sequence[MeterSpec],
    *,
    node: int = 0,
    index: int = 0,
    run_id: str | None = None,
    mono_ns: int = MONO_NS,
    wall_start_ms: int = WALL_START_MS,
    watts: Callable[[float], float] | None = None,
) -> str:
    """The power log of a node over a second before `start_s` to a second after `stop_s` on the run's clock.

    watts: of each meter at a time in seconds; by default `watts_at`.
    """
    ahead_ns = NODE_CLOCK_NS * node
    watts = watts or (lambda at_s: watts_at(at_s, index, node))

    def mono(at_s: float) -> int:
        return mono_ns + ahead_ns + round(at_s * 1e9)

    def wall(at_s: float) -> int:
        return wall_start_ms + math.floor(at_s * 1000)

    begin_s, end_s = start_s - 1, stop_s + 1
    times = [begin_s + POWER_STEP_S * i for i in range(math.ceil((end_s - begin_s) / POWER_STEP_S) + 1)]
    name, host, machine = f"node_{node}", host_of(node), f"machine-{node}"
    lines = [power_format.opening_line(wall(begin_s), node=name, host=host, machine=machine, run_id=run_id)]
    lines += [power_format.meter_line(wall(begin_s), spec) for spec in specs]
    offset = ClockOffset(mono(begin_s), ahead_ns, 100_000)
    lines.append(power_format.clock_offset_line(wall(begin_s), offset))
    lines.append(power_format.start_line(wall(begin_s), mono(begin_s)))
    counters = dict.fromkeys([spec.id for spec in specs], 1000.0)
    for seq, at_s in enumerate(times):
        for spec in specs:
            if spec.kind == "energy_j":
                counters[spec.id] += watts(at_s) * POWER_STEP_S if seq else 0.0
                value = round(counters[spec.id], 3)
            else:
                value = round(watts(at_s), 3)
            lines.append(power_format.reading_line(wall(at_s), spec, Sample(mono(at_s), value), seq))
    offset = ClockOffset(mono(times[-1]), ahead_ns, 100_000)
    lines.append(power_format.clock_offset_line(wall(times[-1]), offset))
    lines.append(power_format.sampler_line(wall(times[-1]), mono(times[-1]), 0.01))
    lines.append(power_format.stop_line(wall(times[-1]), mono(times[-1])))
    return "".join(lines)


def write_power(
    path: Path, steps: list[Step], kind: str, num_nodes: int = 1, wall_start_ms: int = WALL_START_MS
) -> None:
    """Writes the power logs of a run next to `path`, the run's log, and their total into its `tta_energy`."""
    index = find(steps, "tta_format").value["index"]
    folder = path.parent / POWER_FOLDER / path.stem
    folder.mkdir(parents=True, exist_ok=True)
    for node in range(num_nodes):
        text = power_text(
            find(steps, "run_start").at_s,
            find(steps, "run_stop").at_s,
            meters(kind, node),
            node=node,
            index=index,
            run_id=find(steps, "tta_format").value["run_id"],
            mono_ns=find(steps, "tta_clock").value["mono_ns"],
            wall_start_ms=wall_start_ms,
        )
        (folder / f"node_{node}.txt").write_text(text)
    restate_energy(path, steps, wall_start_ms, num_nodes)


def restate_energy(path: Path, steps: list[Step], wall_start_ms: int = WALL_START_MS, num_nodes: int = 1) -> None:
    """Makes `tta_energy` state the total of the power logs next to `path`, as the referee or a careful forger does."""
    log = power_files.with_power(run_log.read(write_log(path, steps, wall_start_ms)))
    find(steps, "tta_energy").value = energy_value(energy_of(log, EnergyLimits(), num_nodes))
    write_log(path, steps, wall_start_ms)


def write_idle(folder: Path, kind: str, num_nodes: int = 1) -> None:
    """Writes the idle baseline of a result: a little over 80 W per node."""
    idle = folder / POWER_FOLDER / IDLE_FOLDER
    idle.mkdir(parents=True, exist_ok=True)
    for node in range(num_nodes):
        text = power_text(
            -70.0,
            -10.0,
            meters(kind, node),
            node=node,
            watts=lambda at_s, node=node: 80.0 + node + math.sin(at_s),  # type: ignore[misc]
        )
        (idle / f"node_{node}.txt").write_text(text)


def write_result(
    folder: Path,
    num_runs: int = 5,
    change: Callable[[int, list[Step]], list[Step]] | None = None,
    system: dict[str, Any] | None = None,
    power: str | None = None,
    **options: Any,
) -> Path:
    """A folder as `tta run` leaves it; `change(index, steps)` returns the steps of a run to write.

    The runs start a minute apart and differ a little in speed and curve. qualities: of every run, instead of such
    curves. power: which of `meters` each node has; None for a result that was not metered.
    """
    folder.mkdir(parents=True, exist_ok=True)
    num_nodes = options.get("num_nodes", 1)
    qualities = options.pop("qualities", None)
    if num_nodes > 1:
        system = {**(system or SYSTEM), "number_of_nodes": str(num_nodes)}
    for index in range(num_runs):
        curve = qualities or (0.5 + 0.003 * index, 0.8 + 0.002 * index, 0.95 + 0.001 * index)
        mono_ns = None if power is None else MONO_NS + 60_000_000_000 * index
        steps = events(index, qualities=curve, block_s=2.0 + 0.01 * index, system=system, mono_ns=mono_ns, **options)
        steps = change(index, copy.deepcopy(steps)) if change else steps
        path, wall_start_ms = folder / f"result_{index}.txt", WALL_START_MS + 60_000 * index
        write_log(path, steps, wall_start_ms)
        if power is not None:
            write_power(path, steps, power, num_nodes, wall_start_ms)
    if power is not None:
        write_idle(folder, power, num_nodes)
    (folder / "system.json").write_text(json.dumps(system or SYSTEM, indent=2))
    write_lists(folder)
    if options.get("module") is not None:
        (folder / CODE_NAME).mkdir()
        (folder / CODE_NAME / MODULE_NAME).write_text(options["module"])
    return folder


def write_lists(folder: Path) -> None:
    """Writes the lists of the code and of the packages, whose digests the logs have."""
    for name, digests in ((CODE_LIST, CODE), (PACKAGES_LIST, PACKAGES)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(digest_lines(digests))


def reseal(folder: Path) -> None:
    """Writes the manifest again over the files in `folder`, as a careful forger would."""
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
    if options.get("num_nodes", 1) > 1:
        described = {**described, "number_of_nodes": str(options["num_nodes"])}
    rules = rules or benchmark_rules()
    submitter, name = described["submitter"], described["system_name"]
    folder: Path = tree / submitter / "results" / name / rules.name
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
