"""What published MLPerf Training energies would be by MLPerf's rule and by `tta`'s integral.

Reads an archive of a power submission as it was published (results/<system>/<benchmark>/, run logs, power/ and
scaling.json) in one pass, and prints a row for every benchmark on every system: the table of
docs/reports/published-training-energies.md. `tta score` shows the same energies; here are also the facts about the
readings.

    python -m tests.interop.published_energies ARCHIVE.tar.xz [--format markdown|json]
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.energy.limits import EnergyLimits
from harness.errors import LogError, TtaError
from harness.log import power_files, run_log
from harness.mlperf.score import run_seconds
from harness.ruleset import catalog, load
from harness.scoring.round_energy import joules_of, mean_energy
from tests.shared_files import unpack

ROUND = "mlperf_training/4.0.0"
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
    round_ = load.load_ruleset(catalog.ruleset_folder(ROUND), ROUND).round
    assert round_ is not None
    logs = [power_files.with_power(run_log.read(path)) for path in sorted(folder.glob("result_*.txt"))]
    runs = [joules_of(log, EnergyLimits()) for log in logs]
    scaling = folder / "scaling.json"
    factor = json.loads(scaling.read_text())["scaling_factor"] if scaling.exists() else 1.0
    energy = mean_energy(runs, [run_seconds(log) for log in logs], round_.benchmarks[folder.name].drop, factor)
    drawn = [run.drawn for run in runs if run.drawn is not None]
    measured = [part.integral for one in drawn for part in one.parts if part.integral is not None]
    if energy.published_j is None or energy.rule_j is None or energy.drawn_j is None:
        raise LogError(f"{folder}: {energy.why_not or 'has no energy'}")
    return Published(
        system=folder.parent.name,
        benchmark=folder.name,
        num_nodes=max(one.num_nodes for one in drawn),
        num_runs=len(runs),
        published_kj=energy.published_j / 1e3,
        riemann_kj=energy.rule_j / 1e3,
        integral_kj=energy.drawn_j / 1e3,
        num_samples=min(one.num_samples for one in drawn),
        median_step_s=max(integral.median_step_s or 0.0 for integral in measured),
        longest_gap_s=max(one.longest_gap_s for one in drawn),
        coverage=min(one.coverage for one in drawn),
        share_estimated=max(one.share_estimated for one in drawn),
        void=energy.void,
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
