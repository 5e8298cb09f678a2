"""Two network namespaces as two nodes, joined by a virtual cable; each has its own meter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.metering.agent_connection import POWER
from tests.harness.metering.test_recorder import AGENT, ROOT, TOKEN, tree

pytestmark = pytest.mark.slow
TOOLS = ("unshare", "nsenter", "ip")
# The second namespace lives as long as its process; everything ends with the first.
CABLE = """
set -e
ip link set lo up
unshare -n sleep 120 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link add cable0 type veth peer name cable1 netns $other
ip addr add 10.77.0.1/30 dev cable0
ip link set cable0 up
nsenter -t $other -n ip addr add 10.77.0.2/30 dev cable1
nsenter -t $other -n ip link set cable1 up
nsenter -t $other -n "$PYTHON" -c "$AGENT" 10.77.0.1:7070 1 "$OTHER_TREE" &
"$PYTHON" -c "$REFEREE"
status=$?
kill $other
exit $status
"""
REFEREE = """
import json, os, subprocess, time
from pathlib import Path
from harness.base.clock import MonotonicClock
from harness.energy.accounting import run_energy
from harness.metering.recorder import PowerRecorder
from harness.metering.session import RunRecording
from harness.energy.limits import EnergyLimits
from tests.fabricate import SYSTEM
from tests.harness.metering.test_recorder import OWN_AGENT, Drawing

said, found = [], []
trees = [Path(os.environ[name]) for name in ("TREE", "OTHER_TREE")]
with PowerRecorder.start(["powercap"], SYSTEM, 2, "10.77.0.1:7070", own_agent=OWN_AGENT) as recorder, Drawing(*trees):
    for run in (0, 1):
        clock = MonotonicClock()
        recording = RunRecording(recorder, Path(os.environ["OUT"]) / f"result_{run}", said.append, 0.1)
        recording.begin(clock, "ab" * 16)
        start_ns = clock.elapsed_ns()
        time.sleep(1.0)
        if run:  # the cable is pulled
            subprocess.run(["ip", "link", "set", "cable0", "down"], check=True)
            time.sleep(1.5)
        stop_ns = clock.elapsed_ns()
        window = clock.origin_ns + start_ns, clock.origin_ns + stop_ns
        energy = run_energy(recording.end(), *window, num_nodes=2, limits=EnergyLimits(min_samples=5))
        seconds = (stop_ns - start_ns) / 1e9
        found.append({"joules": energy.joules, "seconds": seconds, "void": energy.void, "class": energy.meter_class})
    print(json.dumps({"runs": found, "said": said}), flush=True)
    subprocess.run(["ip", "link", "set", "cable0", "up"], check=True)
"""


def is_permitted() -> bool:
    if any(shutil.which(tool) is None for tool in TOOLS):
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not is_permitted(), reason="namespaces cannot be made here")
def test_two_namespaces_are_added_up_and_a_pulled_cable_voids_the_energy(tmp_path: Path) -> None:
    """150 and 350 W over a real network stack; then the cable is pulled: void, and the run's time is not affected."""
    trees = [tree(tmp_path / name, watts) for name, watts in (("own", 150.0), ("other", 350.0))]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        POWER.variable: TOKEN,
        "PYTHON": sys.executable,
        "AGENT": AGENT,
        "REFEREE": REFEREE,
        "TREE": str(trees[0]),
        "OTHER_TREE": str(trees[1]),
        "OUT": str(tmp_path / "power"),
    }

    done = subprocess.run(
        ["unshare", "-rn", "bash", "-c", CABLE], env=environment, capture_output=True, text=True, timeout=120, cwd=ROOT
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    whole, cut = found["runs"]
    assert whole["joules"] == pytest.approx(500 * whole["seconds"], rel=0.1)
    assert (whole["void"], whole["class"]) == ([], "C")
    assert "coverage" in cut["void"]
    assert 2.5 <= cut["seconds"] <= 4
    assert len(found["said"]) == 1
    assert "node 1" in found["said"][0]
