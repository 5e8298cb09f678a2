"""Every signal of the audit, both ways: it speaks where something was done, and is silent where nothing was."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.audit.mlflow_db import MirrorRun
from tests import fabricate, foreign
from tests.auditing import audit, codes, rules
from tests.fabricate import Step, find
from tests.foreign import Row, of, rows

SECTIONS = ("What it does", "Why it matters", "Example", "Instead", "Source")
Runs = list[list[Row]]
CASES: list[tuple[str, Callable[[Runs], None]]] = []


def case(code: str) -> Callable[[Callable[[Runs], None]], Callable[[Runs], None]]:
    def add(act: Callable[[Runs], None]) -> Callable[[Runs], None]:
        CASES.append((code, act))
        return act

    return add


def later(run: list[Row], row: Row, seconds: float) -> None:
    """Everything from `row` on happens later."""
    for other in run[next(place for place, item in enumerate(run) if item is row) :]:
        other.at_s += seconds


@case("AUD001")
def block_back(runs: Runs) -> None:
    of(runs[0], "block_stop", 3).at_s -= 200


@case("AUD002")
def long_piece(runs: Runs) -> None:
    later(runs[0], of(runs[0], "block_stop", 4), 600)


@case("AUD003")
def gap(runs: Runs) -> None:
    later(runs[0], of(runs[0], "run_start"), 18_000)


@case("AUD004")
def long_init(runs: Runs) -> None:
    later(runs[0], of(runs[0], "init_stop"), 1_735)


@case("AUD005")
def whole_seconds(runs: Runs) -> None:
    for row in runs[0]:
        row.at_s = round(row.at_s)


@case("AUD006")
def epoch_zero(runs: Runs) -> None:
    of(runs[0], "submission_division").at_s = -foreign.START_MS / 1e3


@case("AUD006")
def far_future(runs: Runs) -> None:
    of(runs[0], "submission_division").at_s = 1e8


@case("AUD007")
def mllog_times_only(runs: Runs) -> None:
    for row in runs[0]:
        row.text = row.text.replace("{now}", f"2025-10-09 {1 + int(row.at_s) // 15:02d}:53:20")


@case("AUD008")
def total(runs: Runs) -> None:
    runs[0][-1].text = "RESULT,TOY,,7,toy,"


@case("AUD008")
def duration(runs: Runs) -> None:
    of(runs[0], "run_stop").metadata["duration"] = "17.5 sec -> 0.3 minutes"


@case("AUD009")
def no_number(runs: Runs) -> None:
    of(runs[0], "eval_accuracy").value = float("nan")


@case("AUD010")
def constant(runs: Runs) -> None:
    for nth in range(4):
        of(runs[0], "eval_accuracy", nth).value = 0.5


@case("AUD011")
def leap(runs: Runs) -> None:
    for nth in (1, 2, 3, 4, 5, 6):
        of(runs[0], "eval_accuracy", nth).value = 0.33 + 0.001 * nth


@case("AUD012")
def better_than_others(runs: Runs) -> None:
    of(runs[0], "eval_accuracy", 2).value = 0.89


@case("AUD013")
def never_seen(runs: Runs) -> None:
    of(runs[0], "eval_accuracy", 2).value = 1.7


@case("AUD014")
def missing_in_the_middle(runs: Runs) -> None:
    runs[0].remove(of(runs[0], "eval_accuracy", 4))


@case("AUD014")
def begins_later(runs: Runs) -> None:
    for nth in (0, 1):
        assert nth < 2
        runs[0].remove(of(runs[0], "eval_accuracy"))


@case("AUD015")
def samples_back(runs: Runs) -> None:
    of(runs[0], "eval_accuracy", 4).metadata["samples_count"] = 3_000


@case("AUD015")
def second_try(runs: Runs) -> None:
    row = of(runs[0], "eval_accuracy", 4)
    runs[0].insert(runs[0].index(row), Row(row.at_s, row.key, row.value - 0.01, metadata=dict(row.metadata)))


@case("AUD016")
@case("AUD017")
def only_the_last(runs: Runs) -> None:
    for _ in range(foreign.NUM_EVALUATIONS - 1):
        runs[0].remove(of(runs[0], "eval_accuracy"))


@case("AUD018")
def on_the_line(runs: Runs) -> None:
    of(runs[0], "eval_accuracy", 7).value = foreign.TARGET


@case("AUD021")
def copied_with_another_seed(runs: Runs) -> None:
    runs[1] = copy.deepcopy(runs[0])
    of(runs[1], "seed").value = 99_991


@case("AUD021")
def copied_curve(runs: Runs) -> None:
    for nth in range(foreign.NUM_EVALUATIONS):
        of(runs[1], "eval_accuracy", nth).value = of(runs[0], "eval_accuracy", nth).value


@case("AUD022")
def same_seed(runs: Runs) -> None:
    of(runs[1], "seed").value = of(runs[0], "seed").value


@case("AUD023")
def other_seed(runs: Runs) -> None:
    of(runs[0], "seed").value = 99_991


@case("AUD024")
def cut_off(runs: Runs) -> None:
    del runs[0][len(runs[0]) // 2 :]


@case("AUD030")
def fast_piece(runs: Runs) -> None:
    later(runs[0], of(runs[0], "block_stop", 4), -15)


@case("AUD031")
def throughput(runs: Runs) -> None:
    for nth in range(foreign.NUM_EVALUATIONS):
        of(runs[0], "tracked_stats", nth).value["throughput"] *= 10


@case("AUD032")
def faster_run(runs: Runs) -> None:
    for row in runs[0]:
        row.at_s *= 0.7


@case("AUD033")
def broken_batches(runs: Runs) -> None:
    of(runs[0], "global_batch_size").value = 768


@case("AUD034")
def another_recipe(runs: Runs) -> None:
    of(runs[0], "eval_samples").value = 10_000


@case("AUD035")
def evaluations_of_no_time(runs: Runs) -> None:
    for nth in range(foreign.NUM_EVALUATIONS):
        later(runs[0], of(runs[0], "eval_accuracy", nth), -0.9)


@case("AUD036")
def another_machine(runs: Runs) -> None:
    for run in runs:
        of(run, "submission_platform").value = "1xMI355X"


@case("AUD043")
def another_platform(runs: Runs) -> None:
    of(runs[0], "submission_platform").value = "otherbox"


@case("AUD043")
def another_user(runs: Runs) -> None:
    runs[0][2].text = runs[0][2].text.replace("alice", "bob")


@case("AUD044")
def framework_log_gone(runs: Runs) -> None:
    runs[0][:] = [row for row in runs[0] if not row.text]


@case("AUD044")
def framework_logs_gone(runs: Runs) -> None:
    for run in runs:
        run[:] = [row for row in run if not row.text]


@case("AUD045")
def no_spread(runs: Runs) -> None:
    for run in runs[1:]:
        for row, first in zip(run, runs[0], strict=True):
            row.at_s = first.at_s


@case("AUD046")
def too_fast(runs: Runs) -> None:
    for run in runs:
        stop = of(run, "run_stop")
        del run[run.index(of(run, "block_start", 5)) : run.index(stop)]
        of(run, "eval_accuracy", 4).value = 0.91
        stop.metadata["samples_count"] = 25_000


@case("AUD053")
def typed_energy(runs: Runs) -> None:
    runs[0].insert(-1, Row(of(runs[0], "run_stop").at_s, "energy_j", 12_345.0))


@pytest.mark.parametrize(("code", "act"), CASES, ids=[f"{code}-{act.__name__}" for code, act in CASES])
def test_a_signal_speaks(code: str, act: Callable[[Runs], None], tmp_path: Path) -> None:
    """On what it is there for."""
    runs = [rows(index) for index in range(5)]
    act(runs)

    assert code in codes(audit(foreign.write(foreign.result(tmp_path), runs)))


def test_nothing_is_suspicious_where_nothing_was_done(tmp_path: Path) -> None:
    """Neither a result in MLPerf's manner nor one of ours."""
    foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])

    assert audit(tmp_path) == []
    assert audit(fabricate.write_submission(tmp_path / "ours"), standard=None) == []
    assert audit(fabricate.write_submission(tmp_path / "metered", power="node"), standard=None) == []


