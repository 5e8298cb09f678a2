#!/usr/bin/env python3
"""Makes the reference runs from which targets and convergence points are derived (`tta target`).

Every job is `tta run --full-curve` at one global batch size and ten seeds, into its own folder below
submissions/reference/convergence/<benchmark>/. A second call goes on where the first one stopped: finished
runs stay, unfinished ones are made again. Samples to target do not depend on how busy a machine is, so the
jobs share the cores; seconds from these runs mean nothing.

    python scripts/reference_runs.py image_classification [--jobs 2] [--only gbs128]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "submissions" / "reference" / "convergence"
SEEDS_PER_JOB = 10


@dataclass(frozen=True)
class Job:
    """Ten seeds at one batch size. The learning rate grows with the batch, the schedule keeps its samples."""

    workload: str
    suite: str
    batch_size: int
    first_seed: int
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"gbs{self.batch_size}_seeds{self.first_seed}-{self.first_seed + SEEDS_PER_JOB - 1}"

    @property
    def folder(self) -> Path:
        return PLACE / f"{self.workload}_{self.suite}" / self.name


def image_classification(batch_size: int, first_seed: int) -> Job:
    scale = batch_size / 128
    overrides = (
        f"opt_base_learning_rate={0.4 * scale:g}",
        f"opt_learning_rate_warmup_steps={round(200 / scale)}",
        f"opt_learning_rate_training_steps={round(750 / scale)}",
    )
    return Job("image_classification", "mini", batch_size, first_seed, overrides)


JOBS = [
    image_classification(128, 0),
    image_classification(128, 10),
    image_classification(256, 0),
    image_classification(64, 0),
]


def carry_out(job: Job, system: Path, threads: int) -> int:
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "harness.cli", "run", job.workload, "--suite", job.suite, "--full-curve"]
    command += ["--resume", "--no-mlflow", "--quiet", "--out", str(job.folder), "--system", str(system)]
    command += ["--runs", str(SEEDS_PER_JOB), "--seed", str(job.first_seed), f"global_batch_size={job.batch_size}"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    print(f"{job.name}: started", flush=True)
    status = subprocess.run([*command, *job.overrides], cwd=ROOT, env=environment, check=False).returncode
    shutil.rmtree(job.folder / "output", ignore_errors=True)
    print(f"{job.name}: exit status {status}", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=sorted({job.workload for job in JOBS}))
    parser.add_argument("--system", type=Path, required=True, help="system description, from `tta doctor --out`")
    parser.add_argument("--jobs", type=int, default=2, help="jobs at a time (default: %(default)s)")
    parser.add_argument("--only", default="", help="jobs whose name begins so")
    arguments = parser.parse_args()
    jobs = [job for job in JOBS if job.workload == arguments.workload and job.name.startswith(arguments.only)]
    threads = max(1, len(os.sched_getaffinity(0)) // arguments.jobs)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        statuses = list(pool.map(lambda job: carry_out(job, arguments.system, threads), jobs))
    return max(statuses, default=0)


if __name__ == "__main__":
    sys.exit(main())
