"""The recorder with real agents: one process per node, each with its own powercap tree."""

from __future__ import annotations

import os
import signal
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
from harness.log.power_format import TOKEN_VARIABLE
from harness.metering.meters.snmp import SnmpSource
from harness.metering.recorder import PowerRecorder
from harness.metering.session import RunRecording
from tests.fabricate import SYSTEM
from tests.killing import until

ROOT = Path(__file__).parents[3]
TOKEN = "a token of the tests"

# An agent whose powercap counters are files: `python -c CODE ADDRESS NODE TREE`, or TREE from the environment.
AGENT = """
import os, sys
from pathlib import Path
from harness.metering import agent, catalog
from harness.metering.meters.powercap import PowercapMeter
address, node, tree = sys.argv[1:] if len(sys.argv) == 4 else (sys.argv[1], "0", os.environ["TREE"])
agent.machine_id = lambda: tree[-32:].replace("/", "-")
catalog.LOCAL_METERS["powercap"] = lambda system: PowercapMeter(Path(tree))
agent.main(address, int(node), os.environ["TTA_POWER_TOKEN"])
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


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_agent(port: int, node: int, root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", AGENT, f"127.0.0.1:{port}", str(node), str(root)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)


@pytest.mark.usefixtures("environment")
def test_one_node_is_recorded_from_begin_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log without defects, with the joules drawn between its first and last reading."""
    root = tree(tmp_path / "tree", 300.0)
    monkeypatch.setenv("TREE", str(root))
    recorder = PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)

    with Drawing(root):
        recorder.begin(tmp_path / "power/result_0", MonotonicClock(), "ab" * 16, period_s=0.1)
        time.sleep(1.5)
        watts = recorder.watts()
        recorder.end()
    recorder.close()

    (log,) = power_log.read_folder(tmp_path / "power/result_0")
    assert log.defects == ()
    samples = log.samples["powercap:package-0"]
    assert 12 <= len(samples) <= 20
    seconds = (samples[-1].mono_ns - samples[0].mono_ns) / 1e9
    joules = (samples[-1].value or 0) - (samples[0].value or 0)
    assert joules / seconds == pytest.approx(300, rel=0.1)
    assert watts == pytest.approx(300, rel=0.4)
    assert abs(log.offsets[0].offset_ns) < 50_000_000  # one machine, one clock
    assert log.specs["powercap:package-0"].wrap_at_j == pytest.approx(262143.32885)


@pytest.mark.usefixtures("environment")
def test_two_runs_have_two_logs_and_one_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent stays, and the sequence restarts. An existing folder is not overwritten."""
    root = tree(tmp_path / "tree", 300.0)
    monkeypatch.setenv("TREE", str(root))
    recorder = PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)
    for run in (0, 1):
        recorder.begin(tmp_path / f"power/result_{run}", MonotonicClock(), "ab" * 16, period_s=0.05)
        time.sleep(0.3)
        recorder.end()
    with pytest.raises(OutputError, match="result_1"):
        recorder.begin(tmp_path / "power/result_1", MonotonicClock(), "ab" * 16)
    recorder.close()

    for run in (0, 1):
        (log,) = power_log.read_folder(tmp_path / f"power/result_{run}")
        assert log.defects == ()


@pytest.mark.usefixtures("environment")
def test_lost_agent_leaves_a_log_that_stops_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 is killed during the run; node 0 is not affected, and nothing waits long."""
    roots = [tree(tmp_path / name, watts) for name, watts in (("own", 100.0), ("other", 200.0))]
    monkeypatch.setenv("TREE", str(roots[0]))
    port = free_port()
    other = start_agent(port, 1, roots[1])
    recorder = PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT)
    with Drawing(*roots):
        recorder.begin(tmp_path / "power/result_0", MonotonicClock(), "ab" * 16, period_s=0.1)
        time.sleep(0.6)
        assert recorder.watts() == pytest.approx(300, rel=0.4)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        time.sleep(0.5)
        began = time.monotonic()
        recorder.end()
        assert time.monotonic() - began < 5
    (fault,) = recorder.faults()
    assert fault.startswith("node 1 (")
    assert fault.endswith("its agent is gone")
    recorder.close()

    own, lost = power_log.read_folder(tmp_path / "power/result_0")
    assert own.defects == ()
    assert {defect.kind for defect in lost.defects} >= {"stop_missing"}
    assert len(own.samples["powercap:package-0"]) > len(lost.samples["powercap:package-0"]) + 2


