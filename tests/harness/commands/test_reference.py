"""`tta reference`: the program makes the runs that a ruleset asks for, and resumes them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.log import keys, run_log
from harness.scoring import timeline

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ruleset(tmp_path: Path) -> Path:
    """The rules of image_classification, with two evaluations in a run and two runs in a recipe."""
    folder = tmp_path / "rules"
    folder.mkdir()
    shutil.copy(ROOT / "rules/v1/ruleset.yaml", folder)
    content = yaml.safe_load((ROOT / "rules/v1/image_classification.yaml").read_text())
    mini = content["suites"]["mini"]
    mini.update(eval_every_samples=1280, max_samples=2560, reference_convergence=[])
    mini["reference_recipes"] = [{"global_batch_size": 128, "num_runs": 2}]
    (folder / "image_classification.yaml").write_text(yaml.safe_dump({**content, "suites": {"mini": mini}}))
    return folder


@pytest.mark.slow
def test_reference_runs_are_full_curves_and_a_second_call_makes_none_again(tmp_path: Path, ruleset: Path) -> None:
    """A run goes on past its target until its budget ends; a missing run is made, the others are kept."""
    system = tmp_path / "system.json"
    out = tmp_path / "out"
    tta = [sys.executable, "-m", "harness.cli"]
    call = [*tta, "reference", "image_classification", "--ruleset", str(ruleset), "--system", str(system)]
    subprocess.run([*tta, "doctor", "--out", str(system)], check=True, capture_output=True)

    first = subprocess.run([*call, "--out", str(out)], capture_output=True, text=True, check=False)
    job = out / "image_classification_mini/gbs128_seeds0-1"
    before = {path.name: path.read_bytes() for path in job.glob("result_*.txt")}
    (job / "result_1.txt").unlink()
    second = subprocess.run([*call, "--out", str(out)], capture_output=True, text=True, check=False)

    assert re.findall("exit status ([0-9])", first.stderr + second.stderr) == ["0", "0"], first.stderr + second.stderr
    logs = [run_log.read(job / f"result_{index}.txt") for index in range(2)]
    assert [log.value(keys.SEED) for log in logs] == [0, 1]
    assert [timeline.is_full_curve(log) for log in logs] == [True, True]
    assert [[event.samples_count for event, _ in timeline.qualities(log)] for log in logs] == [[1280, 2560]] * 2
    assert (job / "result_0.txt").read_bytes() == before["result_0.txt"]
    assert not (job / "output").exists()
