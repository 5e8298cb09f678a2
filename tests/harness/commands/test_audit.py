"""`tta audit`: the ten worst first, then every result; what cannot be read does not hide the rest."""

from __future__ import annotations

import json
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.engine import Audited
from harness.checker.audit.facts import Subject
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import Suspicion
from harness.commands import audit
from harness.errors import ExitStatus, InputError, RulesError, UsageError
from harness.findings import Finding, Severity
from harness.ruleset import catalog, load
from harness.submission.result import Result
from tests import fabricate, foreign
from tests.foreign import of

TODAY = date(2025, 12, 1)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Twelve results, each of which has one run whose curve stands still."""
    for number in range(12):
        runs = [foreign.rows(index + 5 * number) for index in range(4)]
        for nth in range(6):
            of(runs[0], "eval_accuracy", nth).value = 0.3 + number / 100
        foreign.write(tmp_path / "Toy" / "results" / f"box{number}" / "toy", runs)
    return tmp_path


def test_text_names_ten_things_first(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten numbered lines by falling score, then a block for each result, and a total."""
    status = audit.run([odd], "auto", "text", TODAY)
    text = capsys.readouterr().out

    lines = text.splitlines()
    assert status is ExitStatus.OK
    assert lines[0] == "The 10 most suspicious things:"
    scores = [float(line.partition("[")[2].partition("]")[0]) for line in lines[1:11]]
    assert scores == sorted(scores, reverse=True)
    assert text.count(": 4 runs\n") == 12
    assert lines[-1].startswith("12 results, 0 with nothing suspicious; ")
    assert lines[-1].endswith("; no ruleset")


def store_of(path: Path, runs: list[tuple[str, dict[str, str], dict[str, dict[int, float]]]]) -> Path:
    """MLflow's two tables, with the rows of `tta`."""
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT)")
        store.execute("CREATE TABLE metrics (key TEXT, value REAL, timestamp INT, run_uuid TEXT, step INT)")
        for uuid, tags, metrics in runs:
            store.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(name, text, uuid) for name, text in tags.items()])
            rows = [(name, value, 1, uuid, step) for name, at in metrics.items() for step, value in at.items()]
            store.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
    store.close()
    return path


def test_the_mirror_is_read_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quality that differs in MLflow, and a file that is not a store."""
    folder = fabricate.write_submission(tmp_path / "tree")
    tags = {"tta.run_id": f"{0:032x}", "tta.submission_id": "ab" * 16, "mlflow.user": "user"}
    curve = {"eval/top1_accuracy": {1000: 0.5, 2000: 0.7, 3000: 0.95}}
    store = store_of(tmp_path / "mlflow.db", [("u1", tags, curve), ("u2", {"mlflow.user": "x"}, {})])

    audit.run([folder], "auto", "text", TODAY, store)

    assert "the quality at 2000 samples is 0.8; the mirror has 0.7" in capsys.readouterr().out
    (tmp_path / "none.db").write_text("no store " * 1000)
    for place in (tmp_path / "none.db", tmp_path / "absent.db"):
        with pytest.raises(InputError):
            audit.run([folder], "auto", "text", TODAY, place)


def test_weights_are_looked_for_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which must be there; a result without kept weights is audited as without the option."""
    folder = fabricate.write_submission(tmp_path / "tree")

    assert cli.main(["audit", str(folder), "--weights", str(tmp_path / "nowhere")]) == 2
    assert "nowhere' is not a folder" in capsys.readouterr().err
    assert cli.main(["audit", str(folder), "--weights", str(tmp_path)]) == 0


def test_a_published_round_is_known_by_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The target that the first evaluation hits is that of the round."""
    runs = [foreign.rows(index) for index in range(5)]
    for run in runs:
        of(run, "submission_benchmark").value = "llama2_70b_lora"
        for nth in range(foreign.NUM_EVALUATIONS):
            of(run, "eval_accuracy", nth).value = 0.93 - 0.001 * nth * (1 + 0.01 * nth)
        of(run, "eval_accuracy").value = 0.924
    foreign.write(foreign.result(tmp_path), runs)

    audit.run([tmp_path], "auto", "json", TODAY)

    assert "the target is 0.925" in capsys.readouterr().out


def test_json_is_one_document(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the rules' digest, the worst, and every finding with its evidence; no log names a ruleset."""
    audit.run([odd / "Toy/results/box0"], "auto", "json", TODAY)

    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == "tta: auditing by no ruleset; no log names one\n"
    assert (document["rulesets"], document["results"][0]["ruleset"]) == ([], None)
    assert document["audit_rules_digest"] == load_audit(registry.audit_file()).digest
    assert len(document["results"]) == 1
    found = document["results"][0]["findings"]
    most = document["most_suspicious"][0]
    assert any({**item, "num_more": most["num_more"]}.items() >= most.items() for item in found)
    assert {"AUD010"} <= {item["code"] for item in document["results"][0]["findings"]}


