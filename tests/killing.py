"""Commands in processes of their own, a workload that fails on demand, and a search for the processes left behind.

The process of the tests adopts the orphans of what it starts, so that none escapes by leaving its session or parent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness.base.processes import adopt_orphans

ROOT = Path(__file__).parents[1]
MODULES = {name: f"harness.run.{name}" for name in ("starter", "worker", "evaluator", "curtain")} | {
    "agent": "harness.metering.agent",
    "mirror": "harness.tracking",
}
RULESET = """\
divisions: [closed, open]
timing:
  max_init_s: {closed: 60, open: 60}
  answer_grace_s: 2
codes:
  LOG001: error
"""
TOY_RULES = """\
workload: toy
metric: {name: accuracy, unit: fraction, direction: max}
suites:
  mini:
    target: 0.9
    eval_every_samples: 100
    max_samples: 400
    max_seconds: 30
    train_examples: 100
    eval_examples: 10
    quality_range: [0, 1]
    permits_resume: true
    num_runs: 1
    open_runs: 1
    drop: 0
    hyperparameters:
      global_batch_size: {fixed: 100}
      fault: {free: true, default: none}
      pause_s: {free: true, default: 0.05}
"""
# `fault` is `<phase>:<what>`: that phase of the session fails in that way; with `@<rank>`, on that rank alone.
TOY_WORKLOAD = """
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from harness.errors import DataError, UsageError
from harness.workload import Block, Metric, Quality


class Session:
    def __init__(self, config):
        self.fault = str(config.hyperparameters["fault"])
        self.pause_s = float(config.hyperparameters["pause_s"])
        self.quality = config.parts.get("quality", lambda: 0.5)
        self.go("open")

    def go(self, phase):
        fault, _, rank = self.fault.partition("@")
        where, _, what = fault.partition(":")
        if where == phase and rank in ("", os.environ.get("RANK", "0")):
            if what == "memory":
                raise MemoryError("no room")
            if what == "error":
                raise ValueError("boom \\x1b[31m")
            if what == "disk":
                raise OSError(28, "No space left on device")
            if what == "usage":
                raise UsageError("global_batch_size is too large")
            if what == "data":
                raise DataError("train.npy is damaged")
            if what == "exit":
                sys.exit(3)
            if what == "quit":
                os._exit(0)
            if what in ("SIGKILL", "SIGSEGV", "SIGTERM"):
                os.kill(os.getpid(), getattr(signal, what))
            if what == "hang":
                time.sleep(1000)
            if what == "garbage":
                os.write(1, bytes(range(256)) * 1000)
                os.write(2, b"ValueError: this is only printed\\n" * 10)
            if what in ("child", "orphan"):
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
            if what == "twice":
                subprocess.Popen(["/usr/bin/setsid", "--fork", "/usr/bin/setsid", "--fork", "/bin/sleep", "1000"])
            if what == "detached":
                subprocess.Popen(["/usr/bin/env", "-i", "/usr/bin/setsid", "--fork", "/bin/sleep", "1000"])
            if what == "orphan":
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.pause_s)

    def prepare(self):
        self.go("prepare")
        self.weights_of_seed = np.random.rand(3)

    def initialise(self):
        self.go("initialise")
        self.weights_of_seed = np.random.rand(3)
        self.is_trained = False
        self.num_blocks = 0

    def weights(self):
        import torch

        return {"weights": torch.from_numpy(self.weights_of_seed)}

    def start(self, data_dir):
        self.go("start")

    def train_block(self, num_samples):
        self.go("train")
        self.is_trained = True
        self.num_blocks += 1
        count = {"train:huge": 10**400, "train:text": "many", "train:few": 1}.get(self.fault, num_samples)
        return Block(count, 1 / self.num_blocks, 0.0)

    def predict(self, inputs):
        if not self.is_trained:  # in the rehearsal
            return {"quality": np.array(0.0)}
        self.go("evaluate")
        faults = {"evaluate:nan": np.nan, "evaluate:huge": np.inf, "evaluate:text": np.array(["good"])}
        return {"quality": np.asarray(faults.get(self.fault, self.quality()))}

    def save(self, folder):
        with (folder / "blocks").open("w") as file:
            file.write(str(self.num_blocks))
            file.flush()
            self.go("save")  # between the halves of what it writes
            file.write(" blocks")

    def load(self, folder):
        self.go("load")
        self.num_blocks = int((folder / "blocks").read_text().removesuffix(" blocks"))
        self.is_trained = True

    def close(self):
        self.go("close")


