#!/usr/bin/env python3
"""Makes the reference runs from which targets and convergence points are derived (`tta target`).

The rules say which (`reference_recipes`). Every job is `tta run --full-curve` at one global batch size and ten
seeds, into its own folder below submissions/reference/convergence/<benchmark>/. A second call goes on where the
first one stopped: finished runs stay, unfinished ones are made again. Samples to target do not depend on how busy a
machine is, so the jobs share the cores; seconds from these runs mean nothing.

    python scripts/reference_runs.py image_classification [--suite mini] [--jobs 2] [--only gbs128]
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it can be called from anywhere

from harness.errors import TtaError
from harness.ruleset import catalog, load
from harness.ruleset.model import ReferenceRecipe

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "submissions" / "reference" / "convergence"
SEEDS_PER_JOB = 10


@dataclass(frozen=True)
class Job:
    """Up to ten seeds of one recipe."""

    workload: str
    suite: str
    recipe: ReferenceRecipe
    first_seed: int

    @property
    def num_runs(self) -> int:
        return min(SEEDS_PER_JOB, self.recipe.num_runs - self.first_seed)

    @property
    def name(self) -> str:
        return f"gbs{self.recipe.global_batch_size}_seeds{self.first_seed}-{self.first_seed + self.num_runs - 1}"

    @property
    def folder(self) -> Path:
        return PLACE / f"{self.workload}_{self.suite}" / self.name

    @property
    def overrides(self) -> list[str]:
        values = {"global_batch_size": self.recipe.global_batch_size, **self.recipe.hyperparameters}
        return [f"{name}={value}" for name, value in values.items()]


def jobs_of(workload: str, suite: str) -> list[Job]:
    """The jobs that the rules ask for, in their order."""
    recipes = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmark(workload, suite).reference_recipes
    return [
        Job(workload, suite, recipe, first) for recipe in recipes for first in range(0, recipe.num_runs, SEEDS_PER_JOB)
    ]


def carry_out(job: Job, system: Path, threads: int) -> int:
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "harness.cli", "run", job.workload, "--suite", job.suite, "--full-curve"]
    command += ["--resume", "--no-mlflow", "--quiet", "--out", str(job.folder), "--system", str(system)]
    command += ["--runs", str(job.num_runs), "--seed", str(job.first_seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    print(f"{job.name}: started", flush=True)
    status = subprocess.run([*command, *job.overrides], cwd=ROOT, env=environment, check=False).returncode
    shutil.rmtree(job.folder / "output", ignore_errors=True)
    print(f"{job.name}: exit status {status}", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=catalog.workload_names())
    parser.add_argument("--suite", default="mini", help="(default: %(default)s)")
    parser.add_argument("--system", type=Path, required=True, help="system description, from `tta doctor --out`")
    parser.add_argument("--jobs", type=int, default=2, help="jobs at a time (default: %(default)s)")
    parser.add_argument("--only", default="", help="jobs whose name begins so")
    arguments = parser.parse_args()
    try:
        jobs = [job for job in jobs_of(arguments.workload, arguments.suite) if job.name.startswith(arguments.only)]
    except TtaError as error:
        parser.error(str(error))
    if not jobs:
        parser.error(f"the rules name no reference_recipes for {arguments.workload} {arguments.suite} {arguments.only}")
    threads = max(1, len(os.sched_getaffinity(0)) // arguments.jobs)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        statuses = list(pool.map(lambda job: carry_out(job, arguments.system, threads), jobs))
    return max(statuses, default=0)


if __name__ == "__main__":
    sys.exit(main())
