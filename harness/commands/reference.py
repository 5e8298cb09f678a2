"""`tta reference`: make the reference runs from which targets and convergence points are derived (`tta target`).

The rules say which (`reference_recipes`). Each job is `tta run --full-curve` at one global batch size with up to ten
seeds, into a folder of its own. A second call resumes where the first one stopped: finished runs stay, unfinished ones
are made again. Samples to target do not depend on how busy a machine is, so the jobs share its cores; seconds from
these runs mean nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.commands._arguments import Parser, add_ruleset, add_suite, as_path, as_positive
from harness.errors import ExitStatus, UsageError, printable
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, ReferenceRecipe

SEEDS_PER_JOB = 10


@dataclass(frozen=True, slots=True)
class Job:
    """Up to ten seeds of one recipe."""

    recipe: ReferenceRecipe
    first_seed: int

    @property
    def num_runs(self) -> int:
        return min(SEEDS_PER_JOB, self.recipe.num_runs - self.first_seed)

    @property
    def name(self) -> str:
        return f"gbs{self.recipe.global_batch_size}_seeds{self.first_seed}-{self.first_seed + self.num_runs - 1}"

    @property
    def overrides(self) -> list[str]:
        values = {"global_batch_size": self.recipe.global_batch_size, **self.recipe.hyperparameters}
        return [f"{name}={value}" for name, value in values.items()]


def add_arguments(parser: Parser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument(
        "--system", type=as_path, required=True, metavar="FILE", help="system description, from `tta doctor --out`"
    )
    parser.add_argument(
        "--out",
        type=as_path,
        default=Path("submissions/reference/convergence"),
        metavar="DIR",
        help="each job writes to DIR/<benchmark>/<job> (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=as_positive, default=2, metavar="N", help="jobs at a time (default: %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="PREFIX", help="only jobs whose name begins with this")


def call(arguments: argparse.Namespace) -> ExitStatus:
    ruleset = load.load_ruleset(catalog.ruleset_folder(arguments.ruleset), arguments.ruleset)
    rules = ruleset.benchmark(arguments.workload, arguments.suite)
    jobs = [job for job in jobs_of(rules) if job.name.startswith(arguments.only)]
    if not jobs:
        only = f" with jobs named {printable(arguments.only)}…" if arguments.only else ""
        raise UsageError(f"{rules.name}: the rules have no reference_recipes{only}")
    command = [sys.executable, "-m", "harness.cli", "run", rules.workload, "--suite", rules.suite]
    command += ["--ruleset", arguments.ruleset, "--full-curve", "--resume", "--no-mlflow", "--quiet"]
    command += ["--system", str(arguments.system)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cores // arguments.jobs))}

    def carry_out(job: Job) -> int:
        folder = arguments.out / rules.name / job.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        own = ["--out", str(folder), "--runs", str(job.num_runs), "--seed", str(job.first_seed), *job.overrides]
        print(f"{job.name}: started", file=sys.stderr, flush=True)
        status = subprocess.run([*command, *own], env=environment, check=False).returncode
        shutil.rmtree(folder / "output", ignore_errors=True)
        print(f"{job.name}: exit status {status}", file=sys.stderr, flush=True)
        return status

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return _worst(pool.map(carry_out, jobs))


def jobs_of(rules: BenchmarkRules) -> list[Job]:
    """The jobs that the rules ask for, in the order of the recipes."""
    return [
        Job(recipe, first) for recipe in rules.reference_recipes for first in range(0, recipe.num_runs, SEEDS_PER_JOB)
    ]


def _worst(statuses: Iterator[int]) -> ExitStatus:
    """The highest status; a process that a signal ended has none of its own."""
    return max(ExitStatus(status) if status >= 0 else ExitStatus.INTERRUPTED for status in statuses)
