"""Sessions of a workload with the hyperparameters of the rules, and the golden files that tests compare with.

`UPDATE_GOLDEN=1 python -m pytest -m "" -k golden tests/workloads` regenerates those files, to be reviewed as a diff.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil
import pytest

from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.run import numerics, worker, workloads
from harness.workload import Quality, RunConfig

ROOT = Path(__file__).parents[2]
RULESET = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")


def rules_of(name: str, suite: str = "mini") -> BenchmarkRules:
    return RULESET.benchmark(name, suite)


def config(
    name: str, folder: Path, suite: str = "mini", seed: int = 3, num_devices: int = 1, **changed: Any
) -> RunConfig:
    """A closed run on the data in `folder`; `changed` are hyperparameters that differ from the rules' defaults."""
    metadata = json.loads((folder / "metadata.json").read_text("utf-8"))
    values = {**rules_of(name, suite).defaults(), **changed}
    return RunConfig(name, suite, "closed", seed, values, metadata, num_devices)


def started(name: str, folder: Path, **arguments: Any) -> Any:
    """A session that has been prepared, initialised and started on the data in `folder`."""
    session = workloads.workload(name).open(config(name, folder, **arguments))
    initialised(session)
    session.start(folder)
    return session


def initialised(session: Any) -> Any:
    """Prepare and initialise a session as the worker does."""
    session.prepare()
    worker.seed_all(session.config.seed)
    session.initialise()
    return session


@contextmanager
def in_precision(precision: str) -> Iterator[None]:
    """Compute in `precision`, and in fp32 afterwards; the sessions within may have another one than those outside.

    accelerate has one precision for all of a process.
    """
    from accelerate.state import AcceleratorState

    shared: Any = AcceleratorState._shared_state
    outside = dict(shared)
    numerics.set_precision(precision)
    shared.clear()
    try:
        yield
    finally:
        shared.clear()
        shared.update(outside)
        numerics.set_precision("fp32")


def quality(session: Any, folder: Path, labels: Path | None = None) -> Quality:
    """What the evaluator says of a session's predictions. labels: the folder of the labels, if it is not `folder`."""
    workload = workloads.workload(session.config.workload)
    return workload.evaluator(session.config.suite, folder, labels or folder).quality(session.predict)


def losses(session: Any, num_steps: int) -> list[float]:
    return [session.train_block(1).mean_loss for _ in range(num_steps)]


def network_digest(session: Any) -> str:
    """The digest of the parameters of a session's network, after its next step."""
    from harness.characterise.watching import network_of
    from harness.run.network import fingerprint

    network = network_of(lambda: session.train_block(1))
    return fingerprint(network.modules, []).parameters


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def golden(name: str, key: str, found: Any) -> Any:
    """What the golden file of a workload has under `key`; `found` if the file is being regenerated."""
    path = Path(__file__).with_name(f"{name}_golden.json")
    content = json.loads(path.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        content[key] = found
        path.write_text(json.dumps(content, indent=1) + "\n")
    return content[key]


def assert_golden_curve(name: str, curve: list[float], first: dict[str, float], **tolerance: float) -> None:
    """The first five losses are within the tolerance `first`, all of them within `tolerance`.

    The tolerances are for other processors' order of summation.
    """
    expected = golden(name, "loss", [round(loss, 6) for loss in curve])
    assert curve[:5] == pytest.approx(expected[:5], **first)
    assert curve == pytest.approx(expected, **tolerance)


BEFORE = """
import json, sys
from pathlib import Path
import torch
from tests.workloads.sessions import course
torch.set_num_threads(1)
*folders, out = map(Path, sys.argv[1:])
"""
AFTER = """
(out / f"{session.rank}.json").write_text(json.dumps(result))
if session.rank == 0:
    torch.save(session.network.state_dict(), out / "weights.pt")
session.close()
"""


def course(session: Any, num_samples: int, folder: Path) -> dict[str, Any]:
    """Train and evaluate: what must be the same on every rank, and nearly the same on one process."""
    block, found = session.train_block(num_samples), quality(session, folder)
    weights = [parameter.double().sum().item() for parameter in session.network.parameters()]
    return {
        "course": {"loss": block.mean_loss, "value": found.value, "weights": weights},
        "counts": [block.num_samples, found.num_examples],
    }


def on_processes(script: str, out: Path, *arguments: str, num_processes: int = 2) -> list[Any]:
    """What each rank of `script` (gloo, CPU) writes to `<rank>.json` in `out`, the last of its arguments."""
    (out / "script.py").write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    done = subprocess.run(
        [*command, str(out / "script.py"), *arguments, str(out)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(num_processes)]


def on_two_processes(script: str, out: Path, *folders: Path) -> list[dict[str, Any]]:
    """The `result` of `script` on each of two ranks; it uses `folders` and leaves a `session` to close.

    Both must have the same course and counts. Rank 0's weights are in `out` afterwards.
    """
    ranks: list[dict[str, Any]] = on_processes(BEFORE + script + AFTER, out, *map(str, folders))
    assert ranks[0]["course"] == ranks[1]["course"]
    assert ranks[0]["counts"] == ranks[1]["counts"]
    return ranks


def tta(cwd: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own; it fails the test if it takes ten minutes, and says where it was."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness.cli", *map(str, arguments)]
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            found = _where(process.pid)
            process.kill()
            pytest.fail("\n".join([*command, *process.communicate(), *found, *_outputs_in(cwd)]))
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _where(pid: int) -> list[str]:
    """The descendants of a process and what each is doing; they are killed, workers after they wrote their stacks."""
    found = []
    family = psutil.Process(pid).children(recursive=True)
    for member in family:
        with suppress(psutil.NoSuchProcess):
            found.append(f"{member.pid} {member.status()} {member.cmdline()[-3:]}")
            if "harness.run.worker" in member.cmdline():
                member.send_signal(signal.SIGUSR1)
                time.sleep(1)  # two that write at once cannot be told apart
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    return found


def _outputs_in(folder: Path) -> list[str]:
    """The ends of what the workers of the results in a folder have printed."""
    return [f"{path}:\n{path.read_text()[-20_000:]}" for path in sorted(folder.rglob("output/*.txt"))]
