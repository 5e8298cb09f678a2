"""The referee with real worker processes, killed or misbehaving: the log stays sound, and no process is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.log import run_log
from harness.log.numerics import contradictions
from harness.log.run_log import RunLog
from harness.run import isolation
from harness.run.launcher import LaunchedWorker, try_out
from harness.run.plan import WorkerLost
from harness.run.starter import Place
from tests.killing import Running, first_named, has_event, kill, toy_runs, toy_tree, until

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts `tta run toy` with a fault; ends what is left of it."""
    with toy_runs(toy_tree(tmp_path)) as begin:
        yield lambda fault="none", *arguments, **options: begin(f"fault={fault}", *arguments, **options)


def ended(running: Running) -> tuple[int, RunLog, dict[str, Any]]:
    """Exit status, log and the metadata of run_stop, after a check for defects and processes left behind."""
    status = running.wait()
    log = run_log.read(running.folder / "out" / "result_0.txt")
    assert log.defects == ()
    assert "Traceback" not in running.errors, running.errors
    assert until(lambda: not running.relatives(), 5), running.relatives()
    stop = log.first("run_stop")
    return status, log, {} if stop is None else dict(stop.metadata)


def test_run_without_a_fault_spends_its_budget(start: Callable[..., Running]) -> None:
    """Four blocks, four evaluations, no target: 1, aborted, budget; the log has the world and no module."""
    running = start()
    status, log, stop = ended(running)

    assert (status, stop["status"], stop["reason"]) == (1, "aborted", "budget")
    assert log.counts["eval_accuracy"] == 4
    assert [(rank["rank"], rank["world_size"]) for rank in log.value("tta_world")] == [(0, 1)]
    assert log.value("tta_data_touched_early") == []
    assert log.value("tta_config") == log.value("tta_resolved")
    assert log.value("tta_config")["module"] is None
    assert log.field("tta_config", "execution") == {"compile": False}
    assert list(contradictions("fp32", log.field("tta_numerics", "flags"), {})) == []
    assert not (running.folder / "out" / "code").exists()


def test_interrupt_while_a_worker_is_dismissed_is_not_lost(start: Callable[..., Running]) -> None:
    """The run is complete, but the next one does not start: 130."""
    running = start("close:hang", "--runs", "2")
    assert until(lambda: has_event(running.folder / "out" / "result_0.txt", "tta_end"))
    running.process.send_signal(signal.SIGINT)

    status, _, stop = ended(running)

    assert (status, stop["reason"]) == (130, "budget")
    assert not (running.folder / "out" / "result_1.txt").exists()


@pytest.mark.parametrize(
    ("fault", "reason", "evidence"),
    [
        ("train:memory", "oom", "MemoryError: no room"),
        ("evaluate:error", "crashed", "ValueError: boom"),
        ("train:exit", "crashed", "ended while it was working"),
        ("prepare:quit", "crashed", "ended while it was working"),
        ("train:SIGKILL", "crashed", "killed by SIGKILL"),
        ("start:SIGSEGV", "crashed", "killed by SIGSEGV"),
        ("evaluate:SIGTERM", "crashed", "killed by SIGTERM"),
        ("train:huge", "crashed", "num_samples"),
        ("train:few", "crashed", "trained on 1"),
        ("evaluate:nan", "diverged", "nan"),
        ("evaluate:huge", "diverged", "inf"),
        ("train:garbage", "budget", "max_samples"),
        ("train:child", "budget", "max_samples"),
        ("train:orphan", "crashed", "killed by SIGKILL"),
        ("close:SIGKILL", "budget", "max_samples"),
    ],
)
def test_worker_that_goes_wrong_ends_the_run_with_its_reason(
    start: Callable[..., Running], fault: str, reason: str, evidence: str
) -> None:
    """The session raises, exits, is killed, answers or prints garbage: 1, a sound log, the reason, no process left."""
    status, log, stop = ended(start(fault))

    assert (status, stop["status"], stop["reason"]) == (1, "aborted", reason), stop
    assert evidence in stop["evidence"]
    assert log.events[-1].key == "tta_end"


def test_worker_that_hangs_is_ended_after_budget_and_grace(start: Callable[..., Running], tmp_path: Path) -> None:
    """One second of budget, two of grace."""
    rules = tmp_path / "toy_rules" / "toy.yaml"
    rules.write_text(rules.read_text().replace("max_seconds: 30", "max_seconds: 1"))

    status, log, stop = ended(start("train:hang"))

    assert (status, stop["reason"]) == (1, "timeout")
    assert 3.0 <= log.seconds(log.one("run_start"), log.one("run_stop")) < 6.0


