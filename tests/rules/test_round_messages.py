"""What the findings on MLPerf's rounds say in figures, of which the cases know nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.mlperf import score
from tests.mlperflog import find
from tests.rules.box import Case
from tests.rules.fixtures import mlp, mlr
from tests.rules.roundbox import RoundBox

CASES = {case.label: case for module in (mlp, mlr) for case in module.CASES}


def messages(case: Case, place: Path) -> list[str]:
    """Of the check that the case is for."""
    box = case.open(place)
    case.damage(box)
    if not box.is_written:
        box.write()
    return [finding.message for finding in box.judge() if finding.code == case.code]


@pytest.mark.parametrize(
    ("label", "part"),
    [
        ("MLP001-two_lines_are_no_json", ", and 1 more such line; "),
        ("MLP021-the_clock_stops_a_minute_before_it_starts", " -60.000 s after run_start"),
        ("MLP022-three_starts", "stands 3 times, the last 10.250 s after the first;"),
        ("MLP024-the_target_is_reached_an_hour_after_the_stop", " 3600.0 s after run_stop; at most 1 s"),
        ("MLP025-a_clock_is_set_back_by_a_millisecond_more", "eval_accuracy is 1.001 s before"),
        ("MLP025-the_largest_of_two_steps_back_is_told", "eval_stop is 3.000 s before"),
        ("MLP026-evaluations_run_backwards_twice", " is at 2 after one at 3, and 1 times more"),
        ("MLP029-a_millisecond_more_passes_before_the_clock_starts", "600.0 s passed from init_stop"),
        ("MLP031-caches_are_cleared_after_the_stop", " 1302.0 s after run_start"),
        ("MLP034-three_statistics_are_enough", " 10.00 times as fast "),
        ("MLR002-the_first_of_two_odd_names_is_told", "<number>.txt, and 1 more"),
        ("MLR011-faster_than_the_reference_allows", " by the rules' text "),
        ("MLR015-a_hole_in_the_numbers_of_the_nodes", "node_<k>.txt"),
    ],
)
def test_a_message_has_its_figures(label: str, part: str, tmp_path: Path) -> None:
    """How much, how many more, of what."""
    assert part in messages(CASES[label], tmp_path)[0]


@pytest.mark.parametrize(
    "label",
    [
        "MLP001-a_line_with_the_token_is_no_json",
        "MLP026-evaluations_run_backwards_once",
        "MLR002-one_log_has_an_odd_name",
    ],
)
def test_of_one_there_are_no_more(label: str, tmp_path: Path) -> None:
    """Whoever looks for the others finds none."""
    [message] = messages(CASES[label], tmp_path)

    assert " more" not in message


def test_a_round_is_timed_by_the_clock_of_its_logs(tmp_path: Path) -> None:
    """Two numbers of ours in a log of MLPerf's would make a run of 1,301 s one of a second."""
    box = RoundBox(tmp_path)
    for log in box.logs:
        find(log, "run_start").metadata["elapsed_ns"] = 0
        find(log, "run_stop").metadata["elapsed_ns"] = 1_000_000_000
    assert box.ruleset.round is not None

    assert score.round_score(box.result().runs, box.ruleset.round).raw_seconds == pytest.approx(1321.0)