def test_suspicions_that_are_alike_are_one_with_the_highest_score() -> None:
    """It is where the worst of them is, with the lines of all."""
    rules = load_audit(registry.audit_file())
    found = [
        Suspicion(Finding("AUD001", "clock_goes_back", Severity.WARNING, "a.txt", line, f"back by {line} s"), score)
        for line, score in ((9, 60.0), (4, 55.5), (7, 40.0))
    ]
    other = Suspicion(Finding("AUD001", "clock_goes_back", Severity.WARNING, "b.txt", 1, "back by 2 s"), 50.0)
    suspicions = (found[0], found[1], other, found[2])

    document = json.loads(audit.as_json([Audited("t", None, 2, suspicions)], rules))
    [first, second] = document["results"][0]["findings"]

    assert (first["score"], first["count"], first["line"], first["lines"]) == (60.0, 3, 9, [4, 7, 9])
    assert (second["score"], second["count"], second["path"]) == (50.0, 1, "b.txt")
    assert [(item["score"], item["num_more"]) for item in document["most_suspicious"]] == [(60.0, 3)]


def test_the_worst_things_are_different_things() -> None:
    """Each a signal on a result, with the number of its findings; at most two of a signal while there are others."""

    def suspicion(code: str, number: int, score: float) -> Suspicion:
        return Suspicion(Finding(code, "", Severity.WARNING, f"{number}.txt", None, ""), score)

    pairs = [(suspicion("AUD001", nth, 90.0 - nth), suspicion("AUD001", nth, 9.0)) for nth in range(12)]
    noisy = [Audited(f"r{nth}", None, 1, pair) for nth, pair in enumerate(pairs)]
    calm = Audited("s", None, 1, tuple(suspicion(f"AUD0{code}", 50, 40.0) for code in range(10, 17)))

    found = engine.worst([*noisy, calm])
    assert [thing.first.score for thing in found] == [90.0, 89.0, 88.0, *[40.0] * 7]
    assert [thing.num_more for thing in found] == [1, 1, 1, *[0] * 7]
    assert [thing.first.finding.code for thing in engine.worst(noisy)] == ["AUD001"] * 10


