"""`tta reproduce` as it is typed: what is planned, screened, watched and shown, of a toy that learns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import reproduction_kills

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tree with a claim of three runs."""
    tree = reproduction_kills.learning_tree(tmp_path_factory.mktemp("tree"))
    reproduction_kills.claim(tree)
    return tree


def reproduced(tree: Path, out: str, *options: str, output_format: str = "text") -> subprocess.CompletedProcess[str]:
    *command, _ = reproduction_kills.command(out)
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *command, output_format, *options],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def test_plan_alone_runs_nothing(tree: Path) -> None:
    """What differs, and at which numbers of runs it will be judged, as text and for machines."""
    text, facts = (reproduced(tree, "none", "--plan-only", output_format=name) for name in ("text", "json"))

    assert (text.returncode, facts.returncode) == (0, 0), text.stderr + facts.stderr
    assert "made with the same code, rules, data, recipe and packages as here" in text.stdout
    assert "plan: looks at 3 runs" in text.stdout
    found = json.loads(facts.stdout)
    assert found["identity"] == {"is_same_system": True, "differences": []}
    assert found["terms"] == {"tolerance": 0.12, "looks": [3]}
    assert found["outlook"]["run_s"] > 0
    assert not (tree / "none").exists()


def test_claim_without_first_steps_has_none_to_make_again(tree: Path) -> None:
    """The toy's rules ask for none: that says nothing, which is not success."""
    found = reproduced(tree, "steps", "--replay-only")

    assert found.returncode == 1, found.stderr
    assert found.stdout == "first steps: the claim has none that could be made again\n"


def test_halves_of_runs_are_screened(tree: Path) -> None:
    """Of claimed samples of 340, two evaluations of 100; the new runs end there and have the claim's curve."""
    found = reproduced(tree, "halves", "--screen", output_format="json")

    assert found.returncode == 0, found.stderr
    screening = json.loads(found.stdout)["screening"]
    assert (screening["samples"], screening["num_claimed"], screening["num_new"]) == (200, 3, 3)
    assert screening["ratio"] == pytest.approx(1.0, abs=0.1)


def test_watched_reproduction_becomes_a_page(tree: Path) -> None:
    """A line after each run, and a page with the curves of all six."""
    found = reproduced(tree, "watched", "--watch", output_format="html")

    assert found.returncode == 0, found.stderr
    assert [line for line in found.stderr.splitlines() if line.startswith("watch: ")] == [
        f"watch: {number}, 0 missed; no interval is known" for number in ("1 run", "2 runs", "3 runs")
    ]
    assert found.stdout.startswith("<!doctype html>")
    assert "3 claimed and 3 new curves of accuracy" in found.stdout
    assert '<span class="chip valid">reproduced</span> at most ' in found.stdout  # the word once
