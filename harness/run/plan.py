"""The plan of a run, its progress, its outcome, and the protocols of the worker and of the view."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness import __version__
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import EnergySource
from harness.errors import WorkerError
from harness.log import keys
from harness.log.events import digest_of
from harness.log.seeds import NOISE, WEIGHTS, Seeds
from harness.log.ticket import Ticket
from harness.ruleset.model import BenchmarkRules, Timing
from harness.run.identity import Identity
from harness.run.isolation import Isolation
from harness.submission import module as open_module
from harness.workload import ExecutionValue, HyperparameterValue


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided before a run begins.

    full_curve: stop at `max_samples` instead of the target, for reference runs, from which targets and convergence
        points are derived. Such a run is never a result.
    prices_digest: the price book in force, which prices this run permanently; None if the rules have none.
    data_dir, labels_dir: the data for the worker, and for the evaluator alone.
    execution: the values of the workload's execution options.
    module, module_path: the module whose functions replace parts of the workload, and its file: in the open division by
        others, in the closed one by such as compute the same.
    energy_limits: what the rules require of a measurement. identity: the code and the packages that run.
    attempt: which attempt at this run it is; earlier ones have no end and are kept in `unfinished/`.
    job: what the log says of the scheduler's job, where the run has this node alone; None where it is in none.
    reproduces: the digest of the logs of the result that the run repeats; None if it repeats none.
    ticket: of a witness, which gave the seed; None if nobody witnesses the run.
    seeds: by source of chance, in a run of `tta variance`; else None, and `seed` is that of all sources.
    """

    rules: BenchmarkRules
    timing: Timing
    ruleset: str
    division: str
    seed: int
    hyperparameters: Mapping[str, HyperparameterValue]
    num_devices: int
    precision: str
    system: Mapping[str, Any]
    data_dir: Path
    labels_dir: Path
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    result_id: str
    run_id: str
    index: int
    identity: Identity
    full_curve: bool = False
    prices_digest: str | None = None
    execution: Mapping[str, ExecutionValue] = field(default_factory=dict)
    module: open_module.Module | None = None
    module_path: Path | None = None
    energy_limits: EnergyLimits = field(default_factory=EnergyLimits)
    attempt: int = 1
    job: Mapping[str, Any] | None = None
    reproduces: str | None = None
    seeds: Seeds | None = None
    ticket: Ticket | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the run as logged."""
        return {
            "benchmark": self.rules.name,
            "workload": self.rules.workload,
            "suite": self.rules.suite,
            "division": self.division,
            "seed": self.seed,
            "num_devices": self.num_devices,
            "precision": self.precision,
            keys.EXECUTION_FIELD: dict(self.execution),
            "full_curve": self.full_curve,
            "module": None if self.module is None else self.module.record(),
            "hyperparameters": dict(self.hyperparameters),
            **self._seeds_by_source,
        }

    @property
    def run_config(self) -> dict[str, Any]:
        """The configuration for the worker: the fields of `RunConfig`."""
        return {
            "workload": self.rules.workload,
            "suite": self.rules.suite,
            "division": self.division,
            "seed": self.seed,
            "hyperparameters": dict(self.hyperparameters),
            "metadata": dict(self.metadata),
            "num_devices": self.num_devices,
            "precision": self.precision,
            "execution": dict(self.execution),
            **self._seeds_by_source,
        }

    @property
    def _seeds_by_source(self) -> dict[str, int]:
        """The fields of `RunConfig` for the sources that do not have `seed`."""
        if self.seeds is None:
            return {}
        return {"weights_seed": self.seeds[WEIGHTS], "noise_seed": self.seeds[NOISE]}

    @property
    def opening(self) -> dict[str, Any]:
        """The command that opens a session: its configuration, and the module to load first."""
        module = None if self.module is None else {**self.module.record(), "path": str(self.module_path)}
        return {"do": "open", "config": self.run_config, "module": module}

    def replaying(self, data_dir: str) -> dict[str, Any]:
        """The command for the steps of `tta_replay`. data_dir: as the worker sees it."""
        steps, limit_s = self.rules.replay_steps, self.rules.replay_limit_s
        return {**self.opening, "do": "replay", "data_dir": data_dir, "num_steps": steps, "limit_s": limit_s}

    def comparing(self, data_dir: str, seeds: Sequence[int]) -> dict[str, Any]:
        """The command that measures a reimplementation, over equally many steps from each of `seeds`."""
        steps = -(-self.rules.equivalence_steps // len(seeds))
        return {**self.opening, "do": "compare", "data_dir": data_dir, "seeds": [*seeds], "steps_per_seed": steps}

    def header(self) -> Iterator[tuple[str, object, Mapping[str, object] | None]]:
        """Yield key, value and metadata of each event that is written before the worker starts."""
        rules, system = self.rules, self.system
        origin = {
            "version": keys.FORMAT_VERSION,
            "harness": __version__,
            "run_id": self.run_id,
            "result_id": self.result_id,
            "index": self.index,
            "attempt": self.attempt,
        }
        yield keys.TTA_FORMAT, origin, None
        terms = {"ruleset": self.ruleset, "terms_digest": rules.terms_digest}
        prices = {} if self.prices_digest is None else {keys.PRICES_FIELD: self.prices_digest}
        yield keys.TTA_RULES, {**terms, **prices}, None
        if self.reproduces is not None:
            yield keys.TTA_REPRODUCES, {"digest": self.reproduces}, None
        if self.ticket is not None:
            yield keys.TTA_TICKET, self.ticket.record(), None
        if self.seeds is not None:
            yield keys.TTA_SEEDS, self.seeds.record(), None
        yield keys.TTA_CODE, self.identity.code_event, None
        yield keys.TTA_PACKAGES, self.identity.packages_event, None
        yield keys.SUBMISSION_BENCHMARK, rules.name, None
        yield keys.SUBMISSION_DIVISION, self.division, None
        yield keys.SUBMISSION_ORG, system.get("submitter"), None
        yield keys.SUBMISSION_PLATFORM, system.get("system_name"), None
        yield keys.SUBMISSION_STATUS, system.get("status"), None
        yield keys.TTA_SYSTEM, {"name": system.get("system_name"), "digest": digest_of(dict(system))}, None
        yield keys.TTA_CONFIG, self.config, {"digest": digest_of(self.config)}
        yield keys.SEED, self.seed, None
        yield keys.TRAIN_SAMPLES, rules.train_examples, None
        yield keys.EVAL_SAMPLES, rules.eval_examples, None
        for name, value in self.hyperparameters.items():
            yield name, value, None
        yield keys.TTA_DATA, dict(self.data), None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation: after how many samples, when on the referee's clock, and what it found."""

    samples: int
    elapsed_ns: int
    quality: float