def test_sarif_has_the_same_findings(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings of the JSON, in their order, by the signals in force; the score is the rank."""
    audit.run([odd], "auto", "json", TODAY)
    results = json.loads(capsys.readouterr().out)["results"]
    status = audit.run([odd], "auto", "sarif", TODAY)
    [run] = json.loads(capsys.readouterr().out)["runs"]

    signals = load_audit(registry.audit_file()).signals
    assert status is ExitStatus.OK
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted(signals)
    assert [
        (item["ruleId"], item["level"], item["rank"], item.get("occurrenceCount", 1)) for item in run["results"]
    ] == [(item["code"], item["severity"], item["score"], item["count"]) for one in results for item in one["findings"]]


def test_a_sound_result_has_nothing_suspicious(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported so, under the ruleset that its logs name."""
    folder = fabricate.write_submission(tmp_path)

    audit.run([folder], "auto", "text", TODAY)

    text = capsys.readouterr().out
    assert f"{folder} (toy_mini): 5 runs, nothing suspicious" in text
    assert "1 result, 1 with nothing suspicious; no findings" in text


def test_a_single_log_can_be_audited(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is compared with the logs next to it."""
    audit.run([odd / "Toy/results/box0/toy/result_0.txt"], "v1", "text", TODAY)

    assert ": 1 run\n" in capsys.readouterr().out


def test_what_is_not_audited_is_in_every_document(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of a result, and a result without a log that can be read, each with why."""
    bad = odd / "Toy/results/box0/toy/result_9.txt"
    bad.write_text("not a log\n")
    lost = odd / "Toy/results/box1/toy"
    for log in lost.glob("result_*.txt"):
        log.write_text("")
    texts = {}
    for form in audit.FORMATS:
        with pytest.raises(InputError, match="no run log"):
            audit.run([odd], "auto", form, TODAY)
        texts[form] = capsys.readouterr().out

    document = json.loads(texts["json"])
    assert len(document["results"]) == 11
    found = {item["path"]: item["why"] for item in document["not_audited"]}
    assert set(found) == {str(bad), str(lost), *(str(log) for log in lost.glob("result_*.txt"))}
    assert found[str(lost)] == "no run log (result_<k>.txt) in it can be read"
    assert found[str(lost / "result_0.txt")] == "is empty: not a run log"
    assert json.loads(texts["sarif"])["runs"][0]["properties"]["notAudited"] == document["not_audited"]
    assert "<h2>Not audited</h2>" in texts["html"]
    assert f'<td class="any">{bad}</td>' in texts["html"]
    assert '<span class="chip invalid">6 not audited</span>' in texts["html"]
    assert "Not audited:\n    " in texts["text"]
    assert "AUD010" in texts["text"]


def test_an_unreadable_description_does_not_limit_the_audit(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is listed; every log was audited, and the status is 0."""
    place = odd / "Toy/results/box0/toy/system.json"
    place.write_text("[")

    status = audit.run([odd / "Toy/results/box0"], "auto", "json", TODAY)

    assert status is ExitStatus.OK
    assert [item["path"] for item in json.loads(capsys.readouterr().out)["not_audited"]] == [str(place)]


def test_a_log_that_is_gone_when_its_other_lines_are_read(
    odd: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result is not audited, and the others are."""
    lost = odd / "Toy/results/box0/toy"
    subject_of = read.subject

    def subject_of_less(result: Result, *rest: Any) -> Subject:
        if result.path == lost:
            (lost / "result_2.txt").unlink()
        return subject_of(result, *rest)

    monkeypatch.setattr(read, "subject", subject_of_less)
    with pytest.raises(InputError, match="result_2"):
        audit.run([odd], "auto", "json", TODAY)

    document = json.loads(capsys.readouterr().out)
    assert len(document["results"]) == 11
    assert [item["path"] for item in document["not_audited"]] == [str(lost)]


def test_the_ruleset_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The source of targets and limits: on standard error, and in every document with its digest."""
    folder = fabricate.write_submission(tmp_path)
    ruleset = load.load_ruleset(catalog.ruleset_folder("v1"), "v1")
    texts = {}
    for form in audit.FORMATS:
        audit.run([folder], "auto", form, TODAY)
        texts[form], err = capsys.readouterr()
        assert err == "tta: auditing by ruleset v1, which result_0.txt names\n"

    document = json.loads(texts["json"])
    assert document["rulesets"] == [{"ruleset": "v1", "ruleset_digest": ruleset.digest}]
    assert document["not_audited"] == []
    properties = json.loads(texts["sarif"])["runs"][0]["properties"]
    assert (properties["ruleset"], properties["rulesetDigest"]) == ("v1", ruleset.digest)
    assert texts["text"].endswith(f"; ruleset v1 ({ruleset.digest[:12]})\n")
    assert f"<dt>Targets and limits</dt><dd>ruleset v1 ({ruleset.digest[:12]})</dd>" in texts["html"]
    assert "ot audited" not in texts["text"] + texts["html"]


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    """No path, an unknown format, a place without results."""
    with pytest.raises(UsageError):
        audit.run([], "auto", "text", TODAY)
    with pytest.raises(UsageError):
        audit.run([tmp_path], "auto", "pdf", TODAY)
    with pytest.raises(InputError):
        audit.run([tmp_path], "auto", "text", TODAY)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("severity: warning, weight: 70, max_back_s", "severity: error, weight: 70, max_back_s", "severity"),
        ("AUD001: {severity: warning, weight: 70", "AUD001: {severity: warning, weight: 170", "weight is 170"),
        ("max_back_s: 0.1", "max_back: 0.1", "it takes max_back_s"),
        ("max_back_s: 0.1", "max_back_s: soon", "not a number"),
        ("AUD001:", "AUD999:", "unknown signal"),
        ("signals:", "signal:", "unknown key"),
        ("  resnet: [", "  resnet: [9, ", "two numbers"),
    ],
)
def test_invalid_audit_rules_are_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    """With the name of what is wrong; a signal is never an error."""
    text = registry.audit_file().read_text()
    assert old in text
    (tmp_path / "audit.yaml").write_text(text.replace(old, new, 1))

    with pytest.raises(RulesError, match=said):
        load_audit(tmp_path / "audit.yaml").refuse_unknown(registry.signals())
