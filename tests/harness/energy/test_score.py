"""Energies of scores: what is ranked against what, and what is never ranked."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.board.leaderboard import leaderboard, row
from harness.checker import registry
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import RunEnergy
from harness.energy.score import ScoreEnergy, rank_energies, score_energy
from harness.log.power_format import MeterClass
from harness.submission import result as results
from tests import fabricate
from tests.rules.box import TODAY, codes


def run_of(
    joules: float | None,
    u95_j: float = 1.0,
    meter_class: MeterClass = "B",
    scope: str = "node (ac)",
    void: tuple[str, ...] = (),
    share: float = 0.0,
) -> RunEnergy:
    return RunEnergy(
        joules=joules,
        uncertainty_j=None if joules is None else u95_j,
        mean_w=None if joules is None else joules / 100,
        meter_class=meter_class,
        scope=scope,
        share_estimated=share,
        coverage=1.0,
        longest_gap_s=1.0,
        num_samples=100,
        num_nodes=1,
        void=void,
    )


def energy_over(runs: Sequence[RunEnergy | None], **more: Any) -> ScoreEnergy:
    found = score_energy(runs, **more)
    assert found is not None
    return found


def test_mean_and_interval_by_hand() -> None:
    """99, 100, 101: a mean of 100 with an error of 1 % / sqrt(3); the meter's is 2 % / 1.96. Together they have 33
    degrees of freedom, with a Student's t of 2.0345."""
    found = energy_over([run_of(joules, 2.0) for joules in (99.0, 100.0, 101.0)])
    half = 2.0345 * (0.01**2 / 3 + (0.02 / 1.96) ** 2) ** 0.5

    assert found.joules == pytest.approx(100)
    assert (found.low_j, found.high_j) == pytest.approx((100 * math.exp(-half), 100 * math.exp(half)), abs=1e-3)


@pytest.mark.parametrize(
    ("run", "factor", "interval"),
    [
        pytest.param(run_of(100.0, 2.0), 1.0, (98.02, 100.0, 102.02), id="one run has the interval of its meter"),
        pytest.param(run_of(100.0, 2.0), 1.5, (147.03, 150.0, 153.03), id="the factor of the time"),
        pytest.param(run_of(10.0, 20.0), 1.0, (2.361, 10.0, 42.361), id="as wide as the meter's, and above zero"),
        pytest.param(replace(run_of(100.0), uncertainty_j=None), 1.0, (100.0, 100.0, 100.0), id="not known"),
    ],
)
def test_the_interval_of_one_run(run: RunEnergy, factor: float, interval: tuple[float, float, float]) -> None:
    """There is no spread; a factor leaves the watts alone, and an unknown uncertainty adds nothing."""
    found = energy_over([run], factors=[factor])

    assert (found.low_j, found.joules, found.high_j) == pytest.approx(interval, rel=2e-3)
    assert found.mean_w == run.mean_w


def test_a_meter_that_reads_nothing_has_a_finite_interval() -> None:
    """0 J with half a joule of resolution, and 0 J next to a megajoule that the mean leaves out."""
    found = energy_over([run_of(0.0, 0.5)] * 3, others=[run_of(1e6), None, run_of(None)])

    assert (found.joules, found.estimate.value) == (0.0, 1e-9)
    assert found.high_j is not None
    assert math.isfinite(found.high_j)


def test_the_errors_of_the_factors_and_of_the_runs_that_a_mean_leaves_out() -> None:
    """90 and 110 J are left out of a mean of 100 J: a variance of 200 / 4, times 1.1447 / 5."""
    found = energy_over([run_of(100.0, 0.0)] * 3, others=[run_of(90.0), run_of(110.0)], errors=((0.04, 7.0),))

    assert found.joules == 100
    assert found.errors == ((0.0, 1000.0), (pytest.approx(50 / 100**2 * 1.1447 / 5, rel=1e-4), 4), (0.04, 7.0))


def test_weakest_class_counts_and_void_reasons_join() -> None:
    """Over the averaged runs; scopes that differ between runs void, too: their mean mixes two quantities."""
    found = energy_over([run_of(1.0), run_of(1.0, meter_class="D", void=("gap",)), run_of(1.0, void=("coverage",))])
    mixed = energy_over([run_of(1.0), run_of(1.0, scope="gpu (board)")])

    assert (found.meter_class, found.board, found.void) == ("D", "component", ("coverage", "gap"))
    assert mixed.void == ("scope_mixed",)


def test_nothing_metered_is_none() -> None:
    """None, never an energy of 0 J."""
    assert score_energy([None, None, None]) is None


def test_the_classes_of_the_boards_are_those_of_the_rules() -> None:
    """If only analysers may rank, the other classes have no board."""
    strict = EnergyLimits(node_classes=("A",), component_classes=())
    boards = [energy_over([run_of(1.0, meter_class=name)], limits=strict).board for name in ("A", "B", "C")]

    assert boards == ["node", None, None]


RUNS = st.builds(
    run_of,
    st.one_of(st.none(), st.floats(0.0, 1e9)),
    st.floats(0.0, 1e8),
    st.sampled_from(("A", "B", "C", "D", "E", "N")),
    st.sampled_from(("node (ac)", "node (dc)", "gpu (board)")),
    st.sampled_from(((), (), (), ("coverage",), ("estimated_share",))),
)
ENERGIES = st.lists(st.one_of(st.none(), st.lists(RUNS, min_size=1, max_size=3).map(score_energy)), max_size=8)


