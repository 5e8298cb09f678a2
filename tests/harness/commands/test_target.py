"""`tta target`: which target to choose for a benchmark."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.commands import target as command
from harness.errors import ExitStatus, UsageError
from harness.ruleset import load
from harness.scoring.target import Candidate, _path, _round_step, _samples_at, propose_target
from harness.workload import Metric
from tests import fabricate
from tests.fabricate import benchmark_rules

UP = Metric("accuracy", "fraction", "max")
DOWN = Metric("error", "fraction", "min")


def straight(num: int = 20, gain: float = 0.05) -> list[tuple[int, float]]:
    """Quality 0.05 at 1,000 samples, 0.10 at 2,000, and so on to 1."""
    return [(1000 * i, gain * i) for i in range(1, num + 1)]


def saturating(rate: float, num: int = 40) -> list[tuple[int, float]]:
    """1 - exp(-rate * i): a knee."""
    return [(1000 * i, 1 - math.exp(-rate * i)) for i in range(1, num + 1)]


def at(candidates: tuple[Candidate, ...], target: float) -> Candidate:
    return next(candidate for candidate in candidates if candidate.target == pytest.approx(target))


def test_a_straight_curve_costs_the_same_everywhere() -> None:
    """0.001 more of target is 20 samples more; 0.6 takes 12,000; the highest within four fifths of the curve is 0.8."""
    proposal = propose_target([straight()] * 3, UP)
    middle = at(proposal.candidates, 0.6)

    assert (middle.num_reached, middle.num_seeds) == (3, 3)
    assert middle.mean_samples == 12000
    assert middle.variation == 0
    assert middle.slope == pytest.approx(20)
    assert middle.growth == pytest.approx(0.95 / 100 / 0.6)
    assert proposal.recommended == pytest.approx(0.8)


def test_the_recommendation_stays_away_from_the_cliff() -> None:
    """On 1 - exp(-x), 1 % of the way from 0.2 costs 0.008 / ((1 - t) ln(1 / (1 - t))), 10.2 % at 0.98."""
    proposal = propose_target([saturating(rate) for rate in (0.2, 0.21, 0.22)], UP)

    assert proposal.recommended == pytest.approx(0.96)
    assert at(proposal.candidates, 0.94).growth == pytest.approx(0.0489, abs=0.002)
    assert any("above 10%" in reason for reason in proposal.reasons)


def test_a_seed_that_stays_below_rules_a_target_out() -> None:
    """One of three seeds ends at 0.7; nothing above it is recommended, and the reason is given."""
    proposal = propose_target([straight(), straight(), [(s, min(q, 0.7)) for s, q in straight()]], UP)

    assert at(proposal.candidates, 0.72).num_reached == 2
    assert "only 2 of 3 seeds reach it" in at(proposal.candidates, 0.72).objections()
    assert proposal.recommended is not None
    assert proposal.recommended < 0.7


def test_a_flat_curve_gives_no_target() -> None:
    """Nothing was learned, so there is nothing to choose from."""
    proposal = propose_target([[(1000, 0.5), (2000, 0.5)]] * 3, UP)

    assert (proposal.candidates, proposal.recommended) == ((), None)
    assert proposal.reasons == ("no run improves on the first evaluations",)


def test_no_target_is_recommended_where_every_one_has_an_objection() -> None:
    """A jump at the last evaluation is a cliff all the way up."""
    proposal = propose_target([[(1000, 0.1), (2000, 0.1), (3000, 0.1), (4000, 0.9)]] * 3, UP)

    assert proposal.recommended is None
    assert len(proposal.reasons) == len(proposal.candidates)


@pytest.mark.parametrize(
    "curves", [[], [[]], [[(1000, 0.5)], []], [[(1000, 0.5), (2000, math.nan)]], [[(1000, math.inf)]]]
)
def test_curves_must_be_curves(curves: list[list[tuple[int, float]]]) -> None:
    """No run, no evaluation, no finite quality: an error, not a target."""
    with pytest.raises(ValueError, match=r"target needs|not finite"):
        propose_target(curves, UP)


@given(st.permutations([0.2, 0.21, 0.23, 0.25]))
def test_the_order_of_the_seeds_does_not_matter(rates: list[float]) -> None:
    """A proposal depends on the set of seeds."""
    mixed, ordered = (propose_target([saturating(rate) for rate in each], UP) for each in (rates, sorted(rates)))

    assert mixed.recommended == ordered.recommended
    assert [item.mean_samples for item in mixed.candidates] == [item.mean_samples for item in ordered.candidates]


def test_a_metric_to_be_minimised_is_the_mirror_image() -> None:
    """Errors of 1 - q give targets of 1 - t."""
    up = propose_target([straight()] * 3, UP)
    down = propose_target([[(samples, -quality) for samples, quality in straight()]] * 3, DOWN)

    assert down.recommended == pytest.approx(-(up.recommended or 0))
    assert [item.growth for item in down.candidates] == pytest.approx([item.growth for item in up.candidates])


def full_curves(folder: Path, num_runs: int = 3, best: float = 0.99) -> Path:
    """A folder of runs over the full curve of ten evaluations."""
    rules = benchmark_rules()
    folder.mkdir()
    for index in range(num_runs):
        qualities = [best * (1 - math.exp(-0.5 * i)) for i in range(1, 11)]
        steps = fabricate.events(index, rules=rules, qualities=qualities, status="aborted", reason="full_curve")
        fabricate.write_log(folder / f"result_{index}.txt", steps)
    return folder


@pytest.fixture
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "load_ruleset", lambda folder, version: fabricate.ruleset({}))


@pytest.mark.usefixtures("_toy")
def test_command_prints_the_convergence_points_in_the_rules_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.99 (1 - exp(-x / 2)) is .8560 at the fourth evaluation and .9087 at the fifth; the snippet is YAML, or all is
    JSON."""
    status = command.run([full_curves(tmp_path / "r")], "v1", "text")
    shown = capsys.readouterr().out
    snippet = yaml.safe_load(shown[shown.index("reference_convergence:") :])

    assert status == ExitStatus.OK
    assert snippet == {"reference_convergence": [{"global_batch_size": 100, "samples_to_target": [4834] * 3}]}
    assert "recommended target: " in shown
    command.run([tmp_path / "r"], "v1", "json")
    [document] = json.loads(capsys.readouterr().out)["batch_sizes"]
    assert (document["samples_to_target"], document["seeds"]) == ([4834] * 3, [100, 101, 102])


