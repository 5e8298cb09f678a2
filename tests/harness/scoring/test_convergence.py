"""Reference convergence points: the rules' own submitters, the edges, and MLCommons' program on real references."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.mlperf.rcp import Definition
from harness.ruleset.model import ReferenceConvergence
from harness.scoring.convergence import judge_convergence, points_by_batch_size

# MLPerf training rules, "Appendix: RCP Examples"; a thousand samples an epoch.
EXAMPLE = (
    ReferenceConvergence(128, tuple(1000 * e for e in (16, 14, 16, 17, 16, 16, 15, 16, 15, 16))),
    ReferenceConvergence(256, tuple(1000 * e for e in (20, 21, 21, 20, 22, 22, 21, 21, 20, 20))),
)


def epochs(*values: int) -> list[int | None]:
    return [1000 * value for value in values]


@pytest.mark.parametrize(
    ("definition", "batch_size", "runs", "status"),
    [
        pytest.param("rules", 128, (15, 15, 15, 16, 16), "pass", id="S1"),
        pytest.param("rules", 256, (19, 19, 19, 20, 21), "fail", id="S2"),
        pytest.param("rules", 192, (17, 18, 18, 18, 20), "pass", id="S3"),
        pytest.param("rules", 512, (30, 30, 30, 30, 30), "missing", id="S4"),
        pytest.param("rules", 64, (15, 16, 16, 16, 16), "pass", id="S5"),
        pytest.param("rules", 64, (14, 14, 14, 14, 14), "missing", id="S6"),
        pytest.param("rules", 128, (15, 15, 15, 15, 15), "fail", id="a mean of 15 by the text"),
        pytest.param("code", 128, (15, 15, 15, 15, 15), "pass", id="a mean of 15 in the program"),
    ],
)
def test_the_rules_own_submitters(definition: Definition, batch_size: int, runs: tuple[int, ...], status: str) -> None:
    """S1 to S6 of the appendix, by its own definition of the spread, and a mean on which text and program disagree."""
    assert judge_convergence(epochs(*runs), batch_size, EXAMPLE, definition=definition).status == status


def test_luck_is_normalised_and_slowness_not_rewarded() -> None:
    """15 epochs where the reference needs 15.75 cost 5 %; 20 epochs gain nothing."""
    assert judge_convergence(epochs(15, 15, 15, 15, 15), 128, EXAMPLE).factor == pytest.approx(1.05)
    assert judge_convergence(epochs(20, 20, 20, 20, 20), 128, EXAMPLE).factor == 1.0


def test_one_missed_run_is_the_slowest_and_two_have_no_mean() -> None:
    """A missed run is cut; a second one cannot be."""
    one = judge_convergence([None, 16000, 16000, 16000, 15000], 128, EXAMPLE)
    two = judge_convergence([None, None, 16000, 16000, 15000], 128, EXAMPLE)

    assert (one.status, one.submission_mean) == ("pass", 16000.0)
    assert (two.status, two.submission_mean, two.how) == ("missing", None, "2 of 5 runs missed the target")


def test_nothing_to_compare_with_is_missing() -> None:
    """No reference, too few reference runs, too few runs; never a pass."""
    assert judge_convergence([3000] * 5, 100, ()).status == "missing"
    assert judge_convergence([3000] * 5, 100, (ReferenceConvergence(100, (3000,) * 3),)).status == "missing"
    assert judge_convergence([3000] * 2, 100, EXAMPLE).status == "missing"
    assert judge_convergence([], 100, EXAMPLE).status == "missing"


def test_a_single_run_without_drop_can_be_compared() -> None:
    """One value against twenty: t of 19 degrees of freedom, 1.7291."""
    reference = (ReferenceConvergence(100, (2000, 4000) * 10),)
    verdict = judge_convergence([2500], 100, reference, drop=0)

    assert verdict.acceptable_mean == pytest.approx(3000 - 1.7291 * 1000 * math.sqrt(1 / 20 + 1), abs=0.1)
    assert verdict.status == "pass"


def test_pruning_removes_points_that_a_neighbour_makes_implausible() -> None:
    """Smaller than the fastest goes; above the line between the neighbours goes; on the line stays."""
    means = {10: 500, 20: 400, 30: 460, 40: 500, 50: 550, 60: 600}
    points = points_by_batch_size([ReferenceConvergence(size, (mean,) * 4) for size, mean in means.items()])

    assert [point.batch_size for point in points] == [20, 40, 50, 60]


@given(st.permutations([15000, 15000, 16000, 16000, None]), st.sampled_from([64, 128, 160, 256, 300]))
def test_the_order_of_the_runs_does_not_matter(runs: list[int | None], batch_size: int) -> None:
    """A verdict is of a set of runs."""
    assert judge_convergence(runs, batch_size, EXAMPLE) == judge_convergence(
        [None, 16000, 15000, 16000, 15000], batch_size, EXAMPLE
    )


@given(st.lists(st.integers(1, 30000), min_size=5, max_size=5))
def test_a_factor_is_never_a_reward(runs: list[int]) -> None:
    """It is at least 1; a mean at or above the reference's passes with exactly 1."""
    verdict = judge_convergence(list(runs), 128, EXAMPLE)

    assert verdict.factor >= 1
    assert verdict.submission_mean is not None
    if verdict.submission_mean >= 15750:
        assert (verdict.status, verdict.factor) == ("pass", 1.0)


