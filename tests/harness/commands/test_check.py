"""`tta check` and `tta explain`: what they print, and how they end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness import cli
from harness.commands import check
from harness.errors import ExitStatus, LogError, UsageError
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from tests import fabricate, mlperflog
from tests.fabricate import find
from tests.mlperflog import Entry
from tests.rules.box import TODAY

RULES = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks["image_classification_mini"]


def curve(rules: BenchmarkRules, index: int) -> tuple[float, ...]:
    """Two evaluations below the target and as many above it as it takes, different in every run."""
    above = (rules.target + 0.01 + 0.001 * index + 0.0001 * nth for nth in range(1 + rules.confirm_evaluations))
    return (0.5 + 0.003 * index, 0.7 + 0.002 * index, *(min(quality, 1.0) for quality in above))


def result(folder: Path, num_runs: int = RULES.num_runs, system: dict[str, str] | None = None) -> Path:
    """A result of a benchmark of version 1, at the speed of a fabricated run."""
    folder.mkdir(parents=True)
    batch_size = RULES.hyperparameters["global_batch_size"].default
    assert isinstance(batch_size, int)
    for index in range(num_runs):
        steps = fabricate.events(index, rules=RULES, qualities=curve(RULES, index), batch_size=batch_size)
        fabricate.write_log(folder / f"result_{index}.txt", steps, fabricate.WALL_START_MS + 60_000 * index)
    (folder / "system.json").write_text(json.dumps(system or fabricate.SYSTEM))
    return folder


def damaged(folder: Path, change: str) -> Path:
    """The result with another line in its first log."""
    path = folder / "result_0.txt"
    path.write_text(path.read_text().replace('"value": 0.5', f'"value": {change}', 1))
    return folder


def test_a_valid_result_has_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There are no errors; the convergence has findings of its own, which this test does not look at."""
    folder = result(tmp_path / "out")

    status = check.run([folder / "result_0.txt"], "v1", "text", TODAY)

    assert status is ExitStatus.OK
    out, err = capsys.readouterr()
    assert f"{folder / 'result_0.txt'} (image_classification_mini): valid\n" in out
    assert "1 result, 1 valid; " in out
    assert err == ""


def test_a_tree_with_two_results_is_judged_as_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its own verdict, in the order of their paths, and each only once."""
    one, two = result(tmp_path / "tree" / "a"), damaged(result(tmp_path / "tree" / "b"), "0.4")

    check.run([tmp_path / "tree", one], "v1", "json", TODAY)

    document = json.loads(capsys.readouterr().out)
    assert [item["path"] for item in document["results"]] == [str(one), str(two)]
    first, second = ({finding["code"] for finding in item["findings"]} for item in document["results"])
    assert "LOG006" in second - first


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_document_is_alone_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Other messages go to standard error."""
    folder = damaged(result(tmp_path / "out"), '"\\u001b[31m"')

    check.run([folder], "auto", form, TODAY)

    out, err = capsys.readouterr()
    json.loads(out)
    assert "\x1b" not in out + err
    assert err == "tta: judging by ruleset v1, which result_0.txt names\n"


def test_a_log_cannot_choose_a_folder_as_its_ruleset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a ruleset.yaml next to the log is not a ruleset of the organiser's."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ruleset.yaml").write_text("codes: {}\n")
    steps = fabricate.events(rules=RULES, qualities=curve(RULES, 0))
    find(steps, "tta_rules").value["ruleset"] = "mine"
    path = fabricate.write_log(tmp_path / "log.txt", steps)
    monkeypatch.chdir(tmp_path)

    status = check.run([path], "auto", "text", TODAY)

    out, err = capsys.readouterr()
    assert status is ExitStatus.FINDINGS
    assert "LOG018 error: the run was made under ruleset 'mine' and is judged by 'v1'" in out
    assert err == "tta: judging by ruleset v1; 'mine' is not one of tta's own rulesets\n"


def test_an_mlperf_log_is_one_clear_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By tta's own rules: not thirty about keys that it never had."""
    mlperflog.write(tmp_path / "log", [Entry(0.0, "submission_benchmark", "bert"), Entry(1.0, "run_start")])

    status = check.run([tmp_path / "log"], "v1", "json", TODAY)

    document = json.loads(capsys.readouterr().out)
    assert status is ExitStatus.FINDINGS
    assert [finding["code"] for finding in document["results"][0]["findings"]] == ["LOG002"]


