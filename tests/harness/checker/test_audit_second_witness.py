"""Signals that compare a log with what else its run says: stated times, the framework's values, other runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.signals import Suspicion
from tests import foreign
from tests.auditing import STANDARD, TODAY, codes, found, rules
from tests.foreign import NUM_EVALUATIONS, Row, of, rows
from tests.mlperflog import round_of

Change = Callable[[list[Row]], None]


def result(place: Path, change: Change, which: tuple[int, ...] = (0, 1, 2, 3, 4), **options: Any) -> Path:
    """Five runs that state times, some of them changed."""
    runs = [rows(index, has_stats=True) for index in range(5)]
    for index in which:
        change(runs[index])
    return foreign.write(foreign.result(place), runs, **options)


def names(items: list[Suspicion]) -> set[object]:
    return {item.finding.evidence["name"] for item in items}


def stats(run: list[Row], name: str) -> list[Row]:
    return [row for row in run if row.key == "tracked_stats" and name in row.value]


def stated(name: str, factor: float) -> Change:
    def change(run: list[Row]) -> None:
        for row in stats(run, name):
            row.value[name] *= factor

    return change


@pytest.mark.parametrize("name", ["train_step_time", "validation_time"])
@pytest.mark.parametrize(("factor", "is_found"), [(0.9, False), (1.09, False), (1.12, True), (1.25, True)])
def test_stated_times_that_the_stamps_leave_no_room_for_are_found(
    name: str, factor: float, is_found: bool, tmp_path: Path
) -> None:
    """AUD038: by a tenth or more, in all runs, which agree with each other."""
    items = found(result(tmp_path, stated(name, factor)), "AUD038")

    assert len(items) == 5 * is_found
    assert names(items) == ({name} if is_found else set())


@pytest.mark.parametrize(("factor", "is_found"), [(1.04, False), (1.06, True), (0.5, False)])
def test_one_run_whose_stated_times_are_not_in_the_proportion_of_the_others_is_found(
    factor: float, is_found: bool, tmp_path: Path
) -> None:
    """AUD038: whatever the statistic counts. Speeds count the other way round."""
    for name, exponent in (("window_time", 1), ("throughput", -1)):

        def change(run: list[Row], name: str = name, exponent: int = exponent) -> None:
            for row in stats(run, "train_step_time"):
                row.value = {name: row.value.pop("train_step_time") ** exponent}

        def own(run: list[Row], change: Change = change, name: str = name, exponent: int = exponent) -> None:
            change(run)
            stated(name, factor**exponent)(run)

        runs = [rows(index, has_stats=True) for index in range(5)]
        for index, run in enumerate(runs):
            (own if index == 2 else change)(run)
        items = found(foreign.write(foreign.result(tmp_path / name), runs), "AUD038")

        assert [Path(item.finding.path).name for item in items] == ["result_2.txt"] * is_found
        assert names(items) == ({name} if is_found else set())


def unsteady(run: list[Row]) -> None:
    for nth, row in enumerate(stats(run, "train_step_time")):
        row.value = {"window_time": row.value["train_step_time"] * (1.2 if nth % 2 else 1.0)}


def few(run: list[Row]) -> None:
    for row in stats(run, "train_step_time")[4:]:
        run.remove(row)
    for row in stats(run, "validation_time"):
        row.value = {"validation_time": "soon"}


@pytest.mark.parametrize("change", [unsteady, few, lambda run: run.remove(of(run, "run_start"))])
def test_times_that_say_nothing_are_not_compared(change: Change, tmp_path: Path) -> None:
    """AUD038: those that vary within a run, four lines, words, a log without a start."""

    def shorter(run: list[Row]) -> None:
        change(run)
        stated("window_time", 2.0)(run)

    assert found(result(tmp_path, shorter, which=(3,)), "AUD038") == []


def test_steps_may_be_counted_in_samples(tmp_path: Path) -> None:
    """AUD038: some programs state samples as `step`."""

    def in_samples(run: list[Row]) -> None:
        for row in stats(run, "train_step_time"):
            row.metadata["step"] *= foreign.BATCH

    assert found(result(tmp_path / "sound", in_samples), "AUD038") == []

    def both(run: list[Row]) -> None:
        in_samples(run)
        stated("train_step_time", 1.25)(run)

    assert len(found(result(tmp_path / "faster", both), "AUD038")) == 5


@pytest.mark.parametrize(("share", "is_found"), [(0.97, False), (1.2, True)])
def test_total_times_that_do_not_fit_into_the_run_are_found(share: float, is_found: bool, tmp_path: Path) -> None:
    """AUD038: those of the process that printed the first, after run_start."""

    def totals(run: list[Row]) -> None:
        begin, end = of(run, "run_start").at_s, run[-1].at_s
        run.insert(2, Row(0.0, text="0: Warm-up: Total time: 9:00:00 (0.1 s / it)"))
        for part in range(4):
            seconds = round(share * (end - begin) / 4)
            for rank in ("0: ", "1: "):
                text = f"{rank}Epoch: [{part}] Total time: 0:{seconds // 60:02}:{seconds % 60:02} (0.1 s / it)"
                run.insert(len(run) - 1, Row(end, text=text))

    items = found(result(tmp_path, totals), "AUD038")

    assert len(items) == 5 * is_found
    assert all("the sum of 4 total times is" in item.finding.message for item in items)


def test_a_framework_without_a_rank_is_one_process(tmp_path: Path) -> None:
    """AUD038: lines that no launcher numbered; two hours in three minutes."""
    place = result(tmp_path, lambda run: run.append(Row(run[-1].at_s, text="Test: Total time: 2:00:00")))

    assert len(found(place, "AUD038")) == 5


@pytest.mark.parametrize(("nth", "digits", "is_found"), [(3, 0.01, True), (3, 2e-7, False), (7, 2e-6, True)])
def test_a_value_unlike_the_frameworks_is_found(nth: int, digits: float, is_found: bool, tmp_path: Path) -> None:
    """AUD026: to the six digits that are printed."""

    def raised(run: list[Row]) -> None:
        of(run, "eval_accuracy", nth).value = round(of(run, "eval_accuracy", nth).value, 6) + digits

    items = found(result(tmp_path, raised, which=(1,)), "AUD026")

    assert [item.finding.line is not None for item in items] == [True] * is_found
    assert all("1 of 40 evaluations" in item.finding.message for item in items)


def test_another_quantity_of_a_similar_name_is_no_witness(tmp_path: Path) -> None:
    """AUD026: if most evaluations differ from what is printed, that is something else."""

    def another(run: list[Row]) -> None:
        for nth in range(NUM_EVALUATIONS):
            of(run, "eval_accuracy", nth).value += 0.001

    assert found(result(tmp_path, another), "AUD026") == []


def test_a_value_where_all_other_runs_have_exactly_zero_is_found(tmp_path: Path) -> None:
    """AUD012: zero has no spread and no share."""
    runs = [rows(index) for index in range(5)]
    for nth in range(3):
        for run in runs[1:]:
            of(run, "eval_accuracy", nth).value = 0.0

    items = found(foreign.write(foreign.result(tmp_path), runs), "AUD012")

    assert [(item.finding.evidence["median"], item.score) for item in items] == [(0.0, 70.0)]


@pytest.mark.parametrize(("third", "is_found"), [(24_000, False), (12_000, True)])
def test_a_run_that_is_one_evaluation_ahead_is_fast(third: int, is_found: bool, tmp_path: Path) -> None:
    """AUD012: by the first evaluation that is further on, also where counts decrease."""
    runs = [rows(index) for index in range(5)]
    for run in runs:
        values, positions = (
            ((0.1, 0.89), (8_000, 16_000)) if run is runs[0] else ((0.1, 0.1, 0.9), (8_000, 16_000, third))
        )
        while len([row for row in run if row.key == "eval_accuracy"]) > len(values):
            run.remove(of(run, "eval_accuracy", len(values)))
        for nth, value in enumerate(values):
            of(run, "eval_accuracy", nth).value = value
            of(run, "eval_accuracy", nth).metadata["samples_count"] = positions[nth]

    items = found(foreign.write(foreign.result(tmp_path), runs), "AUD012")

    assert [item.finding.evidence["value"] for item in items] == [0.89] * is_found


def copied(first: int, last: int) -> Callable[[list[list[Row]]], None]:
    """Gives some evaluations of the fourth run the values of the first's."""

    def change(runs: list[list[Row]]) -> None:
        for nth in range(first, last):
            of(runs[3], "eval_accuracy", nth).value = of(runs[0], "eval_accuracy", nth).value

    return change


