"""`tta run` with meters, in processes of its own: on a machine without any, interrupted, and killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.log import power_log, run_log
from harness.log.power_files import with_power
from harness.submission.system import IDLE_POWER_KEY, MAX_POWER_KEY
from tests.fabricate import SYSTEM
from tests.killing import Running, has_event, toy_runs, toy_tree, until

pytestmark = pytest.mark.slow
ESTIMATE = ("--meter", "estimate", "--meter-period", "0.1", "--system", "declared.json")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts `tta run toy` into `out`; its target is above what it reaches, so that a run takes all of its samples."""
    tree = toy_tree(tmp_path)
    system = {**SYSTEM, IDLE_POWER_KEY: 100, MAX_POWER_KEY: 300, "accelerators_per_node": "0"}
    (tmp_path / "declared.json").write_text(json.dumps(system))
    (tmp_path / "undeclared.json").write_text(json.dumps(SYSTEM))
    with toy_runs(tree) as begin:
        yield begin


def agents(running: Running) -> list[psutil.Process]:
    found = []
    for process in running.relatives():
        try:
            if "harness.metering.agent" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def has_local_meter() -> bool:
    return any(Path("/sys/class/powercap").glob("intel-rapl:*")) or Path("/dev/nvidia0").exists()


@pytest.mark.skipif(has_local_meter(), reason="this machine has a meter")
def test_machine_without_meters_runs_and_measures_nothing(start: Callable[..., Running], tmp_path: Path) -> None:
    """`--meter auto`: the reasons are printed once; the run is complete, its energy null with class N."""
    running = start("--meter", "auto", "--system", "undeclared.json")
    status = running.wait()

    log = run_log.read(tmp_path / "out/result_0.txt")
    energy = log.value("tta_energy")
    assert status == 1, running.errors  # the toy's target
    assert running.errors.count("energy is not measured") == 1
    for name in ("powercap", "nvml", "ipmi", "zeus"):
        assert running.errors.count(f" {name}: ") == 1
    assert (energy["energy_j"], energy["source"], energy["class"]) == (None, "none", "N")
    assert log.value("tta_end")["num_events"] == len(log.events)
    assert not (tmp_path / "out/power").exists()


def test_estimate_is_written_and_called_one(start: Callable[..., Running], tmp_path: Path) -> None:
    """Class E, from readings of the agent that span the run; a judge computes the same joules; no idle baseline."""
    running = start(*ESTIMATE)
    status = running.wait()

    log = with_power(run_log.read(tmp_path / "out/result_0.txt"))
    energy = log.value("tta_energy")
    judged = energy_of(log, EnergyLimits())
    assert status == 1, running.errors
    assert (energy["source"], energy["class"], energy["coverage"]) == ("estimated", "E", 1.0)
    assert 100 * log.value("tta_ledger")["run_s"] <= energy["energy_j"] <= 300.01 * log.value("tta_ledger")["run_s"]
    assert judged is not None
    assert judged.joules == pytest.approx(energy["energy_j"])
    assert log.nodes[0].defects == ()
    assert log.nodes[0].run_id == log.field("tta_format", "run_id")
    assert not (tmp_path / "out/power/idle").exists()


def test_interrupt_closes_the_power_log_and_resume_goes_on(start: Callable[..., Running], tmp_path: Path) -> None:
    """Ctrl-C: 130, a last reading, a closed log, no agent left. An interrupted baseline is measured again, once."""
    running = start(*ESTIMATE, "--idle", "1", "pause_s=1")
    assert until(lambda: has_event(tmp_path / "out/result_0.txt", "block_start"))
    running.process.send_signal(signal.SIGINT)
    assert running.wait() == 130

    (log,) = power_log.read_folder(tmp_path / "out/power/result_0")
    (idle,) = power_log.read_folder(tmp_path / "out/power/idle")
    assert log.defects == idle.defects == ()
    assert running.errors.count("power: idle, ") == 1
    assert running.relatives() == []

    again = start(*ESTIMATE, "--idle", "1", "--resume", "--runs", "2", "pause_s=1")
    assert again.wait() == 1, again.errors
    assert "power: idle" not in again.errors
    assert (tmp_path / "out/power/result_1/node_0.txt").exists()


def test_agent_that_is_killed_voids_the_energy_and_not_the_run(start: Callable[..., Running], tmp_path: Path) -> None:
    """Time, status and exit status are the same as without a meter; one line on standard error."""
    running = start(*ESTIMATE, "pause_s=0.5", "--quiet")
    assert until(lambda: has_event(tmp_path / "out/result_0.txt", "block_start", 2))
    (agent,) = agents(running)
    agent.kill()
    status = running.wait()

    log = run_log.read(tmp_path / "out/result_0.txt")
    assert status == 1, running.errors
    assert log.one("run_stop").metadata["reason"] == "budget"
    assert {"coverage"} <= set(log.value("tta_energy")["void"])
    assert running.errors.count("tta: power: node 0") == 1
    assert running.errors.count("its time is not affected") == 1


def test_nobody_is_left_when_the_referee_is_killed(start: Callable[..., Running], tmp_path: Path) -> None:
    """SIGKILL: the agent ends by itself, and its log has complete lines."""
    running = start(*ESTIMATE, "pause_s=1")
    assert until(lambda: has_event(tmp_path / "out/result_0.txt", "block_start"))
    assert len(agents(running)) == 1
    running.process.kill()
    running.process.communicate()

    assert until(lambda: running.relatives() == [], 30)
    (log,) = power_log.read_folder(tmp_path / "out/power/result_0")
    assert {defect.kind for defect in log.defects} <= {"stop_missing"}