@given(ENERGIES)
def test_properties_of_the_ranking(energies: list[ScoreEnergy | None]) -> None:
    """Estimated, void and missing energies have no place; other boards and scopes are not compared; the least energy of
    a board and scope may be first, and the most may be last."""
    places = rank_energies(energies)

    for energy, place in zip(energies, places, strict=True):
        if energy is None or energy.joules is None or energy.void or energy.meter_class in ("E", "N"):
            assert place is None
        else:
            assert place is not None
            assert place.board == ("node" if energy.meter_class in ("A", "B") else "component")
    ranked = [(energy, place) for energy, place in zip(energies, places, strict=True) if place is not None]
    for _, first in ranked:
        group = [
            (energy.estimate.value, place.ranks)
            for energy, place in ranked
            if energy is not None and (place.board, place.scope) == (first.board, first.scope)
        ]
        assert min(group, key=lambda item: item[0])[1][0] == 1
        assert max(group, key=lambda item: item[0])[1][1] == len(group)
        assert all(1 <= low <= high <= len(group) for _, (low, high) in group)


@given(st.permutations(list(range(5))))
def test_order_of_the_results_does_not_matter(order: list[int]) -> None:
    """Ranks are those of the energy: with 2 J of meter error on either side, 4 J are told apart, and 3 J are not."""
    energies = [energy_over([run_of(value, 2.0)]) for value in (100.0, 103.0, 107.0, 120.0, 121.0)]
    places = rank_energies([energies[index] for index in order])
    ranks = [place.ranks for place in (places[order.index(index)] for index in range(5)) if place]

    assert ranks == [(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]


def test_results_rank_by_energy_on_two_boards(tmp_path: Path) -> None:
    """Whole nodes on one, parts on the other; modelled energies, unmetered results and invalid results on neither.

    An unmetered result has no energy, never 0, and is ranked by its time."""
    ruleset = fabricate.ruleset(codes())
    kinds = {"a": "node", "b": "wall", "c": "counters", "d": "model", "e": None, "f": "node"}
    rows = []
    for name, kind in kinds.items():
        system = {**fabricate.SYSTEM, "system_name": name}
        change = None if name != "f" else lambda index, steps: steps[:-1]
        folder = fabricate.write_submission(tmp_path, change=change, system=system, power=kind)
        rows.append(row(results.read_result(folder), ruleset, registry.checks().values(), None, TODAY))
    (table,) = leaderboard("v1", "r" * 64, rows).tables
    places = {
        item.system: item.energy_place and (item.energy_place.board, item.energy_place.ranks) for item in table.rows
    }

    node = ("node", (1, 2))
    assert places == {"a": node, "b": node, "c": ("component", (1, 1)), "d": None, "e": None, "f": None}
    unmetered = rows[4]
    assert (unmetered.score.energy, unmetered.score.energy_j, unmetered.score.energy_source) == (None, None, "none")
    assert unmetered.is_ranked


def test_idle_power_is_shown_and_never_ranked(tmp_path: Path) -> None:
    """80 W by the baseline; without one, None, and nothing else changes."""
    ruleset = fabricate.ruleset({})
    folder = fabricate.write_result(tmp_path / "r", power="node")
    with_idle = row(results.read_result(folder), ruleset, [], None, TODAY)
    shutil.rmtree(folder / "power" / "idle")
    without = row(results.read_result(folder), ruleset, [], None, TODAY)

    assert with_idle.score.energy is not None
    assert with_idle.score.energy.idle_w == pytest.approx(80, abs=0.5)
    assert without.score.energy == replace(with_idle.score.energy, idle_w=None)


@pytest.mark.parametrize("other", [None, run_of(None)])
def test_joules_of_some_runs_give_no_mean(other: RunEnergy | None) -> None:
    """Neither interval nor watts; a run that was not metered is the reason."""
    found = energy_over([run_of(100.0), other])

    assert (found.joules, found.low_j, found.high_j, found.mean_w) == (None, None, None, None)
    assert found.void == (("unmetered",) if other is None else ())
    assert (found.source, found.may_rank) == ("none", False)


def test_watts_are_the_mean_of_the_runs_that_have_them() -> None:
    """1 W and 3 W give 2 W; a run without watts does not count."""
    runs = [run_of(100.0), run_of(300.0), replace(run_of(200.0), mean_w=None)]

    assert energy_over(runs).mean_w == 2.0
    assert energy_over(runs[2:]).mean_w is None


def test_the_share_that_is_estimated_is_of_the_joules() -> None:
    """Half of 100 J and none of 300 J are an eighth; a run without joules adds none; without any joules, the worst
    share counts."""
    assert energy_over([run_of(100.0, share=0.5), run_of(300.0)]).share_estimated == 0.125
    assert energy_over([run_of(100.0, share=0.5), run_of(None, share=1.0)]).share_estimated == 0.5
    assert energy_over([run_of(None, share=0.25), run_of(None, share=1.0)]).share_estimated == 1.0
    assert energy_over([run_of(0.5, share=0.5), run_of(0.0, share=1.0)]).share_estimated == 0.5


def test_a_source_is_measured_estimated_or_none() -> None:
    """By the weakest meter of the averaged runs."""
    assert energy_over([run_of(1.0), run_of(1.0, meter_class="D")]).source == "measured"
    assert energy_over([run_of(1.0), run_of(1.0, meter_class="E")]).source == "estimated"
    assert energy_over([run_of(None, meter_class="E")]).source == "none"
