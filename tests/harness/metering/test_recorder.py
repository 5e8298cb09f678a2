"""The recorder with real agents: one process per node, each with its own powercap tree."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.base.clock import MonotonicClock
from harness.energy.accounting import run_energy
from harness.energy.limits import EnergyLimits
from harness.errors import OutputError, TtaError, UsageError
from harness.log import power_log
from harness.metering.agent_connection import POWER
from harness.metering.meters.snmp import SnmpSource
from harness.metering.recorder import PowerRecorder
from harness.metering.session import RunRecording
from tests.fabricate import SYSTEM
from tests.killing import is_alive, until

ROOT = Path(__file__).parents[3]
TOKEN = "a token of the tests"

# An agent whose powercap counters are files: `python -c CODE ADDRESS NODE TREE`, or TREE from the environment.
AGENT = """
import os, sys
from pathlib import Path
from harness.base import greeting
from harness.metering import agent, catalog
from harness.metering.meters.powercap import PowercapMeter
address, node, tree = sys.argv[1:] if len(sys.argv) == 4 else (sys.argv[1], "0", os.environ["TREE"])
greeting.machine_id = lambda: tree[-32:].replace("/", "-")
catalog.LOCAL_METERS["powercap"] = lambda system: PowercapMeter(Path(tree))
agent.main(address, int(node), os.environ["TTA_POWER_TOKEN"].encode())
"""
OWN_AGENT = (sys.executable, "-c", AGENT)


def tree(root: Path, watts: float) -> Path:
    """A package whose counter is increased by a thread of the test."""
    place = root / "sys/class/powercap/intel-rapl:0"
    place.mkdir(parents=True)
    (place / "name").write_text("package-0")
    (place / "max_energy_range_uj").write_text("262143328850")
    (place / "energy_uj").write_text("1000000")
    (root / "watts").write_text(str(watts))
    return root


class Drawing:
    """Counters that grow by their watts."""

    def __init__(self, *roots: Path) -> None:
        self._roots = roots
        self._is_over = threading.Event()
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._grow, daemon=True)

    def __enter__(self) -> Drawing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _grow(self) -> None:
        while not self._is_over.wait(0.005):
            for root in self._roots:
                joules = 1.0 + float((root / "watts").read_text()) * (time.monotonic() - self._began_s)
                path = root / "sys/class/powercap/intel-rapl:0/energy_uj"
                path.with_suffix(".new").write_text(str(round(joules * 1e6)))
                path.with_suffix(".new").replace(path)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POWER.variable, TOKEN)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tree of this node: 100 W."""
    root = tree(tmp_path / "own", 100.0)
    monkeypatch.setenv("TREE", str(root))
    return root


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_agent(port: int, node: int, root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", AGENT, f"127.0.0.1:{port}", str(node), str(root)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)


def start_recorder(port: int | None = None) -> PowerRecorder:
    """With the agent of this node, and that of node 1 if there is a port."""
    if port is None:
        return PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)
    return PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT)


def test_runs_are_recorded_from_begin_to_end(own: Path, tmp_path: Path) -> None:
    """Logs without defects, one after the other by one agent, with the joules that were drawn, up to a last reading
    after the end; an existing folder is not overwritten."""
    recorder = start_recorder()
    watts, ends_ns = [], []
    with Drawing(own):
        for run in (0, 1):
            clock = MonotonicClock()
            recorder.begin(tmp_path / f"power/result_{run}", clock, "ab" * 16, period_s=0.1)
            time.sleep(1.5)
            watts.append(recorder.watts())
            ends_ns.append(clock.origin_ns + clock.elapsed_ns())
            recorder.end()
    with pytest.raises(OutputError, match="result_1"):
        recorder.begin(tmp_path / "power/result_1", MonotonicClock(), "ab" * 16)
    recorder.close()

    for run in (0, 1):
        (log,) = power_log.read_folder(tmp_path / f"power/result_{run}")
        assert log.defects == ()
        samples = log.samples["powercap:package-0"]
        assert 12 <= len(samples) <= 20
        assert samples[-1].mono_ns >= ends_ns[run]
        seconds = (samples[-1].mono_ns - samples[0].mono_ns) / 1e9
        joules = (samples[-1].value or 0) - (samples[0].value or 0)
        assert joules / seconds == pytest.approx(100, rel=0.1)
        assert watts[run] == pytest.approx(100, rel=0.4)
        assert abs(log.offsets[0].offset_ns) < 50_000_000  # one machine, one clock
        assert log.specs["powercap:package-0"].wrap_at_j == pytest.approx(262143.32885)