@pytest.mark.parametrize(
    ("change", "is_loss", "is_found"),
    [
        (copied(5, 8), False, True),
        (copied(6, 8), False, False),
        (copied(0, 4), False, False),
        (copied(6, 7), True, True),
        (copied(0, 2), True, False),
        (copied(0, 0), True, False),
    ],
)
def test_values_in_two_runs_are_found(
    change: Callable[[list[list[Row]]], None], is_loss: bool, is_found: bool, tmp_path: Path
) -> None:
    """AUD025: three in a row, or one if it is a loss, in the later half."""
    runs = [rows(index) for index in range(5)]
    if is_loss:
        for run in runs:
            for nth in range(NUM_EVALUATIONS):
                of(run, "eval_accuracy", nth).value = 4 - of(run, "eval_accuracy", nth).value
    change(runs)
    standard = {"direction": "min", "target": 3.1} if is_loss else {}

    items = found(foreign.write(foreign.result(tmp_path), runs), "AUD025", **standard)

    assert [(Path(item.finding.path).name, item.finding.evidence["kind"]) for item in items] == (
        [("result_3.txt", "values")] * is_found
    )


def test_times_in_two_runs_are_found(tmp_path: Path) -> None:
    """AUD025: two milliseconds at which an evaluation ends in both; a copy of the file is AUD020's."""
    place = result(tmp_path, lambda run: None)
    first, second = (place / f"result_{index}.txt" for index in (0, 1))
    ends = [line for line in first.read_text().splitlines() if '"eval_stop"' in line]
    second.write_text(second.read_text() + "\n".join(ends[:1]) + "\n")
    assert found(place, "AUD025") == []

    second.write_text(second.read_text() + "\n".join(ends[1:2]) + "\n")
    [item] = found(place, "AUD025")
    assert item.finding.message == "2 evaluations end at the same millisecond as evaluations of result_0.txt"

    second.write_bytes(first.read_bytes())
    assert found(place, "AUD025") == []


