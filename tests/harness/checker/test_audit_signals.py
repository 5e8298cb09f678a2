"""Every signal of the audit, both ways: it finds what was done to a result, and nothing in a valid one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.checker import registry
from harness.checker.audit.facts import Standard, Subject
from harness.checker.audit.mlflow_db import MirrorRun, read_mirror
from harness.errors import SubmissionError
from harness.submission.predictions import COMPUTED, IMPOSSIBLE, REFUSED, Recomputed
from harness.submission.result import read_result
from tests import fabricate, foreign
from tests.attacks.results import ATTACKS, Log
from tests.auditing import audit, codes, found, rules, signals
from tests.fabricate import Step, find
from tests.foreign import Row, of, rows

Runs = list[list[Row]]


def total(run: list[Row]) -> None:
    run[-1].text = "RESULT,TOY,,7,toy,"


def duration(run: list[Row]) -> None:
    of(run, "run_stop").metadata["duration"] = "17.5 sec -> 0.3 minutes"


def leap(run: list[Row]) -> None:
    for nth in range(1, 7):
        of(run, "eval_accuracy", nth).value = 0.33 + 0.001 * nth


def user(run: list[Row]) -> None:
    run[2].text = run[2].text.replace("alice", "bob")


@pytest.mark.parametrize(("code", "act"), [("AUD008", total), ("AUD008", duration), ("AUD011", leap), ("AUD043", user)])
def test_a_signal_finds_what_no_attack_does(code: str, act: Callable[[list[Row]], None], tmp_path: Path) -> None:
    """Most other signals are tested on the attacks of tests/attacks."""
    runs = [rows(index) for index in range(5)]
    act(runs[0])

    assert found(foreign.write(foreign.result(tmp_path), runs), code)


def test_nothing_is_suspicious_where_nothing_was_done(tmp_path: Path) -> None:
    """A result in MLPerf's form, of one to five runs, or with long pauses; results of `tta`."""
    assert audit(foreign.write(tmp_path / "slow", [rows(index) for index in range(5)], pause_s=5000)) == []
    assert audit(fabricate.write_submission(tmp_path / "own"), standard=None) == []
    assert audit(fabricate.write_submission(tmp_path / "metered", power="node"), standard=None) == []
    for num_runs in range(1, 6):
        assert looked_at(tmp_path / str(num_runs), [rows(index) for index in range(num_runs)]) == set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])


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
def test_a_finding_about_all_results_is_shown_with_the_result_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: list[str], expected: dict[str, int]
) -> None:
    """Two results have one log in common: reported for the second, under the name that the caller gave."""
    for number, place in enumerate((ONE, OTHER)):
        foreign.write(tmp_path / place, [rows(index) for index in range(5 * number, 5 * number + 5)])
    (tmp_path / OTHER / "result_0.txt").write_bytes((tmp_path / ONE / "result_0.txt").read_bytes())

    assert cli.main(["audit", *(str(tmp_path / name) for name in named), "--format", "json"]) == 0

    repeated = {
        str(Path(result["path"]).relative_to(tmp_path)): [item["code"] for item in result["findings"]].count("AUD020")
        for result in json.loads(capsys.readouterr().out)["results"]
    }
    assert repeated == expected


@pytest.mark.parametrize(
    ("names", "missing"),
    [((0, 1, 3, 4, 7), [2, 5, 6]), ((3, 4, 5, 6, 7), [1, 2]), (("raw_0", "raw_1", "raw_2", "raw_4", "raw_9"), None)],
)
def test_missing_numbers_are_found(names: tuple[Any, ...], missing: list[int] | None, tmp_path: Path) -> None:
    """AUD040: in between, or before the first; logs whose names are not numbered have none."""
    runs = [rows(index) for index in range(5)]
    foreign.write(foreign.result(tmp_path), runs, names=lambda index: f"result_{names[index]}.txt")

    suspicions = audit(tmp_path)

    assert codes(suspicions) == (set() if missing is None else {"AUD040"})
    assert [item.finding.evidence["missing"] for item in suspicions] == ([] if missing is None else [missing])


