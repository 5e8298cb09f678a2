"""`tta list`: the benchmarks as the rules have them, with what the reference needed where it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.board.pages.render import target_words
from harness.commands import list as command
from harness.errors import ExitStatus, UsageError
from harness.ruleset import catalog, load
from harness.submission.result import read_result
from tests.fabricate import benchmark_rules
from tests.rules_folder import write_ruleset

REFERENCE = Path(__file__).parents[3] / "submissions/reference/results"


def records(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, object]]:
    assert cli.main(["list", "--format", "json", *arguments]) == ExitStatus.OK
    return {one["benchmark"]: one for one in json.loads(capsys.readouterr().out)["benchmarks"]}


def test_every_benchmark_is_listed_with_the_numbers_of_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """And no other."""
    found = records(capsys)
    ruleset = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")

    assert found.keys() == ruleset.benchmarks.keys()
    for name, of_rules in ruleset.benchmarks.items():
        for field in ("target", "train_examples", "eval_examples", "num_runs", "open_runs", "max_seconds"):
            assert found[name][field] == getattr(of_rules, field)


def test_a_reference_result_gives_seconds_and_samples(capsys: pytest.CaptureFixture[str]) -> None:
    """The median and the mean of its five runs, from the kept logs; a benchmark without one has none."""
    found = records(capsys)
    logs = read_result(REFERENCE / "two-core-cloud-vm/detection_mini").runs
    seconds = sorted(log.seconds(log.one("run_start"), log.one("run_stop")) for log in logs)

    reference = found["detection_mini"]["reference"]
    assert isinstance(reference, dict)
    assert (reference["system"], reference["samples"]) == ("two-core-cloud-vm", 5504)
    assert reference["seconds"] == pytest.approx(seconds[2], abs=0.1)
    assert found["detection_standard"]["reference"] is None


def test_the_table_has_a_line_for_each_suite(capsys: pytest.CaptureFixture[str]) -> None:
    """Target with its direction; a dash where nothing is known."""
    assert cli.main(["list"]) == ExitStatus.OK

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:3] == ["workload", "suite", "target"]
    assert ["detection", "mini", "map", ">=", "0.6", "2,000", "320", "5/10", "600", "s"] in [
        line[:10] for line in lines
    ]
    standard = ["detection", "standard", "map", ">=", "0.55", "(provisional)", "205", "72", "5/10", "14,400", "s"]
    assert [*standard, "no", "-", "-", "-"] in lines
    assert next(line[3:5] for line in lines if line[:2] == ["speech_recognition", "mini"]) == ["<=", "0.17"]


def test_a_provisional_target_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table and in the JSON, and on the pages of a board."""
    rules = benchmark_rules(provisional=True)
    ruleset = str(write_ruleset(tmp_path / "rules", rules))

    assert records(capsys, "--ruleset", ruleset)["toy_mini"]["provisional"] is True
    assert cli.main(["list", "--ruleset", ruleset]) == ExitStatus.OK
    assert "top1_accuracy >= 0.9 (provisional)" in capsys.readouterr().out
    assert target_words(rules) == "top1_accuracy ≥ 0.9 (fraction, higher is better, provisional)"
    assert target_words(benchmark_rules()) == "top1_accuracy ≥ 0.9 (fraction, higher is better)"


@pytest.mark.parametrize(("is_permitted", "word"), [(True, "yes"), (False, "no")])
def test_whether_a_run_may_be_resumed_is_shown(
    is_permitted: bool, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the table, under a heading that the note explains, and in the JSON."""
    ruleset = str(write_ruleset(tmp_path / "rules", benchmark_rules(permits_resume=is_permitted)))

    assert records(capsys, "--ruleset", ruleset)["toy_mini"]["permits_resume"] is is_permitted
    assert cli.main(["list", "--ruleset", ruleset]) == ExitStatus.OK
    table, _, note = capsys.readouterr().out.partition("\n\n")
    heading, row = table.splitlines()
    assert row[heading.index("resume") :].split()[0] == word
    assert "\nresume: " in note


def test_of_two_results_of_a_benchmark_the_first_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of their paths; what is no benchmark of the ruleset is left out."""
    source = REFERENCE / "two-core-cloud-vm/detection_mini/result_0.txt"
    for system in ("a", "b", "other"):
        folder = tmp_path / system / "detection_mini"
        folder.mkdir(parents=True)
        text = source.read_text().replace(
            '"detection_mini"', '"no_such_mini"' if system == "other" else '"detection_mini"'
        )
        (folder / "result_0.txt").write_text(text)

    found = records(capsys, "--reference", str(tmp_path))

    reference = found["detection_mini"]["reference"]
    assert isinstance(reference, dict)
    assert reference["system"] == "a"
    assert [name for name, one in found.items() if one["reference"] is not None] == ["detection_mini"]


def test_without_the_source_code_there_is_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only the package is installed, the rules are all there is."""
    monkeypatch.setattr(command, "SOURCE_ROOT", tmp_path)
    assert command._own_reference() is None
    monkeypatch.undo()

    assert command.run("v1", "text", None) is ExitStatus.OK
    assert "two-core-cloud-vm" not in capsys.readouterr().out


def test_an_mlperf_round_is_explained_elsewhere() -> None:
    """Its benchmarks have other fields."""
    with pytest.raises(UsageError, match=r"`tta explain --ruleset mlperf_training/5\.1\.0` lists its benchmarks"):
        command.run("mlperf_training/5.1.0", "text", None)
