"""What the audit reads and computes before any signal looks: folders, other lines, facts, standards, rules."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.audit import read
from harness.checker.audit.facts import RunFacts, Standard, Tree
from harness.checker.audit.log_text import LogText, read_text
from harness.checker.audit.mlflow_db import MirrorRun, read_mirror
from harness.checker.audit.rules import load_audit
from harness.checker.audit.standard import standard
from harness.commands import audit as command
from harness.errors import InputError, LogError, RulesError, SubmissionError
from harness.findings import Severity
from harness.log import run_log
from harness.ruleset import catalog, load
from tests import fabricate, foreign
from tests.attacks.results import Log
from tests.auditing import STANDARD, TODAY, audit, codes, rules, v1
from tests.foreign import Row, of, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])


def facts(path: Path) -> RunFacts:
    return RunFacts(run_log.read(path), text_of(path), Standard())


def test_a_folder_of_logs_of_any_name_is_one_result(tmp_path: Path) -> None:
    """Wherever it lies; a log that cannot be read is listed, and one that is named is audited alone."""
    foreign.write(tmp_path, [rows(index) for index in range(4)], names=lambda index: f"result_raw_{index}.txt")
    (tmp_path / "result_raw_9.txt").write_text("no line of ours\n")

    [(path, logs)] = read.find([tmp_path])
    result = read.read(path, logs)

    assert (path, len(logs), len(result.runs), len(result.unreadable)) == (tmp_path, 5, 4, 1)
    assert read.find([tmp_path / "result_raw_1.txt"]) == [(tmp_path / "result_raw_1.txt", ())]


def text_of(path: Path) -> LogText:
    return read_text(path, run_log.read(path).events)


def test_other_lines_are_read(folder: Path) -> None:
    """Dates with the lines around them, seeds, hosts, users and totals; a launcher's ranks are counted."""
    text = text_of(folder / "result_0.txt")

    assert text.num_others == len([row for row in rows(0) if row.text])
    assert text.launched == len([row for row in rows(0) if row.key])
    assert text.seeds == ((4711, 1),)
    assert text.hosts == {"node1"}
    assert text.users == {"alice"}
    assert [seconds for seconds, _ in text.totals_s] == [float(rows(0)[-1].text.split(",")[3])]
    assert all(stamp.before_s <= (stamp.after_s or stamp.before_s) for stamp in text.stamps)


def test_odd_lines_do_not_stop_the_reader(tmp_path: Path) -> None:
    """A date that is none, twelve hours, a line of ours without a time, a line without an end."""
    log = tmp_path / "result_0.txt"
    log.write_bytes(
        b':::MLLOG {"key": "a", "time_ms": 1760000000000, "value": 1, "metadata": {}}\n'
        b"2025-13-45 99:99:99\n2025-10-09 01:00:00 PM\n"
        b':::MLLOG {"key": "b"}\n\xff\xfe\n2025-10-09 14:00:00'
    )

    text = text_of(log)

    assert [stamp.at_s % 86_400 / 3600 for stamp in text.stamps] == [13, 14]
    assert all(stamp.after_s is None for stamp in text.stamps)
    assert text.num_others == 4
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(LogError):
            read_text(place, ())


def test_facts_of_odd_evaluations(folder: Path) -> None:
    """Two values in one, a value that is none, and an evaluation that does not say where it is."""
    run = rows(0)
    of(run, "eval_accuracy", 0).value = {"BBOX": 0.3, "SEGM": 0.2}
    of(run, "eval_accuracy", 1).value = {"BBOX": "none"}
    of(run, "eval_accuracy", 2).metadata = {}
    foreign.write(folder, [run])

    curve = facts(folder / "result_0.txt").curve

    assert len(curve) == foreign.NUM_EVALUATIONS - 1
    assert curve[0].value == 0.3
    assert (curve[1].position, curve[1].unit) == (None, "")


def test_a_log_without_a_run_has_no_facts(folder: Path) -> None:
    """No start, no length, no speed: None, and no signal speaks of what is not there."""
    foreign.write(folder, [[row for row in rows(0) if row.key not in ("run_start", "run_stop")][:9]])
    run = facts(folder / "result_0.txt")

    assert (run.run_s, run.final, run.samples, run.fingerprint_of_times()) == (None, None, None, None)
    assert run.wall_ms is not None
    assert codes(audit(folder / "result_0.txt")) == {"AUD024"}


def test_a_place_is_the_folder_or_what_the_log_says(folder: Path, tmp_path: Path) -> None:
    """`<submitter>/<system>` where MLPerf has it, else organisation and platform."""
    elsewhere = foreign.write(tmp_path / "x", [rows(0)])
    tree = Tree()
    for path, logs in read.find([folder, elsewhere]):
        tree.add(read.subject(read.read(path, logs), None, {}, TODAY))

    assert {run.place for run in tree.runs} == {"Toy/toybox"}


