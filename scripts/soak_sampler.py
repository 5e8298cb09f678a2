"""How steady the power sampler is, and what it takes: the real agent over a fake powercap tree of four zones at 10 Hz.

    python scripts/soak_sampler.py --minutes 10

Prints, for the whole time: readings against those planned; the drift of the schedule (the last reading's time against
its place in the schedule, ms), the worst lateness of any reading (ms) and how many were skipped; and the agent's
processor time as a share of one core, with its ratio to the limit of 0.5 %. Exits with 1 where the share is over the
limit, a reading came more than half a period from its place in the end, or the log has a defect.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.base.clock import MonotonicClock
from harness.log import power_log
from harness.log.power_format import NodePower, Sample
from harness.metering.recorder import PowerRecorder

PERIOD_S = 0.1
LIMIT = 0.005  # of one core
ZONES = (
    ("intel-rapl:0", "package-0"),
    ("intel-rapl:0:0", "dram"),
    ("intel-rapl:1", "package-1"),
    ("intel-rapl:1:0", "dram"),
)
TREE = "TTA_SOAK_TREE"
AGENT = f"""
import os, sys
from pathlib import Path
from harness.metering import agent, meters
from harness.metering.meters.powercap import PowercapMeter
meters.LOCAL_METERS["powercap"] = lambda system: PowercapMeter(Path(os.environ["{TREE}"]))
agent.main(sys.argv[1], 0, os.environ["TTA_POWER_TOKEN"])
"""


def plant(root: Path) -> None:
    """Two packages with their DRAM; the counters stand still, since reading them costs the same."""
    for folder, name in ZONES:
        place = root / "sys/class/powercap" / folder
        place.mkdir(parents=True)
        (place / "name").write_text(f"{name}\n")
        (place / "energy_uj").write_text("123456789012\n")
        (place / "max_energy_range_uj").write_text("262143328850\n")


def lateness_ms(samples: tuple[Sample, ...]) -> list[float]:
    """How far each reading is from its place in a schedule that begins with the first; skipped turns are let off."""
    first_ns, period_ns = samples[0].mono_ns, round(PERIOD_S * 1e9)
    late = []
    for sample in samples:
        since_ns = sample.mono_ns - first_ns
        late.append((since_ns - since_ns // period_ns * period_ns) / 1e6)
    return late


def report(log: NodePower, seconds: float) -> bool:
    """Prints what was found; whether it is well."""
    samples = next(iter(log.samples.values()))[:-1]  # the last is taken at the stop, outside the schedule
    planned = round(seconds / PERIOD_S)
    late = lateness_ms(samples)
    # A reading that is taken just before its turn would show as nearly a whole period late.
    late = [item - PERIOD_S * 1e3 if item > PERIOD_S * 500 else item for item in late]
    steps_ms = [(b.mono_ns - a.mono_ns) / 1e6 for a, b in pairwise(samples)]
    skipped = sum(max(0, round(step / (PERIOD_S * 1e3)) - 1) for step in steps_ms)
    share = (log.sampler_cpu_s or 0.0) / seconds
    print(f"{seconds:.1f} s, {len(log.specs)} zones at {1 / PERIOD_S:g} Hz, load {os.getloadavg()[0]:.1f}")
    print(
        f"readings of a zone: {len(samples):,} of {planned:,} planned, {skipped} skipped; defects: {len(log.defects)}"
    )
    print(f"drift over the whole: {late[-1]:+.2f} ms; worst lateness: {max(late):.2f} ms; step: {max(steps_ms):.1f} ms")
    cpu_s = log.sampler_cpu_s or 0.0
    print(f"processor: {cpu_s:.3f} s, {share:.3%} of a core, {share / LIMIT:.2f} of the limit of {LIMIT:.1%}")
    return share <= LIMIT and abs(late[-1]) <= PERIOD_S * 500 and not log.defects


def main() -> int:
    """Runs it; 0 if all is well."""
    parser = argparse.ArgumentParser(description="Soak the power sampler.")
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="tta-soak-") as name:
        root = Path(name)
        plant(root)
        os.environ[TREE] = name
        clock = MonotonicClock()
        with PowerRecorder.start(["powercap"], {}, own_agent=(sys.executable, "-c", AGENT)) as recorder:
            recorder.begin(root / "power", clock, "00" * 16, PERIOD_S)
            began_ns = clock.elapsed_ns()
            time.sleep(minutes * 60)
            recorder.end()
            seconds = (clock.elapsed_ns() - began_ns) / 1e9
        (log,) = power_log.read_folder(root / "power")
        return 0 if report(log, seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