def test_unavailable_meter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence before any run, and no process is left; `auto` uses what there is, and reports what is missing."""
    monkeypatch.setenv("TREE", str(tmp_path))
    with pytest.raises(UsageError, match=r"--meter: node 0 .*powercap: .*no powercap"):
        start_recorder()

    with PowerRecorder.start(["powercap"], SYSTEM, is_strict=False, own_agent=OWN_AGENT) as recorder:
        (why,) = recorder.unmetered
        assert "no powercap" in why
        assert (recorder.source, recorder.meters) == ("none", [])


LIMITS = EnergyLimits(min_samples=5)  # of runs of a second


def test_energies_of_two_nodes_are_added_and_a_lost_one_voids(own: Path, tmp_path: Path) -> None:
    """Two processes as nodes of 100 and 250 W on two machines; then one is killed: its log stops there, the other's
    does not, and nothing waits long."""
    other = tree(tmp_path / "other", 250.0)
    port = free_port()
    agent = start_agent(port, 1, other)
    messages: list[str] = []
    with start_recorder(port) as recorder, Drawing(own, other):
        energies = []
        for run in (0, 1):
            clock = MonotonicClock()
            recording = RunRecording(recorder, tmp_path / f"power/result_{run}", messages.append, 0.1)
            recording.begin(clock, "ab" * 16)
            start_ns = clock.elapsed_ns()
            time.sleep(1.0)
            if run:
                assert recorder.watts() == pytest.approx(350, rel=0.4)
                agent.kill()
                agent.wait()
                time.sleep(1.0)
            stop_ns = clock.elapsed_ns()
            nodes = recording.end()
            waited_s = (clock.elapsed_ns() - stop_ns) / 1e9
            window = (clock.origin_ns + start_ns, clock.origin_ns + stop_ns)
            energies.append((run_energy(nodes, *window, num_nodes=2, limits=LIMITS), (stop_ns - start_ns) / 1e9))
        (fault,) = recorder.faults()

    (whole, whole_s), (cut, _) = energies
    assert whole.joules == pytest.approx(350 * whole_s, rel=0.1)
    assert (whole.void, whole.num_nodes, whole.meter_class) == ((), 2, "C")
    assert "coverage" in cut.void
    assert not cut.may_rank
    intact, lost = nodes
    assert intact.defects == ()
    assert {defect.kind for defect in lost.defects} >= {"stop_missing"}
    assert len(intact.samples["powercap:package-0"]) > len(lost.samples["powercap:package-0"]) + 2
    assert waited_s < 5
    assert fault.startswith("node 1 (")
    assert fault.endswith("its agent is gone")
    assert messages == [f"power: {fault}; the energy of this run is void, its time is not affected"]


@pytest.mark.usefixtures("own")
def test_agent_ends_with_a_referee_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL during a run: the connection closes, the agent ends, and the log has whole lines."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom harness.base.clock import MonotonicClock\n"
        "from harness.metering.recorder import PowerRecorder\nfrom tests.fabricate import SYSTEM\n"
        "from tests.harness.metering.test_recorder import OWN_AGENT\n"
        "recorder = PowerRecorder.start(['powercap'], SYSTEM, own_agent=OWN_AGENT)\n"
        "recorder.begin(Path(sys.argv[1]), MonotonicClock(), 'ab' * 16, 0.05)\n"
        "print(recorder._own.pid, flush=True)\ntime.sleep(60)\n"
    )
    referee = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "power/result_0")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert referee.stdout is not None
    agent = psutil.Process(int(referee.stdout.readline()))
    time.sleep(0.3)
    referee.kill()
    referee.communicate()

    assert until(lambda: not is_alive(agent), 20)
    (log,) = power_log.read_folder(tmp_path / "power/result_0")
    assert {defect.kind for defect in log.defects} == {"stop_missing"}


def test_own_agent_that_fails_is_an_error() -> None:
    """It ends before it says hello; the error comes at once."""
    began = time.monotonic()
    with pytest.raises(TtaError, match="ended at once with status 3"):
        PowerRecorder.start(["powercap"], SYSTEM, own_agent=(sys.executable, "-c", "raise SystemExit(3)"))
    assert time.monotonic() - began < 30


def test_nodes_need_an_address_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any process is started."""
    monkeypatch.delenv(POWER.variable, raising=False)
    with pytest.raises(UsageError, match="--power-listen"):
        PowerRecorder.start(["powercap"], SYSTEM, 2)
    with pytest.raises(UsageError, match=POWER.variable):
        PowerRecorder.start(["powercap"], SYSTEM, 2, "127.0.0.1:1")
    with pytest.raises(UsageError, match="is for node 3; the nodes are 0 to 0"):
        PowerRecorder.start([], SYSTEM, sources=(SnmpSource("pdu1", "1.3", node=3),))


@pytest.mark.usefixtures("own")
def test_agent_with_another_token_gets_an_error(tmp_path: Path) -> None:
    """A rejected `tta agent` exits with 2 and a sentence; the run waits for the right one."""
    port = free_port()
    command = [sys.executable, "-m", "harness.cli", "agent", "--connect", f"127.0.0.1:{port}", "--node", "1"]
    stranger = subprocess.Popen(
        command,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, POWER.variable: "another token of 32 characters"},
    )

    def follow() -> None:
        stranger.wait()
        followed.append(start_agent(port, 1, tree(tmp_path / "other", 100.0)))

    followed: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=follow)
    thread.start()
    with start_recorder(port) as recorder:
        thread.join()
        assert recorder.num_nodes == 2
    _, errors = stranger.communicate()

    assert stranger.returncode == 2
    assert "the referee refuses this agent: its TTA_POWER_TOKEN is another" in errors
    assert errors.count("\n") == 1
    assert followed[0].wait(20) == 0