@pytest.mark.parametrize(("fault", "message"), [("open:usage", "is too large"), ("start:data", "is damaged")])
def test_worker_that_refuses_its_input_is_the_callers_error(
    start: Callable[..., Running], fault: str, message: str
) -> None:
    """2 and the message of the workload."""
    running = start(fault)
    status, _, stop = ended(running)

    assert (status, stop["status"]) == (2, "aborted")
    assert message in running.errors


MOMENTS = {"header": "cache_clear", "init": "init_start", "opening": "tta_data_open_start", "block": "block_start"}
MOMENTS["evaluation"] = "eval_start"


def reaches(running: Running, moment: str, times: int = 1) -> bool:
    """Wait until a worker exists ("starting"), or the log has the moment's event."""
    log = running.folder / "out" / "result_0.txt"
    return until(lambda: running.find("worker") if moment == "starting" else has_event(log, MOMENTS[moment], times))


@pytest.mark.parametrize(
    ("moment", "victim"),
    [
        *((moment, "worker") for moment in ("starting", *MOMENTS)),
        ("starting", "starter"),
        ("init", "starter"),
        ("block", "starter"),
    ],
)
def test_killed_worker_or_starter_is_a_crash_with_a_sound_log(
    start: Callable[..., Running], moment: str, victim: str
) -> None:
    """SIGKILL at any moment: 1, aborted, crashed, every line complete, no process left."""
    running = start("none", "pause_s=0.5")
    assert reaches(running, moment, 2 if moment in ("block", "evaluation") else 1)
    assert until(lambda: kill(running.find(victim)), 10)

    status, log, stop = ended(running)

    assert (status, stop["status"], stop["reason"]) == (1, "aborted", "crashed"), stop
    assert "killed by SIGKILL" in stop["evidence"] or victim == "starter", stop["evidence"]
    assert log.events[-1].key == "tta_end"


@pytest.mark.parametrize("moment", ["starting", "init", "block"])
def test_killed_referee_leaves_a_log_without_an_end_and_no_process(start: Callable[..., Running], moment: str) -> None:
    """The log keeps its lines without an end, and the workers die with the referee."""
    running = start("none", "pause_s=0.5")
    assert reaches(running, moment)
    running.process.kill()

    status, log, stop = ended(running)

    assert status == -signal.SIGKILL
    assert stop == {}
    assert log.first("tta_end") is None


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting", signal.SIGINT),
        ("init", signal.SIGTERM),
        ("block", signal.SIGINT),
        ("block", signal.SIGTERM),
        ("evaluation", signal.SIGTERM),
    ],
)
def test_interrupted_referee_closes_the_log(start: Callable[..., Running], moment: str, number: int) -> None:
    """130, aborted, interrupted, no process left; also during a block that does not end."""
    running = start("train:hang" if moment == "block" else "none", "pause_s=0.5")
    assert reaches(running, moment)
    running.process.send_signal(number)

    status, log, stop = ended(running)

    assert (status, stop["status"], stop["reason"]) == (130, "aborted", "interrupted")
    assert log.events[-1].key == "tta_end"


def test_interrupt_of_a_terminal_reaches_the_referee_alone(start: Callable[..., Running]) -> None:
    """It goes to the whole group of processes; none of the others prints a traceback or ends by it."""
    running = start("prepare:hang", prefix=("/usr/bin/setsid",))
    assert reaches(running, "starting")
    until(lambda: running.find("curtain"), 20)  # only where the data can be kept from a worker
    assert [process for process in running.relatives() if os.getpgid(process.pid) == running.process.pid] == []
    os.killpg(running.process.pid, signal.SIGINT)

    status, _, stop = ended(running)

    assert (status, stop["reason"]) == (130, "interrupted")


def test_error_of_an_earlier_attempt_is_no_evidence(tmp_path: Path) -> None:
    """Its output is in the same file, before that of this attempt."""
    output = tmp_path / "worker_0.txt"
    output.write_text("MemoryError: of an earlier attempt\n")
    unconfined = isolation.choose("none", isolation.Places(tmp_path, ()), Place(), lambda *_: None)
    worker = LaunchedWorker(Place(), output, unconfined, program=("no_such_module",))
    try:
        with pytest.raises(WorkerLost) as caught:
            worker.start(lambda: None, 60)
    finally:
        worker.stop(0.0)

    assert caught.value.reason == "crashed"
    assert "earlier attempt" not in str(caught.value)