def test_an_unknown_format_or_ruleset_is_a_usage_error(tmp_path: Path) -> None:
    """The nearest name is in the message."""
    path = fabricate.write_log(tmp_path / "log", fabricate.events())

    with pytest.raises(UsageError, match="did you mean 'json'"):
        check.run([path], "v1", "jsn", TODAY)
    with pytest.raises(UsageError, match="unknown ruleset"):
        check.run([path], "v9", "text", TODAY)
    with pytest.raises(UsageError, match="name the logs"):
        check.run([], "v1", "text", TODAY)


def test_the_exit_status_is_that_of_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 for a valid log, 1 for findings, 2 for what cannot be read."""
    folder = result(tmp_path / "out")
    good = str(folder / "result_1.txt")
    bad = str(damaged(folder, "0.4") / "result_0.txt")

    assert [cli.main(["check", path]) for path in (good, bad, str(tmp_path / "no"))] == [0, 1, 2]
    assert "tta: " in capsys.readouterr().err


def test_two_processes_report_what_one_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the same order; a file that is not a log does not hide the others and decides the exit status."""
    folder = damaged(result(tmp_path / "out"), "0.4")
    (tmp_path / "none.txt").write_text("Epoch 1 done\n")
    paths = [folder / "result_0.txt", tmp_path / "none.txt", folder / "result_1.txt"]
    found = []

    for jobs in (1, 2):
        with pytest.raises(LogError, match="not a run log"):
            check.run(paths, "v1", "json", TODAY, jobs=jobs)
        found.append(capsys.readouterr())

    assert found[0] == found[1]
    assert [item["path"] for item in json.loads(found[0].out)["results"]] == [str(paths[0]), str(paths[2])]


def test_logs_that_are_equal_are_named_at_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a round, where that is a warning; a third log is another."""
    logs = [mlperflog.write(tmp_path / f"{name}.txt", mlperflog.retinanet()) for name in "ab"]
    other = mlperflog.write(tmp_path / "c.txt", mlperflog.retinanet("open"))

    status = check.run([*logs, other], "mlperf_training/5.1.0", "json", TODAY)

    found = {
        item["path"]: [finding["message"] for finding in item["findings"] if finding["code"] == "RUN018"]
        for item in json.loads(capsys.readouterr().out)["results"]
    }
    assert status is ExitStatus.OK
    assert found == {
        str(logs[0]): [f"identical, byte for byte, to {logs[1]}"],
        str(logs[1]): [f"identical, byte for byte, to {logs[0]}"],
        str(other): [],
    }


def test_log_named_twice_is_no_copy_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither with its folder, nor in another spelling: a result that is named twice is judged once, by its first
    name. A copy next to them is one."""
    folder = result(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    log, place = Path("out", "result_0.txt"), "out/result_0.txt"

    def copies(*paths: Path) -> dict[str, list[tuple[str, str]]]:
        check.run(list(paths), "v1", "json", TODAY)
        return {
            item["path"]: [(one["path"], one["message"]) for one in item["findings"] if one["code"] == "RUN018"]
            for item in json.loads(capsys.readouterr().out)["results"]
        }

    assert copies(Path("out"), log) == {"out": [], place: []}
    assert copies(log, folder / "result_0.txt", Path("out"), folder) == {place: [], "out": []}
    assert copies(log, folder) == {place: [], str(folder): []}
    shutil.copy(log, "again.txt")
    said = "identical, byte for byte, to "
    assert copies(Path("out"), log, Path("again.txt")) == {
        "out": [(place, f"{said}again.txt")],
        place: [(place, f"{said}again.txt")],
        "again.txt": [("again.txt", f"{said}{place}")],
    }
    assert copies(log, folder, Path("again.txt")) == {
        place: [(place, f"{said}again.txt")],
        str(folder): [(str(folder / "result_0.txt"), f"{said}again.txt")],
        "again.txt": [("again.txt", f"{said}{place}")],
    }


def test_copied_result_is_named_at_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of `tta`'s own; as a warning, so that a copy takes nothing from what it was copied from."""
    shutil.copytree(result(tmp_path / "one"), tmp_path / "two")

    check.run([tmp_path], "v1", "json", TODAY)

    judged = json.loads(capsys.readouterr().out)["results"]
    found = [
        [(item["severity"], item["path"]) for item in one["findings"] if item["code"] == "RUN018"] for one in judged
    ]
    assert [len(items) for items in found] == [RULES.num_runs] * 2
    assert {severity for items in found for severity, _ in items} == {"warning"}
