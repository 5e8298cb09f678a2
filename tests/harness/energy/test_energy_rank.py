"""What an energy ranking may never do, whatever the energies are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.energy.energyrank import Place, Standing, board_of, rank, standing_of, tie
from harness.energy.run_energy import RunEnergy


def energy(joules: float | None = 36_000.0, uncertainty_j: float = 360.0, **changes: Any) -> RunEnergy:
    fields: dict[str, Any] = {
        "joules": joules,
        "uncertainty_j": None if joules is None else uncertainty_j,
        "mean_w": None,
        "meter_class": "A",
        "scope": "node (ac)",
        "share_estimated": 0.0,
        "coverage": 1.0,
        "longest_gap_s": 1.0,
        "num_samples": 121,
        "num_nodes": 1,
    }
    return RunEnergy(**{**fields, **changes})


ENERGIES = st.builds(
    energy,
    joules=st.none() | st.floats(0, 1e9),
    uncertainty_j=st.floats(0, 1e6),
    meter_class=st.sampled_from("ABCDEN"),
    scope=st.sampled_from(["node (ac)", "node (dc)", "gpu (board)"]),
    void=st.sampled_from([(), (), ("gap",)]),
)


def test_14_frugal_leads_and_overlapping_intervals_share_a_rank() -> None:
    """1,000 +- 10, 1,015 +- 10 (a tie), 1,030 +- 5 (not with the leader), and 900 J of a void measurement."""
    energies = [energy(1030.0, 5.0), energy(1000.0, 10.0), energy(900.0, 1.0, void=("gap",)), energy(1015.0, 10.0)]

    assert rank(energies) == [
        Place("node", "node (ac)", 3),
        Place("node", "node (ac)", 1),
        None,
        Place("node", "node (ac)", 1),
    ]


def test_14_intervals_that_touch_are_a_tie() -> None:
    """1,000 +- 10 and 1,020 +- 10 meet at 1,010."""
    assert tie(energy(1000.0, 10.0), energy(1020.0, 10.0))
    assert not tie(energy(1000.0, 10.0), energy(1020.5, 10.0))
    assert not tie(energy(1020.5, 10.0), energy(1000.0, 10.0))


def test_an_energy_whose_doubt_is_not_known_has_an_interval_without_width() -> None:
    """It ties with what holds it, and not with what is half a joule away."""
    exact = replace(energy(1000.0), uncertainty_j=None)

    assert standing_of(exact) == Standing("node", "node (ac)", 1000.0, 1000.0, 1000.0)
    assert tie(exact, energy(1000.5, 0.5))
    assert not tie(exact, energy(1000.5, 0.4))


def test_14_classes_a_and_b_are_one_board_and_c_and_d_another() -> None:
    """And E and N are on none."""
    assert [board_of(energy(meter_class=name)) for name in "ABCDEN"] == [
        "node",
        "node",
        "component",
        "component",
        None,
        None,
    ]


@given(st.lists(ENERGIES, max_size=12))
def test_14_estimated_and_null_and_void_are_never_placed(energies: list[RunEnergy]) -> None:
    """Estimated never outranks measured, and null is never first: neither has a place at all."""
    for one, place in zip(energies, rank(energies), strict=True):
        is_measured = one.joules is not None and one.meter_class in "ABCD" and not one.void
        assert (place is not None) == is_measured


@given(st.lists(ENERGIES, max_size=12))
def test_14_scopes_and_boards_are_never_compared(energies: list[RunEnergy]) -> None:
    """The place of an energy is the same without those of other scopes and boards."""
    places = rank(energies)
    for board, scope in {(place.board, place.scope) for place in places if place is not None}:
        group = [
            i for i, place in enumerate(places) if place is not None and (place.board, place.scope) == (board, scope)
        ]
        assert rank([energies[i] for i in group]) == [places[i] for i in group]
        assert {energies[i].scope for i in group} == {scope}
        assert min(place.rank for place in places if place and (place.board, place.scope) == (board, scope)) == 1


@given(ENERGIES, ENERGIES)
def test_14_tie_is_symmetric_and_means_that_intervals_overlap(one: RunEnergy, other: RunEnergy) -> None:
    """Ties hold on one board in one scope only."""
    assert tie(one, other) == tie(other, one)
    if tie(one, other):
        assert one.joules is not None
        assert other.joules is not None
        assert one.scope == other.scope
        assert max(one.joules, other.joules) - min(one.joules, other.joules) <= (one.uncertainty_j or 0) + (
            other.uncertainty_j or 0
        )


@given(st.lists(ENERGIES, min_size=2, max_size=12), st.randoms())
def test_14_order_of_the_entries_does_not_matter(energies: list[RunEnergy], draws: Any) -> None:
    """A smaller energy never has a larger rank within its group, in whatever order they come."""
    order = list(range(len(energies)))
    draws.shuffle(order)
    places, shuffled = rank(energies), rank([energies[i] for i in order])
    for position, index in enumerate(order):
        assert (shuffled[position] is None) == (places[index] is None)
    for one, mine in zip(energies, places, strict=True):
        for other, theirs in zip(energies, places, strict=True):
            if mine and theirs and (mine.board, mine.scope) == (theirs.board, theirs.scope) and mine.rank < theirs.rank:
                assert (one.joules or 0) < (other.joules or 0)