@dataclass(slots=True)
class Progress:
    """What the live view shows, updated in place during the run.

    power_source: "none" without a meter. power_w: None while it is unknown. failed_checkpoints: why each of those that
        could not be written could not.
    """

    phase: str = "starting"
    samples: int = 0
    evaluations: list[Evaluated] = field(default_factory=list)
    samples_per_s: float | None = None
    run_start_ns: int | None = None
    power_w: float | None = None
    power_source: EnergySource = "none"
    failed_checkpoints: list[str] = field(default_factory=list)

    @property
    def quality(self) -> float | None:
        """What the last evaluation found; None before the first."""
        return self.evaluations[-1].quality if self.evaluations else None


class View(Protocol):
    """What shows a run to the user."""

    def begin(self, plan: Plan, progress: Progress) -> None: ...
    def tick(self, elapsed_ns: int) -> None: ...
    def evaluation(self, elapsed_ns: int) -> None: ...
    def checkpoint_failed(self, elapsed_ns: int) -> None: ...
    def end(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. reason: target, full_curve, budget, oom, diverged, timeout, crashed or interrupted.

    status: success, aborted, or unfinished: it can go on from a checkpoint. run_s: None if the clock never started.
    failed_checkpoints: as in `Progress`.
    """

    status: str
    reason: str
    evidence: str
    samples: int
    quality: float | None
    run_s: float | None
    failed_checkpoints: tuple[str, ...] = ()

    @property
    def is_reached(self) -> bool:
        return self.status == "success"


class WorkerLost(WorkerError):  # noqa: N818  (an event of a run, not an error in tta)
    """The worker ended on its own. reason: that of the run, "crashed" or "oom".

    is_cause: whether this is no consequence of what went wrong in another process. node: its number, if there are
    several.
    """

    def __init__(self, message: str, reason: str = "crashed", is_cause: bool = False, node: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.is_cause, self.node = reason, is_cause, node


class WorkerTimeout(WorkerError):  # noqa: N818
    """The worker did not answer in time."""


class Nodes(Protocol):
    """Several nodes, on which the ranks of the runs are started; `harness.launch.cluster.Cluster` is one."""

    @property
    def num_nodes(self) -> int: ...

    def worker(
        self, num_ranks: int, output: Path, isolation: Isolation, stream: socket.socket | None, own: Path | None = None
    ) -> Worker:
        """Return a worker that was not started yet, with that many ranks on each node; see `LaunchedWorker`.

        own: a folder that it may write to, as `isolation` says.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what the log says of the nodes."""
        ...

    def clean(self) -> Mapping[str, Any]:
        """End what is left of the last worker on all nodes; return what was found there, for the log."""
        ...


class Worker(Protocol):
    """What the referee needs of the training processes; tests use a scripted one.

    give_data(data_dir) lets the processes see a folder that they could not see before; returns its path for them.
    """

    @property
    def isolation(self) -> Mapping[str, Any]: ...  # what confines it, for the log
    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]: ...
    def give_data(self, data_dir: Path) -> str: ...  # lets it see the data, from now on, and returns where
    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]: ...
    def stop(self, grace_s: float) -> None: ...
