"""What the audit reads and computes before any signal is asked: folders, other lines, facts, standards, rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checker import registry
from harness.checker.audit import read
from harness.checker.audit.facts import RunFacts, Standard, Tree
from harness.checker.audit.log_text import LogText, read_text
from harness.checker.audit.rules import Rates, load_audit, load_rates
from harness.checker.audit.standard import standard
from harness.errors import LogError, RulesError
from harness.findings import Severity
from harness.log import run_log
from harness.ruleset import catalog, load
from tests import fabricate, foreign
from tests.attacks.results import Log
from tests.auditing import TODAY, audit, codes, rules, v1
from tests.foreign import of, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])


def facts(path: Path) -> RunFacts:
    return RunFacts(run_log.read(path), text_of(path), Standard())


def test_a_folder_of_logs_of_any_name_is_one_result(tmp_path: Path) -> None:
    """Wherever it is; a log that cannot be read is listed, and one that the caller names is audited alone."""
    foreign.write(tmp_path, [rows(index) for index in range(4)], names=lambda index: f"result_raw_{index}.txt")
    (tmp_path / "result_raw_9.txt").write_text("not a run log\n")

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


def test_what_the_framework_measured_is_read(tmp_path: Path) -> None:
    """Qualities by name, the ranks before lines, the total times of one of them."""
    log = tmp_path / "result_0.txt"
    log.write_text(
        "{'global_steps': 20, 'eval_loss': 4.1723, 'eval_mlm_accuracy': 0.3681}\neval_loss is large\nvalue: 0.25\n"
        "0:  Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.233\n"
        "1: Epoch: [0] Total time: 0:07:52 (0.13 s / it)\n0: Epoch: [0] Total time: 0:07:53 (0.13 s / it)\n"
        '2: :::MLLOG {"key": "a", "time_ms": 1760000000000, "value": 1, "metadata": {}}\n'
    )

    text = text_of(log)

    assert [(item.line, item.name[:17], item.text) for item in text.qualities] == [
        (1, "eval_loss", "4.1723"),
        (1, "eval_mlm_accuracy", "0.3681"),
        (4, "Average Precision", "0.233"),
    ]
    assert text.parts_s == ((472.0, 5),)
    assert text.num_ranks == 3
    log.write_text(log.read_text() + "2025: a line that begins with a number\n")
    assert text_of(log).num_ranks == 0


def test_qualities_of_twenty_names_are_kept(tmp_path: Path) -> None:
    """The first ones, each as often as it is printed."""
    log = tmp_path / "result_0.txt"
    log.write_text("".join(f"eval_x{nth % 21}_loss: 0.{nth:03}\n" for nth in range(42)))

    text = read_text(log, ())

    assert [item.line for item in text.qualities] == [*range(1, 21), *range(22, 42)]


def test_odd_lines_do_not_stop_the_reader(tmp_path: Path) -> None:
    """An impossible date, a clock of twelve hours, an event without a time, a line without an end."""
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
    """Two values in one, a value that is not a number, and an evaluation without a position."""
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
    """No start, no length, no speed: None, and only AUD024 finds something."""
    foreign.write(folder, [[row for row in rows(0) if row.key not in ("run_start", "run_stop")][:9]])
    run = facts(folder / "result_0.txt")

    assert (run.run_s, run.final, run.samples, run.fingerprint_of_times()) == (None, None, None, None)
    assert run.wall_ms is not None
    assert codes(audit(folder / "result_0.txt")) == {"AUD024"}


def test_the_place_of_a_run_is_its_folder_or_what_its_log_says(folder: Path, tmp_path: Path) -> None:
    """`<submitter>/<system>` in MLPerf's layout, else organisation and platform."""
    elsewhere = foreign.write(tmp_path / "x", [rows(0)])
    tree = Tree()
    for path, logs in read.find([folder, elsewhere]):
        tree.add(read.subject(read.read(path, logs), None, rules(), TODAY))

    assert {run.place for run in tree.runs} == {"Toy/toybox"}


def test_a_standard_follows_from_the_rules(tmp_path: Path, folder: Path) -> None:
    """Of `tta`, of a round, and without rules."""
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
        ("version: '1'\nsignals: {AUD001: {severity: note, weight: 1}}\nflops: 3\n", "'flops' must map"),
        (
            "version: '1'\nsignals: {AUD001: {severity: note, weight: 1}}\nflops: {a: 0}\n",
            "flops: a: 0 is not a number of operations",
        ),
    ],
)
def test_audit_rules_have_a_form(text: str, said: str, tmp_path: Path) -> None:
    """The message names the entry."""
    (tmp_path / "audit.yaml").write_text(text)

    with pytest.raises(RulesError, match=said):
        load_audit(tmp_path / "audit.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("results: 3\nalarms: 3\n", "'alarms' must map"),
        ("results: 3\nalarms: {AUD001: 4}\n", "AUD001: '4' is not a number of results"),
        ("results: 3\nalarms: {AUD001: 0.5}\n", "AUD001: '0.5' is not a number of results"),
        ("results: 0\nalarms: {}\n", "results: '0' is not a number of results"),
        ("alarms: {AUD001: 1}\n", "results: 'None' is not a number of results"),
    ],
)
def test_rates_have_a_form(text: str, said: str, tmp_path: Path) -> None:
    """The message names the entry."""
    (tmp_path / "rates.yaml").write_text(text)

    with pytest.raises(RulesError, match=said):
        load_rates(tmp_path / "rates.yaml")


def test_a_signal_says_how_often_it_fires() -> None:
    """Or that it was not counted."""
    rates = Rates(173, {"AUD001": 2})

    assert rates.sentence("AUD001") == (
        "Fires on 2 of 173 held-out published results (1.2 %; 95 % interval 0.1 to 4.1 %): docs/explanation/audit.md."
    )
    assert rates.sentence("AUD999").startswith("Not counted yet: ")


def test_a_signal_that_fires_often_is_a_note() -> None:
    """Each signal was counted, and is a note if it fires on more than 2 % of the results on which no limit was set."""
    rates = load_rates(registry.rates_file())
    often = {code for code, number in rates.alarms.items() if number > 0.02 * rates.num_results}

    assert set(rates.alarms) == set(rules().signals)
    assert {code for code in often if rules().signals[code].severity is not Severity.NOTE} == set()


def test_a_signal_is_carried_out_by_the_audit_only() -> None:
    """As a check it is only explained."""
    rule = registry.signals()["AUD001"].as_rule

    with pytest.raises(AssertionError):
        rule.check()
    assert rules().signals["AUD001"].severity is Severity.WARNING


def test_a_log_full_of_seeds_and_dates_is_kept_within_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a kind than the limit, the first ones; the times of events are read to the end."""
    whole = text_of(folder / "result_0.txt")
    monkeypatch.setattr("harness.checker.audit.log_text._MAX_ITEMS", 1)
    log = folder / "result_0.txt"
    log.write_text("+ export SEED=1\n+ export SEED=2\n" + log.read_text())
    text = text_of(log)

    assert text.seeds == ((1, 1),)
    assert 0 < len(text.stamps) < len(whole.stamps)
    assert len(text.hosts) <= 1
    assert text.launched == whole.launched