@pytest.mark.parametrize(
    ("name", "text", "is_found"),
    [
        ("scaling.json", '{"scaling_factor": 1.02}', False),
        ("scaling.json", '{"scaling_factor": 0.01}', True),
        ("scaling.json", '{"scaling_factor": -1%s}' % ("0" * 400), False),
        ("scaling.json", '{"scaling_factor": "0.01"}', False),
        ("scaling.json", "[0.01]", False),
        ("scaling.json", "{", False),
        ("package_checker_params", "rcp-bypass", True),
    ],
    ids=["above one", "below one", "too large for a float", "text", "list", "not JSON", "bypass"],
)
def test_a_file_that_changes_the_score_is_found(name: str, text: str, is_found: bool, folder: Path) -> None:
    """AUD070: a factor above one is what reviews apply; one that cannot be read changes nothing."""
    (folder / name).write_text(text)

    assert codes(audit(folder)) == ({"AUD070"} if is_found else set())


def test_a_position_without_information_is_not_compared(folder: Path) -> None:
    """AUD015: epochs among samples; a field that always says 1, as in published bert logs."""
    log = Log(folder / "result_0.txt")
    log.evaluations[4]["metadata"] = {"epoch_num": 2}
    log.write()
    assert found(folder, "AUD015") == []

    for number in range(5):
        log = Log(folder / f"result_{number}.txt")
        for record in log.evaluations:
            record["metadata"] = {"epoch_num": 1}
        log.write()

    assert found(folder, "AUD015") == []


def test_more_steps_than_the_samples_allow_are_found(folder: Path) -> None:
    """AUD033: steps times the batch size are samples."""
    log = Log(folder / "result_0.txt")
    for record in log.evaluations:
        record["metadata"]["step"] = record["metadata"]["samples_count"] // 10
    log.write()

    assert found(folder, "AUD033")


def test_runs_closer_together_than_the_reference_are_found(folder: Path) -> None:
    """AUD046: a wide reference, and five runs that end at one evaluation."""
    wide = tuple(float(item) for item in range(20_000, 70_000, 5_000))

    assert [item.finding.message.split(";")[0] for item in found(folder, "AUD046", reference=wide)] == [
        "5 runs differ by 0 samples"
    ]


LATE, EARLY, AT_ONCE = (0.5, 0.8), (0.5, 0.899), (0.5, 0.95)


@pytest.mark.parametrize(
    ("qualities", "options", "rules", "is_found"),
    [
        pytest.param(LATE, {}, {}, False, id="crossed after 2,667 samples"),
        pytest.param(EARLY, {}, {}, True, id="crossed after 2,020"),
        pytest.param(AT_ONCE, {}, {"confirm_evaluations": 1}, False, id="crossed after 1,889, and confirmed"),
        pytest.param(EARLY, {"division": "open"}, {}, False, id="the open division converges as it likes"),
        pytest.param(EARLY, {"batch_size": 200}, {}, False, id="no reference has this batch size"),
    ],
)
def test_a_target_that_is_crossed_too_early_is_found(
    qualities: tuple[float, float], options: dict[str, Any], rules: dict[str, Any], is_found: bool, tmp_path: Path
) -> None:
    """AUD046: all runs end at 3,000 samples; the reference crosses the target after 2,600 on average."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        for nth, quality in enumerate(qualities):
            find(steps, "eval_accuracy", nth).value = quality - 0.0002 * index
        return steps

    toy = fabricate.benchmark_rules(**rules)
    folder = fabricate.write_submission(tmp_path, change=change, rules=toy, **options)

    assert ("AUD046" in codes(audit(folder, None, fabricate.ruleset({}, toy)))) == is_found


@pytest.mark.parametrize("is_shortened", [True, False], ids=["shortened", "a part is missing"])
def test_a_ledger_that_does_not_sum_is_found(is_shortened: bool, tmp_path: Path) -> None:
    """AUD060: a missing part is for the checks."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        ledger = find(steps, "tta_ledger").value
        ledger["train_s"] -= 3
        if not is_shortened:
            del ledger["train_s"]
        return steps

    assert bool(found(fabricate.write_submission(tmp_path, change=change), "AUD060", None)) == is_shortened


def test_a_broken_chain_is_found(tmp_path: Path) -> None:
    """AUD061: a value edited as text."""
    folder = fabricate.write_submission(tmp_path)
    log = folder / "result_0.txt"
    log.write_text(log.read_text().replace('"value": 0.5,', '"value": 0.51,'))

    assert found(folder, "AUD061", None)


