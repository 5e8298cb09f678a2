"""`tta preflight`: what it measures here, how it is kept and compared, and that a submission may carry it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.characterise.preflight import in_description
from harness.submission.system import PREFLIGHT_KEY
from tests import fabricate
from tests.harness.characterise.test_preflight import made
from tests.rules.box import Box

pytest.importorskip("torch")


@pytest.mark.slow
def test_preflight_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Within a minute: five products in each precision, three convolutions, three sums over two processes, memory,
    disk; the description carries them, and the history has the preflight."""
    assert cli.main(["doctor", "--out", str(tmp_path / "system.json")]) == 0
    capsys.readouterr()
    place = ["--history", str(tmp_path / "history"), "--disk", str(tmp_path), "--out", str(tmp_path / "out")]

    status = cli.main(
        ["preflight", "--devices", "2", *place, "--system", str(tmp_path / "system.json"), "--format", "json"]
    )

    found = json.loads(capsys.readouterr().out)
    measured = found["measured"]
    assert status == (1 if found["warnings"] else 0)
    assert measured["seconds"] < 60
    assert measured["skipped"] == []
    precisions = {one["precision"] for one in measured["matrix_products"]}
    assert "fp32" in precisions
    assert len(measured["matrix_products"]) == 5 * len(precisions)
    assert len(measured["convolutions"]) == 3 * len(precisions)
    assert [(one["bytes"], one["ranks"], one["is_right"]) for one in measured["all_reduces"]] == [
        (size << 10, 2, True) for size in (4, 1 << 10, 16 << 10, 64 << 10)
    ]
    for one in measured["all_reduces"]:  # of two: 2 (n - 1) / n is 1
        assert one["bytes_per_s"] * one["median_s"] == pytest.approx(one["bytes"])
    assert found["disk"]["bytes_per_s"] > 0
    described = json.loads((tmp_path / "out" / "system.json").read_text())
    rates = described.pop(PREFLIGHT_KEY)["rates"]
    assert len(rates) == len(measured["matrix_products"]) + len(measured["convolutions"]) + 3 + 4
    assert described == json.loads((tmp_path / "system.json").read_text())
    assert len(list((tmp_path / "history").iterdir())) == 1
    assert (tmp_path / "out" / "preflight.html").read_text().count("<svg") >= 4


def test_submission_may_carry_a_preflight(tmp_path: Path) -> None:
    """No check objects to its description."""
    carrying = {**fabricate.SYSTEM, PREFLIGHT_KEY: in_description(made())}

    assert Box(tmp_path, options={"system": carrying}).judge() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--devices", "0"], "'0' is not a whole number of at least 1"),
        (["--system", "missing.json"], "missing.json: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_measured(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    assert cli.main(["preflight", *arguments]) == 2

    assert said in capsys.readouterr().err
