"""What an audit sees over all results stands with the result on whose log it lies, and once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from tests import foreign

ONE, OTHER = (f"{name}/results/box/toy" for name in ("One", "Other"))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([""], {ONE: 0, OTHER: 1}),
        ([f"{ONE}/result_0.txt", f"{OTHER}/result_0.txt"], {f"{ONE}/result_0.txt": 0, f"{OTHER}/result_0.txt": 1}),
        (["", f"{OTHER}/result_0.txt"], {ONE: 0, OTHER: 1, f"{OTHER}/result_0.txt": 1}),
    ],
    ids=["folders", "logs that are audited alone", "both"],
)
def test_copied_log_is_told_wherever_it_is_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: list[str], expected: dict[str, int]
) -> None:
    """Two results have one log in common: said of the second, under the name by which it was asked for."""
    for number, place in enumerate((ONE, OTHER)):
        foreign.write(tmp_path / place, [foreign.rows(index) for index in range(5 * number, 5 * number + 5)])
    (tmp_path / OTHER / "result_0.txt").write_bytes((tmp_path / ONE / "result_0.txt").read_bytes())

    assert cli.main(["audit", *(str(tmp_path / name) for name in named), "--format", "json"]) == 0

    told = {
        str(Path(result["path"]).relative_to(tmp_path)): [item["code"] for item in result["findings"]].count("AUD020")
        for result in json.loads(capsys.readouterr().out)["results"]
    }
    assert told == expected