def test_standards_are_what_the_rules_say(tmp_path: Path, folder: Path) -> None:
    """Of ours, of a round, and of nobody."""
    ours = read.read(fabricate.write_submission(tmp_path / "ours"), ())
    toy = v1(toy_mini=fabricate.benchmark_rules())
    round_ = load.load_ruleset(catalog.ruleset_folder("mlperf_training/5.1.0"), "mlperf_training/5.1.0")
    log = Log(folder / "result_0.txt")
    log.one("submission_benchmark")["value"] = "llama2_70b_lora"
    log.one("global_batch_size")["value"] = 8
    log.write()
    theirs = read.read(folder, ())

    assert standard(ours, toy, TODAY).target == 0.9
    assert standard(ours, v1(), TODAY).target is None
    assert standard(ours, v1(), TODAY).max_init_s == 1800
    assert standard(ours, round_, TODAY).target is None
    assert standard(ours, None, TODAY).max_init_s is None
    found = standard(theirs, round_, TODAY)
    assert (found.target, found.direction, found.num_runs, found.reference_unit) == (0.925, "min", 10, "samples")
    assert len(found.reference) >= 20
    assert found.has_samples
    assert found.distance is not None

    log = Log(folder / "result_0.txt")
    log.one("submission_division")["value"] = "open"
    log.write()
    free = standard(read.read(folder, ()), round_, TODAY)
    assert (free.target, free.reference, free.distance) == (0.925, (), None)


def changed(folder: Path, *keys: str) -> Log:
    log = Log(folder / "result_0.txt")
    assert all(log.records(name) for name in keys)
    return log


def test_a_position_that_does_not_count_is_no_position(folder: Path) -> None:
    """AUD015: samples beside epochs are not compared; nor is a field that always says 1, as in published bert logs."""
    log = changed(folder, "eval_accuracy")
    log.evaluations[4]["metadata"] = {"epoch_num": 2}
    log.write()
    assert "AUD015" not in codes(audit(folder))

    for number in range(5):
        log = Log(folder / f"result_{number}.txt")
        for record in log.evaluations:
            record["metadata"] = {"epoch_num": 1}
        log.write()

    assert "AUD015" not in codes(audit(folder))


def test_steps_times_batch_are_samples(folder: Path) -> None:
    """AUD033: more steps than the samples have."""
    log = changed(folder, "eval_accuracy")
    for record in log.evaluations:
        record["metadata"]["step"] = record["metadata"]["samples_count"] // 10
    log.write()

    assert "AUD033" in codes(audit(folder))


def test_logs_without_numbers_have_no_holes(tmp_path: Path) -> None:
    """AUD040: names that are no numbers; and a list that begins at 3."""
    runs = [rows(index) for index in range(4)]
    named = foreign.write(foreign.result(tmp_path / "a"), runs, names=lambda index: f"result_raw_{index}.txt")
    late = foreign.write(foreign.result(tmp_path / "b"), runs, names=lambda index: f"result_{index + 3}.txt")

    assert "AUD040" not in codes(audit(named))
    assert "AUD040" in codes(audit(late))


def test_runs_closer_together_than_the_reference_are_told(folder: Path) -> None:
    """AUD046, the other side: a wide reference, and five runs that end at one evaluation."""
    wide = dataclasses.replace(STANDARD, reference=tuple(float(item) for item in range(20_000, 70_000, 5_000)))

    found = [item for item in audit(folder, wide) if item.finding.code == "AUD046"]

    assert [item.finding.message.split(";")[0] for item in found] == ["5 runs differ by 0 samples"]


MLPERF_POWER = (
    '{{"namespace": "", "time_ms": {}, "event_type": "POINT_IN_TIME", "key": "{}", "value": {}, "metadata": ""}}'
)


def test_power_traces_of_mlperf_are_held_against_the_run(folder: Path) -> None:
    """AUD050: a measurement that starts and stops at one instant, and readings that end before the run does."""
    start_ms = foreign.START_MS
    place = folder / "power" / "result_0"
    place.mkdir(parents=True)
    lines = [MLPERF_POWER.format(start_ms, "power_measurement_start", "null")]
    lines += [MLPERF_POWER.format(start_ms + 1000 * s, "power_reading", 300 + s % 7) for s in range(100)]
    lines += [MLPERF_POWER.format(start_ms, "power_measurement_stop", "null")]
    (place / "node_0.txt").write_text("".join(f":::MLLOG {line}\n" for line in lines))

    found = [item.finding.message for item in audit(folder) if item.finding.code == "AUD050"]

    assert any("starts and stops at one instant" in message for message in found)
    assert any("without a reading" in message for message in found)


