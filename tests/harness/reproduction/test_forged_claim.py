"""A result whose logs were edited throughout, so that its runs seem to need a fifth fewer samples: made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.base.files import sha256_of
from harness.log import run_log
from harness.ruleset import catalog, load
from harness.scoring.run_result import run_result
from tests import fabricate
from tests.fabricate import Step, find
from tests.rules.box import agree
from tests.workloads.sessions import ROOT, tta

pytest.importorskip("torch")

RESULT = ROOT / "submissions" / "reference" / "results" / "two-core-cloud-vm" / "recommendation_mini"
CUT = 0.2
OF_A_LINE = ("file", "lineno", "seq", "elapsed_ns", "prev")  # written again with it


def steps_of(path: Path) -> tuple[list[Step], int]:
    """The events of a log, and the time at which its clock began."""
    log = run_log.read(path)
    found = []
    for event in log.events:
        metadata = {name: value for name, value in event.metadata.items() if name not in OF_A_LINE}
        assert event.elapsed_ns is not None
        found.append(Step(event.elapsed_ns / 1e9, event.key, event.value, metadata, event.event_type))
    first = log.events[0]
    assert first.elapsed_ns is not None
    return found, first.time_ms - first.elapsed_ns // 1_000_000


def cut(path: Path) -> None:
    """Take a fifth of the blocks out of the middle of a run, with their evaluations; all else is made to agree.

    The predictions of the last evaluation are what they were, so that their quality is still right.
    """
    steps, wall_start_ms = steps_of(path)
    begins = [place for place, step in enumerate(steps) if step.key == "block_start"]
    first, last = begins[3], begins[3 + round(CUT * len(begins))]
    samples = steps[last].metadata["samples_count"] - steps[first].metadata["samples_count"]
    seconds = steps[last].at_s - steps[first].at_s
    for step in steps[last:]:
        step.at_s -= seconds
        if "samples_count" in step.metadata:
            step.metadata["samples_count"] -= samples
    del steps[first:last]
    stop = find(steps, "run_stop")
    found, (words, _, rest) = stop.metadata, stop.metadata["evidence"].partition(" after ")
    found["evidence"] = f"{words} after {found['samples_count']:,} samples{rest.partition(' samples')[2]}"
    agree(steps, path.parent.parent)
    (path.parent.parent / "forged.txt").unlink()
    fabricate.write_log(path, steps, wall_start_ms)


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """The folder of the forged result, in a tree as it is submitted."""
    tree = tmp_path / "tree" / "reference"
    folder = tree / "results" / RESULT.parent.name / RESULT.name
    shutil.copytree(RESULT, folder)
    shutil.copytree(RESULT.parents[2] / "systems", tree / "systems")
    manifest = (folder / "MANIFEST.sha256").read_text()
    for path in sorted(folder.glob("result_*.txt")):
        before = sha256_of(path)
        cut(path)
        manifest = manifest.replace(before, sha256_of(path))
    (folder / "MANIFEST.sha256").write_text(manifest)
    return folder


def test_no_check_sees_it(forged: Path, tmp_path: Path) -> None:
    """Why results are made again: its runs seem to need a fifth fewer samples, and nothing in the logs contradicts."""
    rules = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks["recommendation_mini"]
    names = sorted(path.name for path in RESULT.glob("result_*.txt"))
    for name in names:
        honest, cut = (run_result(run_log.read(folder / name), rules).crossing_samples for folder in (RESULT, forged))
        assert honest is not None
        assert cut is not None
        assert 0.7 < cut / honest < 0.85

    done = tta(tmp_path, "check", forged)

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.release
def test_it_is_not_reproduced(forged: Path, tmp_path: Path) -> None:
    """Five real runs: shown to be worse than claimed, by about a quarter."""
    done = tta(tmp_path, "reproduce", forged, "--runs", 5, "--format", "json", "--no-mlflow", "--out", tmp_path / "new")

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "not reproduced"
    assert found["samples"]["ratio"] == pytest.approx(1.27, abs=0.12)
    assert found["samples"]["num_new"] == 5