@pytest.mark.usefixtures("environment")
def test_unavailable_meter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence before any run, and no process is left."""
    monkeypatch.setenv("TREE", str(tmp_path))
    with pytest.raises(UsageError, match=r"--meter: node 0 .*powercap: .*no powercap"):
        PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)


@pytest.mark.usefixtures("environment")
def test_agent_without_the_token_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger on the port neither joins nor stops the run."""
    roots = [tree(tmp_path / name, 100.0) for name in ("own", "other")]
    monkeypatch.setenv("TREE", str(roots[0]))
    port = free_port()

    def intrude() -> None:
        for _ in range(50):
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    connection.sendall(b'{"hello": {"node": 1, "token": "guess", "host": "x"}}\n')
                    connection.recv(1)
                    return
            except OSError:
                time.sleep(0.1)

    stranger = threading.Thread(target=intrude)
    stranger.start()
    time.sleep(0.2)
    other = start_agent(port, 1, roots[1])
    recorder = PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT)
    stranger.join()

    assert recorder.num_nodes == 2
    recorder.close()
    assert other.wait(10) == 0


LIMITS = EnergyLimits(min_samples=5)  # of runs of a second


@pytest.mark.usefixtures("environment")
def test_energies_of_two_nodes_are_added_and_a_lost_one_voids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes as nodes of 100 and 250 W on two machines; then one is killed."""
    roots = [tree(tmp_path / name, watts) for name, watts in (("own", 100.0), ("other", 250.0))]
    monkeypatch.setenv("TREE", str(roots[0]))
    port = free_port()
    other = start_agent(port, 1, roots[1])
    said: list[str] = []
    with (
        PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT) as recorder,
        Drawing(*roots),
    ):
        energies = []
        for run in (0, 1):
            clock = MonotonicClock()
            recording = RunRecording(recorder, tmp_path / f"power/result_{run}", said.append, 0.1)
            recording.begin(clock, "ab" * 16)
            start_ns = clock.elapsed_ns()
            time.sleep(1.0)
            if run:
                os.kill(other.pid, signal.SIGKILL)
                other.wait()
                time.sleep(1.0)
            stop_ns = clock.elapsed_ns()
            nodes = recording.end()
            window = (clock.origin_ns + start_ns, clock.origin_ns + stop_ns)
            energies.append((run_energy(nodes, *window, num_nodes=2, limits=LIMITS), (stop_ns - start_ns) / 1e9))

    (whole, whole_s), (cut, _) = energies
    assert whole.joules == pytest.approx(350 * whole_s, rel=0.1)
    assert (whole.void, whole.num_nodes, whole.meter_class) == ((), 2, "C")
    assert "coverage" in cut.void
    assert not cut.may_rank
    assert len(said) == 1
    assert "node 1" in said[0]
    assert "time is not affected" in said[0]


@pytest.mark.usefixtures("environment")
def test_one_machine_with_two_agents_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of node 1 runs on node 0's machine: found by the machine's id, added once, void."""
    root = tree(tmp_path / "tree", 200.0)
    monkeypatch.setenv("TREE", str(root))
    port = free_port()
    other = start_agent(port, 1, root)
    with (
        PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT) as recorder,
        Drawing(root),
    ):
        clock = MonotonicClock()
        recording = RunRecording(recorder, tmp_path / "power/result_0", pytest.fail, 0.1)
        recording.begin(clock, "ab" * 16)
        start_ns = clock.elapsed_ns()
        time.sleep(1.0)
        stop_ns = clock.elapsed_ns()
        nodes = recording.end()

    energy = run_energy(nodes, clock.origin_ns + start_ns, clock.origin_ns + stop_ns, num_nodes=2, limits=LIMITS)
    assert "counted_twice" in energy.void
    assert not energy.may_rank
    assert other.wait(20) == 0