def still(lines: list[str]) -> list[str]:
    """Every reading is 300 W."""
    return [re.sub(r'("key": "power_reading", "value": )[0-9.]+', r"\g<1>300.0", line) for line in lines]


@pytest.mark.parametrize(
    ("code", "power", "act", "is_found"),
    [
        ("AUD050", "node", lambda lines: lines[:20] + lines[80:], True),
        ("AUD050", "counters", lambda lines: lines[:20] + lines[140:], False),
        ("AUD051", "node", still, True),
        ("AUD051", "model", still, False),
    ],
    ids=["gap", "gap of a counter", "flat", "flat model"],
)
def test_a_gap_in_measured_power_or_equal_readings_are_found(
    code: str, power: str, act: Callable[[list[str]], list[str]], is_found: bool, tmp_path: Path
) -> None:
    """AUD050, AUD051: a counter loses nothing in a gap, and the power of a model is flat anyway."""
    folder = fabricate.write_submission(tmp_path, power=power)
    path = folder / "power" / "result_0" / "node_0.txt"
    path.write_text("".join(act(path.read_text().splitlines(keepends=True))))

    assert bool(found(folder, code, None)) == is_found


MLPERF_POWER = (
    '{{"namespace": "", "time_ms": {}, "event_type": "POINT_IN_TIME", "key": "{}", "value": {}, "metadata": ""}}'
)


def test_a_power_trace_of_mlperf_must_cover_the_run(folder: Path) -> None:
    """AUD050: a measurement that starts and stops at one instant, and readings that end before the run does."""
    start_ms = foreign.START_MS
    place = folder / "power" / "result_0"
    place.mkdir(parents=True)
    lines = [MLPERF_POWER.format(start_ms, "power_measurement_start", "null")]
    lines += [MLPERF_POWER.format(start_ms + 1000 * s, "power_reading", 300 + s % 7) for s in range(100)]
    lines += [MLPERF_POWER.format(start_ms, "power_measurement_stop", "null")]
    (place / "node_0.txt").write_text("".join(f":::MLLOG {line}\n" for line in lines))

    messages = [item.finding.message for item in found(folder, "AUD050")]

    assert any("starts and stops at one instant" in message for message in messages)
    assert any("without a reading" in message for message in messages)


def test_a_copied_power_trace_is_found(tmp_path: Path) -> None:
    """AUD052: the readings of one run in the log of another."""
    folder = fabricate.write_submission(tmp_path, power="node")
    (folder / "power/result_1/node_0.txt").write_text((folder / "power/result_0/node_0.txt").read_text())

    assert found(folder, "AUD052", None)


def mirror_of(folder: Path) -> tuple[MirrorRun, ...]:
    """What a mirror of `folder` holds."""
    runs = []
    for log in read_result(folder).runs:
        curve = {int(event.samples_count or 0): float(event.value) for event in log.all("eval_accuracy")}
        tags = {
            "tta.run_id": str(log.field("tta_format", "run_id")),
            "tta.submission_id": str(log.field("tta_format", "result_id")),
            "tta.log_sha256": log.sha256,
        }
        runs.append(MirrorRun(tags["tta.run_id"], tags, {"eval/top1_accuracy": curve}))
    return tuple(runs)


def test_a_mirror_that_disagrees_is_found(tmp_path: Path) -> None:
    """AUD062: a quality, an evaluation, a file or a run that only one of the two has."""
    folder = fabricate.write_submission(tmp_path)
    mirror = mirror_of(folder)
    assert audit(folder, standard=None, mirror=mirror) == []

    curve = dict(mirror[0].metrics["eval/top1_accuracy"])
    other = MirrorRun(mirror[0].run_id, mirror[0].tags, {"eval/top1_accuracy": {**curve, 2000: 0.7}})
    more = MirrorRun(mirror[0].run_id, mirror[0].tags, {"eval/top1_accuracy": {**curve, 2500: 0.7}})
    bytes_ = MirrorRun(mirror[0].run_id, {**mirror[0].tags, "tta.log_sha256": "0" * 64}, mirror[0].metrics)
    hidden = MirrorRun("f" * 32, {**mirror[0].tags, "tta.run_id": "f" * 32}, mirror[0].metrics)
    for changed in ((other,), (more,), (bytes_,), (*mirror, hidden)):
        assert codes(audit(folder, standard=None, mirror=changed)) == {"AUD062"}


