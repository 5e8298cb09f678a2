"""One run, from the first line of the log to the last: clock, power, stop decision.

header                                          everything that was decided beforehand
tta_clock                                       the zero of this clock
tta_equivalent                                  of a reimplementation, in the rehearsal that follows: how far from the
                                                reference it is
tta_replay, tta_initial                         a rehearsal with a worker of its own: the first steps in a deterministic
                                                mode, then, without them, the quality before training
world, tta_isolation                            the meters start; every rank describes itself; a wrong world is refused
init_start .. init_stop                         prepare(), initialise()
tta_resolved, tta_numerics                      the configuration and the arithmetic in force
run_start                                       the clock starts, and never pauses
  tta_data_open_start .. _stop                  start(data_dir)
  block_start .. block_stop, tracked_stats      train_block()
  eval_start .. eval_stop, eval_accuracy        predict(), by the evaluator; target reached? budget spent?
  tta_checkpoint_start .. _stop                 save(), if it is time for a checkpoint
  tta_resume, tta_restore_start .. _stop        only after an interruption: another worker, load()
run_stop                                        success, or aborted with a reason; the meters stop
tta_predictions                                 those of the last evaluation, kept next to the log
tta_energy, tta_ledger                          totals of the referee, which judges compute again
tta_loaded                                      what the processes had loaded
tta_weights                                     those of the last evaluation, if they are to be kept
tta_end                                         the number of events

On several nodes and in a scheduler's job, `tta_launch` follows `tta_clock`. On several nodes, `tta_node_lost` comes
before `run_stop` where a node was lost, and `tta_nodes_clean` before `tta_end`.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base.clock import Clock, boot_id
from harness.base.values import is_number, is_whole, mapping_or_empty
from harness.energy.accounting import run_energy
from harness.energy.run_energy import RunEnergy, energy_value
from harness.errors import DataError, Interrupted, LogError, TtaError, UsageError, WorkerError, printable
from harness.log import keys
from harness.log.equivalence import NUM_SEEDS, parse_equivalence
from harness.log.events import digest_of
from harness.log.writer import LogWriter
from harness.metering.session import Power
from harness.run.checkpoint import Checkpoints, failed_words
from harness.run.plan import (
    Evaluated,
    Nodes,
    Outcome,
    Plan,
    Progress,
    View,
    Worker,
    WorkerLost,
    WorkerTimeout,
)
from harness.run.resumption import Resumption, facts
from harness.submission import module as open_module

START_LIMIT_S = 600.0  # importing torch on every rank of a cold machine; before any clock
CLOSE_LIMIT_S = 20.0
WEIGHTS_LIMIT_S = 600.0  # some gigabytes, to a slow disk
WATTS_EVERY_NS = 1_000_000_000
_PHASES = ("init", "data", "train", "eval", "checkpoint")
_ENDS_OF_A_HEALTHY_WORKER = ("target", "budget", "full_curve", "diverged")
_SIGNAL_S = 1.0  # how far apart a signal may reach the processes of a job
_ENDED_BY_TERM = re.compile(r"killed by SIGTERM|exit status -15\b")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_COUNT = 10**15  # counts up to this are exact in a float and in a log


class _End(Exception):  # noqa: N818  (leaves nested calls, not an error)
    """The run is over."""

    def __init__(self, status: str, reason: str, evidence: str) -> None:
        super().__init__(evidence)
        self.status, self.reason, self.evidence = status, reason, evidence


@dataclass
class Referee:
    """Runs a plan with a worker and writes the log.

    rehearsal, worker: two workers that were not started yet; only the second one trains.
    predictions: where the predictions of the last evaluation are kept. weights: where its weights are kept, and where
        they are if they are too large to be submitted; None: nowhere.
    is_interrupted: called at every tick; true ends the run as aborted, interrupted.
    drop_caches: drops the data files from the operating system's cache; returns what was done, for `cache_clear`.
    judge_loaded: judges the files that this process has loaded, and those that the others list, for `tta_loaded`.
    nodes: where the workers are; None: on this node, of which the log says nothing more.
    checkpoints: where the run keeps its checkpoints; None: nowhere. resumption: the interrupted run to go on with.
    """

    plan: Plan
    log: LogWriter
    clock: Clock
    rehearsal: Worker
    worker: Worker
    predictions: Path
    power: Power
    view: View
    is_interrupted: Callable[[], bool]
    drop_caches: Callable[[], tuple[bool, dict[str, Any]]]
    judge_loaded: Callable[[dict[str, list[str] | None]], dict[str, Any]]
    nodes: Nodes | None = None
    checkpoints: Checkpoints | None = None
    resumption: Resumption | None = None
    weights: tuple[Path, Path] | None = None
    _progress: Progress = field(default_factory=Progress)
    _ledger_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0))
    _next_watts_ns: int = 0
    _last_checkpoint: int | None = None  # its number
    _num_checkpoints: int = 0
    _kept_ns: int = 0  # when the last one was over
    _has_worker: bool = False  # it was started
    _is_restoring: bool = False
    _has_evaluated: bool = False

    def run(self) -> Outcome:
        """Execute the plan. When this returns or raises, the log is closed and no process is left.

        Raises:
            OutputError: the log cannot be written. Interrupted: the log was closed as aborted, or the run can go on.
            UsageError, DataError: the workload refused its configuration or its data.
            WorkerError: the worker was lost, and the run can go on from a checkpoint.
        """
        raised: TtaError | None = None
        is_cut_short = False
        lost: int | None = None
        end = _End("aborted", "crashed", "the referee failed")
        try:
            if self.resumption is None:
                self._write_header()
            else:
                self._take_up(self.resumption)
            self.view.begin(self.plan, self._progress)
            try:
                if self.resumption is None:
                    self._run()
                else:
                    self._go_on(self.resumption)
            except _End as reached:
                # Its frames refer to it: a cycle, which would hold all of this run until a rare collection.
                end = reached.with_traceback(None)
            except Interrupted as error:
                end, raised, is_cut_short = _End("aborted", "interrupted", str(error)), error, True
            except (UsageError, DataError) as error:
                end, raised = _End("aborted", "crashed", str(error)), error
            except WorkerTimeout as error:
                end = _End("aborted", "timeout", str(error))
            except WorkerLost as error:
                end, is_cut_short, lost = _End("aborted", error.reason, str(error)), True, error.node
            except WorkerError as error:
                end = _End("aborted", "crashed", str(error))
            if end.reason == "crashed" and raised is None and self._is_told_to_end(end.evidence):
                raised, is_cut_short = Interrupted("interrupted by a signal"), True
                end = _End("aborted", "interrupted", f"{raised}; {end.evidence}")
            elif lost is not None:
                self.log.event(keys.TTA_NODE_LOST, {"node": lost, "reason": end.evidence})
            if self._last_checkpoint is not None and (is_cut_short or self._is_restoring):
                raise self._left_open(end, raised)
            outcome = self._footer(end)
            if self.checkpoints is not None:
                self.checkpoints.discard()
            if self.nodes is None:
                self._dismiss(end)
        finally:
            self.rehearsal.stop(0.0)
            self.worker.stop(0.0)
            self.power.end()
            self.log.close()
        self.view.end(outcome)
        if raised is not None:
            raise raised
        return outcome

    def _is_told_to_end(self, evidence: str) -> bool:
        """Whether a run that has lost a process is one that was to end.

        A scheduler sends TERM to all processes of a job, and a rank may end by it before this process is told.
        """
        deadline_s = time.monotonic() + _SIGNAL_S
        while not self.is_interrupted():
            if _ENDED_BY_TERM.search(evidence) is None or time.monotonic() > deadline_s:
                return False
            time.sleep(0.02)
        return True

    def _left_open(self, end: _End, raised: TtaError | None) -> TtaError:
        """Leave the log without an end, and return the exception that says how to go on."""
        number = self._last_checkpoint
        value = {"reason": end.reason, "evidence": end.evidence, "checkpoint": number}
        self.log.event(keys.TTA_INTERRUPTED, value, {"samples_count": self._progress.samples})
        if self.nodes is not None:  # as at the end of a run: also on a node whose helper is gone
            self.nodes.clean()
        self.view.end(self._outcome("unfinished", end, self._elapsed_s()))
        how = f"{end.evidence}; the same command with --resume goes on from checkpoint {number}"
        if failed := self._progress.failed_checkpoints:
            how += f"; {failed_words(failed)}"
        return WorkerError(how) if raised is None else type(raised)(how)

    def _outcome(self, status: str, end: _End, run_s: float | None) -> Outcome:
        """Return what the view shows of the end, and the command returns of a run that is over."""
        progress = self._progress
        failed = tuple(progress.failed_checkpoints)
        return Outcome(status, end.reason, end.evidence, progress.samples, progress.quality, run_s, failed)

    def _has_healthy_worker(self, end: _End) -> bool:
        """Whether the worker can be asked after the end of the run. One that goes on too late never has one."""
        return self._has_worker and end.reason in _ENDS_OF_A_HEALTHY_WORKER

    def _dismiss(self, end: _End) -> None:
        """Let a healthy worker close its files; the run is over, and nothing can change it."""
        if not self._has_healthy_worker(end):
            return
        with contextlib.suppress(WorkerError):
            self.worker.ask({"do": "close"}, lambda: None, CLOSE_LIMIT_S)
            self.worker.stop(CLOSE_LIMIT_S)

    def _write_header(self) -> None:
        for name, value, metadata in self.plan.header():
            self.log.event(name, value, metadata)
        is_cleared, how = self.drop_caches()
        self.log.event(keys.CACHE_CLEAR, is_cleared, how)
        self.log.event(keys.TTA_CLOCK, {"mono_ns": self.clock.origin_ns})
        launched = self.plan.job if self.nodes is None else self.nodes.facts()
        if launched is not None:
            self.log.event(keys.TTA_LAUNCH, dict(launched))

    def _rehearse(self) -> None:
        """Log what the network predicts before any training, and its weights, from a worker that ends with it.

        Not with the worker of the run: it must not see the data before the clock starts.
        """
        plan, worker = self.plan, self.rehearsal
        self._progress.phase = "rehearsing"
        self._refuse_wrong_world(worker.start(self._tick, START_LIMIT_S))
        limit_s = plan.timing.max_init_s[plan.division]
        data_dir = worker.give_data(plan.data_dir)
        if plan.module is not None and plan.division != open_module.OPEN:
            self._compare(plan.module, worker, data_dir)
        if plan.rules.replay_steps:
            replayed = self._ask(plan.replaying(data_dir), START_LIMIT_S + limit_s, worker).get("replay")
            self.log.event(keys.TTA_REPLAY, mapping_or_empty(replayed))
        self._ask(plan.opening, START_LIMIT_S, worker)
        prepared = self._ask({"do": "prepare"}, limit_s, worker)
        self._ask({"do": "start", "data_dir": data_dir}, limit_s, worker)
        answer = self._ask({"do": "evaluate"}, limit_s, worker)
        worker.stop(0.0)
        self.drop_caches()  # the rehearsal has read the data
        quality, num_examples = _number(answer, "value"), _count(answer, "num_examples")
        self.log.event(keys.TTA_INITIAL, {**_weights(prepared), "quality": quality, "num_examples": num_examples})

    def _compare(self, module: open_module.Module, worker: Worker, data_dir: str) -> None:
        """Log how far the reimplementation is from the reference, on seeds that are drawn here and now.

        Raises:
            UsageError: it is not equivalent.
        """
        rules = self.plan.rules
        seeds = secrets.SystemRandom().sample(range(1 << 31), NUM_SEEDS)
        command = self.plan.comparing(data_dir, seeds)
        answer = self._ask(command, START_LIMIT_S + rules.equivalence_limit_s, worker)
        record = {
            "module": module.name,
            "sha256": module.sha256,
            "seeds": seeds,
            "steps": len(seeds) * command["steps_per_seed"],
            "quantities": answer.get("quantities"),
            "is_equivalent": False,
        }
        try:
            found = parse_equivalence(record)
        except ValueError as error:
            raise WorkerError(f"the worker did not report how far the module is from the reference: {error}") from None
        self.log.event(keys.TTA_EQUIVALENT, {**record, "is_equivalent": found.broken is None})
        if found.broken is not None:
            raise UsageError(f"{module.name} is {found.words()}")

    def _run(self) -> None:
        plan = self.plan
        self._rehearse()
        self._progress.phase = "starting"
        self._progress.power_source = self.power.source
        self.power.begin(self.clock, plan.run_id)  # before the worker: readings must not start after run_start
        world = self._start(START_LIMIT_S)
        self.log.event(keys.TTA_WORLD, world)
        self.log.event(keys.TTA_ISOLATION, dict(self.worker.isolation))
        self._refuse_wrong_world(world)
        opened = self._ask(plan.opening, START_LIMIT_S)

        self._progress.phase = "initialising"
        begin_ns = self.log.start(keys.INIT_START)
        prepared = self._ask({"do": "prepare"}, plan.timing.max_init_s[plan.division])
        self._ledger_ns["init"] = self.log.stop(keys.INIT_STOP) - begin_ns
        resolved = self._resolved(opened.get("config"))
        self.log.event(keys.TTA_RESOLVED, resolved, {"digest": digest_of(resolved)})
        if not isinstance(numerics := prepared.get("numerics"), dict):
            raise WorkerError("the worker did not report its numerics")
        self.log.event(keys.TTA_NUMERICS, numerics)

        self._progress.phase = "training"
        weights = _weights(prepared)
        self._progress.run_start_ns = self.log.start(keys.RUN_START, {"samples_count": 0, **weights})
        begin_ns = self.log.start(keys.TTA_DATA_OPEN_START)
        data_dir = self.worker.give_data(plan.data_dir)
        answer = self._ask({"do": "start", "data_dir": data_dir}, self._remaining_s())
        self._ledger_ns["data"] += self.log.stop(keys.TTA_DATA_OPEN_STOP) - begin_ns
        touched = answer.get("touched_early")
        if not isinstance(touched, list):
            raise WorkerError("the worker did not list the files it had opened")
        self.log.event(keys.TTA_DATA_TOUCHED_EARLY, touched)
        self._kept_ns = self.clock.elapsed_ns()
        self._train(0, 0)

    def _take_up(self, resumption: Resumption) -> None:
        """Go on with the log of an interrupted run, and with what the referee knew at its checkpoint."""
        log, state, progress = resumption.log, resumption.manifest["state"], self._progress
        progress.run_start_ns = log.one(keys.RUN_START).elapsed_ns
        progress.samples = state["samples"]
        for event in log.all(keys.EVAL_ACCURACY):
            assert event.elapsed_ns is not None
            assert event.samples_count is not None
            progress.evaluations.append(Evaluated(event.samples_count, event.elapsed_ns, event.value))
        progress.failed_checkpoints += resumption.failed
        self._last_checkpoint, self._num_checkpoints = resumption.number, resumption.next_number - 1
        metadata = {"samples_count": progress.samples}
        resumed_ns = self.log.event(keys.TTA_RESUME, resumption.record(self.clock), metadata)
        stop_ns = resumption.stop.elapsed_ns
        assert stop_ns is not None
        self._ledger_ns = {**state["ledger_ns"]}
        self._ledger_ns["checkpoint"] += resumption.checkpoint_ns
        self._ledger_ns["interrupted"] = self._ledger_ns.get("interrupted", 0) + resumed_ns - stop_ns

    def _go_on(self, resumption: Resumption) -> None:
        """Bring another worker to where the checkpoint was made, and train on."""
        plan, worker, state = self.plan, self.worker, resumption.manifest["state"]
        self._progress.phase = "restoring"
        if self._elapsed_s() >= plan.rules.max_seconds:
            spent = f"max_seconds is {plan.rules.max_seconds:g}, and the time away counts"
            raise _End("aborted", "budget", f"the run goes on after {self._elapsed_s():.0f} s; {spent}")
        self._is_restoring = True
        begin_ns = self.log.start(keys.TTA_RESTORE_START, {"samples_count": state["samples"]})
        world = self._start(self._remaining_s())
        self._refuse_wrong_world(world)
        opened = self._ask(plan.opening, self._remaining_s())
        prepared = self._ask({"do": "prepare"}, self._remaining_s())
        self._ask({"do": "start", "data_dir": worker.give_data(plan.data_dir)}, self._remaining_s())
        folder = resumption.checkpoints.place(resumption.number)
        self._ask({"do": "load", "folder": str(folder)}, self._remaining_s())
        end_ns = self.log.stop(keys.TTA_RESTORE_STOP, {"samples_count": state["samples"]})
        self._ledger_ns["checkpoint"] += end_ns - begin_ns
        restored = {
            "world": world,
            "isolation": dict(worker.isolation),
            "numerics": prepared.get("numerics"),
            "resolved_digest": digest_of(self._resolved(opened.get("config"))),
            **_weights(prepared),
        }
        if self.nodes is not None:
            restored["launch"] = dict(self.nodes.facts())
        self.log.event(keys.TTA_RESTORED, restored, {"samples_count": state["samples"]})
        begun = resumption.log.one(keys.RUN_START).metadata.get("weights_digest")
        if restored["weights_digest"] != begun:
            raise WorkerError("this machine draws other initial weights from the seed than the run began with")
        self._is_restoring = False
        self._progress.phase = "training"
        self._kept_ns = self.clock.elapsed_ns()
        self._train(state["samples"], state["confirmed"])

    def _train(self, samples: int, confirmed: int) -> None:
        rules = self.plan.rules
        while True:
            # The next multiple of the cadence; a large global batch may pass several.
            due = (samples // rules.eval_every_samples + 1) * rules.eval_every_samples
            samples = self._block(samples, due - samples)
            quality = self._evaluate(samples)
            is_reached = rules.metric.is_reached(quality, rules.target)
            confirmed = confirmed + 1 if is_reached else 0
            evidence = f"{rules.metric.name} {quality:.6g} after {samples:,} samples; the target is {rules.target:g}"
            if confirmed > rules.confirm_evaluations and not self.plan.full_curve:
                raise _End("success", "target", evidence)
            if samples >= rules.max_samples:
                if self.plan.full_curve:
                    raise _End("aborted", "full_curve", f"{evidence}; run to max_samples as requested")
                raise _End("aborted", "budget", f"{evidence}; max_samples is {rules.max_samples:,}")
            if self._elapsed_s() >= rules.max_seconds:
                raise _End("aborted", "budget", f"{evidence}; max_seconds is {rules.max_seconds:g}")
            self._keep_if_due(samples, confirmed)

    def _keep_if_due(self, samples: int, confirmed: int) -> None:
        """Make a checkpoint, if it is time for one. One that cannot be made is logged, and the run goes on."""
        places = self.checkpoints
        if places is None or places.every_s is None:
            return
        if self.clock.elapsed_ns() - self._kept_ns < places.every_s * 1e9:
            return
        number = self._num_checkpoints = self._num_checkpoints + 1
        metadata = {"samples_count": samples, "number": number}
        begin_ns = self.log.start(keys.TTA_CHECKPOINT_START, metadata)
        digest = reason = None
        num_bytes = 0
        try:
            self.log.flush()  # with the line of the last checkpoint, before the one that preceded it is deleted
            folder = places.begin(self._last_checkpoint)
            answer = self._ask({"do": "save", "folder": str(folder)}, self._remaining_s())
            files, reason = mapping_or_empty(answer.get("files")), answer.get("reason")
            if reason is None:
                num_bytes = sum(_count(mapping_or_empty(item), "num_bytes") for item in files.values())
                state = {"samples": samples, "confirmed": confirmed, "ledger_ns": self._ledger_ns}
                manifest = {"run": facts(self.plan), "state": state, "boot_id": boot_id(), "files": dict(files)}
                digest = places.complete(number, manifest)
        except OSError as error:
            reason = error.strerror or str(error)
        stated = {"digest": digest, "num_bytes": num_bytes, "reason": None if reason is None else printable(reason)}
        self._kept_ns = self.log.stop(keys.TTA_CHECKPOINT_STOP, {**metadata, **stated})
        self._ledger_ns["checkpoint"] += self._kept_ns - begin_ns
        if reason is None:
            self._last_checkpoint = number
        else:
            self._progress.failed_checkpoints.append(printable(reason))
            self.view.checkpoint_failed(self._kept_ns)

    def _block(self, samples: int, num_samples: int) -> int:
        """Train one block and return the samples up to its end."""
        begin_ns = self.log.start(keys.BLOCK_START, {"samples_count": samples})
        answer = self._ask({"do": "train", "num_samples": num_samples}, self._remaining_s())
        trained = _count(answer, "num_samples")
        if trained < num_samples:
            raise WorkerError(f"a block of {num_samples:,} samples was requested; the worker trained on {trained:,}")
        samples += trained
        self._progress.samples = samples
        end_ns = self.log.stop(keys.BLOCK_STOP, {"samples_count": samples})
        loss, wait_s = _number(answer, "mean_loss"), _number(answer, "data_wait_s")
        block_s = (end_ns - begin_ns) / 1e9
        if not 0 <= wait_s <= block_s:
            raise WorkerError(f"the worker reported {wait_s:.3f} s of waiting for data in a block of {block_s:.3f} s")
        self._ledger_ns["data"] += round(wait_s * 1e9)
        self._ledger_ns["train"] += end_ns - begin_ns - round(wait_s * 1e9)
        if not math.isfinite(loss):
            raise _End("aborted", "diverged", f"the mean training loss is {loss} after {samples:,} samples")
        throughput = trained / block_s
        stats = {"train_loss": loss, "data_wait_s": wait_s, "throughput": throughput}
        self.log.event(keys.TRACKED_STATS, stats, {"samples_count": samples})
        self._progress.samples_per_s = throughput
        return samples

    def _evaluate(self, samples: int) -> float:
        begin_ns = self.log.start(keys.EVAL_START, {"samples_count": samples})
        answer = self._ask({"do": "evaluate"}, self._remaining_s())
        self._ledger_ns["eval"] += self.log.stop(keys.EVAL_STOP, {"samples_count": samples}) - begin_ns
        quality = _number(answer, "value")
        if not math.isfinite(quality):
            raise _End("aborted", "diverged", f"the quality is {quality} after {samples:,} samples")
        signed = {"signature": printable(answer["signature"], 200)} if answer.get("signature") else {}
        metadata = {
            "samples_count": samples,
            "num_examples": _count(answer, "num_examples"),
            "predictions": str(answer.get("predictions")),
            **signed,
        }
        elapsed_ns = self.log.event(keys.EVAL_ACCURACY, quality, metadata)
        self._has_evaluated = True
        self._progress.evaluations.append(Evaluated(samples, elapsed_ns, quality))
        self.view.evaluation(elapsed_ns)
        return quality

    def _footer(self, end: _End) -> Outcome:
        progress, start_ns = self._progress, self._progress.run_start_ns
        stop_ns = self.log.event(
            keys.RUN_STOP,
            None,
            {
                "status": end.status,
                "reason": end.reason,
                "samples_count": progress.samples,
                "evidence": end.evidence,
            },
            "INTERVAL_END",
        )
        run_ns = 0 if start_ns is None else stop_ns - start_ns
        self._keep_predictions()
        self.log.event(keys.TTA_ENERGY, energy_value(self._energy(start_ns, stop_ns)))
        other_ns = run_ns - sum(ns for phase, ns in self._ledger_ns.items() if phase != "init")
        ledger_ns = {**self._ledger_ns, "other": other_ns, "run": run_ns}
        self.log.event(keys.TTA_LEDGER, {f"{phase}_s": round(ns / 1e9, 6) for phase, ns in ledger_ns.items()})
        commands = {"worker": "loaded", "evaluator": "loaded_by_evaluator"}
        listed = {name: self._listed(command, end) for name, command in commands.items()}
        self.log.event(keys.TTA_LOADED, self.judge_loaded(listed))
        if self.weights is not None:
            self.log.event(keys.TTA_WEIGHTS, self._kept_weights(self.weights, end))
        if self.nodes is not None:  # no process may be left anywhere before the log says that it is complete
            self._dismiss(end)
            self.log.event(keys.TTA_NODES_CLEAN, dict(self.nodes.clean()))
        self.log.event(
            keys.TTA_END, {"num_events": self.log.num_events + 1, "wall_drift_ms": self.clock.wall_drift_ms()}
        )
        run_s = None if start_ns is None else run_ns / 1e9
        return self._outcome(end.status, end, run_s)

    def _listed(self, command: str, end: _End) -> list[str] | None:
        """Return the paths of the files that a process lists; None if it does not, or cannot be asked any more."""
        if not self._has_healthy_worker(end):
            return None
        try:
            files = self.worker.ask({"do": command}, lambda: None, CLOSE_LIMIT_S).get("files")
        except WorkerError:
            return None
        return files if isinstance(files, list) and all(isinstance(path, str) for path in files) else None

    def _keep_predictions(self) -> None:
        """Keep the predictions of the last evaluation, and log where they are and how large.

        Not those of a reference run: it is never a result.
        """
        name, num_bytes = None, 0
        if self._has_evaluated and not self.plan.full_curve:
            with contextlib.suppress(WorkerError):  # the evaluator was lost, which ended the run and is its evidence
                command = {"do": "keep", "path": str(self.predictions)}
                answer = self.worker.ask(command, lambda: None, CLOSE_LIMIT_S)
                name = self.predictions.name if answer.get("is_kept") else None
                num_bytes = _count(answer, "num_bytes")
        self.log.event(keys.TTA_PREDICTIONS, {"file": name, "num_bytes": num_bytes})

    def _kept_weights(self, places: tuple[Path, Path], end: _End) -> dict[str, Any]:
        """Keep the weights of the last evaluation; return where they are, or why they are not, for the log."""
        path, apart = places
        nothing = {"file": None, "num_bytes": 0, "sha256": None}
        if not self._has_evaluated or not self._has_healthy_worker(end):
            return {**nothing, "reason": "the worker had ended before it could be asked"}
        command = {"do": "weights", "path": str(path), "apart": str(apart)}
        try:
            answer = self.worker.ask(command, lambda: None, WEIGHTS_LIMIT_S)
        except WorkerError as error:
            return {**nothing, "reason": printable(error, 300)}
        digest = answer.get("sha256")
        if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            return {**nothing, "reason": printable(answer.get("message"), 300)}
        name = path.name if answer.get("is_kept") else None
        return {"file": name, "num_bytes": _count(answer, "num_bytes"), "sha256": digest, "reason": None}

    def _start(self, timeout_s: float) -> list[dict[str, Any]]:
        """Start the worker of the run; return the description that each of its ranks gives of itself."""
        self._has_worker = True
        return self.worker.start(self._tick, timeout_s)

    def _refuse_wrong_world(self, world: list[dict[str, Any]]) -> None:
        ranks = [rank.get("rank") for rank in world]
        if ranks != list(range(self.plan.num_devices)):
            raise UsageError(
                f"{self.plan.num_devices} devices were declared; "
                f"{len(world)} worker processes started, with the ranks {ranks}"
            )

    def _resolved(self, config: object) -> dict[str, Any]:
        """Return the configuration that the worker reports, in the form of `Plan.config`."""
        reported = {name: value for name, value in mapping_or_empty(config).items() if name != "metadata"}
        benchmark = f"{reported.get('workload')}_{reported.get('suite')}"
        return {**reported, "benchmark": benchmark, "full_curve": self.plan.full_curve}

    def _ask(self, command: dict[str, Any], timeout_s: float, worker: Worker | None = None) -> dict[str, Any]:
        answer = (worker or self.worker).ask(command, self._tick, timeout_s)
        if answer.get("ok") is True:
            return answer
        message, kind = str(answer.get("message")), answer.get("kind")
        if kind == "usage":
            raise UsageError(message)
        if kind == "data":
            raise DataError(message)
        raise _End("aborted", "oom" if kind == "oom" else "crashed", message)

    def _tick(self) -> None:
        elapsed_ns = self.clock.elapsed_ns()
        if elapsed_ns >= self._next_watts_ns:
            self._next_watts_ns = elapsed_ns + WATTS_EVERY_NS
            self._progress.power_w = self.power.watts()
        self.view.tick(elapsed_ns)
        if self.is_interrupted():
            raise Interrupted("interrupted by a signal")

    def _energy(self, start_ns: int | None, stop_ns: int) -> RunEnergy | None:
        """Return the metered energy of the run; None without a meter, or if the clock never started."""
        nodes = self.power.end()
        if start_ns is None or not nodes:
            return None
        origin_ns, limits = self.clock.origin_ns, self.plan.energy_limits
        try:
            return run_energy(
                nodes, origin_ns + start_ns, origin_ns + stop_ns, num_nodes=self.power.num_nodes, limits=limits
            )
        except LogError:  # a run without length, or no usable reading: the checks of power logs report it
            return None

    def _elapsed_s(self) -> float:
        assert self._progress.run_start_ns is not None
        return (self.clock.elapsed_ns() - self._progress.run_start_ns) / 1e9

    def _remaining_s(self) -> float:
        """Return the seconds that an answer may take: the rest of the budget, and the grace of the rules after it."""
        return max(0.0, self.plan.rules.max_seconds + self.plan.timing.answer_grace_s - self._elapsed_s())


def _weights(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of the initial weights as it is logged."""
    digest = answer.get("weights_digest")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise WorkerError("the worker did not report the digest of its initial weights")
    return {"weights_digest": digest}


def _number(answer: Mapping[str, Any], name: str) -> float:
    value = answer.get(name)
    if not is_number(value):
        raise WorkerError(f"the answer of the worker has no number {name}")
    try:
        return float(value)
    except OverflowError:  # an integer with hundreds of digits
        return math.inf


def _count(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name)
    if not is_whole(value) or not 0 <= value <= _MAX_COUNT:
        raise WorkerError(f"the answer of the worker has no count {name}")
    return value
