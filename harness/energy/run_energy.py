"""The energy of a run, as a value: joules, how well they are known, and why they may not rank. Pure.

What no meter measured has no energy: None, never 0. A run that costs nothing would win every ranking by it.

An energy is void, that is, shown and never ranked, for these reasons (`RunEnergy.void`), each with a name of its own:

    no_energy            nothing was metered or modelled
    node_missing         a node of the run has no power log, or none of its meters gives joules
    node_extra           a power log is of no node of the run
    counted_twice        one device or one machine's meter stands in two logs; it is added once
    same_trace           two logs have the very same readings; they are added as they stand
    scope_mixed          the nodes are not all metered at the same places
    coverage             the readings of a meter do not cover 98 % of the run
    gap                  a meter gave nothing for more than 2 s
    few_samples          a meter gave fewer than 60 readings within the run
    time_backwards       the times of a meter's readings go back
    counter_reset        a counter began anew within the run
    double_wrap          between two readings a counter may have wrapped once more than it shows
    accuracy_undeclared  an external meter (class A) that does not say how accurate it is
    accuracy_poor        a meter is less accurate than the 5 % that MLPerf demands
    uncertain            the half width is more than 10 % of the joules: so wide an interval would tie with everybody's
    clocks_apart         a node's clock is more than 0.8 s from the referee's after correction
    clock_unknown        of several nodes, one logs no clock offset
    estimated_share      more than 10 % of the joules are modelled
    unplaced             the run's log has no run_start, run_stop or clock by which to lay the power logs over the run
    other_run            a power log bears the identity of another run, or none
    other_time           the readings of a power log were not taken while the run went on
    of_nobody            a power log is neither the referee's nor one that a person brought
    unmetered            of several runs that are averaged, one was not metered
    devices_missing      of the accelerators that are described, some were metered and some not

and these are told (`RunEnergy.flags`) and void nothing: disagree, fallback, parts_exceed_whole (see
`harness.energy.meter_selection`), slow_sampling (a median step of more than 1 s), clock_offset (over 0.2 s after
correction), clock_unknown, failed_reads, duplicates, held_edges (a meter began late or ended early), accuracy_assumed.

Source: MLPerf training rules, power measurement, for what is to be metered and how often; the limits of coverage, gap
and clocks are ours, and PTDaemon's flow has the same 0.8 s between the clocks of its two sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every ruleset has EnergyLimits
    from harness.energy.energyreading import EnergySource
    from harness.energy.integral import MeterIntegral
    from harness.log.power_format import Component, MeterClass, Scope

METHOD = "tta-1"  # a number that the same logs give differently gets another name


@dataclass(frozen=True, slots=True)
class EnergyLimits:
    """What the rules ask of a measurement; each is the worst value that is still permitted.

    told_clock_error_s, told_step_s: beyond these it is told, and voids nothing. node_classes, component_classes: the
    classes of meters that are ranked, each among its own.
    """

    min_coverage: float = 0.98
    max_gap_s: float = 2.0
    min_samples: int = 60
    max_clock_error_s: float = 0.8
    max_estimated_share: float = 0.10
    max_accuracy_pct: float = 5.0
    max_uncertainty_share: float = 0.10
    told_clock_error_s: float = 0.2
    told_step_s: float = 1.0
    node_classes: tuple[str, ...] = ("A", "B")
    component_classes: tuple[str, ...] = ("C", "D")


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """What one meter adds to the run. integral: None for what MLPerf's logs estimate as a constant power."""

    node: str
    meter: str
    component: Component
    scope: Scope
    meter_class: MeterClass
    joules: float | None
    uncertainty_j: float | None
    integral: MeterIntegral | None


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """The energy of one run, and how well it is known.

    joules: of all nodes from `run_start` to `run_stop`; None only where it cannot be computed. A void energy may well
        have joules: ask `may_rank`. uncertainty_j: half width of the 95 % interval; meters of one kind are wrong
        together, so their accuracies add up, and everything else adds in squares. mean_w: of all nodes together.
    meter_class: the weakest that contributes, but that a modelled share of up to 10 % does not count: beyond, it is E.
    scope: what was metered where, the same on every node, without switches; only equal scopes can be compared.
    share_estimated: of the joules, 0 to 1. coverage, longest_gap_s, num_samples: of the worst of its meters.
    clock_error_s: the worst of the nodes' clocks, after correction.
    right_riemann_j: MLPerf's sum over the same meters; None where one of them is a counter.
    parts: what was added. excluded: (node, meter, why) of what was not.
    """

    joules: float | None
    uncertainty_j: float | None
    mean_w: float | None
    meter_class: MeterClass
    scope: str
    share_estimated: float
    coverage: float
    longest_gap_s: float
    num_samples: int
    num_nodes: int
    num_wraps: int = 0
    num_resets: int = 0
    num_failed: int = 0
    clock_error_s: float = 0.0
    right_riemann_j: float | None = None
    void: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    parts: tuple[EnergyPart, ...] = field(default=(), repr=False)
    excluded: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    method: str = METHOD

    @property
    def may_rank(self) -> bool:
        """Whether it may stand in a ranking at all: measured, and void for no reason."""
        return self.joules is not None and not self.void and self.meter_class not in ("E", "N")

    @property
    def source(self) -> EnergySource:
        if self.joules is None:
            return "none"
        return "estimated" if self.meter_class == "E" else "measured"