def test_a_quality_that_its_predictions_do_not_have_is_found(tmp_path: Path) -> None:
    """AUD063: computed again it is another, or cannot be computed; one that agrees, or that nobody could, is not."""
    result = read_result(fabricate.write_result(tmp_path, 4))
    again = (
        Recomputed(COMPUTED, "", 0.95, 500),
        Recomputed(COMPUTED, "", 0.946, 500),
        Recomputed(REFUSED, "expected 500 classes"),
        Recomputed(IMPOSSIBLE, "the data are not prepared here"),
    )
    subject = Subject(
        dataclasses.replace(result, recomputed={f"result_{n}.txt": item for n, item in enumerate(again)}),
        (),
        Standard(),
    )

    found = [
        (Path(item.fault.path).name, item.fault.message)
        for item in signals()["AUD063"].look(subject, rules().signals["AUD063"])
    ]

    assert found == [
        ("result_1.txt", "the quality is 0.951; the kept predictions have 0.946, of 500 examples"),
        ("result_2.txt", "the kept predictions cannot be evaluated: expected 500 classes"),
    ]


def test_a_quality_that_its_weights_do_not_have_is_found(tmp_path: Path) -> None:
    """AUD064: on another system within the margin, on the same exactly."""
    result = read_result(fabricate.write_result(tmp_path, 3))
    again = (
        Recomputed(COMPUTED, "", 0.9499, 500, margin=0.006),
        Recomputed(COMPUTED, "", 0.944, 500, margin=0.006),
        Recomputed(REFUSED, "the file lacks a (1 in total)"),
    )
    found = {f"result_{n}.txt": item for n, item in enumerate(again)}
    subject = Subject(dataclasses.replace(result, reevaluated=found), (), Standard())

    items = list(signals()["AUD064"].look(subject, rules().signals["AUD064"]))

    assert [(Path(item.fault.path).name, item.fault.message) for item in items] == [
        ("result_1.txt", "the quality is 0.951; the kept weights have 0.944, of 500 examples"),
        ("result_2.txt", "the kept weights cannot be evaluated: the file lacks a (1 in total)"),
    ]


def test_every_signal_is_tested() -> None:
    """By a test of this folder that names it, or by an attack that it must find."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    attacked = {code for attack in ATTACKS for code in attack.signals}

    assert [code for code in registry.signals() if code not in text and code not in attacked] == []


def test_every_signal_is_in_force() -> None:
    """With the limits that it takes; none is an error."""
    rules().refuse_unknown(registry.signals())

    assert set(rules().signals) == set(registry.signals())
    assert {rule.severity.value for rule in rules().signals.values()} == {"warning", "note"}


def initialising(*seconds: float) -> Callable[[int, list[Step]], list[Step]]:
    """Makes each run's initialisation that long; what follows comes later."""

    def change(index: int, steps: list[Step]) -> list[Step]:
        start = steps.index(find(steps, "init_start"))
        for step in steps[start + 1 :]:
            step.at_s += seconds[index] - 1.0
        return steps

    return change


@pytest.mark.parametrize(
    ("seconds", "is_found"),
    [
        ((1.0, 1.0, 1.78, 1.0, 1.0), True),
        ((1.0, 1.0, 1.77, 1.0, 1.0), False),
        ((3.0, 3.0, 4.51, 3.0, 3.0), True),
        ((3.0, 3.0, 4.49, 3.0, 3.0), False),
        ((1.0, 1.0, 1.78), True),
        ((1.0, 9.0), False),
        ((9.0, 9.0, 1.0, 9.0, 9.0), False),
    ],
)
def test_a_run_that_initialises_far_longer_is_named(seconds: tuple[float, ...], is_found: bool, tmp_path: Path) -> None:
    """AUD037: by half of the others' median, and by a tenth of its 7.76 s; two runs, and a shorter one, are not."""
    folder = fabricate.write_result(tmp_path / "result", len(seconds), initialising(*seconds))

    suspicions = found(folder, "AUD037", None)

    assert [Path(item.finding.path).name for item in suspicions] == (["result_2.txt"] if is_found else [])
    if seconds[2:3] == (1.78,):
        assert suspicions[0].finding.message == (
            "initialisation took 1.8 s, in the other runs 1.0 s (median); the difference is 10% of the run's 7.8 s; up "
            "to 10% is usual"
        )


