"""Estimates of the time and cost of a run to target: a pace times the samples that the reference needs. Pure.

The pace is that of the pace score (`harness.scoring.score`): a fixed part, and seconds per sample with the evaluations
in them. It holds for the system that it was measured on, so a price row of another machine needs a pace of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from harness.base import stats
from harness.base.values import int_of_digits, is_whole, positive_int, short_text
from harness.cost.money import EXACT, billed_seconds, cost_usd, rounded
from harness.cost.price_book import NoPrice, Price, PriceBook, Quote, is_accelerator
from harness.errors import InputError, UsageError
from harness.ruleset.model import BenchmarkRules
from harness.scoring.convergence import Reference, reference_at
from harness.scoring.run_result import RunResult
from harness.scoring.score import mean_pace
from harness.submission.system import NONE, UNKNOWN


@dataclass(frozen=True, slots=True)
class System:
    """The system that a pace was measured on, by its description; None: not stated, or none."""

    name: str | None = None
    nodes: int | None = None
    accelerators_per_node: int | None = None
    accelerator: str | None = None
    processor: str | None = None

    @property
    def words(self) -> str:
        """ "two-core-cloud-vm (1 node, AMD EPYC, no accelerators)"."""
        nodes = "? nodes" if self.nodes is None else f"{self.nodes} node{'s' * (self.nodes > 1)}"
        return f"{self.name or 'a system without a description'} ({nodes}, {self.processor or '?'}, {self.devices})"

    @property
    def devices(self) -> str:
        """The accelerators of a node."""
        if self.accelerators_per_node == 0:
            return "no accelerators"
        count = "?" if self.accelerators_per_node is None else str(self.accelerators_per_node)
        return f"{count} x {self.accelerator or 'unknown accelerator'} per node"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a system goes.

    sample_s: seconds per sample, evaluations included. fixed_s: opening the data. init_s: before the clock starts; None
        where it is not known.
    errors: of the logarithm of sample_s in one more run, as in `stats.Estimate`; empty: it is taken as exact.
    num_runs: behind it. system: where they ran; None for a pace that is given and not measured.
    """

    sample_s: float
    fixed_s: float = 0.0
    init_s: float | None = None
    errors: tuple[tuple[float, float], ...] = ()
    num_runs: int = 0
    system: System | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A value, and the range of 95 % of single runs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time and cost of runs to target.

    samples, seconds: of one run, the samples as their geometric mean; those of the whole budget if `is_bound`.
    usd: (mean, low, high) of one run at the quoted price; None where there is no price, and `why_not` says why.
    usd_result: of the `num_runs` runs of a result, one after another on machines held all that time, initialisation
    included, billed as the price row says; None where that is not known. is_ranked: whether the price row may rank.
    """

    sku: str
    nodes: int
    pace: Pace
    samples: Spread
    seconds: Spread
    usd_per_hour: Decimal | None
    usd: tuple[Decimal, Decimal, Decimal] | None
    usd_result: Decimal | None
    is_ranked: bool
    as_of: str | None
    is_bound: bool = False
    why_not: str | None = None


def reference_samples(rules: BenchmarkRules, batch_size: int) -> Reference | None:
    """The reference at that batch size, interpolated between two of its own; None where the rules have no point at all.

    Raises:
        UsageError: there are others, and none at that batch size.
    """
    if not rules.reference_convergence:
        return None
    found = reference_at(rules.reference_convergence, batch_size)
    if isinstance(found, str):
        raise UsageError(f"{rules.name}: {found}, so the samples to target are not known")
    return found


def measured_pace(runs: Sequence[RunResult], system: System) -> Pace:
    """The pace of the runs that reached their target.

    Raises:
        InputError: none did.
    """
    reached = [run for run in runs if run.seconds is not None and run.pace_s is not None]
    if not reached:
        raise InputError("no run reached its target, so the pace is not known")
    fixed_s, sample_s = mean_pace(reached)
    inits = [run.ledger["init"] for run in reached if "init" in run.ledger]
    errors: tuple[tuple[float, float], ...] = ()
    if len(reached) > 1:
        scatter = stats.variance([math.log(run.pace_s or 0.0) for run in reached])
        errors = ((scatter * (1 + 1 / len(reached)), len(reached) - 1),)
    init_s = math.fsum(inits) / len(inits) if inits else None
    return Pace(sample_s, fixed_s, init_s, errors, len(reached), system)


def described_system(description: Mapping[str, Any] | None) -> System:
    """The system of a description in MLPerf's format."""

    def text(name: str) -> str | None:
        found = short_text((description or {}).get(name))
        return None if found in (None, NONE, UNKNOWN) else found

    count = (description or {}).get("accelerators_per_node")
    number = int_of_digits(count) if isinstance(count, str) else count
    return System(
        name=text("system_name"),
        nodes=positive_int((description or {}).get("number_of_nodes")),
        accelerators_per_node=number if is_whole(number) and number >= 0 else None,
        accelerator=text("accelerator_model_name"),
        processor=text("host_processor_model_name"),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The machines of a price row and the measured system. difference: in words; None where nothing known differs.

    is_complete: whether both state their accelerators, so that there is no other difference in them.
    """

    difference: str | None
    is_complete: bool


def compare(system: System, price: Price, nodes: int, gpus_per_node: int | None) -> Comparison:
    """How `nodes` machines of a price row compare with the measured system: accelerators, and number of nodes."""
    name = system.name or "the measured system"
    number = gpus_per_node or 1 if price.unit == "gpu-h" else price.num_accelerators
    own = system.accelerators_per_node
    are_counted, are_named = None not in (number, own), None not in (price.accelerator, system.accelerator)
    difference = None
    if are_counted and number != own:
        kind = f" ({price.accelerator})" if price.accelerator else ""
        difference = f"its accelerators per node are {number}{kind}, those of {name} {own}"
    elif price.accelerator and system.accelerator and not is_accelerator(price.accelerator, system.accelerator):
        difference = f"it has {price.accelerator}, and {name} has {system.accelerator}"
    elif system.nodes is not None and system.nodes != nodes:
        difference = f"{nodes} nodes of it are asked for, and {name} has {system.nodes}"
    return Comparison(difference, are_counted and (own == 0 or are_named))


def estimate(
    rules: BenchmarkRules,
    reference: Reference | None,
    pace: Pace,
    book: PriceBook,
    sku: str,
    nodes: int = 1,
    gpus_per_node: int | None = None,
) -> Estimate:
    """The estimate for runs with the reference's samples at that pace on `nodes` nodes of the price row `sku`.

    Without a reference a run may take all of the budget, and takes no more.
    """
    if reference is None:
        samples = Spread(*[float(rules.max_samples)] * 3)
        trained_s = Spread(*[min(pace.sample_s * rules.max_samples, max(0.0, rules.max_seconds - pace.fixed_s))] * 3)
    else:
        scatter = (reference.variance * (1 + reference.leverage), reference.num_runs - 1)
        samples = _spread(reference.samples, (scatter,))
        trained_s = _spread(pace.sample_s * reference.samples, (scatter, *pace.errors))
    shown = Estimate(
        sku=sku,
        nodes=nodes,
        pace=pace,
        samples=samples,
        seconds=Spread(*(pace.fixed_s + part for part in (trained_s.mean, trained_s.low, trained_s.high))),
        usd_per_hour=None,
        usd=None,
        usd_result=None,
        is_ranked=False,
        as_of=None,
        is_bound=reference is None,
    )
    quote = book.quote(sku, gpus_per_node, is_ranked=False)
    return _priced(shown, book, quote, rules.num_runs, gpus_per_node)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may take: seconds, or US dollars."""

    amount: float
    is_money: bool

    @property
    def words(self) -> str:
        return f"${self.amount:g}" if self.is_money else f"{self.amount:g} s"

    def permits(self, found: Estimate) -> bool:
        """Whether 95 % of runs are within it; of a bound, the bound itself. What has no price is within no money."""
        if self.is_money:
            return found.usd is not None and found.usd[2] <= Decimal(repr(self.amount))
        return found.seconds.high <= self.amount


def best(found: Sequence[Estimate], budget: Budget) -> int | None:
    """The place of the cheapest estimate within a time, or of the fastest within an amount of money; None: none is.

    Within a time, of those without a price the fastest, if none has one.
    """
    within = [place for place, item in enumerate(found) if budget.permits(item)]
    priced = [place for place in within if found[place].usd is not None]

    def cost(place: int) -> tuple[Decimal, float]:
        usd = found[place].usd
        assert usd is not None
        return usd[0], found[place].seconds.mean

    if not budget.is_money and priced:
        return min(priced, key=cost)
    return min(within, key=lambda place: found[place].seconds.mean, default=None)


def _spread(value: float, errors: tuple[tuple[float, float], ...]) -> Spread:
    interval = stats.Estimate(value, errors).interval()
    assert interval is not None  # it is known how the seeds scatter
    return Spread(value, *interval)


def _priced(
    shown: Estimate, book: PriceBook, quote: Quote | NoPrice, num_runs: int, gpus_per_node: int | None
) -> Estimate:
    if isinstance(quote, NoPrice):
        return replace(shown, why_not=quote.why)
    hourly = EXACT.multiply(quote.usd_per_hour, Decimal(shown.nodes))
    time, dates = shown.seconds, [part.as_of for part in quote.parts]
    ranked = book.quote(shown.sku, gpus_per_node)
    return replace(
        shown,
        usd_per_hour=hourly,
        usd=(cost_usd(time.mean, hourly), cost_usd(time.low, hourly), cost_usd(time.high, hourly)),
        usd_result=_usd_of_result(shown, quote, num_runs),
        is_ranked=isinstance(ranked, Quote) and ranked.listed is ranked.row,
        as_of=min((day for day in dates if day), default=None) if all(dates) else None,
    )


def _usd_of_result(shown: Estimate, quote: Quote, num_runs: int) -> Decimal | None:
    row, init_s = quote.listed, shown.pace.init_s
    if row.granularity_s is None or row.minimum_s is None or init_s is None:
        return None
    held_s = billed_seconds(Decimal(str(num_runs * (shown.seconds.mean + init_s))), row.granularity_s, row.minimum_s)
    hourly = EXACT.multiply(quote.usd_per_hour, Decimal(shown.nodes))
    return rounded(EXACT.divide(EXACT.multiply(held_s, hourly), Decimal(3600)))