def test_a_file_that_stands_twice_is_told(tmp_path: Path) -> None:
    """AUD020: in one result and in two."""
    folder = foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])
    other = foreign.write(tmp_path / "Other" / "results" / "box" / "toy", [rows(index) for index in range(5, 10)])
    for place in (folder / "result_1.txt", other / "result_4.txt"):
        place.write_bytes((folder / "result_0.txt").read_bytes())

    twice = [item.finding.path for item in audit(tmp_path) if item.finding.code == "AUD020"]

    assert len(twice) == 2


def test_a_hole_in_the_numbers_is_told(tmp_path: Path) -> None:
    """AUD040: result_0, 1, 3, 4, 7."""
    runs = [rows(index) for index in range(5)]
    folder = foreign.write(foreign.result(tmp_path), runs, names=lambda index: f"result_{(0, 1, 3, 4, 7)[index]}.txt")

    found = audit(folder)

    assert codes(found) == {"AUD040"}
    assert found[0].finding.evidence["missing"] == [2, 5, 6]


def test_room_for_runs_that_are_not_shown_is_told(tmp_path: Path) -> None:
    """AUD041: a pause of an hour among pauses of a minute; none where all pauses are long."""
    runs = [rows(index) for index in range(5)]
    runs[2].append(Row(3600.0, text=""))
    runs[2][-1].key = "job_closed"
    hour = foreign.result(tmp_path / "hour")
    foreign.write(hour, runs)
    text = (hour / "result_2.txt").read_text().splitlines()
    (hour / "result_2.txt").write_text("\n".join(text[:-1]) + "\n")
    slow = foreign.write(foreign.result(tmp_path / "slow"), [rows(index) for index in range(5)], pause_s=5000)

    assert codes(audit(hour)) == {"AUD041"}
    assert audit(slow) == []


