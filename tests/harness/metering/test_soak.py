"""How steady the power sampler is, and what it costs: the real agent over a fake powercap tree of four zones at 10 Hz.

20 s by default; TTA_SOAK_S sets another duration. `pytest -m slow -s tests/harness/metering/test_soak.py` prints the
numbers of docs/explanation/energy.md, which are from 600 s.
"""

from __future__ import annotations

import os
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

from harness.base.clock import MonotonicClock
from harness.log import power_log
from harness.metering.recorder import PowerRecorder
from tests.harness.metering.test_powercap import zone
from tests.harness.metering.test_recorder import OWN_AGENT

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("TTA_SOAK_S", "20"))
PERIOD_S = 0.1
ZONES = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram", "intel-rapl:1": "package-1", "intel-rapl:1:0": "dram"}


def test_the_sampler_keeps_its_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No drift from the schedule; no damaged line. What it costs is printed: that depends on the machine."""
    for folder, name in ZONES.items():  # their counters do not move: reading them costs the same
        zone(tmp_path, folder, name, 123_456_789_012)
    monkeypatch.setenv("TREE", str(tmp_path))
    clock = MonotonicClock()
    with PowerRecorder.start(["powercap"], {}, own_agent=OWN_AGENT) as recorder:
        recorder.begin(tmp_path / "power", clock, "00" * 16, PERIOD_S)
        begin_ns = clock.elapsed_ns()
        time.sleep(SECONDS)
        recorder.end()
        seconds = (clock.elapsed_ns() - begin_ns) / 1e9
    (log,) = power_log.read_folder(tmp_path / "power")

    samples = next(iter(log.samples.values()))[:-1]  # the last is taken at the stop, outside the schedule
    period_ns = round(PERIOD_S * 1e9)
    # Distance of each reading from its turn in a schedule that begins with the first reading.
    since_ns = [sample.mono_ns - samples[0].mono_ns for sample in samples]
    late_ms = [((at_ns + period_ns // 2) % period_ns - period_ns // 2) / 1e6 for at_ns in since_ns]
    steps_s = [(later.mono_ns - earlier.mono_ns) / 1e9 for earlier, later in pairwise(samples)]
    cpu_share = (log.sampler_cpu_s or 0.0) / seconds
    print(
        f"{seconds:.1f} s, {len(log.specs)} zones, load {os.getloadavg()[0]:.1f}: {len(samples):,} readings of "
        f"{round(seconds / PERIOD_S):,}; drift {late_ms[-1]:+.2f} ms, worst {max(late_ms):.2f} ms, longest step "
        f"{max(steps_s):.3f} s; {cpu_share:.3%} of a core"
    )
    assert log.defects == ()
    assert cpu_share > 0
    assert statistics.median(steps_s) == pytest.approx(PERIOD_S, rel=0.01)
    assert abs(statistics.median(late_ms)) < 10
