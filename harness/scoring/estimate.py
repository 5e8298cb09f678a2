"""Estimates of the time, energy and cost of a run to target: a pace times the samples that the reference needs. Pure.

The pace is that of the pace score (`harness.scoring.score`): a fixed part, and seconds per sample with the evaluations
in them. It holds for the system that it was measured on, so a price row of another machine needs a pace of its own.
Energy is the power that was measured with the pace, for as long as the run takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from harness.base import stats
from harness.base.values import int_of_digits, is_whole, positive_int, short_text
from harness.cost.money import EXACT, billed_seconds, cost_usd, rounded
from harness.cost.price_book import NoPrice, Price, PriceBook, Quote, is_accelerator
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import CLASSES
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import EnergySource, RunEnergy
from harness.energy.score import HALF_WIDTH, KNOWN
from harness.errors import InputError, UsageError
from harness.log.power_format import MeterClass
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


# What keeps an energy from being ranked, and its power from nothing: the interval has what is known of its errors.
_TOLERATED = {
    VoidReason.FEW_SAMPLES,
    VoidReason.ESTIMATED_SHARE,
    VoidReason.ACCURACY_POOR,
    VoidReason.ACCURACY_UNDECLARED,
    VoidReason.UNCERTAIN,
}
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Power:
    """What a system draws while it trains, all nodes together.

    u95_w: half width of the 95 % interval of its meters. meter_class: from A, calibrated, to E, a model. scope: what is
    metered. scatter: of the logarithm of mean_w in one more run, as in `stats.Estimate`; empty of a single measurement.
    """

    mean_w: float
    u95_w: float
    meter_class: MeterClass
    scope: str
    scatter: tuple[tuple[float, float], ...] = ()

    @property
    def errors(self) -> tuple[tuple[float, float], ...]:
        """Of the logarithm of mean_w, as in `stats.Estimate`."""
        return ((self.u95_w / HALF_WIDTH / self.mean_w) ** 2, KNOWN), *self.scatter

    @property
    def source(self) -> EnergySource:
        return "estimated" if self.meter_class == "E" else "measured"

    @property
    def words(self) -> str:
        """ "312.4 W (± 6.1 W), measured, class C, of gpu (board)"."""
        return f"{self.mean_w:,.1f} W (± {self.u95_w:,.1f} W), {self.source}, class {self.meter_class}, of {self.scope}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a system goes.

    sample_s: seconds per sample, evaluations included. fixed_s: opening the data. init_s: before the clock starts; None
        where it is not known.
    errors: of the logarithm of sample_s in one more run, as in `stats.Estimate`; empty: it is taken as exact.
    num_runs: behind it. system: where they ran; None for a pace that is given and not measured.
    power: what that system drew meanwhile; None where it is not known, and `no_power` says why.
    """

    sample_s: float
    fixed_s: float = 0.0
    init_s: float | None = None
    errors: tuple[tuple[float, float], ...] = ()
    num_runs: int = 0
    system: System | None = None
    power: Power | None = None
    no_power: str = "a throughput as given says nothing of power"


@dataclass(frozen=True, slots=True)
class Spread:
    """A value, and the range of 95 % of single runs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time, energy and cost of runs to target.

    samples, seconds: of one run, the samples as their geometric mean; those of the whole budget if `is_bound`.
    energy_j: of one run, at the power of the pace; None where that is not known.
    usd: (mean, low, high) of one run at the quoted price; None where there is no price, and `why_not` says why.
    usd_result: of the `num_runs` runs of a result, one after another on machines held all that time, initialisation
    included, billed as the price row says; None where that is not known. is_ranked: whether the price row may rank.
    """

    sku: str
    nodes: int
    pace: Pace
    samples: Spread
    seconds: Spread
    energy_j: Spread | None
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