@pytest.mark.parametrize(
    ("late_s", "status", "is_found"), [(0.9, "success", False), (1.1, "success", True), (1.1, "aborted", False)]
)
def test_an_evaluation_after_the_end_is_found(late_s: float, status: str, is_found: bool, tmp_path: Path) -> None:
    """AUD027: by more than a second, of a run that succeeded."""

    def after(run: list[Row]) -> None:
        stop = of(run, "run_stop")
        stop.metadata["status"] = status
        late = Row(stop.at_s + late_s, "eval_accuracy", 0.95, metadata={"samples_count": 45_000})
        run.insert(run.index(stop) + 1, late)

    assert len(found(result(tmp_path, after), "AUD027")) == 5 * is_found


def trained_late(place: Path, name: str, blocks: dict[int, float], lines_later: int = 0) -> int:
    """On how many of five runs AUD027 speaks that are evaluated after all training, at the end of the run.

    blocks: how long after run_stop training ended, by epoch. lines_later: how many lines after run_stop they are.
    """
    round_ = round_of("2.0.0")

    def checkpoints(run: list[Row]) -> None:
        points, stop = [row for row in run if row.key == "eval_accuracy"], of(run, "run_stop")
        for row in [row for row in run if row.key.startswith("eval_") and row.key != "eval_samples"]:
            run.remove(row)
        for nth, row in enumerate(points):
            row.metadata = {"epoch_num": nth}
            row.at_s = stop.at_s - 0.001
        where = run.index(stop) + lines_later
        run[where:where] = points
        for epoch, late_s in blocks.items():
            run.insert(run.index(points[0]), Row(stop.at_s + late_s, "block_stop", metadata={"epoch_num": epoch}))

    return len(found(result(place, checkpoints), "AUD027", benchmark=round_.benchmark(name)))


