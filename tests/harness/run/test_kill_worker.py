"""The worker, its starter, the evaluator or the referee of a real workload is killed at a random moment."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.log import keys, run_log
from tests import kills
from tests.killing import ROOT, RULESET, Running, has_event, kill, until

LATEST_S = 8.0  # import, preparation and the first blocks
# No accuracy reaches the target, and the budget outlasts the latest kill.
CHANGES = {"target": "1.0", "eval_every_samples": "1280", "max_samples": "100000000", "max_seconds": "60"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ruleset with the mini suite of image classification, changed so that a run lasts a minute."""
    folder = tmp_path_factory.mktemp("rules")
    published = (ROOT / "rules" / "v1" / "image_classification.yaml").read_text()
    lines = []
    for line in published.partition("  standard:\n")[0].splitlines():
        name = line.strip().partition(":")[0]
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(f"{indent}{name}: {CHANGES[name]}" if name in CHANGES else line)
    (folder / "image_classification.yaml").write_text("\n".join(lines) + "\n")
    (folder / "ruleset.yaml").write_text(RULESET)
    shutil.copyfile(ROOT / "rules" / "v1" / "prices.yaml", folder / "prices.yaml")
    return folder


@contextmanager
def training(rules: Path, out: Path) -> Iterator[Running]:
    """A run that is ended, whatever became of it."""
    command = ["run", "image_classification", "--ruleset", str(rules), "--out", str(out), "--runs", "1"]
    running = Running([*command, "--no-mlflow", "--quiet"], ROOT)
    try:
        yield running
    finally:
        running.end()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("victim", ["worker", "starter", "evaluator", "referee"])
def test_kill_leaves_a_sound_log_and_no_process(victim: str, seed: int, rules: Path, tmp_path: Path) -> None:
    """No line of the log is damaged, `run_stop` says "crashed" or is missing, and every process ends."""
    log_path = tmp_path / "out" / "result_0.txt"
    with training(rules, tmp_path / "out") as running:
        # The worker of the rehearsal may end at any moment, and is not missed then.
        is_up = log_path.exists if victim == "referee" else lambda: has_event(log_path, keys.TTA_INITIAL)
        assert until(is_up, 120)
        time.sleep(random.Random(f"{victim} {seed}").uniform(0, LATEST_S))
        if victim == "referee":
            running.process.kill()
        else:
            assert until(lambda: kill(running.find(victim)), 10)
        status = running.wait(180)
        log = run_log.read(log_path)
        stop = log.first("run_stop")

        assert log.defects == ()
        assert until(lambda: not running.relatives(), 10), running.relatives()
        if victim == "referee":
            assert stop is None
        else:
            assert stop is not None
            assert (status, stop.metadata["reason"]) == (1, "crashed")


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 7, 20])  # each victim once, and each form at least once
def test_detached_child_ends_with_its_run_in_every_form_of_isolation(seed: int) -> None:
    """`python -m tests.kills 100` does more of them."""
    kills.one(seed)