KEYS = tuple(dict.fromkeys(row.key for row in rows() if row.key))


def looked_at(place: Path, runs: Runs) -> set[str]:
    """The codes of an audit in which every finding is on a line that exists and has a score within its bounds."""
    suspicions = audit(foreign.write(place, runs))
    for item in suspicions:
        path, line = Path(item.finding.path), item.finding.line
        assert 0 <= item.score <= 100, item
        assert line is None or 1 <= line <= len(path.read_text().splitlines()), item
    return codes(suspicions)


@pytest.mark.parametrize("name", KEYS)
def test_any_key_can_be_missing(name: str, tmp_path: Path) -> None:
    """From one log, and from all of them; without run_stop a log ends early."""
    one, all_ = [rows(index) for index in range(5)], [rows(index) for index in range(5)]
    for run in (one[0], *all_):
        run[:] = [row for row in run if row.key != name]

    for place, runs in (("one", one), ("all", all_)):
        assert ("AUD024" in looked_at(tmp_path / place, runs)) == (name == "run_stop")


STRANGE: dict[str, list[Any]] = {
    "value": [None, True, -1, 0, 1e308, "", "x", [], [None, {}], {"throughput": -1}],
    "samples_count": [None, True, -1, 0, 7, 10**30, 1e308, "x", []],
    "at_s": [-foreign.START_MS / 1e3, 0.0, 61.5, 1e9],
}


@pytest.mark.parametrize(
    ("field", "content"), [(name, item) for name, items in STRANGE.items() for item in items], ids=repr
)
def test_any_value_position_and_time_can_be_strange(field: str, content: Any, tmp_path: Path) -> None:
    """In all lines of each key in turn, and in all lines; a position also in one log only."""
    for names in (*((name,) for name in KEYS), KEYS):
        for num_logs in (1, 5) if field == "samples_count" else (5,):
            runs = [rows(index) for index in range(5)]
            for row in (row for run in runs[:num_logs] for row in run if row.key in names):
                if field == "samples_count":
                    row.metadata[field] = content
                else:
                    setattr(row, field, content)

            looked_at(tmp_path, runs)


@pytest.mark.parametrize("num_evaluations", range(foreign.NUM_EVALUATIONS))
def test_few_evaluations_are_not_compared(num_evaluations: int, tmp_path: Path) -> None:
    """If every run has only its first evaluations, no signal that compares the curves of runs finds anything."""
    runs = [rows(index) for index in range(5)]
    for run in runs:
        for _ in range(foreign.NUM_EVALUATIONS - num_evaluations):
            run.remove(of(run, "eval_accuracy", num_evaluations))

    assert not looked_at(tmp_path, runs) & {"AUD012", "AUD014", "AUD015"}


def test_a_mirror_without_a_curve_is_compared_by_its_bytes(tmp_path: Path) -> None:
    """AUD062: no quality is mirrored, or two metrics are, and it is unknown which is the run's."""
    folder = fabricate.write_submission(tmp_path)
    first = mirror_of(folder)[0]
    curve = first.metrics["eval/top1_accuracy"]
    other_bytes = {**first.tags, "tta.log_sha256": "0" * 64}
    for metrics in ({}, {"train/loss": curve}, {"eval/a": {1: 9.0}, "eval/b": curve}):
        assert audit(folder, standard=None, mirror=(MirrorRun(first.run_id, first.tags, metrics),)) == []
        [item] = audit(folder, standard=None, mirror=(MirrorRun(first.run_id, other_bytes, metrics),))
        assert (item.finding.code, "different bytes" in item.finding.message) == ("AUD062", True)


def test_a_mirror_keeps_to_runs_of_tta(tmp_path: Path) -> None:
    """Metrics of a run without tags, and tags without a run id, are of other programs."""
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
