"""Messages of findings: what was seen, what is allowed, how much and of what. Where and whether is in test_checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cost.price_book import PriceBook, PriceBooks
from harness.log.events import Event
from harness.mlperf import compliance
from harness.mlperf.formula import Line, parse
from harness.workload import Metric
from rules.checks.pwr._metered import NOT_RANKED
from tests import foreign, mlperflog
from tests.auditing import audit
from tests.fabricate import find
from tests.rules.box import DAY_MS, Box, Case, hyperparameters, ranks, reference
from tests.rules.fixtures import mlp, mlr, pwr
from tests.rules.fixtures.cst import FIRST, ROWS, SECOND, priced
from tests.rules.fixtures.run import CURVE, copied, curves, stretched
from tests.rules.mlperfbox import MlperfBox
from tests.rules.roundbox import RoundBox

METERED = "were metered (accelerators_per_node of the system description)"
CASES = {case.label: case for module in (mlp, mlr, pwr) for case in module.CASES}


def messages(box: Box, code: str) -> list[str]:
    """The messages of `code` on what is in a box."""
    if not box.is_written:
        box.write()
    return [finding.message for finding in box.judge() if finding.code == code]


def messages_of(case: Case, place: Path) -> list[str]:
    """The messages of the check that the case is for."""
    box = case.open(place)
    case.damage(box)
    return messages(box, case.code)


def test_the_permitted_values_are_those_of_the_division(tmp_path: Path) -> None:
    """A value in the closed division, a type in the open one."""
    found = []
    for division in ("closed", "open"):
        box = Box(tmp_path / division, options={"division": division})
        hyperparameters(box.runs[0], opt_name=3)
        found += messages(box, "HYP001")

    assert found == ["opt_name is 3; permitted: fixed at sgd", "opt_name is 3; permitted: any str"]


def test_at_most_three_differences_are_shown(tmp_path: Path) -> None:
    """A line may have a hundred thousand of them."""
    box = Box(tmp_path)
    for index, steps in enumerate(box.runs):
        hyperparameters(steps, **{f"opt_{letter}": index for letter in "abcd"})
    find(box.runs[0], "tta_resolved").value = dict.fromkeys("abcdefgh", 1)
    declared, resolved = messages(box, "HYP008")[0], messages(box, "HYP004")[0]

    shown = "opt_a is 1 instead of 0; opt_b is 1 instead of 0; opt_c is 1 instead of 0"
    assert declared == f"different from result_0.txt: {shown}"
    assert resolved.count(" instead of ") == 3


def test_an_unreadable_claim_differs_from_an_absent_one(tmp_path: Path) -> None:
    """Also if a log cannot be read either."""
    unread, absent = Box(tmp_path / "unread"), Box(tmp_path / "absent")
    for box in (unread, absent):
        box.write()
        box.log(0).write_text("")
    unread.claim(score="1.0")
    (absent.folder / "submission.yaml").unlink()

    assert messages(unread, "PKG007") == ["unknown key 'score'"]
    assert messages(absent, "PKG007") == ["the submission has no claim"]


def missed(place: Path, rules: dict[str, Any], qualities: tuple[float, ...]) -> str:
    """The message of QUA001 on a run with these qualities."""
    box = Box(place, rules={"reference_convergence": (), **rules}, options={"status": "aborted", "reason": "budget"})
    for nth, quality in enumerate(qualities):
        find(box.runs[0], "eval_accuracy", nth).value = quality
    return messages(box, "QUA001")[0]


def test_the_best_quality_of_a_miss_is_the_one_nearest_to_the_target(tmp_path: Path) -> None:
    """Neither the first nor the last; the largest of an accuracy, the smallest of an error rate."""
    error_rate: dict[str, Any] = {"metric": Metric("wer", "fraction", "min"), "target": 0.1}

    accuracy = missed(tmp_path / "max", {}, (0.5, 0.85, 0.8))
    assert accuracy == (
        "the run did not reach its target: the best top1_accuracy is 0.85; the target is 0.9 (ended: budget)"
    )
    assert "the best wer is 0.2; the target is 0.1 (" in missed(tmp_path / "min", error_rate, (0.5, 0.2, 0.3))


def test_a_target_that_must_be_confirmed_is_named_with_its_count(tmp_path: Path) -> None:
    message = missed(tmp_path, {"confirm_evaluations": 1}, (0.5, 0.95, 0.8))

    assert "the best top1_accuracy is 0.95; the target is 0.9, 2 times in a row (" in message


@pytest.mark.parametrize(
    ("samples", "code", "message"),
    [
        (
            5300,
            "CNV001",
            "the runs need 2,649 samples on average, 50.0% of the reference's 5,294 (reference at batch size 100); "
            "below 3,840 neither luck nor tuning explains it",
        ),
        (
            3000,
            "CNV003",
            "the runs need 2,649 samples on average, 88.5% of the reference's 2,994 (reference at batch size 100): "
            "fewer samples gain nothing, since the score uses the reference's",
        ),
        (
            2300,
            "CNV003",
            "the runs need 2,649 samples on average, 115.5% of the reference's 2,294 (reference at batch size 100): "
            "the score uses the result's own samples",
        ),
    ],
)
def test_convergence_is_reported_with_what_follows(samples: int, code: str, message: str, tmp_path: Path) -> None:
    """How far from the reference, which one, and what it does to the score."""
    assert messages(Box(tmp_path, rules=reference(samples)), code) == [message]


def test_a_batch_size_without_a_reference_is_named_with_those_that_have_one(tmp_path: Path) -> None:
    found = messages(Box(tmp_path, rules=reference(2650, 50)), "CNV002")

    assert found == ["the convergence was not compared: batch size 100 is outside the reference's, 50 to 50"]
    assert messages(Box(tmp_path / "none", rules={"reference_convergence": ()}), "CNV002") == [
        "the convergence was not compared: there are no reference convergence points"
    ]


@pytest.mark.parametrize(
    ("division", "num_runs", "code", "message"),
    [
        ("open", 5, "RUN001", "the result has 5 of the 6 runs it must have"),
        ("open", 7, "RUN002", "the result has 7 runs; it must have 6"),
        ("closed", 4, "RUN001", "the result has 4 of the 5 runs it must have"),
        ("closed", 6, "RUN002", "the result has 6 runs; it must have 5"),
    ],
)
def test_the_number_of_runs_is_that_of_the_division(
    division: str, num_runs: int, code: str, message: str, tmp_path: Path
) -> None:
    box = Box(tmp_path, rules={"open_runs": 6}, options={"division": division}, num_runs=num_runs)

    assert messages(box, code) == [message]


def test_only_libraries_that_differ_are_named(tmp_path: Path) -> None:
    """Each with both versions; one that a run lacks is on the other side only."""
    box = Box(tmp_path)
    for steps in box.runs:
        find(steps, "tta_world").value = ranks(1, versions={"torch": "2.14.1", "numpy": "2.3", "python": "3.11"})
    find(box.runs[2], "tta_world").value = ranks(1, versions={"torch": "2.14.1", "numpy": "2.4"})

    assert messages(box, "RUN015") == [
        "the versions of rank 0: {'numpy': '2.4'}; in result_0.txt {'numpy': '2.3', 'python': '3.11'}"
    ]


def test_a_device_that_differs_is_named(tmp_path: Path) -> None:
    """A name, not a mapping; None if there is none."""
    box = Box(tmp_path)
    find(box.runs[2], "tta_world").value[0]["device_name"] = "a faster one"

    assert messages(box, "RUN015") == ["the device_name of rank 0: a faster one; in result_0.txt None"]


def test_the_spread_of_the_runs_is_given(tmp_path: Path) -> None:
    """Of the averaged ones: 7.73, 7.76 and 5 x 7.79 s."""
    box = Box(tmp_path)
    stretched(box, 1, 1, 1, 5, 6)

    assert messages(box, "RUN016") == [
        "the runs that are averaged take 7.730 to 38.950 s, 5.0 times as long; up to 4 times is usual"
    ]


def test_the_number_of_repeated_qualities_is_given(tmp_path: Path) -> None:
    """With the run that is most similar, not the first that shares any."""
    part, near, whole = Box(tmp_path / "part"), Box(tmp_path / "near"), Box(tmp_path / "whole")
    curves(part, (0.1, 0.2, 0.6, 0.7, 0.8), CURVE, (0.1, 0.2, 0.3, 0.4, 0.51))
    curves(near, CURVE, (0.1, 0.2, 0.3 + 1e-7, 0.4, 0.51))
    copied(whole)
    for step in whole.runs[3]:
        step.at_s *= 1.01

    assert messages(part, "RUN012") == ["4 of 6 qualities are those of result_1.txt, but the seed is different"]
    assert messages(near, "RUN012") == [
        "4 of 6 qualities are those of result_0.txt, to within 1e-06 of the usual step between two of them, "
        "but the seed is different"
    ]
    assert messages(whole, "RUN012") == ["all 3 qualities are those of result_1.txt, but the seed is different"]


def test_the_least_permitted_count_is_given(tmp_path: Path) -> None:
    """A system has at least one node, and may have no accelerator."""
    box = Box(tmp_path)
    box.describe(number_of_nodes="two", accelerators_per_node="-1", accelerator_model_name="X")

    assert messages(box, "SYS009") == [
        "number_of_nodes is 'two'; it must be a whole number, at least 1",
        "accelerators_per_node is '-1'; it must be a whole number, at least 0",
    ]


def test_the_price_book_in_force_is_named(tmp_path: Path) -> None:
    """The newest before the day of the runs, 21 November, whichever is named."""
    middle = PriceBook(ROWS[:1], "3" * 64, "2025-06-01")
    rules: dict[str, Any] = {"prices": PriceBooks((FIRST, middle, SECOND))}
    early, late = Box(tmp_path / "early", ruleset=rules), Box(tmp_path / "late", ruleset=rules)
    priced(early, "box", book=FIRST.digest)
    late.wall_starts_ms = [start_ms - 40 * DAY_MS for start_ms in late.wall_starts_ms]
    priced(late, "box", book=SECOND.digest)

    assert messages(early, "CST005") == [
        "the logs name the price book of 2025-01-01; on 2025-11-21 the book of 2025-11-01 was in force"
    ]
    assert messages(late, "CST005") == [
        "the logs name the price book of 2025-11-01; on 2025-10-12 the book of 2025-06-01 was in force"
    ]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (
            "PWR006-power_is_read_next_to_a_counter_that_is_read_twice_at_5_hz",
            [
                "nvml:GPU-0:power has 39 good readings within the run; a meter of power must have at least 60: repeat "
                f"the work until the run is 1.5 times as long, or read the meter 1.5 times as often; {NOT_RANKED}"
            ],
        ),
        (
            "PWR008-the_log_of_a_node_is_missing",
            [
                "power logs: 1, described nodes: 2 (node (ac)): a node of the run has no power log, or its meters give "
                f"no joules; {NOT_RANKED}"
            ],
        ),
        ("PWR022-in_one_run_only_the_processor_was_metered", [f"0 of 1 {METERED}"]),
        ("PWR022-an_accelerator_of_the_second_node_was_not_metered", [f"1 of 2 {METERED}; {NOT_RANKED}"]),
        (
            "PWR023-a_meter_is_read_the_second_too_early",
            [f"its readings begin 2.100 s before the run's log; the limit is 2 s; {NOT_RANKED}"],
        ),
        (
            "PWR023-a_meter_is_read_the_first_too_late",
            [f"its readings end 2.100 s after the run's log; the limit is 2 s; {NOT_RANKED}"],
        ),
        (
            "PWR023-the_clocks_of_an_analyser_are_farther_apart",
            [
                f"its clocks are {seconds} s from those of the run; the limit is 1 s; {NOT_RANKED}"
                for seconds in ("1.000", "-1.001")
            ],
        ),
        (
            "PWR024-an_imported_meter_is_next_to_one_that_was_not_read",
            [f"tta_energy says that nothing was metered; its meters are csv:wall, ipmi:dcmi; {NOT_RANKED}"],
        ),
    ],
)
def test_a_finding_on_a_power_log_has_its_numbers(label: str, expected: list[str], tmp_path: Path) -> None:
    """What was seen and what is allowed: counts, seconds, and their sign."""
    assert messages_of(CASES[label], tmp_path) == expected


@pytest.mark.parametrize(
    ("label", "part"),
    [
        ("MLP001-two_lines_are_no_json", ", and 1 more such line; "),
        ("MLP021-the_clock_stops_a_minute_before_it_starts", " -60.000 s after run_start"),
        ("MLP022-three_starts", "occurs 3 times, the last 10.250 s after the first;"),
        ("MLP024-the_target_is_written_down_after_the_stop_by_an_hour", " 3600.0 s after run_stop; at most 1 s"),
        ("MLP025-a_clock_is_set_back_by_a_millisecond_more", "eval_accuracy is 1.001 s earlier"),
        ("MLP025-the_largest_of_two_steps_back_is_found", "eval_stop is 3.000 s earlier"),
        ("MLP026-evaluations_run_backwards_twice", " is at 2 after one at 3, one of 2 such steps"),
        ("MLP029-the_clock_starts_after_initialisation_by_a_millisecond_more", "600.0 s passed from init_stop"),
        ("MLP031-caches_are_cleared_after_the_stop", " 1302.0 s after run_start"),
        ("MLP034-speed_ten_times_as_fast_on_three_lines", " 10.00 times as fast "),
        ("MLR002-odd_names_two", "<number>.txt, and 1 more"),
        ("MLR011-every_run_converges_faster_than_the_reference", " by the rules' text "),
        ("MLR015-a_hole_in_the_numbers_of_the_nodes", "node_<k>.txt"),
    ],
)
def test_a_message_has_its_figures(label: str, part: str, tmp_path: Path) -> None:
    """How much, how many more, and of what."""
    assert part in messages_of(CASES[label], tmp_path)[0]


@pytest.mark.parametrize(
    "label",
    [
        "MLP001-the_first_line_is_no_json",
        "MLP026-evaluations_run_backwards_once",
        "MLR002-odd_names_one",
    ],
)
def test_a_single_fault_counts_no_others(label: str, tmp_path: Path) -> None:
    [message] = messages_of(CASES[label], tmp_path)

    assert " more" not in message


@pytest.mark.parametrize(
    ("demand", "value", "metadata", "words"),
    [
        ("has(metadata.status)", None, {}, "x has no status in its metadata; it is required"),
        (
            "has(metadata.epoch_num) or has(metadata.samples_count)",
            0.5,
            {"step_num": 3},
            "x has neither epoch_num nor samples_count in its metadata; one of them is required",
        ),
        (
            "not has(metadata.epoch_count) or metadata.epoch_count > 0",
            None,
            {"epoch_count": 0},
            "x has epoch_count 0 in its metadata; required: epoch_count > 0 if it has epoch_count",
        ),
        (
            "not has(metadata.epoch_count) or has(metadata.first_epoch_num)",
            None,
            {"epoch_count": 1},
            "x has epoch_count 1 and no first_epoch_num in its metadata; required: "
            "it has first_epoch_num if it has epoch_count",
        ),
        (
            "metadata.method in ['truncate', 'discard']",
            None,
            {"method": "pad"},
            "x has method 'pad' in its metadata; required: method in ['truncate', 'discard']",
        ),
        (
            "metadata.epoch_count > 0",
            None,
            {},
            "x has no epoch_count in its metadata; required: epoch_count > 0 "
            "(cannot be evaluated: epoch_count: it is absent)",
        ),
        ("has(value.BBOX)", {"SEGM": 1}, {}, "x is {'SEGM': 1}; required: it has value.BBOX"),
        ("value == 'adam'", "sgd", {}, "x is 'sgd'; required: value == 'adam'"),
        ("value > 8", "8", {}, "x is '8'; required: value > 8 (cannot be evaluated: '8' is not a number)"),
    ],
)
def test_a_constraint_that_is_not_met(demand: str, value: Any, metadata: dict[str, Any], words: str) -> None:
    """MLP006: what the line has, and the rule's text, in plain words where possible."""
    why = parse(demand).failure(Line(value, metadata))
    assert why is not None
    event = Event(0, "POINT_IN_TIME", "x", value, metadata, 1)

    assert compliance.constraint_message(event, demand, why, 1) == words
    assert compliance.constraint_message(event, demand, why, 2) == f"{words}, on 2 lines"
    assert compliance.constraint_message(event, demand, why, 1200) == f"{words}, on 1,200 lines"


