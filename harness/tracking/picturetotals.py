"""Totals of a run that its log does not hold: what the power logs come to, and what the run cost. Pure."""

from __future__ import annotations

from decimal import Decimal

from harness.cost.price_book import Cost
from harness.energy.run_energy import RunEnergy
from harness.tracking.record import ENERGY, RunPicture

COST_LIST, COST_BILLED = "result/cost_list", "result/cost_billed"


def add_energy(picture: RunPicture, energy: RunEnergy) -> None:
    """Adds what the power logs come to; joules that are not known are absent."""
    picture.total(ENERGY, energy.joules)
    picture.total("result/energy_u95_j", energy.uncertainty_j)
    picture.total("result/power_mean_w", energy.mean_w)
    picture.total("result/coverage", energy.coverage)
    picture.total("result/est_share", energy.share_estimated)
    picture.tag("energy.class", energy.meter_class)
    picture.tag("energy.scope", energy.scope)
    picture.tag("energy.void", ", ".join(energy.void))


def add_cost(picture: RunPicture, cost: Cost) -> None:
    """Adds what the run cost at list price, and by which price of which book."""
    if picture.total(COST_LIST, float(cost.usd)):
        picture.tag("price", f"{cost.price_id} as of {cost.as_of or 'an unknown day'}")
        picture.tag("price_book", cost.price_digest)


def add_billed(picture: RunPicture, usd: Decimal | None) -> None:
    """Adds what the whole result is declared to have taken, at list prices; the same on each of its runs."""
    picture.total(COST_BILLED, None if usd is None else float(usd))