def test_two_runs_at_once_are_told(tmp_path: Path) -> None:
    """AUD042: the second begins before the first has ended."""
    folder = foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)], pause_s=-100)

    assert "AUD042" in codes(audit(folder))


def test_control_files_are_told(tmp_path: Path) -> None:
    """AUD070: a factor below one and a bypass; a factor above one is what reviews apply."""
    folder = foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])
    (folder / "scaling.json").write_text('{"scaling_factor": 1.02}')
    assert audit(folder) == []

    (folder / "scaling.json").write_text('{"scaling_factor": 0.01}')
    (folder / "package_checker_params").write_text("rcp-bypass")
    assert [item.finding.code for item in audit(folder)] == ["AUD070", "AUD070"]


def ours(place: Path, change: Callable[[int, list[Step]], list[Step]] | None = None, **options: Any) -> set[str]:
    return codes(audit(fabricate.write_submission(place, change=change, **options), standard=None))


def test_the_ledger_has_to_sum(tmp_path: Path) -> None:
    """AUD060: seconds taken off one phase."""

    def shorter(index: int, steps: list[Step]) -> list[Step]:
        find(steps, "tta_ledger").value["train_s"] -= 3
        return steps

    assert "AUD060" in ours(tmp_path, shorter)


def test_a_broken_chain_is_told(tmp_path: Path) -> None:
    """AUD061: a value edited as text."""
    folder = fabricate.write_submission(tmp_path)
    log = folder / "result_0.txt"
    log.write_text(log.read_text().replace('"value": 0.5,', '"value": 0.51,'))

    assert "AUD061" in codes(audit(folder, standard=None))


