"""Doubles for the seams of the referee: a clock that is set by hand, and a worker and meters that follow a script."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base.clock import Clock
from harness.base.files import sha256_of
from harness.energy.run_energy import EnergySource
from harness.log.power_format import ClockOffset, MeterSpec, NodePower, Sample
from harness.ruleset.model import BenchmarkRules, Timing
from harness.run.plan import Plan, WorkerLost, WorkerTimeout
from tests.fabricate import IDENTITY, ISOLATION, NUMERICS, PREDICTIONS_DIGEST, SYSTEM, benchmark_rules, weights_digest

WORLD = [{"rank": 0, "world_size": 1, "host": "h", "pid": 1, "device": "cpu", "versions": {}}]


def plan(rules: BenchmarkRules | None = None, **changes: Any) -> Plan:
    """The plan of a run of `rules`, by default `toy_mini`, with seed 7."""
    rules = rules or benchmark_rules()
    fields: dict[str, Any] = {
        "rules": rules,
        "timing": Timing(max_init_s={"closed": 1800.0, "open": 14400.0}),
        "ruleset": "v1",
        "division": "closed",
        "seed": 7,
        "hyperparameters": rules.defaults(),
        "num_devices": 1,
        "precision": "fp32",
        "system": SYSTEM,
        "data_dir": Path("/nowhere"),
        "labels_dir": Path("/nowhere/labels"),
        "data": {"digest": rules.data_digest, "num_files": 5, "num_bytes": 12345},
        "metadata": {},
        "result_id": "ab" * 16,
        "run_id": "cd" * 16,
        "index": 0,
        "identity": IDENTITY,
    }
    return Plan(**{**fields, **changes})


class FakeClock:
    """Monotonic time that moves only when a test advances it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.origin_ns = 5_000_000_000_000  # some hours after boot

    def elapsed_ns(self) -> int:
        return self.now_ns

    def time_ms(self, elapsed_ns: int) -> int:
        return 1_763_683_200_000 + elapsed_ns // 1_000_000

    def wall_drift_ms(self) -> int:
        return 0

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@dataclass
class ScriptedWorker:
    """Answers like a worker whose evaluations give `qualities` in turn, and the last one from then on.

    answers: replaces the nth answer to a command: {("train", 1): {...}}; a callable is called.
    seconds: the duration of each command.
    """

    clock: FakeClock
    qualities: list[float]
    batch_size: int = 100
    world: list[dict[str, Any]] = field(default_factory=lambda: list(WORLD))
    seconds: Mapping[str, float] = field(
        default_factory=lambda: {"prepare": 1.0, "start": 0.2, "train": 2.0, "evaluate": 0.5}
    )
    answers: Mapping[tuple[str, int], Any] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    num_stops: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _config: dict[str, Any] = field(default_factory=dict)

    @property
    def isolation(self) -> dict[str, Any]:
        return copy.deepcopy(ISOLATION)

    def give_data(self, data_dir: Path) -> str:
        return str(data_dir)

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        on_tick()
        return self.world

    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        what = str(command["do"])
        self.asked.append(dict(command))
        nth = self._counts.get(what, 0)
        self._counts[what] = nth + 1
        on_tick()
        seconds = self.seconds.get(what, 0.0)
        if seconds > timeout_s:
            self.clock.advance(timeout_s)
            raise WorkerTimeout(f"the worker gave no answer within {timeout_s:.0f} s")
        self.clock.advance(seconds)
        on_tick()
        if (what, nth) in self.answers:
            answer = self.answers[(what, nth)]
            if isinstance(answer, WorkerLost):
                raise answer
            return dict(answer() if callable(answer) else answer)
        return {"ok": True, **self._answer(what, nth, command)}

    def _answer(self, what: str, nth: int, command: Mapping[str, Any]) -> dict[str, Any]:
        if what == "open":
            self._config = dict(command["config"])
            return {"config": self._config}
        if what == "prepare":
            return {"numerics": copy.deepcopy(NUMERICS), "weights_digest": weights_digest(7)}
        if what == "start":
            return {"touched_early": []}
        if what == "train":
            batches = -(-int(command["num_samples"]) // self.batch_size)
            return {"num_samples": batches * self.batch_size, "mean_loss": 1.0 / (nth + 1), "data_wait_s": 0.1}
        if what == "evaluate":
            quality = self.qualities[min(nth, len(self.qualities) - 1)]
            return {"value": quality, "num_examples": 500, "predictions": PREDICTIONS_DIGEST}
        if what == "save":
            part = Path(command["folder"]) / "rank_00000" / "session.pt"
            part.parent.mkdir(parents=True)
            part.write_text(f"checkpoint {nth}")
            facts = {"sha256": sha256_of(part), "num_bytes": part.stat().st_size}
            return {"files": {"rank_00000/session.pt": facts}, "reason": None}
        if what in ("loaded", "loaded_by_evaluator"):
            return {"files": ["/usr/lib/libc.so.6"]}
        if what == "weights":
            return {"is_kept": True, "num_bytes": 4321, "sha256": "5e" * 32}
        if what == "keep":
            return {"is_kept": True, "num_bytes": 1234}
        return {}

    def stop(self, grace_s: float) -> None:
        self.num_stops += 1


class SilentView:
    """Shows nothing; keeps the outcome, and how many checkpoints failed."""

    outcome: Any = None
    num_failed = 0

    def begin(self, plan: Any, progress: Any) -> None: ...
    def tick(self, elapsed_ns: int) -> None: ...
    def evaluation(self, elapsed_ns: int) -> None: ...

    def checkpoint_failed(self, elapsed_ns: int) -> None:
        self.num_failed += 1

    def end(self, outcome: Any) -> None:
        self.outcome = outcome


@dataclass
class ScriptedPower:
    """Nodes that draw `watts_each`, read ten times a second from `begin` to `end`, or to `lost_at_s` on the clock.

    calls: the calls of the referee, in order.
    """

    watts_each: list[float]
    source: EnergySource = "measured"
    lost_at_s: float | None = None
    calls: list[str] = field(default_factory=list)
    _clock: Clock | None = None

    @property
    def num_nodes(self) -> int:
        return len(self.watts_each)

    def begin(self, clock: Clock, run_id: str) -> None:
        self.calls.append("begin")
        self._clock = clock

    def watts(self) -> float | None:
        return sum(self.watts_each)

    def end(self) -> tuple[NodePower, ...]:
        clock, self._clock = self._clock, None
        if clock is None:
            return ()
        self.calls.append("end")
        stop_ns = clock.elapsed_ns() + 100_000_000
        if self.lost_at_s is not None:
            stop_ns = round(self.lost_at_s * 1e9)
        return tuple(
            scripted_node(number, watts, clock.origin_ns, clock.origin_ns + stop_ns)
            for number, watts in enumerate(self.watts_each)
        )


def scripted_node(number: int, watts: float, from_ns: int, to_ns: int) -> NodePower:
    """Return the log of a node's sensor that reads `watts` every tenth of a second, offset by node."""
    spec = MeterSpec(f"ipmi:bmc{number}", "node", "ac", "B", "power_w", 0.1, "scripted", device=f"bmc{number}")
    samples = tuple(Sample(at_ns + number, watts) for at_ns in range(from_ns, to_ns + 1, 100_000_000))
    path = Path(f"power/result_0/node_{number}.txt")
    offsets = tuple(ClockOffset(at_ns, 0, 1000) for at_ns in (from_ns, to_ns))
    return NodePower(f"node_{number}", path, f"h{number}", {spec.id: spec}, {spec.id: samples}, offsets, from_ns, to_ns)
