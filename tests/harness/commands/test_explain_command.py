"""`tta explain`: what is asked for is found, or said how to find it."""

from __future__ import annotations

import re

import pytest

from harness import cli

ROUND = ("--ruleset", "mlperf_training/5.1.0")


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The status, and what was said: on standard error where the status is not 0."""
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
        ("MLP001", (), "MLP001 line_unreadable (of MLPerf's rounds"),
        ("MLP001", ROUND, "MLP001 line_unreadable (error in ruleset mlperf_training/5.1.0"),
        ("retinanet", ROUND, "# retinanet"),
    ],
)
def test_a_check_a_signal_and_a_benchmark_are_explained(
    capsys: pytest.CaptureFixture[str], code: str, ruleset: tuple[str, ...], head: str
) -> None:
    """Under every ruleset, in capitals or not."""
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
        (["LOG001", "--all"], "explain: 'LOG001' and --all: one check or the whole rulebook, not both\n"),
        (["retinanet", "--all", *ROUND], "explain: 'retinanet' and --all: one check or the whole rulebook, not both\n"),
        ([], "explain: name one check"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest_and_how_to_list_all(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    """One sentence, not two hundred names."""
    status, said = explain(capsys, *arguments)

    assert status == 2
    assert len(said) < 300
    assert re.match(f"tta: {sentence}", said), said
