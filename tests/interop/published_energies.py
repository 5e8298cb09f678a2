#!/usr/bin/env python3
"""What published MLPerf Training energies would be by the rule: the table of docs/published-training-energies.md.

Reads an archive of a power submission as it was published (results/<system>/<benchmark>/, run logs, power/ and
scaling.json) in one pass, and prints a row for every benchmark on every system.

    python tests/interop/published_energies.py ARCHIVE.tar.xz [--format markdown|json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # so that it can be called from anywhere

from harness.energy.accounting import run_energy  # noqa: E402
from harness.errors import TtaError  # noqa: E402
from harness.log import power_log, run_log  # noqa: E402
from tests.interop.mlperf_energy import DROPS, olympic_mean, run_joules  # noqa: E402

HEAD = (
    "nodes | benchmark | published kJ | rule's sum kJ | trapezoid kJ | the run drew | "
    "readings | median step s | longest gap s | least coverage | estimated | void for"
)


@dataclass(frozen=True, slots=True)
class Published:
    """One benchmark on one system: the mean over the runs that the time keeps, the worst over all runs.

    published_kj: by the formula of May 2024. riemann_kj: by the sum in the rule's text. integral_kj: ours. num_samples:
    within the run, of the node that has the fewest.
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
        """How much more (or less) than published was drawn during the run, per cent of the published."""
        return 100 * (self.integral_kj / self.published_kj - 1)


def unpack(archive: Path, folder: Path) -> None:
    """The logs in `archive` into `folder`, in one pass over it; pictures and everything else stay packed."""
    with tarfile.open(archive, "r|xz") as stream:
        for member in stream:
            if member.isfile() and member.name.endswith((".txt", "scaling.json")):
                target = (folder / member.name).resolve()
                content = stream.extractfile(member)
                if not target.is_relative_to(folder.resolve()) or content is None:
                    raise tarfile.TarError(f"{member.name!r} leads out of the folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())


def published(folder: Path) -> Published:
    """Of one benchmark's folder: run logs, power/, scaling.json."""
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
    """Every benchmark folder of the archive (or of the folder where it was unpacked) that has power logs."""
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
        parser.error(f"{arguments.archive}: no power logs are here (SUBMITTER/results/SYSTEM/BENCHMARK/power)")
    print(markdown(rows) if arguments.format == "markdown" else json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
