"""What a witness has drawn, repeated: with sealed tickets, and real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.log import run_log
from harness.reproduction.drawn import compared, facts, text
from harness.submission.layout import CAMPAIGN_NAME
from harness.submission.receipts import ISSUED, Drawn
from tests import fabricate, reproduction_kills
from tests.witnessing import FakeWitness, ticket

EVALUATIONS = ((100, "a" * 64, 0.25), (200, "b" * 64, 0.5), (300, "c" * 64, 0.75))


@pytest.fixture
def found(tmp_path: Path) -> Drawn:
    log = run_log.read(fabricate.write_log(tmp_path / "result_2.txt", fabricate.events()))
    return Drawn(log, 17, 3, EVALUATIONS)


def test_equal_predictions_are_equal(found: Drawn) -> None:
    """Up to the drawn evaluation; what comes after it is not looked at."""
    repeated = compared(found, [*EVALUATIONS, (400, "d" * 64, 0.9)])

    assert (repeated.status, repeated.num_equal, repeated.first, repeated.largest) == ("equal", 3, None, 0.0)
    assert text(repeated) == (
        "drawn: result_2.txt, evaluation 3 (300 samples): repeated; the predictions of all 3 evaluations up to it are "
        "equal byte by byte"
    )


@pytest.mark.parametrize(
    ("again", "first", "num_equal", "said"),
    [
        ([EVALUATIONS[0], (200, "0" * 64, 0.625), (300, "1" * 64, 0.75)], 200, 1, "up to 0.125, from 200 samples on"),
        ([EVALUATIONS[0], (200, "b" * 64, 0.5)], 300, 2, "from 300 samples on (the repetition ended before)"),
        ([(100, "0" * 64, 0.25)], 100, 0, "from 100 samples on (the repetition ended before)"),
        ([], 100, 0, "0 of 3 evaluations are equal"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(
    found: Drawn, again: list[tuple[int, str, float]], first: int, num_equal: int, said: str
) -> None:
    """Also where the repetition reached its target, and so its end, before."""
    repeated = compared(found, again)

    assert (repeated.status, repeated.first, repeated.num_equal) == ("different", first, num_equal)
    assert said in text(repeated)
    assert text(repeated).endswith("this is not the run that was witnessed")
    assert facts(repeated)["first_different_samples"] == first


def tta(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    common = ["--ruleset", "toy_rules", "--data", "data", "--no-mlflow"]
    command = [sys.executable, "-m", "harness.cli", *arguments, *common]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)


def witnessed(tree: Path) -> None:
    """A run with a sealed ticket, and the end of its campaign, in `tree/claim`."""
    printed = tta(tree, "run", "toy", "--print-campaign")
    wanted: dict[str, Any] = json.loads(printed.stdout)
    known = ticket(0)
    issued = {name: getattr(known, name) for name in ("campaign", "number", "server_nonce", "client_nonce", "seed")}
    receipt = FakeWitness(tree).receipt(ISSUED, known.ticket, issued, 0).record()
    sealed = {**wanted, "nonces": [known.client_nonce], "receipts": [receipt]}
    (tree / "tickets.json").write_text(json.dumps(sealed))
    made = tta(tree, "run", "toy", "--witness", "tickets.json", "--out", "claim")
    assert made.returncode == 0, made.stderr
    FakeWitness(tree / "claim").write()
    for path in (tree / "claim").glob("predictions_*.npz"):
        path.unlink()  # a toy's are single numbers, which no evaluation again takes


@pytest.mark.slow
def test_a_drawn_run_is_repeated(tmp_path: Path) -> None:
    """Equal on the same machine; with a workload that learns otherwise, and is still the same each time, it is another
    run; and where each repetition differs, that is said and nothing concluded."""
    pytest.importorskip("torch")
    tree = reproduction_kills.learning_tree(tmp_path / "tree")
    witnessed(tree)
    honest = tta(tree, "reproduce", "claim", "--drawn", "--tolerance", "0.1", "--out", "again")
    workload = tree / "workloads" / "toy" / "__init__.py"
    text = workload.read_text()
    found = {}
    for name, change in {"other": "0.25 * self", "random": "0.001 * (time.time_ns() % 97) + 0.2 * self"}.items():
        workload.write_text(text.replace("0.26 * self", change))
        found[name] = tta(
            tree, "reproduce", "claim", "--drawn", "--tolerance", "0.1", "--out", name, "--format", "json"
        )
    (tree / "claim" / CAMPAIGN_NAME).unlink()
    refused = tta(tree, "reproduce", "claim", "--drawn", "--tolerance", "0.1", "--out", "third")

    assert honest.returncode == 0, honest.stderr
    assert "equal byte by byte" in honest.stdout
    assert {name: item.returncode for name, item in found.items()} == {"other": 1, "random": 1}, found
    drawn = {name: json.loads(item.stdout)["drawn"] for name, item in found.items()}
    assert [drawn[name]["status"] for name in ("other", "random")] == ["different", "not available"]
    assert drawn["random"]["why"] == "two repetitions differ from each other, too"
    assert (refused.returncode, "no witness has drawn anything" in refused.stderr) == (2, True), refused.stderr
