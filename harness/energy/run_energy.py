"""The energy of one run as a value: joules, how well they are known, and why they may not rank. Pure.

What no meter measured has no energy: None, never 0. A run that costs nothing would win every ranking by energy.
`harness.energy.reasons` has the reasons that void an energy and the flags that do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.energy.integral import MeterIntegral
from harness.energy.reasons import EnergyFlag, VoidReason
from harness.log.power_format import Component, MeterClass, Scope

EnergySource = Literal["measured", "estimated", "none"]

METHOD = "tta-2"  # a method that gives another number for the same logs gets another name


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """What one meter adds to the run. integral: None for the constant power that MLPerf's logs estimate."""

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

    joules: of all nodes from `run_start` to `run_stop`; None only if they cannot be computed. A void energy may have
        joules: use `may_rank`. uncertainty_j: half width of the 95 % interval; meters of one kind are wrong in the same
        direction, so their accuracies add up, and everything else adds in squares. mean_w: of all nodes together.
    meter_class: the weakest that contributes. A modelled share of up to 10 % does not count; beyond that, it is E.
    scope: what was metered where, the same on every node, without switches; only equal scopes can be compared.
    share_estimated: of the joules, 0 to 1. coverage, longest_gap_s, num_samples: of the worst of its meters.
    clock_error_s: the worst of the nodes' clocks, after correction.
    right_riemann_j: MLPerf's sum over the same meters; None if one of them is a counter.
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
    void: tuple[VoidReason, ...] = ()
    flags: tuple[EnergyFlag, ...] = ()
    parts: tuple[EnergyPart, ...] = field(default=(), repr=False)
    excluded: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    method: str = METHOD

    @property
    def may_rank(self) -> bool:
        """Whether it may be ranked at all: measured, and not void."""
        return self.joules is not None and not self.void and self.meter_class not in ("E", "N")

    @property
    def source(self) -> EnergySource:
        if self.joules is None:
            return "none"
        return "estimated" if self.meter_class == "E" else "measured"


def energy_value(energy: RunEnergy | None) -> dict[str, Any]:
    """The value of the log's `tta_energy`: the referee's sum, for readers who have only the run's log.

        {"energy_j": x | null, "source": "measured" | "estimated" | "none", "class": "A" to "E" | "N", "scope": text,
         "u95_j": x | null, "coverage": 0 to 1 | null, "void": [names], "meters": [names], "method": "tta-2"}

    energy_j is null if and only if the source is none. u95_j: half width of the 95 % interval. meters: the meters whose
    joules were added, each once however many nodes have it. Checks and scores do not read this value; they add up the
    power logs again.

    energy: None if the run was not metered, or its clock never ran.
    """
    if energy is None:
        return {
            "energy_j": None,
            "source": "none",
            "class": "N",
            "scope": "none",
            "u95_j": None,
            "coverage": None,
            "void": [],
            "meters": [],
            "method": METHOD,
        }
    is_known = energy.joules is not None
    return {
        "energy_j": energy.joules,
        "source": energy.source,
        "class": energy.meter_class if is_known else "N",
        "scope": energy.scope,
        "u95_j": energy.uncertainty_j,
        "coverage": energy.coverage if energy.parts else None,
        "void": [reason.value for reason in energy.void],
        "meters": sorted({part.meter for part in energy.parts if part.joules is not None}),
        "method": energy.method,
    }
