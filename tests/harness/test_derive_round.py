"""`tta derive` on a result of an MLPerf round: the same promise as on a result of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.commands import derive, score
from harness.derivation import numbers
from harness.errors import ExitStatus, UsageError
from harness.roundderivation import FORMULAS
from tests.rules.box import TODAY
from tests.rules.roundbox import ROUND, RoundBox


def derived(box: RoundBox, capsys: pytest.CaptureFixture[str]) -> tuple[ExitStatus, dict[str, Any]]:
    status = derive.run([box.folder], ROUND, "json", None, None, TODAY)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)["results"][0]
    return status, document


def test_every_number_of_the_score_of_a_round_is_derived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same name, same number; each formula has a number; each line is there."""
    box = RoundBox(tmp_path)
    box.write()
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


def test_the_time_of_a_round_is_that_of_a_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five runs of 1,301 s and 10 s more each: the olympic mean is that of the three in the middle."""
    box = RoundBox(tmp_path)
    box.write()

    _, document = derived(box, capsys)

    found = {item["name"]: item for item in document["numbers"]}
    assert found["round.raw_seconds"]["value"] == pytest.approx((1311 + 1321 + 1331) / 3)
    [place] = found["round.runs[1].seconds"]["places"]
    lines = box.log(1).read_text().splitlines()
    assert ['"run_start"' in lines[place["lines"][0] - 1], '"run_stop"' in lines[place["lines"][1] - 1]] == [True] * 2


@pytest.mark.parametrize(("text", "agrees"), [('{"scaling_factor": 0.01}', False), ("", None)])
def test_a_scaling_factor_is_a_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, agrees: bool | None
) -> None:
    """Compared, never used; what cannot be read claims nothing."""
    box = RoundBox(tmp_path)
    box.write()
    honest = derived(box, capsys)[1]["numbers"]
    box.put("scaling.json", text)

    status, document = derived(box, capsys)

    assert [item["agrees"] for item in document["typed"]] == ([] if agrees is None else [agrees])
    assert status is (ExitStatus.OK if agrees is None else ExitStatus.FINDINGS)
    times = [item for item in document["numbers"] if item["name"] != "round.num_errors"]
    assert times == [item for item in honest if item["name"] != "round.num_errors"]


def test_a_round_has_no_board_of_ours(tmp_path: Path) -> None:
    """Asking for one is a wrong argument."""
    box = RoundBox(tmp_path)
    box.write()

    with pytest.raises(UsageError, match="has no board of ours"):
        derive.run([box.folder], ROUND, "text", tmp_path, None, TODAY)
