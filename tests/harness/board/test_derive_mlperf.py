"""`tta derive` on a result of an MLPerf round: the same guarantees as for other results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.board.derive.mlperf import FORMULAS, derive_round, stated_in_round
from harness.board.derive.numbers import Derived, numbers
from harness.board.mlperf_table import RoundRow
from harness.commands import derive, score
from harness.errors import ExitStatus, SubmissionError, UsageError
from harness.findings import Finding, Severity
from harness.mlperf.score import round_score
from tests import fabricate, mlperflog
from tests.mlperflog import Entry, find
from tests.rules.box import TODAY
from tests.rules.roundbox import ROUND, RoundBox, metered


def row_of(box: RoundBox, claimed: float | None = None) -> RoundRow:
    assert box.ruleset.round is not None
    return RoundRow(box.folder, round_score(box.result().runs, box.ruleset.round), 2, claimed)


def test_a_number_of_a_round_names_its_lines_and_files(tmp_path: Path) -> None:
    """Those of the run that its index names, else of all runs; every evaluation, and the file with the reference."""
    box = RoundBox(tmp_path)
    mlperflog.put_after(box.logs[1], find(box.logs[1], "eval_accuracy", 2), Entry(50.0, "eval_error", 0.5))
    finding = Finding("MLP003", "wrong", Severity.ERROR, "a.txt", 7, "it is wrong")
    numbers = derive_round(row_of(box), [finding, replace(finding, line=None)], "rules.yaml")
    found = {
        item.name: [(place.path.removeprefix(f"{box.folder}/"), place.lines, place.what) for place in item.places]
        for item in numbers
    }

    def lines(index: int, *keys: str) -> tuple[str, tuple[int, ...], str]:
        text = box.log(index).read_text().splitlines()
        numbered = (number for number, line in enumerate(text, 1) if any(f'"key": "{key}"' in line for key in keys))
        return f"result_{index}.txt", tuple(numbered), ", ".join(keys)

    windows = [lines(index, "run_start", "run_stop") for index in range(5)]
    compared = [lines(index, "eval_accuracy", "eval_error", "global_batch_size") for index in range(5)]
    assert found["round.runs[1].seconds"] == windows[1:2]
    assert found["round.runs[1].to_target"] == [lines(1, "eval_accuracy", "eval_error")]
    assert found["round.raw_seconds"] == found["round.minutes"] == windows
    assert found["round.global_batch_size"] == [lines(index, "global_batch_size") for index in range(5)]
    assert found["round.num_errors"] == [("a.txt", (7,), "MLP003"), ("a.txt", (), "MLP003")]
    assert found["round.factor"] == [("rules.yaml", (), "reference convergence points"), *compared]
    assert found["round.factor"] == found["round.convergence.rules.mean"]


def test_a_number_of_a_round_without_a_formula_is_not_skipped(tmp_path: Path) -> None:
    """A batch size that is a list of numbers: they are listed without formula and places. A claimed factor is not."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "global_batch_size").value = [16, 32]
    found = {item.name: item for item in derive_round(row_of(box, 0.5), [], "rules.yaml")}

    assert found["round.global_batch_size[1]"] == Derived("round.global_batch_size[1]", 32, None, ())
    assert "round.claimed_factor" not in found


@pytest.mark.parametrize(
    ("claimed", "num_runs", "derived", "agrees"),
    [(1.0, 5, 1.0, True), (1.0000009, 5, 1.0, True), (1.0000012, 5, 1.0, False), (0.5, 2, None, None)],
)
def test_a_claimed_factor_is_compared_to_a_millionth(
    tmp_path: Path, claimed: float, num_runs: int, derived: float | None, agrees: bool | None
) -> None:
    """With the derived one; without a score, with nothing."""
    box = RoundBox(tmp_path, num_runs=num_runs)
    (found,) = stated_in_round(box.result(), row_of(box, claimed))

    assert found.name == "scaling.json: scaling_factor"
    assert (found.stated, found.derived, found.agrees) == (claimed, derived, agrees)
    place = str(box.folder / "scaling.json")
    assert (found.path, found.line, found.why) == (place, None, "the result has no score")
    assert stated_in_round(box.result(), row_of(box)) == []


def derived(box: RoundBox, capsys: pytest.CaptureFixture[str]) -> tuple[ExitStatus, dict[str, Any]]:
    status = derive.run([box.folder], ROUND, "json", None, None, TODAY)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)["results"][0]
    return status, document


def test_every_number_of_the_score_of_a_round_is_derived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same name, same number; each formula has a number, and each number a place; a round has no board.

    Five runs of 1,301 s and 10 s more each: the olympic mean is the mean of the middle three, at 600 W.
    """
    box = metered(RoundBox(tmp_path))
    score.run([box.folder], ROUND, "json", TODAY)
    [row] = json.loads(capsys.readouterr().out)["results"]

    status, document = derived(box, capsys)

    found = {item["name"]: item for item in document["numbers"]}
    assert status is ExitStatus.OK
    for name, value in numbers(row, "round"):
        assert (found[name]["value"], bool(found[name]["formula"])) == (value, True), name
    assert {item["formula"] for item in found.values()} == {formula.words for formula in FORMULAS.values()}
    for item in found.values():
        assert item["places"] or item["name"] == "round.num_errors"
    assert found["round.raw_seconds"]["value"] == pytest.approx((1311 + 1321 + 1331) / 3)
    assert found["round.energy.rule_j"]["value"] == pytest.approx(600 * 1321)
    places = [place["path"].removeprefix(f"{box.folder}/") for place in found["round.runs[1].energy.drawn_j"]["places"]]
    assert places == ["result_1.txt", "power/result_1/node_0.txt"]
    with pytest.raises(UsageError, match="has no leaderboard here"):
        derive.run([box.folder], ROUND, "text", tmp_path, None, TODAY)


def test_a_round_among_others_is_refused_a_board_before_the_work(tmp_path: Path) -> None:
    """Whatever comes first: the board that is named here does not exist, and nothing looks for it."""
    own = fabricate.write_log(tmp_path / "result_0.txt", fabricate.events(0))
    box = RoundBox(tmp_path / "round")
    box.write()

    for tree, against in ((None, tmp_path / "none.json"), (tmp_path / "none", None)):
        with pytest.raises(UsageError, match="has no leaderboard here; leave out --tree and --against"):
            derive.run([own, box.folder], "auto", "text", tree, against, TODAY)


@pytest.mark.parametrize("text", ['{"scaling_factor": 0.01}', ""])
def test_a_scaling_factor_is_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Compared, never used; a file that cannot be read claims nothing, and is named after all numbers were shown."""
    box = RoundBox(tmp_path)
    box.write()
    honest = derived(box, capsys)[1]["numbers"]
    box.put("scaling.json", text)

    if text:
        status, document = derived(box, capsys)
        assert ([item["agrees"] for item in document["typed"]], status) == ([False], ExitStatus.FINDINGS)
    else:
        with pytest.raises(SubmissionError, match=r"scaling\.json: not JSON"):
            derived(box, capsys)
        document = json.loads(capsys.readouterr().out)["results"][0]
        assert document["typed"] == []
    times = [item for item in document["numbers"] if item["name"] != "round.num_errors"]
    assert times == [item for item in honest if item["name"] != "round.num_errors"]