class Evaluator:
    def quality(self, predict):
        return Quality(float(predict({})["quality"]), 10)


class Toy:
    name = "toy"
    metric = Metric("accuracy", "fraction", "max")
    labels = ("labels.txt",)
    libraries = ()
    parts = ("quality",)
    execution = {"mini": ("compile", "ddp_bucket_mb")}

    def prepare_data(self, suite, data_dir, source):
        (Path(data_dir) / "metadata.json").write_text("{}")
        (Path(data_dir) / "labels.txt").write_text("secret")

    def open(self, config):
        return Session(config)

    def evaluator(self, suite, data_dir, labels_dir):
        assert (labels_dir / "labels.txt").read_text() == "secret"
        return Evaluator()

    def baselines(self, suite, data_dir, labels_dir):
        return {}


WORKLOAD = Toy()
"""


def toy_tree(folder: Path) -> Path:
    """Create a source tree whose only workload is the toy, with its ruleset in `toy_rules`."""
    folder.mkdir(exist_ok=True)
    for name in ("harness", "rules"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "workloads" / "toy").mkdir(parents=True)
    (folder / "workloads" / "__init__.py").touch()
    (folder / "workloads" / "toy" / "__init__.py").write_text(TOY_WORKLOAD)
    (folder / "toy_rules").mkdir()
    (folder / "toy_rules" / "ruleset.yaml").write_text(RULESET)
    (folder / "toy_rules" / "toy.yaml").write_text(TOY_RULES)
    shutil.copyfile(ROOT / "rules" / "v1" / "prices.yaml", folder / "toy_rules" / "prices.yaml")
    return folder


def is_alive(process: psutil.Process) -> bool:
    """Return whether it has not ended, not even as a zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def first_named(what: str, processes: list[psutil.Process]) -> psutil.Process | None:
    """Return the first that runs that name in `MODULES`."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            # Before exec, a new process still has the command line of its parent.
            words = process.cmdline()
            if MODULES[what] in words and (words[1:3] == ["-I", "-S"] or words[1:2] == ["-P"]):
                return process
    return None


@dataclass
class Running:
    """A `tta` command in a process of its own."""

    arguments: list[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    python: str = sys.executable

    def __post_init__(self) -> None:
        adopt_orphans()
        self.before = {process.pid for process in psutil.Process().children(recursive=True)}
        self.process = subprocess.Popen(
            [*self.prefix, self.python, "-m", "harness.cli", *self.arguments],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.errors = ""

    def relatives(self) -> list[psutil.Process]:
        """Return every living process that descends from the command, its orphans included."""
        others = {*self.before, self.process.pid}
        found = psutil.Process().children(recursive=True)
        return [process for process in found if process.pid not in others and is_alive(process)]

    def find(self, what: str) -> psutil.Process | None:
        """Return the living process of that name in `MODULES`."""
        return first_named(what, self.relatives())

    def wait(self, timeout_s: float = 600.0) -> int:
        """Return the exit status; `errors` then has the text of standard error."""
        _, self.errors = self.process.communicate(timeout=timeout_s)
        return self.process.returncode

    def end(self) -> None:
        """Kill what is left; some of it may be ending by itself."""
        self.process.kill()  # first: it can start nothing more
        for process in self.relatives():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.communicate()


@contextmanager
def toy_runs(tree: Path) -> Iterator[Callable[..., Running]]:
    """Yield a function that starts `tta run toy` in `tree`; end whatever is left of the runs."""
    started: list[Running] = []

    def begin(*arguments: str, **options: Any) -> Running:
        command = ["run", "toy", "--ruleset", "toy_rules", "--out", "out", "--data", "data", "--seed", "1"]
        mirror = [] if "--mlflow" in arguments else ["--no-mlflow"]
        started.append(Running([*command, *mirror, *arguments], tree, **options))
        return started[-1]

    try:
        yield begin
    finally:
        for running in started:
            running.end()


def until(condition: Callable[[], object], timeout_s: float = 600.0, every_s: float = 0.02) -> bool:
    """Wait for a condition; return whether it became true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def has_event(log: Path, key: str, times: int = 1) -> bool:
    """Return whether the log has `key` at least `times` times."""
    return log.exists() and log.read_text().count(f'"key": "{key}"') >= times


def kill(process: psutil.Process | None, number: int = signal.SIGKILL) -> bool:
    """Send a signal; return whether the process existed."""
    if process is None:
        return False
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True
