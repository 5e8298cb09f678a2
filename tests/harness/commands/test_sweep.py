"""`tta sweep`: the cells of a benchmark, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli
from harness.characterise.sweep import FILE

pytest.importorskip("torch")
NAME = "reinforcement_learning"
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_sweep_of_a_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two batch sizes on real and on synthetic data, one on two devices; the page and the document have them."""
    place = ["--cache", str(tmp_path / "data"), "--out", str(tmp_path / "sweep"), "--quiet"]
    command = ["sweep", NAME, *place, "--steps", "3", "--format", "json"]

    assert cli.main([*command, "--batch", "2048,4096"]) == 0
    capsys.readouterr()
    assert cli.main([*command, "--batch", "4096", "--devices", "2"]) == 0

    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    statuses = {(c["num_devices"], c["batch_size"], c["data"]): c["status"] for c in found["cells"]}
    assert statuses == {
        **{(1, batch, data): "ok" for batch in (2048, 4096) for data in ("real", "synthetic")},
        **{(2, 4096, data): "ok" for data in ("real", "synthetic")},
    }
    shares = {(one["num_devices"], one["batch_size"]): one["fraction"] for one in found["input_bound"]}
    assert set(shares) == {(1, 2048), (1, 4096), (2, 4096)}
    medians = {(c["num_devices"], c["batch_size"], c["data"]): c["step"]["median"] for c in found["cells"]}
    for (devices, batch), share in shares.items():  # how large it is depends on what else the machine does
        one, other = medians[devices, batch, "real"], medians[devices, batch, "synthetic"]
        assert share == pytest.approx(1 - other / one)
    assert {one["kind"] for one in found["scaling"]} == {"strong", "weak"}
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text()) == found
    assert (tmp_path / "sweep" / "sweep.html").read_text().count("<svg") >= 1
    assert len((tmp_path / "sweep" / FILE).read_text().splitlines()) == 7


@pytest.mark.slow
def test_batch_that_does_not_fit_is_a_row(tmp_path: Path) -> None:
    """In an address space of 4.5 GB a batch of 20,000 images cannot keep what backward needs; the others can."""
    command = [sys.executable, "-m", "harness.cli", "sweep", "image_classification", "--batch", "64,20000"]
    place = ["--cache", str(tmp_path / "data"), "--out", str(tmp_path / "sweep"), "--data", "real", "--steps", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    prepare = [*command[:3], "data", "prepare", "image_classification", "--data", str(tmp_path / "data")]
    subprocess.run(prepare, cwd=ROOT, env=environment, check=True, capture_output=True)
    limited = ["bash", "-c", 'ulimit -v 4500000; exec "$@"', "bash", *command, *place, "--format", "json"]

    done = subprocess.run(limited, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    small, large = json.loads(done.stdout)["cells"]
    assert (small["status"], large["status"]) == ("ok", "oom")
    assert "can't allocate memory: you tried to allocate" in large["evidence"]
    assert json.loads(done.stdout)["largest_batch"][0]["fails_at"] == 20_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "real,fake"], "--data: 'fake' is none of real, synthetic"),
        (["--precision", "fp33"], "unknown precision 'fp33'; did you mean"),
        (["--batch", "64,0"], "'0' is not a whole number of at least 1"),
        (["--devices", "1,,2"], "'' is not a whole number of at least 1"),
    ],
)
def test_what_cannot_be_swept(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", NAME, *arguments]) == 2

    assert said in capsys.readouterr().err