def mirror_of(folder: Path) -> tuple[MirrorRun, ...]:
    """What a mirror of `folder` holds."""
    from harness.submission.result import read_result

    found = []
    for log in read_result(folder).runs:
        curve = {int(event.samples_count or 0): float(event.value) for event in log.all("eval_accuracy")}
        tags = {
            "tta.run_id": str(log.field("tta_format", "run_id")),
            "tta.submission_id": str(log.field("tta_format", "result_id")),
            "tta.log_sha256": log.sha256,
        }
        found.append(MirrorRun(tags["tta.run_id"], tags, {"eval/top1_accuracy": curve}))
    return tuple(found)


def test_the_mirror_has_to_agree(tmp_path: Path) -> None:
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


def trace_lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def still(lines: list[str]) -> list[str]:
    """Every reading is 300 W."""
    return [re.sub(r'("key": "power_reading", "value": )[0-9.]+', r"\g<1>300.0", line) for line in lines]


@pytest.mark.parametrize(
    ("code", "act"), [("AUD050", lambda lines: lines[:20] + lines[80:]), ("AUD051", still)], ids=["gap", "flat"]
)
def test_a_power_trace_is_looked_at(code: str, act: Callable[[list[str]], list[str]], tmp_path: Path) -> None:
    """AUD050, AUD051: readings taken out, and readings that stand still."""
    folder = fabricate.write_submission(tmp_path, power="node")
    path = folder / "power" / "result_0" / "node_0.txt"
    path.write_text("".join(act(trace_lines(path))))

    assert code in codes(audit(folder, standard=None))


def test_a_copied_power_trace_is_told(tmp_path: Path) -> None:
    """AUD052: the readings of one run in the log of another."""
    folder = fabricate.write_submission(tmp_path, power="node")
    (folder / "power/result_1/node_0.txt").write_text((folder / "power/result_0/node_0.txt").read_text())

    assert "AUD052" in codes(audit(folder, standard=None))