def measured_power(energies: Sequence[RunEnergy | None], limits: EnergyLimits) -> Power | str:
    """The mean power of runs, or why it is not known."""
    known = [energy for energy in energies if energy is not None]
    if not known or len(known) < len(energies):
        return "not metered"
    faults = {reason for energy in known for reason in energy.void} - _TOLERATED
    if faults:
        return "; ".join(reason.words(limits) for reason in sorted(faults))
    if len({energy.scope for energy in known}) > 1:
        return VoidReason.SCOPE_MIXED.words(limits)
    watts = [energy.mean_w for energy in known if energy.mean_w]
    if len(watts) < len(known):
        return "the meters show no power"
    mean_w = math.fsum(watts) / len(watts)
    # One meter is wrong in one direction, so averaging over runs does not help.
    shares = [(energy.uncertainty_j or 0.0) / (energy.joules or 1.0) for energy in known]
    scatter: tuple[tuple[float, float], ...] = ()
    if len(known) > 1:
        variance = stats.variance([math.log(each) for each in watts])
        scatter = ((variance * (1 + 1 / len(known)), len(known) - 1),)
    weakest = max((energy.meter_class for energy in known), key=CLASSES.index)
    return Power(mean_w, mean_w * math.fsum(shares) / len(shares), weakest, known[0].scope, scatter)


def measured_pace(runs: Sequence[RunResult], system: System, limits: EnergyLimits | None = None) -> Pace:
    """The pace of the runs that reached their target. limits: the rules' of their energy.

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
    power = measured_power([run.energy for run in reached], limits or EnergyLimits())
    pace = Pace(sample_s, fixed_s, init_s, errors, len(reached), system)
    return replace(pace, no_power=power) if isinstance(power, str) else replace(pace, power=power, no_power="")


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
        errors: tuple[tuple[float, float], ...] = ()
    else:
        scatter = (reference.variance * (1 + reference.leverage), reference.num_runs - 1)
        samples = _spread(reference.samples, (scatter,))
        errors = (scatter, *pace.errors)
        trained_s = _spread(pace.sample_s * reference.samples, errors)
    shown = Estimate(
        sku=sku,
        nodes=nodes,
        pace=pace,
        samples=samples,
        seconds=_plus(pace.fixed_s, trained_s),
        energy_j=None if pace.power is None else _energy(pace.power, trained_s.mean, pace.fixed_s, errors),
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
    """What a run may take: seconds, US dollars, or joules."""

    amount: float
    unit: Literal["seconds", "usd", "joules"]

    @property
    def words(self) -> str:
        if self.unit == "joules":
            return f"{self.amount / JOULES_PER_KWH:g} kWh"
        return f"${self.amount:g}" if self.unit == "usd" else f"{self.amount:g} s"

    def permits(self, found: Estimate) -> bool:
        """Whether 95 % of runs are within it; of a bound, the bound itself.

        What has no price is within no money, and what has no energy is within no energy.
        """
        if self.unit == "usd":
            return found.usd is not None and found.usd[2] <= Decimal(repr(self.amount))
        if self.unit == "joules":
            return found.energy_j is not None and found.energy_j.high <= self.amount
        return found.seconds.high <= self.amount


def best(found: Sequence[Estimate], budget: Budget) -> int | None:
    """The place of the cheapest estimate within a time, or of the fastest within money or energy; None: none is.

    Within a time, of those without a price the fastest, if none has one.
    """
    within = [place for place, item in enumerate(found) if budget.permits(item)]
    priced = [place for place in within if found[place].usd is not None]

    def cost(place: int) -> tuple[Decimal, float]:
        usd = found[place].usd
        assert usd is not None
        return usd[0], found[place].seconds.mean

    if budget.unit == "seconds" and priced:
        return min(priced, key=cost)
    return min(within, key=lambda place: found[place].seconds.mean, default=None)


def _plus(fixed: float, spread: Spread) -> Spread:
    return Spread(fixed + spread.mean, fixed + spread.low, fixed + spread.high)


def _energy(power: Power, trained_s: float, fixed_s: float, errors: tuple[tuple[float, float], ...]) -> Spread:
    """Joules of a run, from errors of its time; those of a bound are none, and it has the meters' alone."""
    return _plus(power.mean_w * fixed_s, _spread(power.mean_w * trained_s, (*errors, *power.errors)))


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