@pytest.mark.usefixtures("_toy")
def test_command_names_the_runs_that_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that never reach 0.9 are not convergence points; they are listed."""
    status = command.run([full_curves(tmp_path / "r", best=0.8)], "v1", "text")
    shown = capsys.readouterr().out

    assert status == ExitStatus.FINDINGS
    assert shown.count("# missed the target: seed 10") == 3
    assert yaml.safe_load(shown[shown.index("reference_convergence:") :]) == {"reference_convergence": []}


@pytest.mark.usefixtures("_toy")
def test_command_leaves_out_runs_that_were_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that stopped at a target says nothing about other targets."""
    with pytest.raises(UsageError, match="full-curve"):
        command.run([fabricate.write_result(tmp_path / "r")], "v1", "text")

    assert capsys.readouterr().err.count("not a run over the full curve") == 5


def test_one_seed_has_no_variation() -> None:
    """For a single run nothing is reported about how seeds vary, except that one is too few."""
    proposal = propose_target([straight()], UP)

    assert proposal.recommended == pytest.approx(0.8)
    assert all(candidate.variation is None for candidate in proposal.candidates)
    assert not any("vary" in reason for reason in proposal.reasons)
    assert any("too few seeds (1)" in reason for reason in proposal.reasons)


def candidate(**changes: Any) -> Candidate:
    """A target that three seeds reach, at every limit."""
    fields = {"max_share": 0.8, "min_evaluations": 3, "slope": 20.0, "growth": 0.1, "variation": 0.15, **changes}
    return Candidate(**{"target": 0.5, "num_seeds": 3, "num_reached": 3, "mean_samples": 1000.0, **fields})


@pytest.mark.parametrize(
    ("changes", "clauses"),
    [
        ({}, []),
        ({"variation": None}, []),
        ({"max_share": 0.801}, ["the slowest seed needs 80% of its curve, above 80%"]),
        ({"min_evaluations": 2}, ["a seed reaches it at evaluation 2, below 3"]),
        ({"variation": 0.151}, ["samples to it vary by 15% between seeds, above 15%"]),
        ({"growth": 0.101}, ["the next 1 % of the way costs 10.1% more samples, above 10%"]),
        ({"growth": None}, ["not every seed gets beyond it"]),
        ({"num_reached": 2, "growth": None}, ["only 2 of 3 seeds reach it"]),
        (
            {"num_reached": 0, **dict.fromkeys(("max_share", "min_evaluations", "variation", "growth", "slope"))},
            ["only 0 of 3 seeds reach it"],
        ),
    ],
)
def test_a_value_at_a_limit_is_permitted_and_one_beyond_it_is_not(changes: dict[str, Any], clauses: list[str]) -> None:
    """An unknown value is not an objection."""
    assert candidate(**changes).objections() == clauses


