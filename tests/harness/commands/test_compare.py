"""`tta compare`: two results from fabricated logs whose times are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.checker.audit import engine as audit_engine
from harness.cli import main
from tests.fabricate import events, write_result
from tests.rounds import rounds_of, submit
from tests.rules_folder import write_ruleset


def _result(folder: Path, block_s: float, num_runs: int = 5, division: str = "closed") -> Path:
    def make(index: int, _: object) -> list[object]:
        return events(index, block_s=block_s * (1 + 0.002 * index), division=division)  # type: ignore[return-value]

    return write_result(folder, num_runs, make)  # type: ignore[arg-type]


@pytest.fixture
def rules(tmp_path: Path) -> str:
    return str(write_ruleset(tmp_path / "rules" / "v1"))


def test_two_results_as_text_and_as_json(tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A third more seconds per sample is significant; both forms say the same."""
    fast, slow = _result(tmp_path / "fast", 2.0), _result(tmp_path / "slow", 3.0)

    assert main(["compare", str(fast), str(slow), "--ruleset", rules]) == 0
    text = capsys.readouterr().out
    assert main(["compare", str(fast), str(slow), "--ruleset", rules, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)

    score = document["lines"][0]
    assert (score["name"], score["is_significant"]) == ("score", True)
    assert score["ratio"] == pytest.approx(score["a"] / score["b"])
    assert score["ratio_interval"][0] < score["ratio"] < score["ratio_interval"][1] < 1
    assert f"{score['ratio']:.4f}" in text
    assert score["verdict"] in text
    assert document["a"]["place"] == str(fast)
    assert document["num_equal_settings"] == len(document["a"]["settings"])
    assert document["settings"] == []


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("fast", "fast/../fast", "are the same result; name two"),
        ("fast", "short", "short cannot be compared: no score: 3 runs found; the rules require 5"),
        ("fast", "open", "cannot be compared: their divisions are closed and open"),
        ("fast", ".", "has 3 results; name the folder of one"),
        ("fast", "nowhere", "there is no such file or folder"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, rules: str, capsys: pytest.CaptureFixture[str], a: str, b: str, words: str
) -> None:
    """With a sentence and status 2."""
    _result(tmp_path / "all" / "fast", 2.0)
    _result(tmp_path / "all" / "short", 2.0, num_runs=3)
    _result(tmp_path / "all" / "open", 2.0, division="open")

    assert main(["compare", str(tmp_path / "all" / a), str(tmp_path / "all" / b), "--ruleset", rules]) == 2
    assert words in capsys.readouterr().err


def test_results_of_an_mlperf_round_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By MLPerf's score, with the interval of the board; a fifth faster is significant."""
    tree = tmp_path / "training_v5.1"
    fast, slow = submit(tree, "Toymaker", faster=1.2), submit(tree, "Woodworker")

    assert main(["compare", str(fast.folder), str(slow.folder), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)

    entries = {entry.submitter: entry for entry in rounds_of(tree).entries}
    line = document["lines"][0]
    assert (line["a"], line["b"]) == (entries["Toymaker"].seconds, entries["Woodworker"].seconds)
    assert line["verdict"].startswith("significant: A is ")
    assert document["a"]["place"] == str(fast.folder)
    assert document["a"]["ruleset"] == "mlperf_training/5.1.0"
    assert "seed" not in document["a"]["settings"]
    assert [phase["name"] for phase in document["phases"]] == ["init", "train", "eval"]
    assert document["a"]["curves"][0]["points"][-1][1] == 0.345


def test_a_comparison_needs_no_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it is shown. The ruleset is announced by the first result."""
    fast, slow = submit(tmp_path / "training_v5.1", faster=1.2), submit(tmp_path / "training_v5.1", "Woodworker")
    monkeypatch.setattr(audit_engine, "audit", None)

    assert main(["compare", str(fast.folder), str(slow.folder)]) == 0
    said = "tta: judging by ruleset mlperf_training/5.1.0, by the name of its folder training_v5.1"
    assert capsys.readouterr().err.startswith(said)


def test_a_round_without_the_benchmark_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the name that the logs have."""
    fast, slow = submit(tmp_path, "Toymaker"), submit(tmp_path, "Woodworker")

    arguments = ["compare", str(fast.folder), str(slow.folder), "--ruleset", "mlperf_training/0.7.0"]
    assert main(arguments) == 2
    assert "has no benchmark 'retinanet', which the logs name" in capsys.readouterr().err


def test_a_benchmark_that_the_rules_do_not_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under the ruleset that the logs name."""
    fast, slow = _result(tmp_path / "fast", 2.0), _result(tmp_path / "slow", 3.0)

    assert main(["compare", str(fast), str(slow)]) == 2
    assert "there is no benchmark 'toy_mini' in ruleset v1" in capsys.readouterr().err
