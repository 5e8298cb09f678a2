"""`tta board` on MLPerf rounds: what it builds, and what it refuses in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from tests import fabricate
from tests.rounds import dated_earlier, submit


@pytest.fixture
def trees(tmp_path: Path) -> list[str]:
    """Two rounds."""
    submit(tmp_path / "training_v5.0", change=dated_earlier)
    submit(tmp_path / "training_v5.1")
    return [str(tmp_path / "training_v5.0"), str(tmp_path / "training_v5.1")]


@pytest.mark.parametrize("ruleset", ["auto", "mlperf_training/5.1.0"])
def test_rounds_become_one_site(
    trees: list[str], ruleset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each result by its own round with `auto`, else all by the one that was named; built again, it is replaced."""
    site = tmp_path / "site"
    for _ in range(2):
        assert main(["board", "build", *trees, "--out", str(site), "--ruleset", ruleset, "--jobs", "1"]) == 0

    assert capsys.readouterr().out == f"{site}/index.html\n" * 2
    names = {path.stem for path in (site / "rounds").glob("*.html")}
    assert names == ({"5.0", "5.1"} if ruleset == "auto" else {"5.1"})
    assert len(list((site / "results").iterdir())) == 2


def test_own_results_are_a_board_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with `auto`, which takes the ruleset that they name; of one tree only."""
    tree = tmp_path / "tree"
    (tree / "mine").mkdir(parents=True)
    fabricate.write_log(tree / "mine" / "result_0.txt", fabricate.events(0))

    assert main(["board", "build", str(tree), "--out", str(tmp_path / "site"), "--ruleset", "auto"]) == 0
    assert (tmp_path / "site" / "leaderboard.json").exists()
    assert main(["board", "build", str(tree), str(tree), "--out", str(tmp_path / "site")]) == 2
    assert "takes one tree, not 2 (for MLPerf rounds, add --ruleset auto)\n" in capsys.readouterr().err
    assert main(["board", "build", str(tree), str(tree), "--out", str(tmp_path / "site"), "--ruleset", "auto"]) == 2
    assert "a board of tta's own results takes one tree, not 2\n" in capsys.readouterr().err


def test_rounds_are_not_served(trees: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A rebuild takes too long; any web server can serve the site."""
    assert main(["board", "serve", *trees, "--ruleset", "auto"]) == 2

    assert "for MLPerf rounds, build the site with `tta board build` and serve its folder" in capsys.readouterr().err


def test_a_site_among_the_logs_is_refused_before_the_work(trees: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It would be read as a part of the round the next time."""
    assert main(["board", "build", *trees, "--out", f"{trees[1]}/site", "--ruleset", "auto"]) == 2

    assert "is inside the tree" in capsys.readouterr().err
