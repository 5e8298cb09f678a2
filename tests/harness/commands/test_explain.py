"""`tta explain`: finds checks, signals and benchmarks, or names the nearest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import cli
from harness.checker import registry

ROUND = ("--ruleset", "mlperf_training/5.1.0")


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The status and the output, which is on standard error if the status is not 0."""
    status = cli.main(["explain", *arguments])
    said = capsys.readouterr()
    assert not (said.err if status == 0 else said.out)
    return status, said.out or said.err


@pytest.mark.parametrize(
    ("code", "ruleset", "head"),
    [
        ("LOG001", (), "LOG001 run_stop_missing (error in ruleset v1"),
        ("log001", (), "LOG001 run_stop_missing (error in ruleset v1"),
        ("AUD007", (), "AUD007 clocks_of_one_log_disagree (a signal of `tta audit`"),
        ("aud007", ROUND, "AUD007 clocks_of_one_log_disagree (a signal of `tta audit`"),
        ("MLP001", (), "MLP001 line_unreadable (for MLPerf rounds"),
        ("MLP001", ROUND, "MLP001 line_unreadable (error in ruleset mlperf_training/5.1.0"),
        ("retinanet", ROUND, "# retinanet"),
    ],
)
def test_a_check_a_signal_and_a_benchmark_are_explained(
    capsys: pytest.CaptureFixture[str], code: str, ruleset: tuple[str, ...], head: str
) -> None:
    """Under every ruleset, in upper or lower case."""
    status, said = explain(capsys, code, *ruleset)

    assert (status, said[: len(head)]) == (0, head)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["AUD999"], r"unknown check 'AUD999'; did you mean 'AUD0\d\d'.*\? `tta explain --all` prints all of them\n"),
        (["log999"], r"unknown check 'LOG999'; did you mean 'LOG0\d\d'.*\? `tta explain --all` prints all of them\n"),
        (["nonsense"], "unknown check 'nonsense'; `tta explain --all` prints all of them\n"),
        (
            ["retinant", *ROUND],
            "unknown check or benchmark 'retinant'; did you mean 'retinanet'[?] `tta explain --rule",
        ),
        (
            ["nonsense", *ROUND],
            "unknown check or benchmark 'nonsense'; `tta explain --ruleset mlperf_training/5.1.0` lists the "
            "benchmarks, `tta explain --all` prints all checks\n",
        ),
        (["LOG001", "--all"], "explain: name either a check, such as 'LOG001', or --all\n"),
        (["retinanet", "--all", *ROUND], "explain: name either a check, such as 'retinanet', or --all\n"),
        ([], "explain: name a check"),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    """In one sentence, with how to list all, and not with two hundred names."""
    status, said = explain(capsys, *arguments)

    assert status == 2
    assert len(said) < 300
    assert re.match(f"tta: {sentence}", said), said


def test_all_checks_and_signals_are_explained_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Each as it is explained alone; for a round, those that it has in force."""
    _, said = explain(capsys, "--all")
    _, alone = explain(capsys, "LOG001")
    _, of_round = explain(capsys, "--all", *ROUND)

    assert alone in said
    assert said.count("\n## What it does\n") == len(registry.checks_and_signals())
    assert 0 < of_round.count("\n## What it does\n") < len(registry.checks())


def test_the_rulebook_is_written_as_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index and a page for each family; earlier pages are replaced."""
    for _ in range(2):
        status, said = explain(capsys, "--all", "--out", str(tmp_path / "rules"))

    names = sorted(path.name for path in (tmp_path / "rules").iterdir())
    assert (status, said) == (0, f"{tmp_path}/rules: {len(names)} pages\n")
    assert names == sorted(["index.md", *(f"{family.lower()}.md" for family in registry.families())])
    assert "Error in v1" in (tmp_path / "rules" / "log.md").read_text()
