"""What published MLPerf Training energies would be by MLPerf's rule and by `tta`'s integral.

Reads an archive of a power submission as it was published (results/<system>/<benchmark>/, run logs, power/ and
scaling.json) in one pass, and prints a row for every benchmark on every system: the table of
docs/reports/published-training-energies.md.

    python -m tests.interop.published_energies ARCHIVE.tar.xz [--format markdown|json]

MLPerf has two formulas, here for comparison with what was published and for nothing else. `mlperf-v4.0` is what the
published code of May 2024 computes (mlcommons/logging 4054425): the mean power over the whole logged window, with the
idle time before and after, times the time to train. `mlperf-rule` is the text of the rule: each reading times the time
since the previous one, over the readings that cover the timed portion.

Source: mlcommons/training_policies, power_measurement.adoc, "Scoring"; mlcommons/logging, result_summarizer.
"""

from __future__ import annotations

import argparse
import json
import math
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from harness.energy.accounting import run_energy
from harness.errors import LogError, TtaError
from harness.log import power_log, run_log
from harness.log.power_format import NodePower
from tests.shared_files import unpack

Formula = Literal["mlperf-v4.0", "mlperf-rule"]
# How many of the fastest and of the slowest runs are dropped; every other benchmark drops one.
DROPS = {"unet3d": 4}


def run_joules(formula: Formula, nodes: Sequence[NodePower], start_ns: int, stop_ns: int) -> float:
    """Return the energy of one run by one of MLPerf's formulas; nodes and switches add up.

    Raises:
        LogError: the stop is not after the start, or a node has no readings to apply the formula to.
    """
    if stop_ns <= start_ns:
        raise LogError(f"energy: the run starts at {start_ns} ns and stops at {stop_ns} ns")
    of_node: dict[Formula, Callable[[NodePower, int, int], float]] = {
        "mlperf-v4.0": published_node_joules,
        "mlperf-rule": rule_node_joules,
    }
    measured = [of_node[formula](node, start_ns, stop_ns) for node in nodes if any(node.samples.values())]
    length_s = (stop_ns - start_ns) / 1e9
    estimated = [_eff(node) * node.interconnect_w * length_s for node in nodes if node.interconnect_w is not None]
    if not measured:
        raise LogError("energy: no node of the run has a power reading")
    return math.fsum([*measured, *estimated])


def published_node_joules(node: NodePower, start_ns: int, stop_ns: int) -> float:
    """conversion_eff x sum(P_i x (t_i - t_before)) x time to train / (last reading - measurement start).

    The first reading reaches back to `power_measurement_start`; readings are taken in the order of the file, so that
    a time that goes back subtracts. The window ends with the last reading: in most published logs the stop has the
    time of the start.

    Raises:
        LogError: there is no `power_measurement_start`, or nothing after it.
    """
    readings = _readings(node)
    if node.start_ns is None or not readings or readings[-1][0] <= node.start_ns:
        raise LogError(f"{node.path}: has no readings after a power_measurement_start")
    before_ns, area = node.start_ns, []
    for at_ns, power_w in readings:
        area.append(power_w * (at_ns - before_ns))
        before_ns = at_ns
    window_ns = before_ns - node.start_ns
    return _eff(node) * math.fsum(area) * ((stop_ns - start_ns) / window_ns) / 1e9


def rule_node_joules(node: NodePower, start_ns: int, stop_ns: int) -> float:
    """conversion_eff x sum(P_i x (t_i - t_before)) over the timed portion: its first and last reading
    count only as far as they are in it. Readings that go back are left out; none is held beyond the last.

    Raises:
        LogError: the node has no readings.
    """
    readings = _readings(node)
    if not readings:
        raise LogError(f"{node.path}: has no readings")
    rising = [readings[0]]
    for reading in readings[1:]:
        if reading[0] > rising[-1][0]:
            rising.append(reading)
    area = [
        power_w * max(0, min(at_ns, stop_ns) - max(before_ns, start_ns))
        for (before_ns, _), (at_ns, power_w) in pairwise(rising)
    ]
    return _eff(node) * math.fsum(area) / 1e9


def olympic_mean(
    seconds: Sequence[float], joules: Sequence[float], drop: int = 1, scaling_factor: float = 1.0
) -> float:
    """Return the mean energy of the runs that the score by time keeps: sorted by time, `drop` left out at either end.

    scaling_factor: by which the review multiplied the time for convergence; it multiplies the energy too.

    Raises:
        LogError: there are not more than 2 x `drop` runs, or not as many energies as times.
    """
    if len(seconds) != len(joules) or len(seconds) <= 2 * drop:
        raise LogError(
            f"energy: {len(seconds)} times and {len(joules)} energies; more than {2 * drop} of each are needed"
        )
    order = sorted(range(len(seconds)), key=lambda index: seconds[index])
    kept = [joules[index] for index in order[drop : len(order) - drop]]
    return math.fsum(kept) / len(kept) * scaling_factor