@pytest.mark.usefixtures("environment")
def test_wrap_just_before_the_stop_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter of 300 W that wraps about 50 ms before the run stops, through the real agent."""
    root = tree(tmp_path / "tree", 0.0)
    counter = root / "sys/class/powercap/intel-rapl:0/energy_uj"
    wrap_uj = 262_143_328_850
    monkeypatch.setenv("TREE", str(root))

    def show(joules: float) -> None:
        counter.with_suffix(".new").write_text(str((wrap_uj - 270_000_000 + round(joules * 1e6)) % wrap_uj))
        counter.with_suffix(".new").replace(counter)

    show(0.0)
    with PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT) as recorder:
        clock = MonotonicClock()
        recording = RunRecording(recorder, tmp_path / "power/result_0", pytest.fail, 0.05)
        recording.begin(clock, "ab" * 16)
        start_ns = clock.elapsed_ns()
        while (seconds := (clock.elapsed_ns() - start_ns) / 1e9) < 0.95:
            show(300 * seconds)
            time.sleep(0.005)
        stop_ns = clock.elapsed_ns()
        for _ in range(20):
            show(300 * (clock.elapsed_ns() - start_ns) / 1e9)
            time.sleep(0.005)
        nodes = recording.end()

    energy = run_energy(nodes, clock.origin_ns + start_ns, clock.origin_ns + stop_ns, limits=LIMITS)
    assert energy.num_wraps == 1
    assert energy.joules == pytest.approx(300 * (stop_ns - start_ns) / 1e9, rel=0.05)


@pytest.mark.usefixtures("environment")
def test_recorder_that_cannot_write_is_reported_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder exists already: one sentence, no watts, no logs, no exception."""
    monkeypatch.setenv("TREE", str(tree(tmp_path / "tree", 100.0)))
    (tmp_path / "power/result_0").mkdir(parents=True)
    said: list[str] = []
    with PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT) as recorder:
        recording = RunRecording(recorder, tmp_path / "power/result_0", said.append)
        recording.begin(MonotonicClock(), "ab" * 16)

        assert recording.watts() is None
        assert recording.end() == ()
    assert len(said) == 1
    assert "not measured" in said[0]


@pytest.mark.usefixtures("environment")
def test_agent_ends_with_a_referee_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL during a run: the connection closes, the agent ends, and the log has whole lines."""
    monkeypatch.setenv("TREE", str(tree(tmp_path / "tree", 100.0)))
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
    agent_pid = int(referee.stdout.readline())
    time.sleep(0.3)
    referee.kill()
    referee.communicate()

    assert until(lambda: not psutil.pid_exists(agent_pid) or psutil.Process(agent_pid).status() == "zombie", 20)
    (log,) = power_log.read_folder(tmp_path / "power/result_0")
    assert {defect.kind for defect in log.defects} == {"stop_missing"}


@pytest.mark.usefixtures("environment")
def test_unmetered_node_is_an_error_only_if_meters_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` uses what there is, and reports what is missing."""
    monkeypatch.setenv("TREE", str(tmp_path))
    with PowerRecorder.start(["powercap"], SYSTEM, is_strict=False, own_agent=OWN_AGENT) as recorder:
        (why,) = recorder.unmetered
        assert "no powercap" in why
        assert (recorder.source, recorder.meters) == ("none", [])


@pytest.mark.usefixtures("environment")
def test_own_agent_that_fails_is_an_error(tmp_path: Path) -> None:
    """It ends before it says hello; the error comes at once."""
    began = time.monotonic()
    with pytest.raises(TtaError, match="ended at once with status 3"):
        PowerRecorder.start(["powercap"], SYSTEM, own_agent=(sys.executable, "-c", "raise SystemExit(3)"))
    assert time.monotonic() - began < 30


def test_nodes_need_an_address_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any process is started."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="--power-listen"):
        PowerRecorder.start(["powercap"], SYSTEM, 2)
    with pytest.raises(UsageError, match=TOKEN_VARIABLE):
        PowerRecorder.start(["powercap"], SYSTEM, 2, "127.0.0.1:1")
    with pytest.raises(UsageError, match="is for node 3; the nodes are 0 to 0"):
        PowerRecorder.start([], SYSTEM, sources=(SnmpSource("pdu1", "1.3", node=3),))


@pytest.mark.usefixtures("environment")
def test_agent_with_another_token_gets_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected `tta agent` exits with 2 and a sentence; the run waits for the right one."""
    roots = [tree(tmp_path / name, 100.0) for name in ("own", "other")]
    monkeypatch.setenv("TREE", str(roots[0]))
    port = free_port()
    command = [sys.executable, "-m", "harness.cli", "agent", "--connect", f"127.0.0.1:{port}", "--node", "1"]
    stranger = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, TOKEN_VARIABLE: "guess"}
    )

    def follow() -> None:
        stranger.wait()
        followed.append(start_agent(port, 1, roots[1]))

    followed: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=follow)
    thread.start()
    with PowerRecorder.start(["powercap"], SYSTEM, 2, f"127.0.0.1:{port}", own_agent=OWN_AGENT):
        thread.join()
    _, errors = stranger.communicate()

    assert stranger.returncode == 2
    assert "closed without a request: the TTA_POWER_TOKEN differs" in errors
    assert errors.count("\n") == 1
    assert followed[0].wait(20) == 0