@pytest.mark.parametrize("benchmark", ["bert", "resnet", "ssd", "gpt3"])
def test_agrees_with_mlcommons_program(benchmark: str) -> None:
    """Points, pruning, interpolation, limits and verdicts on a published file, at and between its batch sizes."""
    program = pytest.importorskip("mlperf_logging.rcp_checker.rcp_checker")
    path = Path(program.__file__).parent / "training_4.0.0" / f"rcps_{benchmark}.json"
    records = json.loads(path.read_text()).values()
    reference = [ReferenceConvergence(record["BS"], tuple(record["Epochs to converge"])) for record in records]
    checker = program.RCP_Checker("training", "4.0.0", benchmark, False)
    sizes = sorted({item.global_batch_size for item in reference})
    num_runs = checker.submission_runs

    assert [point.batch_size for point in points_by_batch_size(reference)] == sorted(
        record["BS"] for record in checker.pruned_rcp_data.values()
    )
    for size in sorted({*sizes, *((a + b) // 2 for a, b in pairwise(sizes)), sizes[0] - 1}):
        record = their_record(checker, size)
        for share in (0.9, 0.97, 1.0, 1.1):
            runs = [round(record["RCP Mean"] * share)] * num_runs
            ours = judge_convergence(list(runs), size, reference)
            is_passed, factor = checker._eval_submission_record(record, list(runs), "")
            assert ours.reference_mean == pytest.approx(record["RCP Mean"]) or ours.status == "missing"
            assert ours.acceptable_mean == pytest.approx(record["Min Epochs"], abs=1e-3) or ours.status == "missing"
            if abs(runs[0] - record["Min Epochs"]) > 1e-3:
                assert (ours.status == "pass") == is_passed
            if is_passed:
                assert ours.factor == pytest.approx(factor)


def their_record(checker: Any, size: int) -> dict[str, float]:
    """The record that MLCommons' program compares a batch size with."""
    find = "pruned_rcps"
    found = checker._find_rcp(size, find)
    low, high = checker._find_top_min_rcp(size, find), checker._find_bottom_max_rcp(size, find)
    if found is None and low is not None and high is not None:
        _, found = checker._create_interp_rcp(size, low, high)
    record: dict[str, float] = checker._find_min_rcp(find) if found is None else found
    return record


@pytest.mark.parametrize(
    ("batch_size", "how", "max_speedup"),
    [
        (128, "reference at batch size 128", 1.0656),
        (192, "reference between the batch sizes 128 and 256", 1.0521),
        (64, "reference at the larger batch size 128", 1.0656),
        (257, "batch size 257 is larger than the reference's largest, 256", None),
    ],
)
def test_the_verdict_says_which_reference_was_used(batch_size: int, how: str, max_speedup: float | None) -> None:
    """Above the largest there is none; by the program, 6.56 % faster is the largest speed-up at 128."""
    verdict = judge_convergence([99000] * 5, batch_size, EXAMPLE)

    assert verdict.how.startswith(how)
    assert verdict.max_speedup == (None if max_speedup is None else pytest.approx(max_speedup, abs=1e-4))
    assert (verdict.status, verdict.factor) == ("missing" if max_speedup is None else "pass", 1.0)


def test_two_entries_of_one_batch_size_are_one_point() -> None:
    """A reference may be extended by further runs."""
    twice: tuple[ReferenceConvergence, ...] = (ReferenceConvergence(128, EXAMPLE[0].samples_to_target[:5]), EXAMPLE[1])
    twice += (ReferenceConvergence(128, EXAMPLE[0].samples_to_target[5:]),)

    assert points_by_batch_size(twice) == points_by_batch_size(EXAMPLE)


def test_not_even_zero_samples_are_too_few_for_a_wide_reference() -> None:
    """The limit stops at zero; then there is no largest speed-up, and no factor for a mean of zero."""
    reference = (ReferenceConvergence(100, (1, 10000, 1, 10000)),)
    verdict = judge_convergence([0] * 5, 100, reference)

    assert (verdict.status, verdict.acceptable_mean) == ("pass", 0.0)
    assert (verdict.max_speedup, verdict.factor) == (None, 1.0)


def test_one_sample_is_a_valid_count() -> None:
    """Divisors must be greater than zero, not than one; a reference without spread allows no speed-up."""
    assert judge_convergence([1] * 5, 100, (ReferenceConvergence(100, (1,) * 20),)).max_speedup == 1.0
    assert judge_convergence([1] * 5, 100, (ReferenceConvergence(100, (2,) * 20),)).factor == 2.0


def test_a_reference_point_is_an_olympic_mean_by_default() -> None:
    """The rules' 15.75 epochs; with nothing cut they would be 15.7."""
    assert points_by_batch_size(EXAMPLE)[0].mean == 15750
    assert points_by_batch_size(EXAMPLE, drop=0)[0].mean == 15700