@pytest.mark.parametrize("form", ["none", "auto"])
def test_starter_that_is_killed_is_a_cause(tmp_path: Path, form: str) -> None:
    """Of several nodes, the one where it happened is blamed, although no rank of it can be named."""
    (data := tmp_path / "cache" / "data").mkdir(parents=True)
    (data / "metadata.json").write_text("{}")
    chosen = isolation.choose(form, isolation.Places(data, (tmp_path,)), Place(), try_out)
    worker = LaunchedWorker(Place(), tmp_path / "worker_0.txt", chosen, program=("harness.run.probe", str(data)))
    try:
        worker.start(lambda: None, 60)
        assert worker._process is not None
        own = psutil.Process(worker._process.pid)
        assert kill(first_named("starter", [own, *own.children(recursive=True)]))

        def ask_on() -> None:
            for _ in range(1_000_000):  # it may still answer before the kernel has ended it
                worker.ask({}, lambda: None, 60)

        with pytest.raises(WorkerLost) as caught:
            ask_on()
    finally:
        worker.stop(0.0)

    assert caught.value.is_cause
    assert "the exit status of the starter" in str(caught.value)


def test_run_that_was_broken_off_is_taken_up_again(start: Callable[..., Running]) -> None:
    """--resume moves the unfinished log aside, deletes nothing, and repeats the run."""
    running = start("none", "pause_s=0.5")
    assert reaches(running, "block")
    running.process.kill()
    ended(running)

    again = start("none", "pause_s=0.5", "--resume")
    status, log, stop = ended(again)

    assert (status, stop["reason"]) == (1, "budget")
    assert len(list((running.folder / "out" / "unfinished").iterdir())) == 1
    assert (log.value("seed"), log.field("tta_format", "attempt")) == (1, 2)
    assert "runs there: none; to be made: 0; attempts in unfinished/: 1" in again.errors


def test_second_resume_at_the_same_time_is_refused(start: Callable[..., Running]) -> None:
    """One sentence and status 2; the first one's run is not disturbed, and is the only one."""
    first = start("none", "pause_s=0.5")
    assert reaches(first, "block")
    second = start("none", "pause_s=0.5", "--resume")

    assert second.wait() == 2
    assert second.errors.splitlines() == ["tta: out: another `tta run` is writing to it; wait for its end"]
    status, log, stop = ended(first)
    assert (status, stop["reason"], log.field("tta_format", "attempt")) == (1, "budget", 1)
    assert not (first.folder / "out" / "unfinished").exists()


def test_resume_with_nothing_left_has_the_status_of_the_runs(start: Callable[..., Running]) -> None:
    """The only run missed its target: 1, as when it was made; and other hyperparameters are refused, with no run."""
    ended(start())

    again = start("none", "--resume")
    assert again.wait() == 1
    assert "runs there: 0; to be made: none; attempts in unfinished/: 0" in again.errors
    assert "no run is missing" in again.errors

    other = start("none", "pause_s=0.06", "--resume", "--runs", "2")
    assert other.wait() == 2
    (line,) = other.errors.splitlines()
    assert "hyperparameters.pause_s is 0.05, but 0.06 is given now" in line
    assert not (other.folder / "out" / "result_1.txt").exists()


def test_long_name_of_the_folder_for_temporary_files_does_not_matter(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    """The path of a Unix socket has at most 107 bytes; the TMPDIR of a cluster may be longer."""
    place = tmp_path / ("x" * 120)
    place.mkdir()

    status, _, stop = ended(start(environment={"TMPDIR": str(place)}))

    assert (status, stop["reason"]) == (1, "budget")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reader_that_goes_away_does_not_end_the_run(start: Callable[..., Running], unbuffered: str) -> None:
    """`tta run ... 2>&1 | head -1`: the run continues, and its log is complete."""
    running = start("none", "pause_s=0.2", environment={"PYTHONUNBUFFERED": unbuffered})
    assert running.process.stderr is not None
    assert running.process.stdout is not None
    running.process.stderr.close()
    running.process.stdout.close()

    running.process.wait(120)

    log = run_log.read(running.folder / "out" / "result_0.txt")
    assert log.one("run_stop").metadata["reason"] == "budget"
    assert running.process.returncode == 1


@pytest.mark.parametrize(("fault", "reason"), [("none", "budget"), ("train:SIGKILL", "crashed")])
def test_two_processes_are_one_world(start: Callable[..., Running], fault: str, reason: str) -> None:
    """Both describe themselves; if one is killed, neither is left."""
    status, log, stop = ended(start(fault, "--devices", "2"))

    assert (status, stop["reason"]) == (1, reason)
    assert [(rank["rank"], rank["world_size"]) for rank in log.value("tta_world")] == [(0, 2), (1, 2)]