@pytest.mark.parametrize(
    ("name", "blocks", "is_found"),
    [
        ("minigo", {7: -1.0}, False),
        ("minigo", {7: 1.1}, False),  # a hundredth of the run more than a second is nothing
        ("minigo", {7: 4.0}, True),
        ("minigo", {6: -1.0}, False),
        ("minigo", {3: -1.0}, True),
        ("minigo", {}, True),
        ("bert", {}, False),
        ("resnet", {7: 4.0}, False),
    ],
)
def test_the_training_of_the_deciding_checkpoint_ends_with_the_run(
    name: str, blocks: dict[int, float], is_found: bool, tmp_path: Path
) -> None:
    """AUD027: by a line of its own, or by one of the second half of the way there. BERT's blocks count other things."""
    assert trained_late(tmp_path, name, blocks) == 5 * is_found


def test_no_checkpoint_decides_a_run_that_is_evaluated_after_its_last_line(tmp_path: Path) -> None:
    """AUD027: MLCommons' program counts up to the last evaluation above run_stop, and there is none."""
    assert trained_late(tmp_path, "minigo", {}, lines_later=1) == 0


def even(interval_s: float, num_even: int) -> Change:
    def change(run: list[Row]) -> None:
        begin = of(run, "eval_accuracy").at_s
        for nth in range(1, num_even):
            of(run, "eval_accuracy", nth).at_s = begin + nth * interval_s

    return change


@pytest.mark.parametrize(
    ("change", "is_found"),
    [(even(21.003, 7), True), (even(21.003, 5), False), (even(21.0, 8), False), (even(0.9, 8), False)],
    ids=["six of seven", "four of seven", "whole seconds", "less than a second"],
)
def test_evaluations_at_equal_intervals_are_found(change: Change, is_found: bool, tmp_path: Path) -> None:
    """AUD019: more than seven in ten, to the millisecond."""
    assert len(found(result(tmp_path, change), "AUD019")) == 5 * is_found


@pytest.mark.parametrize(
    ("value", "direction", "target", "is_found"),
    [(1.001, "max", 0.9, True), (-0.001, "max", 0.9, True), (1.5, "max", 24.0, False), (-0.1, "min", 3.0, True)],
)
def test_an_impossible_quality_is_found(
    value: float, direction: str, target: float, is_found: bool, tmp_path: Path
) -> None:
    """AUD013: an accuracy above one, a loss below zero; a score in other units may be above one."""

    def change(run: list[Row]) -> None:
        of(run, "submission_benchmark").value = "another"
        of(run, "eval_accuracy", 4).value = value

    assert len(found(result(tmp_path, change), "AUD013", direction=direction, target=target)) == 5 * is_found


@pytest.mark.parametrize(("direction", "low", "high"), [("max", False, True), ("min", True, False), (None, True, True)])
def test_a_quality_better_than_all_published_is_found(
    direction: str | None, low: bool, high: bool, tmp_path: Path
) -> None:
    """AUD013: worse is no reason to ask, if it is known what is better. The band is 0.1 to 0.95."""
    known = {"target": None} if direction is None else {"target": 24.0, "direction": direction}
    for name, value, is_found in (("low", 0.005, low), ("high", 1.1, high)):

        def change(run: list[Row], value: float = value) -> None:
            of(run, "eval_accuracy", 4).value = value

        place = result(tmp_path / name, change)
        assert len(found(place, "AUD013", **known)) == 5 * is_found