def test_candidates_are_round_numbers_from_the_first_evaluations_to_the_best() -> None:
    """From 0.05 to 1 in steps of 0.02; from 50 to 1,000 in steps of 20; an error of zero is 0, not -0."""
    small, large = (propose_target([straight(gain=gain)] * 3, UP).candidates for gain in (0.05, 50.0))
    errors = propose_target([[(samples, 1 - quality) for samples, quality in straight()]] * 3, DOWN).candidates

    assert [item.target for item in small] == [round(0.02 * i, 2) for i in range(3, 51)]
    assert [item.target for item in large] == [20.0 * i for i in range(3, 51)]
    assert f"{errors[-1].target:g}" == "0"


@pytest.mark.parametrize(
    ("step", "rounded"),
    [(0.038, 0.02), (0.02, 0.02), (0.0499, 0.02), (0.05, 0.05), (0.1 + 0.2 - 0.25, 0.05), (9.9, 5.0), (1.0, 1.0)],
)
def test_a_step_is_one_two_or_five(step: float, rounded: float) -> None:
    """Not above the step, but for the last digits of a float."""
    assert _round_step(step) == pytest.approx(rounded, rel=1e-12)


def test_the_slope_is_taken_half_a_step_to_either_side() -> None:
    """0.01 around 0.5; the curve has its knee at 0.508, between a third of a step and a half."""
    knee = [(1000, 0.0), (2000, 0.508), (6000, 1.0)]
    before, after = 1000 + 0.49 / 0.508 * 1000, 2000 + 0.002 / 0.492 * 4000

    assert at(propose_target([knee] * 3, UP).candidates, 0.5).slope == pytest.approx((after - before) / 0.02 * 0.001)


def test_the_slowest_and_the_fastest_seed_count() -> None:
    """0.5 at evaluation 10 of 20 and at 5 of 20; two seeds vary and are reported as too few, three are not."""
    curves = [straight(), [(samples, min(1.0, 2 * quality)) for samples, quality in straight()]]
    two, three = propose_target(curves, UP), propose_target([straight()] * 3, UP)
    middle = at(two.candidates, 0.5)

    assert (middle.max_share, middle.min_evaluations, middle.mean_samples) == (0.5, 5, 7500)
    assert middle.variation == pytest.approx(math.sqrt(2) / 3)
    assert "too few seeds (2)" in propose_target([straight()] * 2, UP).reasons[-1]
    assert not any("too few" in reason for reason in three.reasons)


def test_reasons_are_in_order() -> None:
    """What all seeds do, how they vary, what more costs, and why the next harder target is not chosen."""
    proposal = propose_target([straight()] * 3, UP)

    assert [reason.split(" ", 1)[0] for reason in proposal.reasons] == ["3", "samples", "the", "0.82"]


def test_curves_that_begin_before_any_sample() -> None:
    """Reached without training: nothing varies, and no share can be given of a curve without samples."""
    [reached] = [item for item in propose_target([[(0, 0.1), (0, 0.9)]] * 2, UP).candidates if item.target == 0.5]

    assert (reached.mean_samples, reached.variation, reached.max_share, reached.growth) == (0.0, None, None, None)


def test_a_path_is_the_best_that_was_confirmed() -> None:
    """The worse of an evaluation and the one before it; a later drop does not count."""
    curve = [(1, 0.5), (2, 0.9), (3, 0.8), (4, 0.9), (5, 0.7), (6, 0.95)]

    assert _path(curve, 1.0, 0) == [(1, 0.5), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.9), (6, 0.95)]
    assert _path(curve, 1.0, 1) == [(2, 0.5), (3, 0.8), (4, 0.8), (5, 0.8), (6, 0.8)]
    assert _path(curve, -1.0, 0)[-1] == (6, -0.5)


def test_a_level_is_passed_where_it_is_first_reached() -> None:
    """On a plateau at its start, between evaluations on the straight line."""
    path = [(1, 0.5), (2, 0.5), (4, 0.9)]

    found = [_samples_at(path, level) for level in (0.4, 0.5, 0.7, 0.9, 0.91)]
    assert found == [1.0, 1.0, pytest.approx(3.0), 4.0, None]