def test_a_ledger_with_a_part_missing_is_for_the_checks(tmp_path: Path) -> None:
    """AUD060 adds up numbers only."""

    def without(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        del fabricate.find(steps, "tta_ledger").value["train_s"]
        return steps

    assert "AUD060" not in codes(audit(fabricate.write_submission(tmp_path, change=without), standard=None))


def test_a_factor_that_cannot_be_read_changes_nothing(folder: Path) -> None:
    """AUD070: no JSON, no number, no mapping."""
    for text in ("{", '{"scaling_factor": "0.01"}', "[0.01]"):
        (folder / "scaling.json").write_text(text)

        assert codes(audit(folder)) == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: '1'\nsignals: 3\n", "'signals' must map"),
        ("version: '1'\nsignals: {AUD001: 3}\n", "severity and weight"),
        ("version: '1'\nsignals: {AUD001: {severity: note, weight: 1}}\nbands: 3\n", "'bands' must map"),
        (
            "version: '1'\nsignals: {AUD001: {severity: note, weight: 1}}\nbands: {a: [2, 1]}\n",
            "the lower limit 2 is above the upper limit 1",
        ),
    ],
)
def test_audit_rules_have_a_form(text: str, said: str, tmp_path: Path) -> None:
    """Refused with the place."""
    (tmp_path / "audit.yaml").write_text(text)

    with pytest.raises(RulesError, match=said):
        load_audit(tmp_path / "audit.yaml")


def test_a_signal_is_carried_out_by_the_audit_only() -> None:
    """As a check it only explains itself."""
    rule = registry.signals()["AUD001"].as_rule

    with pytest.raises(AssertionError):
        rule.check()
    assert rules().signals["AUD001"].severity is Severity.WARNING


def test_no_run_and_no_path_is_told_once_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Logs that cannot be read: all are named, the last as the error."""
    (tmp_path / "a.txt").write_text("nothing\n")
    (tmp_path / "b.txt").write_text("nothing\n")

    with pytest.raises(LogError, match=r"b\.txt"):
        command.run([tmp_path / "a.txt", tmp_path / "b.txt"], "auto", "text", date(2025, 12, 1))

    assert "a.txt" in capsys.readouterr().err


def test_a_folder_whose_logs_are_all_unreadable(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each log is named, and nothing is said of a result that nobody could look at."""
    for log in folder.glob("result_*.txt"):
        log.write_text("nothing\n")

    with pytest.raises(InputError):
        command.run([folder], "auto", "text", date(2025, 12, 1))

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("not audited") == 5


def test_empty_facts_are_empty() -> None:
    """The text of a log without other lines."""
    assert LogText().num_others == 0
    assert Row(0.0, text="x").line(0) == "x"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda signals: {**signals, "AUD999": signals["AUD001"]}, "unknown signal 'AUD999'"),
        (lambda signals: {"AUD001": dataclasses.replace(signals["AUD001"], limits={})}, "AUD001: has the limits none"),
        (
            lambda signals: {"AUD009": dataclasses.replace(signals["AUD009"], limits={"max": 1.0})},
            "has the limits max; it takes none",
        ),
    ],
    ids=["unknown", "too few", "too many"],
)
def test_rules_of_signals_that_are_not_there_are_refused(change: Any, message: str) -> None:
    """A limit nobody takes would look like one that is in force."""
    odd = dataclasses.replace(rules(), signals=change(rules().signals))

    with pytest.raises(RulesError, match=message):
        odd.refuse_unknown(registry.signals())


def test_a_log_full_of_seeds_and_dates_is_kept_within_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a kind than the limit, the first of them; the log's own times are read to the end."""
    whole = text_of(folder / "result_0.txt")
    monkeypatch.setattr("harness.checker.audit.log_text._MAX_ITEMS", 1)
    log = folder / "result_0.txt"
    log.write_text("+ export SEED=1\n+ export SEED=2\n" + log.read_text())
    text = text_of(log)

    assert text.seeds == ((1, 1),)
    assert 0 < len(text.stamps) < len(whole.stamps)
    assert len(text.hosts) <= 1
    assert text.launched == whole.launched


def test_a_mirror_keeps_to_runs_of_ours(tmp_path: Path) -> None:
    """Metrics of a run that nobody tagged, and tags without a run id, are other people's."""
    path = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("CREATE TABLE tags (run_uuid TEXT, key TEXT, value TEXT)")
        store.execute("CREATE TABLE metrics (run_uuid TEXT, key TEXT, step INTEGER, value REAL, timestamp INTEGER)")
        store.executemany(
            "INSERT INTO tags VALUES (?, ?, ?)",
            [("u1", "tta.run_id", "r1"), ("u2", "tta.note", "no id"), ("u3", "mlflow.user", "somebody")],
        )
        store.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)",
            [("u1", "eval/a", 10, 0.5, 1), ("u1", "eval/a", 10, 0.6, 2), ("u3", "eval/a", 10, 0.9, 3)],
        )
        store.commit()

    assert read_mirror(path) == (MirrorRun("r1", {"tta.run_id": "r1"}, {"eval/a": {10: 0.6}}),)
    (tmp_path / "text.db").write_text("no store\n" * 100)
    for name, why in (("gone.db", "there is no such file"), ("text.db", "not the SQLite file")):
        with pytest.raises(SubmissionError, match=why):
            read_mirror(tmp_path / name)