def test_checkpoints_that_are_evaluated_afterwards_are_in_no_order(tmp_path: Path) -> None:
    """MiniGo's evaluations: by other programs, after the run, at any time, some without a value or of equal values."""
    round_ = round_of("2.0.0")
    minigo = round_.benchmark("minigo")
    assert minigo is not None

    def scrambled(run: list[Row]) -> None:
        points = [row for row in run if row.key == "eval_accuracy"]
        for nth, row in enumerate(points):
            row.at_s = 300.0 + 7.003 * nth
            row.value = (0.9, 0.1, 0.1, 0.1)[nth % 4]
            row.metadata = {"epoch_num": (3 * nth) % 8}
        of(run, "block_stop").metadata["epoch_num"] = points[-1].metadata["epoch_num"]
        for row in [row for row in run if row.key in ("eval_start", "eval_stop")]:
            row.at_s += 200.0 if row.key == "eval_start" else 0.0
        for _ in range(3):
            run.insert(5, Row(1.0, "eval_start", None, "INTERVAL_START"))
        of(run, "train_samples").value += of(run, "seed").value

    timely = {"AUD001", "AUD002", "AUD010", "AUD011", "AUD012", "AUD014", "AUD015", "AUD016", "AUD017", "AUD019"}
    timely |= {"AUD013", "AUD025", "AUD027", "AUD030", "AUD031", "AUD032", "AUD034", "AUD035", "AUD046"}
    place = result(tmp_path, scrambled)
    online = {code for code in timely if found(place, code)}
    afterwards = {code for code in timely if found(place, code, benchmark=minigo)}

    assert len(online) > 8
    assert afterwards == set()


def test_of_a_mixed_result_only_what_was_evaluated_online_is_looked_at(tmp_path: Path) -> None:
    """A value like no other run's and one that repeats, both also in a run of checkpoints; AUD013 sees that, too."""
    checkpoints = dataclasses.replace(STANDARD, benchmark=round_of("2.0.0").benchmarks["minigo"])

    def impossible(run: list[Row]) -> None:
        for nth in range(3, NUM_EVALUATIONS):
            of(run, "eval_accuracy", nth).value = 1.5

    [(path, logs)] = read.find([result(tmp_path, impossible, which=(0, 4))])
    subject = read.subject(read.read(path, logs), None, rules(), TODAY)
    standards = (STANDARD, STANDARD, STANDARD, STANDARD, checkpoints)
    runs = tuple(
        dataclasses.replace(run, standard=standard) for run, standard in zip(subject.runs, standards, strict=True)
    )
    items = engine.audit(dataclasses.replace(subject, runs=runs, standard=STANDARD), rules(), registry.signals())

    by_code = {
        code: {Path(item.finding.path).name for item in items if item.finding.code == code} for code in codes(items)
    }
    assert by_code["AUD010"] == by_code["AUD012"] == {"result_0.txt"}
    assert by_code["AUD013"] == {"result_0.txt", "result_4.txt"}


def test_what_a_signal_leaves_out_is_in_its_explanation() -> None:
    """Once, at the end of what it does; it is declared by the signal and said by the registry."""
    sentence = "\nRuns that are evaluated afterwards, from checkpoints, are left out.\n\n## Why"
    signals = registry.signals().values()

    assert {signal.code for signal in signals if sentence in signal.document} == {
        signal.code for signal in signals if signal.is_online_only
    }
    assert {signal.scope for signal in signals if signal.is_online_only} == {"log", "result"}


def test_one_evaluation_is_usual_where_the_schedule_begins_late(tmp_path: Path) -> None:
    """AUD017: a fact of some benchmarks (BERT)."""
    round_ = round_of("2.0.0")
    benchmark = round_.benchmark("resnet")
    assert benchmark is not None

    def single(run: list[Row]) -> None:
        for _ in range(NUM_EVALUATIONS - 1):
            run.remove(of(run, "eval_accuracy"))

    place = result(tmp_path, single)
    late = dataclasses.replace(benchmark, first_evaluations="late")

    assert len(found(place, "AUD017", benchmark=benchmark)) == 5
    assert found(place, "AUD017", benchmark=late) == []


def test_each_rank_may_begin_its_own_initialisation(tmp_path: Path) -> None:
    """AUD001: the second rank's line is later in the file and earlier in time."""

    def ranks(run: list[Row]) -> None:
        start = of(run, "init_start")
        run.insert(run.index(start) + 1, dataclasses.replace(start, at_s=start.at_s - 1.5, rank="1: "))

    assert found(result(tmp_path, ranks), "AUD001") == []