def test_a_long_value_is_cut_at_sixty_characters() -> None:
    """Including its quotes."""
    assert compliance.quoted("x" * 58) == f"'{'x' * 58}'"
    assert compliance.quoted("x" * 59) == f"'{'x' * 58}…"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("8", "the text '8'"),
        ("banana", "the text 'banana'"),
        ("", "the text ''"),
        (-8, "-8"),
        (0, "0"),
        (-0.5, "-0.5"),
        (None, "None"),
        (True, "True"),
        ([8, 8], "[8, 8]"),
    ],
)
def test_a_text_differs_from_a_number(value: Any, words: str, tmp_path: Path) -> None:
    """MLP030: the text "8" is wrong because it is a text, -8 because it is below zero."""
    box = MlperfBox(tmp_path)
    mlperflog.find(box.entries, "global_batch_size").value = value

    assert messages(box, "MLP030") == [f"global_batch_size is {words}; it must be a number above zero"]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (256.5, "global_batch_size is 256.5; it must be a whole number"),
        ("256", "global_batch_size is '256'; it must be a whole number"),
        (True, "global_batch_size is True; it must be a whole number"),
        (None, "the logs have no global_batch_size, or not all the same"),
        (256.0, None),
    ],
)
def test_the_fault_of_a_batch_size_is_named(size: Any, words: str | None, tmp_path: Path) -> None:
    """MLR012: all logs agree on a number that is not whole; 256.0 is whole."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        mlperflog.find(log, "global_batch_size").value = size

    assert messages(box, "MLR012") == ([f"convergence cannot be compared: {words}"] if words else [])


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 1, 2, 3, 5), "5 runs are numbered 0 to 5; 1 number is missing (4)"),
        ((0, 1, 3, 4, 7), "5 runs are numbered 0 to 7; 3 numbers are missing (2, 5, 6)"),
    ],
)
def test_missing_run_numbers_are_listed(numbers: tuple[int, ...], words: str, tmp_path: Path) -> None:
    """AUD040."""
    runs = [foreign.rows(index) for index in range(5)]
    folder = foreign.write(foreign.result(tmp_path), runs, names=lambda index: f"result_{numbers[index]}.txt")

    assert [item.finding.message for item in audit(folder) if item.finding.code == "AUD040"] == [words]