def test_every_signal_has_a_case() -> None:
    """No signal without a test in which it speaks."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))

    assert [code for code in registry.signals() if code not in text] == []


@pytest.mark.parametrize("code", registry.signals())
def test_a_signal_is_documented(code: str) -> None:
    """A title, the five sections in their order, each with something in it; explained like a check."""
    document = registry.signals()[code].document
    sections = re.split(r"^## .*$", document, flags=re.MULTILINE)

    assert re.findall(r"^## (.*)$", document, re.MULTILINE) == list(SECTIONS)
    assert all(len(section.strip()) > 10 for section in sections)
    assert len(sections[0].strip().splitlines()) == 1


def test_rules_and_signals_are_of_one_kind() -> None:
    """Every signal is in force, with the limits it takes, and none is an error."""
    rules().refuse_unknown(registry.signals())

    assert set(rules().signals) == set(registry.signals())
    assert {rule.severity.value for rule in rules().signals.values()} == {"warning", "note"}


KEYS = tuple(dict.fromkeys(row.key for row in rows() if row.key))
STRANGE: tuple[Any, ...] = (None, True, -1, 0, 1e308, "", "x", [], [None, {}], {"throughput": -1})


def looked_at(place: Path, runs: Runs) -> set[str]:
    """The codes of an audit whose every trace stands on a line that is there and has a score within its bounds."""
    found = audit(foreign.write(place, runs))
    for item in found:
        path, line = Path(item.finding.path), item.finding.line
        assert 0 <= item.score <= 100, item
        assert line is None or 1 <= line <= len(path.read_text().splitlines()), item
    return codes(found)


@pytest.mark.parametrize("name", KEYS)
def test_any_key_can_be_missing(name: str, tmp_path: Path) -> None:
    """From one log, and from all of them; without its ends a log ends early."""
    one, all_ = [rows(index) for index in range(5)], [rows(index) for index in range(5)]
    for run in (one[0], *all_):
        run[:] = [row for row in run if row.key != name]

    for place, runs in (("one", one), ("all", all_)):
        assert ("AUD024" in looked_at(tmp_path / place, runs)) == (name == "run_stop")


@pytest.mark.parametrize("value", STRANGE, ids=repr)
def test_any_value_can_be_strange(value: Any, tmp_path: Path) -> None:
    """Each key in turn has it in every line of every log."""
    for name in KEYS:
        runs = [rows(index) for index in range(5)]
        for row in (row for run in runs for row in run if row.key == name):
            row.value = value

        looked_at(tmp_path, runs)


@pytest.mark.parametrize("count", [None, True, -1, 0, 7, 10**30, 1e308, "x", []], ids=repr)
def test_any_position_can_be_strange(count: Any, tmp_path: Path) -> None:
    """The samples of one kind of line, or of all kinds, counted like this; in one log, and in all of them."""
    for names in (*((name,) for name in KEYS), KEYS):
        for num_logs in (1, 5):
            runs = [rows(index) for index in range(5)]
            for row in (row for run in runs[:num_logs] for row in run if row.key in names):
                row.metadata["samples_count"] = count

            looked_at(tmp_path, runs)


@pytest.mark.parametrize("at_s", [-foreign.START_MS / 1e3, 0.0, 61.5, 1e9])
def test_any_time_can_be_strange(at_s: float, tmp_path: Path) -> None:
    """Each key in turn has one time in every line; and all lines have."""
    for names in (*((name,) for name in KEYS), KEYS):
        runs = [rows(index) for index in range(5)]
        for row in (row for run in runs for row in run if row.key in names):
            row.at_s = at_s

        looked_at(tmp_path, runs)


@pytest.mark.parametrize("num_evaluations", range(foreign.NUM_EVALUATIONS))
def test_few_evaluations_are_not_compared(num_evaluations: int, tmp_path: Path) -> None:
    """Where every run has only its first evaluations, no signal that compares curves between runs speaks."""
    runs = [rows(index) for index in range(5)]
    for run in runs:
        for _ in range(foreign.NUM_EVALUATIONS - num_evaluations):
            run.remove(of(run, "eval_accuracy", num_evaluations))

    assert not looked_at(tmp_path, runs) & {"AUD012", "AUD014", "AUD015"}


@pytest.mark.parametrize("num_runs", range(1, 5))
def test_few_runs_are_not_compared(num_runs: int, tmp_path: Path) -> None:
    """Of honest runs none is suspicious, however few there are."""
    assert looked_at(tmp_path, [rows(index) for index in range(num_runs)]) == set()


def test_a_mirror_without_a_curve_is_compared_by_its_bytes(tmp_path: Path) -> None:
    """AUD062: no quality is mirrored, or two metrics are, of which nobody knows which is the run's."""
    folder = fabricate.write_submission(tmp_path)
    first = mirror_of(folder)[0]
    curve = first.metrics["eval/top1_accuracy"]
    other_bytes = {**first.tags, "tta.log_sha256": "0" * 64}
    for metrics in ({}, {"train/loss": curve}, {"eval/a": {1: 9.0}, "eval/b": curve}):
        assert audit(folder, standard=None, mirror=(MirrorRun(first.run_id, first.tags, metrics),)) == []
        [told] = audit(folder, standard=None, mirror=(MirrorRun(first.run_id, other_bytes, metrics),))
        assert (told.finding.code, "different bytes" in told.finding.message) == ("AUD062", True)


def test_a_model_of_power_may_stand_still(tmp_path: Path) -> None:
    """AUD051 is of measured power: what a model says is flat by its nature."""
    for kind in ("model", "node"):
        folder = fabricate.write_submission(tmp_path / kind, power=kind)
        path = folder / "power" / "result_0" / "node_0.txt"
        path.write_text("".join(still(trace_lines(path))))

        assert ("AUD051" in codes(audit(folder, standard=None))) == (kind == "node")


def test_a_factor_too_large_for_a_float_is_ignored(tmp_path: Path) -> None:
    """Four hundred digits in a control file are valid JSON, but not a factor; nothing crashes."""
    folder = foreign.write(foreign.result(tmp_path), [rows(index) for index in range(5)])
    for factor, expected in ((-(10**400), set()), (0.5, {"AUD070"})):
        (folder / "scaling.json").write_text(json.dumps({"scaling_factor": factor}))
        assert codes(audit(folder)) == expected
