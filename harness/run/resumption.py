"""What a run that was interrupted goes on from: its log, its last complete checkpoint, and its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from harness.base.clock import Clock, MonotonicClock, boot_id
from harness.errors import OutputError, printable
from harness.log import keys
from harness.log.events import TOKEN, Event, digest_of, line_digest
from harness.log.run_log import RunLog
from harness.log.writer import LogEnd
from harness.run.checkpoint import Checkpoints
from harness.run.plan import Plan

_MONOTONIC, _WALL = "monotonic", "wall"


@dataclass(frozen=True, slots=True)
class Resumption:
    """An interrupted run.

    log: read to its end, without what came after the checkpoint. number: that of the checkpoint. manifest: its own.
    end: where the log goes on. num_cut: bytes after it, of a line that was being written.
    """

    log: RunLog
    checkpoints: Checkpoints
    number: int
    manifest: dict[str, Any]
    end: LogEnd
    num_cut: int

    @property
    def stop(self) -> Event:
        """The line that completed the checkpoint."""
        return _complete(self.log)[-1]

    @property
    def checkpoint_ns(self) -> int:
        """How long the checkpoint took, which it could not know itself."""
        start = [event for event in self.log.all(keys.TTA_CHECKPOINT_START) if event.lineno < self.stop.lineno][-1]
        return _ns(self.stop) - _ns(start)

    @property
    def next_number(self) -> int:
        """The number of the next checkpoint: none is used twice, not even that of one that was not completed."""
        begun = [event for event in (*self.log.events, *self.log.lost) if event.key == keys.TTA_CHECKPOINT_START]
        return len(begun) + 1

    def clock(self) -> MonotonicClock:
        """Return the clock of the run, which has been counting since: by the monotonic clock if it is the same, of this
        machine since the same start of it; else by the wall clock.

        Raises:
            OutputError: the wall clock is before the last line of the log.
        """
        last = self.log.events[-1]
        wall_start_ms = int(last.time_ms) - _ns(last) // 1_000_000
        if self.same_boot:
            return MonotonicClock(self._clock["mono_ns"], wall_start_ms)
        behind_ms = last.time_ms - time.time_ns() // 1_000_000
        if behind_ms > 0:
            raise OutputError(
                f"{self.log.path}: the system's clock is {behind_ms / 1e3:.1f} s before its last line; set it"
            )
        return MonotonicClock.by_wall(wall_start_ms)

    @property
    def same_boot(self) -> bool:
        """Whether the monotonic clock of the interrupted process is still counting, on this machine."""
        return bool(self._clock["boot_id"] == boot_id())

    @property
    def _clock(self) -> dict[str, Any]:
        """Zero and boot of the last process's monotonic clock."""
        if resumed := self.log.all(keys.TTA_RESUME):
            return dict(resumed[-1].value)
        return {"mono_ns": self.log.field(keys.TTA_CLOCK, "mono_ns"), "boot_id": self.manifest["boot_id"]}

    @property
    def failed(self) -> list[str]:
        """Why each checkpoint that could not be written could not, those after this one included."""
        stops = [event for event in (*self.log.events, *self.log.lost) if event.key == keys.TTA_CHECKPOINT_STOP]
        return [printable(event.metadata.get("reason")) for event in stops if event.metadata.get("digest") is None]

    def record(self, clock: Clock) -> dict[str, Any]:
        """Return what `tta_resume` says."""
        now_ns, last_ns = clock.elapsed_ns(), _ns(self.log.events[-1])
        return {
            "checkpoint": self.number,
            "digest": self.stop.metadata["digest"],
            **self.manifest["run"],
            "lost_s": (last_ns - _ns(self.stop)) / 1e9,
            "away_s": (now_ns - last_ns) / 1e9,
            "clock": _MONOTONIC if self.same_boot else _WALL,
            "mono_ns": clock.origin_ns,
            "boot_id": boot_id(),
            "wall_drift_ms": clock.wall_drift_ms(),
            "cut_bytes": self.num_cut,
        }


def facts(plan: Plan) -> dict[str, Any]:
    """Return what a checkpoint and the run that goes on from it must share."""
    return {
        "run_id": plan.run_id,
        "seed": plan.seed,
        "config_digest": digest_of(plan.config),
        "terms_digest": plan.rules.terms_digest,
        "code_digest": plan.identity.code_event["digest"],
        "packages_digest": plan.identity.packages_event["digest"],
        "data_digest": plan.data["digest"],
    }


def resumption_of(log: RunLog, checkpoints: Checkpoints) -> Resumption | None:
    """Return what the run of a log without an end goes on from; None if it has no checkpoint, or is over.

    Raises:
        OutputError: log or checkpoint were changed or damaged.
    """
    complete = _complete(log)
    if not complete or log.first(keys.RUN_STOP) is not None:
        return None
    number, digest = int(complete[-1].metadata["number"]), str(complete[-1].metadata["digest"])
    if not checkpoints.place(number).is_dir():
        return None
    for defect in log.defects:
        if defect.kind != "cut_off":
            raise OutputError(f"{log.path}:{defect.lineno}: {printable(defect.message)}; the run cannot go on from it")
    data = log.path.read_bytes()
    num_bytes = data.rfind(b"\n") + 1
    last = data[:num_bytes].rstrip(b"\n").rpartition(b"\n")[2].decode()
    end = LogEnd(num_bytes, log.events[-1].metadata["seq"] + 1, line_digest(last[last.index(TOKEN) :]))
    manifest = checkpoints.manifest(number, digest)
    return Resumption(log, checkpoints, number, manifest, end, len(data) - num_bytes)


def _complete(log: RunLog) -> list[Event]:
    return [event for event in log.all(keys.TTA_CHECKPOINT_STOP) if event.metadata.get("digest") is not None]


def gone_on_with(resumption: Resumption, plan: Plan, has_seed: bool) -> Plan:
    """Return the plan with seed, id and attempt of the interrupted run. has_seed: the seed of the plan was requested.

    Raises:
        OutputError: the checkpoint is one of another run, seed, recipe, code or data.
    """
    log = resumption.log
    seed = log.value(keys.SEED)
    if has_seed and seed != plan.seed:
        raise OutputError(f"{log.path}: the run has the seed {printable(seed)}, but {plan.seed} is given now")
    run_id, attempt = (log.field(keys.TTA_FORMAT, name) for name in ("run_id", keys.ATTEMPT_FIELD))
    plan = replace(plan, seed=seed, run_id=run_id, attempt=attempt)
    for name, now in facts(plan).items():
        then = resumption.manifest["run"].get(name)
        if then != now:
            raise OutputError(
                f"{resumption.checkpoints.place(resumption.number)}: {name} is {printable(then)}, that of the run is "
                f"{printable(now)}; the run cannot go on from it"
            )
    return plan


def _ns(event: Event) -> int:
    assert event.elapsed_ns is not None
    return event.elapsed_ns
