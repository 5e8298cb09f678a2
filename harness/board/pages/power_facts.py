"""The power logs of one run as the pages show them: meters, components, reasons, and the power over time."""

from __future__ import annotations

from dataclasses import dataclass

from harness.board.pages.energy_words import COMPONENT_WORDS
from harness.board.pages.power_trace import PowerTrace, power_trace
from harness.energy.limits import EnergyLimits
from harness.energy.run_energy import RunEnergy
from harness.log.power_format import MeterSpec
from harness.log.run_log import RunLog


@dataclass(frozen=True, slots=True)
class MeterFact:
    """One meter of one node. Texts of the spec are as logged: untrusted.

    joules, uncertainty_j, coverage, longest_gap_s, num_samples: of the run; None where the meter was not counted, and
    `why_not` says why. spec: None for what MLPerf's logs estimate.
    """

    node: str
    host: str | None
    meter: str
    spec: MeterSpec | None
    joules: float | None = None
    uncertainty_j: float | None = None
    coverage: float | None = None
    longest_gap_s: float | None = None
    num_samples: int | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class RunPower:
    """One run's energy and what it is the sum of. by_component: words, joules, half width of the interval."""

    log: str
    energy: RunEnergy
    trace: PowerTrace | None
    idle_w: float | None
    meters: tuple[MeterFact, ...]
    by_component: tuple[tuple[str, float | None, float | None], ...]


def run_power(log: RunLog, energy: RunEnergy, idle_w: float | None, limits: EnergyLimits) -> RunPower:
    """The facts behind the energy of a run."""
    return RunPower(
        log=log.path.name,
        energy=energy,
        trace=power_trace(log, energy, limits.max_gap_s),
        idle_w=idle_w,
        meters=tuple(_meters(log, energy)),
        by_component=tuple(_by_component(energy)),
    )


def _meters(log: RunLog, energy: RunEnergy) -> list[MeterFact]:
    nodes = {node.node: node for node in log.nodes}
    found = []
    for part in energy.parts:
        node = nodes.get(part.node)
        integral = part.integral
        found.append(
            MeterFact(
                node=part.node,
                host=None if node is None else node.host,
                meter=part.meter,
                spec=None if node is None else node.specs.get(part.meter),
                joules=part.joules,
                uncertainty_j=part.uncertainty_j,
                coverage=None if integral is None else integral.coverage,
                longest_gap_s=None if integral is None else integral.longest_gap_s,
                num_samples=None if integral is None else integral.num_samples,
                why_not=None if part.joules is not None else "its energy is not known",
            )
        )
    for name, meter, why in energy.excluded:
        node = nodes.get(name)
        spec = None if node is None else node.specs.get(meter)
        found.append(MeterFact(name, None if node is None else node.host, meter, spec, why_not=why))
    return found


def _by_component(energy: RunEnergy) -> list[tuple[str, float | None, float | None]]:
    """By component; the uncertainties of one kind add up, as in the run's. Unknown if one part is."""
    found: dict[str, tuple[float | None, float | None]] = {}
    for part in energy.parts:
        joules, half_j = found.get(part.component, (0.0, 0.0))
        found[part.component] = (
            None if joules is None or part.joules is None else joules + part.joules,
            None if half_j is None or part.uncertainty_j is None else half_j + part.uncertainty_j,
        )
    return [(COMPONENT_WORDS.get(name, name), *values) for name, values in found.items()]
