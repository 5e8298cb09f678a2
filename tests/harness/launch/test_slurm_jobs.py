"""Jobs on a real Slurm of two nodes: submitted, finished, warned, cancelled, out of time, and with a node lost."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.log import run_log
from harness.log.run_log import RunLog
from tests import slurm
from tests.harness.launch.test_slurm import GOLDEN
from tests.killing import ROOT, has_event, is_alive, toy_runs, toy_tree, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(slurm.MISSING), reason=slurm.WHY_SKIPPED)]
HELPER = "harness.cli"
SLOW = ("pause_s=2", "--runs", "3")


@dataclasses.dataclass
class Jobs:
    """A Slurm, and a tree with the toy workload. number: of the job that was submitted last. path: of programs that
    jobs find before others."""

    cluster: slurm.Cluster
    tree: Path
    number: str = ""
    path: Path | None = None

    def submit(self, verb: str, *arguments: str) -> None:
        own = ["toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--no-mlflow", "--isolation", "none"]
        words = [verb, *(own if verb == "run" else []), "--launcher", "slurm", "--nodes", "2", *arguments]
        settings = ["OMP_NUM_THREADS=1", *([] if self.path is None else [f"PATH={self.path}:{slurm.PATH}"])]
        done = self.cluster.call("env", f"--chdir={self.tree}", *settings, sys.executable, "-m", "harness.cli", *words)
        assert done.returncode == 0, done.stderr
        self.number = done.stderr.split()[2]

    @property
    def screen(self) -> str:
        """The output of the job."""
        return "".join(path.read_text() for path in self.tree.glob(f"*.slurm-{self.number}.txt"))

    def wait(self, timeout_s: float = 150.0) -> str:
        """Wait for the job's end, and for that of all its processes; return its state."""
        state = self.cluster.wait(self.number, timeout_s)
        assert until(lambda: not self.processes(), 30), self.processes()
        return state

    def processes(self) -> set[psutil.Process]:
        """The living processes of jobs: those that Slurm has started, and what descends from them."""
        found = set()
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                configuration = process.environ().get("SLURM_CONF")
                is_own = configuration == self.cluster.environment["SLURM_CONF"] and process.pid != os.getpid()
                if is_own and process.name() not in ("slurmctld", "slurmd"):
                    found |= {process, *process.children(recursive=True)}
        return {process for process in found if is_alive(process)}

    def on_second_node(self, module: str) -> psutil.Process:
        """The process of the second node that runs a module."""
        (helper,) = [p for p in self.processes() if is_running(p, HELPER) and p.environ().get("SLURM_NODEID") == "1"]
        found = [helper, *helper.children(recursive=True)]
        return next(process for process in found if is_running(process, module))

    def log(self, run: int) -> RunLog:
        log = run_log.read(self.tree / "out" / f"result_{run}.txt")
        assert log.defects == ()
        return log

    def has(self, run: int, key: str) -> bool:
        return has_event(self.tree / "out" / f"result_{run}.txt", key)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """A Slurm of two nodes for one test."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    if slurm.own_address() == "127.0.0.1":
        pytest.skip("NO ADDRESS BUT THE LOOPBACK'S HERE: jobs of Slurm are not tested")
    with slurm.cluster(folder) as cluster:
        yield Jobs(cluster, toy_tree(tmp_path / "tree"))


def is_running(process: psutil.Process, module: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        return module in words and Path(words[0]).name.startswith("python")
    return False


def reason(log: RunLog) -> str:
    stop = log.first("run_stop")
    assert stop is not None
    return str(stop.metadata["reason"])


def test_job_makes_its_runs_in_one_allocation(jobs: Jobs) -> None:
    """Two runs with two ranks on each node, one after the other: job and version in the log, no process left."""
    jobs.submit("run", "--runs", "2", "--devices", "2", "--time", "20")

    assert jobs.wait() == "FAILED"  # the toy misses its target, which is exit status 1
    for run in (0, 1):
        log = jobs.log(run)
        assert reason(log) == "budget"
        launcher = log.field("tta_launch", "launcher")
        assert (launcher["kind"], launcher["job"], launcher["image"]) == ("slurm", jobs.number, None)
        assert launcher["version"].startswith("slurm")
        assert [node["name"] for node in log.field("tta_launch", "nodes")] == ["n1", "n2"]
        assert len(log.value("tta_world")) == 4
        assert log.field("tta_nodes_clean", "left") == {"0": [], "1": []}


def test_job_of_one_node_is_named(jobs: Jobs) -> None:
    """There is no node to reach, clean or lose; the job is in the log all the same."""
    jobs.submit("run", "--nodes", "1", "--runs", "1")

    assert jobs.wait() == "FAILED"
    log = jobs.log(0)
    assert log.field("tta_launch", "launcher")["job"] == jobs.number
    assert [node["name"] for node in log.field("tta_launch", "nodes")] == ["n1"]
    assert log.first("tta_nodes_clean") is None


def test_folder_of_a_job_is_judged_as_a_local_one(jobs: Jobs) -> None:
    """By all checks and signals; job and image are on its page. What runs the container is a stand-in."""
    rules = jobs.tree / "toy_rules" / "ruleset.yaml"
    rules.write_text((ROOT / "rules" / "v1" / "ruleset.yaml").read_text())
    jobs.path = programs(jobs.tree)
    (jobs.tree / "tta.sif").write_bytes(b"an image")
    container = ("--container-runtime", "apptainer", "--container-image", "tta.sif")
    with toy_runs(jobs.tree) as begin:
        running = begin("--nodes", "2", "--launcher", "local", "--isolation", "none", "--runs", "2", "--out", "local")
        assert running.wait(150) == 1, running.errors
    jobs.submit("run", "--seed", "1", "--runs", "2", *container)
    assert jobs.wait() == "FAILED", jobs.screen

    digest = f"sha256:{hashlib.sha256(b'an image').hexdigest()}"
    assert jobs.log(0).field("tta_launch", "launcher")["image"] == digest
    for verb in ("check", "audit"):
        local, job = (judged(jobs.tree, verb, out) for out in ("local", "out"))
        assert local
        assert job == local
    done = verb_in(jobs.tree, "board", "build", "out", "--out", "site")
    assert done.returncode == 0, done.stderr
    pages = [path.read_text() for path in (jobs.tree / "site").rglob("*.html")]
    assert [page for page in pages if digest in page and f"job: {jobs.number}, kind: slurm" in page]


def programs(tree: Path) -> Path:
    """Create a stand-in for apptainer that runs the command on the host, and the `tta` of the image."""
    (found := tree / "programs").mkdir()
    (found / "apptainer").write_text('#!/bin/sh\n[ "$1 $2 $3" = "exec --nv tta.sif" ] && shift 3 && exec "$@"\n')
    (found / "tta").write_text(f'#!/bin/sh\nexec {sys.executable} -m harness.cli "$@"\n')
    for path in found.iterdir():
        path.chmod(0o755)
    return found


def verb_in(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *words, "--ruleset", "toy_rules"]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def judged(tree: Path, verb: str, out: str) -> list[tuple[str, str, str, int | None, int]]:
    """Return what a verb finds in a folder: code, severity, file, line and number."""
    (result,) = json.loads(verb_in(tree, verb, out, "--format", "json").stdout)["results"]
    return [
        (found["code"], found["severity"], found["path"].removeprefix(out), found["line"], found["count"])
        for found in result["findings"]
    ]


def test_doctor_compares_the_nodes_and_measures_their_link(jobs: Jobs) -> None:
    """As a job of its own, without any data."""
    jobs.submit("doctor")

    assert jobs.wait() == "COMPLETED"
    assert "all-reduce of nodes 0 and 1  1 MiB in" in jobs.screen
    assert all(f"node {number} (" in jobs.screen for number in (0, 1))


def test_cancelled_job_closes_its_log(jobs: Jobs) -> None:
    """`aborted: interrupted`; the run before it is kept, and no process is left."""
    jobs.submit("run", *SLOW)
    assert until(lambda: jobs.has(1, "block_start"), 120), jobs.screen

    jobs.cluster.call("scancel", jobs.number)

    assert jobs.wait() == "CANCELLED"
    assert [reason(jobs.log(run)) for run in (0, 1)] == ["budget", "interrupted"]
    assert not jobs.has(2, "tta_format")
    assert jobs.log(1).first("tta_node_lost") is None


@pytest.mark.release  # Slurm counts whole minutes
def test_job_out_of_time_closes_its_log(jobs: Jobs) -> None:
    """After a minute and what Slurm takes to notice: `aborted: interrupted`."""
    rules = jobs.tree / "toy_rules" / "toy.yaml"
    rules.write_text(rules.read_text().replace("max_seconds: 30", "max_seconds: 900"))
    jobs.submit("run", "pause_s=200", "--runs", "1", "--time", "1", "--last-start", "1")

    assert jobs.wait(200) == "TIMEOUT"
    assert reason(jobs.log(0)) == "interrupted"


def test_warning_begins_no_more_runs(jobs: Jobs) -> None:
    """The run that it meets is finished, and so is the job, before its time is over."""
    jobs.submit("run", *SLOW)
    assert until(lambda: jobs.has(0, "block_start"), 120), jobs.screen

    jobs.cluster.call("scancel", "--signal=USR1", jobs.number)

    assert jobs.wait() == "FAILED"
    assert reason(jobs.log(0)) == "budget"
    assert not jobs.has(1, "tta_format")
    assert "no further run: the job's time is nearly over" in jobs.screen


@pytest.mark.parametrize("module", ["harness.run.worker", "harness.run.starter", HELPER])
def test_lost_node_is_named(jobs: Jobs, module: str) -> None:
    """A rank, the starter or the helper of the second node is killed: the run says so, and no process is left."""
    jobs.submit("run", "pause_s=2", "--runs", "1")
    assert until(lambda: jobs.has(0, "block_start"), 120), jobs.screen

    jobs.on_second_node(module).kill()

    assert jobs.wait() == "FAILED"
    assert reason(jobs.log(0)) == "crashed"
    assert jobs.log(0).field("tta_node_lost", "node") == 1


def test_scripts_are_accepted(jobs: Jobs) -> None:
    """By `sbatch --test-only`, without the options that name what this Slurm has not."""
    for path in sorted(GOLDEN.glob("*.sh")):
        if path.name == "options.sh":
            continue
        text = path.read_text().replace("--nodes=3", "--nodes=2")
        copy = jobs.tree / path.name
        copy.write_text(text)
        done = jobs.cluster.call("sbatch", "--test-only", str(copy))
        assert done.returncode == 0, done.stderr
