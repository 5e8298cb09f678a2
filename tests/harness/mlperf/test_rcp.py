"""Reference convergence points of MLPerf's rounds: the rules' own submitters, and MLCommons' program."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.mlperf.rcp import Definition, judge, round_points
from tests.harness.mlperf.test_score import benchmark, judged


@pytest.mark.parametrize(
    ("batch_size", "runs", "status"),
    [
        pytest.param(128, (15, 15, 15, 16, 16), "pass", id="S1"),
        pytest.param(256, (19, 19, 19, 20, 21), "fail", id="S2"),
        pytest.param(192, (17, 18, 18, 18, 20), "pass", id="S3"),
        pytest.param(512, (30, 30, 30, 30, 30), "missing", id="S4"),
        pytest.param(64, (15, 16, 16, 16, 16), "pass", id="S5"),
        pytest.param(64, (14, 14, 14, 14, 14), "missing", id="S6"),
    ],
)
def test_the_rules_own_submitters(batch_size: int, runs: tuple[int, ...], status: str) -> None:
    """S1 to S6 of the appendix, by its own definition of the spread."""
    assert judged(runs, batch_size, definition="rules").status == status


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 30)), min_size=5, max_size=5),
    st.sampled_from([64, 128, 160, 256, 300]),
    st.sampled_from(["code", "rules"]),
    st.randoms(use_true_random=False),
)
def test_a_factor_is_never_a_reward_and_the_order_of_the_runs_does_not_matter(
    runs: list[int | None], batch_size: int, definition: Definition, dice: Any
) -> None:
    """It is at least 1; a mean at or above the reference's passes with exactly 1."""
    verdict = judged(runs, batch_size, definition=definition)

    assert judged(dice.sample(runs, 5), batch_size, definition=definition) == verdict
    assert verdict.factor >= 1
    if verdict.mean is not None and verdict.reference_mean is not None and verdict.mean >= verdict.reference_mean:
        assert (verdict.status, verdict.factor) == ("pass", 1.0)


def test_pruning_is_one_sweep() -> None:
    """Smaller than the fastest goes; above the line between the neighbours goes; on the line stays."""
    means = {10: 500, 20: 400, 30: 460, 40: 500, 50: 550, 60: 600}
    rules = benchmark({size: (mean,) * 4 for size, mean in means.items()})

    assert [point.batch_size for point in round_points(rules.convergence, 1, "code")] == [20, 40, 50, 60]


@pytest.mark.parametrize("name", ["bert", "resnet", "ssd", "gpt3"])
def test_agrees_with_mlcommons_program(name: str) -> None:
    """Points, pruning, interpolation, limits and verdicts on a published file, at and between its batch sizes."""
    program = pytest.importorskip("mlperf_logging.rcp_checker.rcp_checker")
    path = Path(program.__file__).parent / "training_4.0.0" / f"rcps_{name}.json"
    records = json.loads(path.read_text()).values()
    checker = program.RCP_Checker("training", "4.0.0", name, False)
    num_runs = checker.submission_runs
    rules = benchmark({record["BS"]: record["Epochs to converge"] for record in records}, name, num_runs)
    sizes = sorted(record["BS"] for record in records)

    assert [point.batch_size for point in round_points(rules.convergence, 1, "code")] == sorted(
        record["BS"] for record in checker.pruned_rcp_data.values()
    )
    for size in sorted({*sizes, *((a + b) // 2 for a, b in pairwise(sizes)), sizes[0] - 1}):
        record = their_record(checker, size)
        for share in (0.9, 0.97, 1.0, 1.1):
            runs = [round(record["RCP Mean"] * share)] * num_runs
            ours = judge(runs, size, rules, "4.0.0")
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
