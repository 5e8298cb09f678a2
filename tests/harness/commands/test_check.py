"""`tta check` and `tta explain`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.commands import check
from harness.errors import ExitStatus, LogError, SubmissionError, UsageError
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from tests import fabricate
from tests.fabricate import Step, find
from tests.rules.box import TODAY

RULES = load.load_ruleset(catalog.ruleset_folder("v1"), "v1").benchmarks["image_classification_mini"]


def curve(rules: BenchmarkRules, index: int) -> tuple[float, ...]:
    """Two evaluations below the target and one above it, different in every run."""
    return (0.5 + 0.003 * index, 0.7 + 0.002 * index, min(rules.target + 0.01 + 0.001 * index, 1.0))


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


def test_a_valid_result_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are none; the convergence has findings of its own, which this test does not look at."""
    folder = result(tmp_path / "out")

    status = check.run([folder / "result_0.txt"], "v1", "text", TODAY)

    assert status is ExitStatus.OK
    out, err = capsys.readouterr()
    assert f"{folder / 'result_0.txt'} (image_classification_mini): valid\n" in out
    assert "1 result, 1 valid; " in out
    assert err == ""


def test_a_damaged_log_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, and the place of the line that does not follow."""
    folder = damaged(result(tmp_path / "out"), "0.4")

    status = check.run([folder / "result_0.txt"], "v1", "text", TODAY)

    assert status is ExitStatus.FINDINGS
    assert "/result_0.txt:" in capsys.readouterr().out


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
    """What is said besides goes to standard error."""
    folder = damaged(result(tmp_path / "out"), '"\\u001b[31m"')

    check.run([folder], "auto", form, TODAY)

    out, err = capsys.readouterr()
    json.loads(out)
    assert "\x1b" not in out + err
    assert err == "tta: judging by ruleset v1, which result_0.txt names\n"


def test_a_log_cannot_choose_a_folder_as_its_ruleset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a ruleset.yaml beside the log is no ruleset of the organiser's."""
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


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """No verdict on nothing."""
    with pytest.raises(SubmissionError, match="there is no such file or folder"):
        check.run([tmp_path / "nowhere"], "v1", "text", TODAY)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    """An empty tree has not passed."""
    with pytest.raises(SubmissionError, match="there is no result"):
        check.run([tmp_path], "v1", "text", TODAY)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (bytes(range(256)) * 1000, "not a run log"), (b"Epoch 1 done\n", "not a run log")],
)
def test_a_file_that_is_no_log_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    """Empty, binary, or of another program without a line in MLPerf's form."""
    (tmp_path / "log").write_bytes(content)

    with pytest.raises(LogError, match=message):
        check.run([tmp_path / "log"], "v1", "text", TODAY)


def test_what_can_be_read_is_judged_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file that is no log hides nothing of the others; the exit status is that of the error."""
    good = result(tmp_path / "out") / "result_0.txt"
    (tmp_path / "bad").write_bytes(b"")

    with pytest.raises(LogError, match="is empty"):
        check.run([tmp_path / "bad", good], "v1", "json", TODAY)

    document = json.loads(capsys.readouterr().out)
    assert [item["path"] for item in document["results"]] == [str(good)]


def test_a_log_of_mlperfs_own_is_one_clear_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By rules of ours: not thirty about keys that it never had."""
    lines = [
        {
            "namespace": "",
            "time_ms": 1_700_000_000_000 + place,
            "event_type": "POINT_IN_TIME",
            "key": key,
            "value": value,
            "metadata": {"file": "train.py", "lineno": 3},
        }
        for place, (key, value) in enumerate([("submission_benchmark", "bert"), ("seed", 3), ("run_start", None)])
    ]
    (tmp_path / "log").write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))

    status = check.run([tmp_path / "log"], "v1", "json", TODAY)

    document = json.loads(capsys.readouterr().out)
    assert status is ExitStatus.FINDINGS
    assert [finding["code"] for finding in document["results"][0]["findings"]] == ["LOG002"]


def test_a_format_or_ruleset_that_there_is_not_is_a_usage_error(tmp_path: Path) -> None:
    """With the nearest names."""
    path = fabricate.write_log(tmp_path / "log", fabricate.events())

    with pytest.raises(UsageError, match="did you mean 'json'"):
        check.run([path], "v1", "jsn", TODAY)
    with pytest.raises(UsageError, match="unknown ruleset"):
        check.run([path], "v9", "text", TODAY)
    with pytest.raises(UsageError, match="name the logs"):
        check.run([], "v1", "text", TODAY)


def test_the_command_line_ends_as_the_contract_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 well, 1 findings, 2 unreadable."""
    folder = result(tmp_path / "out")
    good = str(folder / "result_1.txt")
    bad = str(damaged(folder, "0.4") / "result_0.txt")

    assert [cli.main(["check", path]) for path in (good, bad, str(tmp_path / "no"))] == [0, 1, 2]
    assert "tta: " in capsys.readouterr().err


def test_hostile_text_in_a_log_is_shown_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark's name that would paint the terminal red."""
    steps: list[Step] = fabricate.events()
    find(steps, "submission_benchmark").value = "\x1b[31m\x07evil\r\n"
    path = fabricate.write_log(tmp_path / "log", steps)

    check.run([path], "v1", "text", TODAY)

    out = capsys.readouterr().out
    assert "\\x1b[31m\\x07evil\\r\\n" in out
    assert all(character.isprintable() for character in out.replace("\n", ""))


def test_two_processes_say_what_one_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the same order, with what cannot be read among it."""
    folder = damaged(result(tmp_path / "out"), "0.4")
    (tmp_path / "none.txt").write_text("nothing\n")
    paths = [folder / "result_0.txt", tmp_path / "none.txt", folder / "result_1.txt"]
    said = []

    for jobs in (1, 2):
        with pytest.raises(LogError, match="not a run log"):
            check.run(paths, "v1", "text", TODAY, jobs=jobs)
        said.append(capsys.readouterr())

    assert said[0] == said[1]
    assert "3 results" not in said[0].out
    assert said[0].out.index("result_0") < said[0].out.index("result_1")