def _readings(node: NodePower) -> list[tuple[int, float]]:
    """(nanoseconds, watts) of the node's power meter, in the order of the file; failed reads left out.

    Raises:
        LogError: it has several; the formulas are for one.
    """
    series = [name for name, spec in node.specs.items() if spec.kind == "power_w" and node.samples.get(name)]
    if len(series) > 1:
        raise LogError(f"{node.path}: {len(series)} power meters; MLPerf's formulas are for one per file")
    samples = node.samples[series[0]] if series else ()
    return [(sample.mono_ns, sample.value) for sample in samples if sample.value is not None]


def _eff(node: NodePower) -> float:
    return 1.0 if node.conversion_eff is None else node.conversion_eff


HEAD = (
    "nodes | benchmark | published kJ | rule's sum kJ | trapezoid kJ | the run drew | "
    "readings | median step s | longest gap s | least coverage | estimated | void for"
)


@dataclass(frozen=True, slots=True)
class Published:
    """One benchmark on one system: the mean over the runs that the time keeps, the worst over all runs.

    published_kj: by the formula of May 2024. riemann_kj: by the sum in the rule's text. integral_kj: by `tta`.
    num_samples: within the run, of the node that has the fewest.
    """

    system: str
    benchmark: str
    num_nodes: int
    num_runs: int
    published_kj: float
    riemann_kj: float
    integral_kj: float
    num_samples: int
    median_step_s: float
    longest_gap_s: float
    coverage: float
    share_estimated: float
    void: tuple[str, ...]

    @property
    def more_percent(self) -> float:
        """How much more (or less) than published was drawn during the run, in per cent of the published energy."""
        return 100 * (self.integral_kj / self.published_kj - 1)


def published(folder: Path) -> Published:
    """Read one benchmark's folder: run logs, power/, scaling.json."""
    seconds, energies, by_formula, by_rule = [], [], [], []
    for path in sorted(folder.glob("result_*.txt")):
        log = run_log.read(path)
        start_ns, stop_ns = (round(log.one(key).time_ms * 1e6) for key in ("run_start", "run_stop"))
        nodes = power_log.read_folder(folder / "power" / path.stem)
        seconds.append((stop_ns - start_ns) / 1e9)
        energies.append(run_energy(nodes, start_ns, stop_ns))
        by_formula.append(run_joules("mlperf-v4.0", nodes, start_ns, stop_ns))
        by_rule.append(run_joules("mlperf-rule", nodes, start_ns, stop_ns))
    scaling = folder / "scaling.json"
    factor = json.loads(scaling.read_text())["scaling_factor"] if scaling.exists() else 1.0
    drop = DROPS.get(folder.name, 1)
    measured = [part.integral for energy in energies for part in energy.parts if part.integral is not None]
    return Published(
        system=folder.parent.name,
        benchmark=folder.name,
        num_nodes=max(energy.num_nodes for energy in energies),
        num_runs=len(energies),
        published_kj=olympic_mean(seconds, by_formula, drop, factor) / 1e3,
        riemann_kj=olympic_mean(seconds, by_rule, drop, factor) / 1e3,
        integral_kj=olympic_mean(seconds, [energy.joules or 0.0 for energy in energies], drop, factor) / 1e3,
        num_samples=min(energy.num_samples for energy in energies),
        median_step_s=max(integral.median_step_s or 0.0 for integral in measured),
        longest_gap_s=max(energy.longest_gap_s for energy in energies),
        coverage=min(energy.coverage for energy in energies),
        share_estimated=max(energy.share_estimated for energy in energies),
        void=tuple(sorted({reason for energy in energies for reason in energy.void})),
    )


def of_archive(archive: Path) -> list[Published]:
    """Read every benchmark folder with power logs, of the archive or of the folder where it was unpacked."""
    if archive.is_dir():
        return [published(path.parent) for path in sorted(archive.glob("*/results/*/*/power"))]
    with tempfile.TemporaryDirectory() as place:
        unpack(archive, Path(place))
        return of_archive(Path(place))


def markdown(rows: list[Published]) -> str:
    lines = [f"| {HEAD} |", "|" + "---|" * (HEAD.count("|") + 1)]
    for row in rows:
        cells = (
            row.num_nodes,
            row.benchmark,
            f"{row.published_kj:,.2f}",
            f"{row.riemann_kj:,.2f}",
            f"{row.integral_kj:,.2f}",
            f"{row.more_percent:+.1f} %",
            row.num_samples,
            f"{row.median_step_s:.3f}",
            f"{row.longest_gap_s:.1f}",
            f"{row.coverage:.3f}",
            f"{100 * row.share_estimated:.0f} %",
            ", ".join(row.void) or "-",
        )
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("archive", type=Path, help="a .tar.xz of submissions, or the folder where it was unpacked")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    arguments = parser.parse_args()
    try:
        rows = of_archive(arguments.archive)
    except (OSError, tarfile.TarError, TtaError) as error:
        parser.error(f"{arguments.archive}: {getattr(error, 'strerror', None) or error}")
    if not rows:
        parser.error(f"{arguments.archive}: there are no power logs here (SUBMITTER/results/SYSTEM/BENCHMARK/power)")
    print(markdown(rows) if arguments.format == "markdown" else json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
