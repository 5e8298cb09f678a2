"""The recorder with real agents: processes that stand for nodes, each with a powercap tree of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness import powerlog
from harness.clock import MonotonicClock
from harness.errors import OutputError, UsageError
from harness.power import TOKEN_VARIABLE
from harness.recorder import PowerRecorder
from tests.fabricate import SYSTEM

ROOT = Path(__file__).parents[2]
TOKEN = "a token of the tests"

# An agent whose powercap counters are files of ours: `python -c CODE ADDRESS NODE TREE`, or TREE from the environment.
AGENT = """
import os, sys
from pathlib import Path
from harness import agent, meters
from harness.meters.powercap import PowercapMeter
address, node, tree = sys.argv[1:] if len(sys.argv) == 4 else (sys.argv[1], "0", os.environ["TREE"])
meters.LOCAL_METERS["powercap"] = lambda system: PowercapMeter(Path(tree))
agent.main(address, int(node), os.environ["TTA_POWER_TOKEN"])
"""
OWN_AGENT = (sys.executable, "-c", AGENT)


def tree(root: Path, watts: float) -> Path:
    """A package whose counter a thread of the test makes grow."""
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
    code = "import time; time.sleep(0.3)\n" + AGENT  # the referee begins to listen first
    command = [sys.executable, "-c", code, f"127.0.0.1:{port}", str(node), str(root)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)


@pytest.mark.usefixtures("environment")
def test_one_node_is_written_down_from_begin_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that the reader has nothing against, with the joules that were drawn between its first and last reading."""
    root = tree(tmp_path / "tree", 300.0)
    monkeypatch.setenv("TREE", str(root))
    recorder = PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)

    with Drawing(root):
        recorder.begin(tmp_path / "power/result_0", MonotonicClock(), "ab" * 16, period_s=0.1)
        time.sleep(1.5)
        watts = recorder.watts()
        recorder.end()
    recorder.close()

    (log,) = powerlog.read_folder(tmp_path / "power/result_0")
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
    """The agent stays; the sequence begins anew. A folder that is there is not written over."""
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
        (log,) = powerlog.read_folder(tmp_path / f"power/result_{run}")
        assert log.defects == ()


@pytest.mark.usefixtures("environment")
def test_lost_agent_leaves_a_log_that_stops_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 is killed in the middle; node 0 is not touched by it, and nothing waits long."""
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
    assert [name.split()[1] for name in recorder.lost()] == ["1"]
    recorder.close()

    own, lost = powerlog.read_folder(tmp_path / "power/result_0")
    assert own.defects == ()
    assert {defect.kind for defect in lost.defects} >= {"stop_missing"}
    assert len(own.samples["powercap:package-0"]) > len(lost.samples["powercap:package-0"]) + 2


@pytest.mark.usefixtures("environment")
def test_meter_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any run; and no process is left."""
    monkeypatch.setenv("TREE", str(tmp_path))
    with pytest.raises(UsageError, match=r"--meter powercap: node 0 .*no powercap"):
        PowerRecorder.start(["powercap"], SYSTEM, own_agent=OWN_AGENT)


@pytest.mark.usefixtures("environment")
def test_agent_without_the_token_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
