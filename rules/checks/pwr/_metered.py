"""Shared by the checks of this family: the metered runs of a result, and the worst of their meters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.energy.from_logs import energy_of
from harness.energy.integral import MeterIntegral
from harness.energy.reasons import EnergyFlag, VoidReason
from harness.energy.run_energy import EnergyPart, RunEnergy
from harness.log.power_format import NodePower
from harness.log.run_log import RunLog
from harness.ruleset.model import RuleSet
from harness.submission.result import Result

NOT_RANKED = "its energy is not ranked"


@dataclass(frozen=True, slots=True)
class Metered:
    """A run with power logs, and its energy."""

    log: RunLog
    energy: RunEnergy

    def node(self, name: str) -> NodePower:
        """The power log of that name; the first if there is none."""
        return next((node for node in self.log.nodes if node.node == name), self.log.nodes[0])

    def path(self, name: str | None = None) -> str:
        """The path of a node's power log; without a name, that of the folder."""
        return str(self.log.nodes[0].path.parent if name is None else self.node(name).path)


@dataclass(frozen=True, slots=True)
class Worst:
    """The meter with the largest value, and how many others are over the limit too."""

    part: EnergyPart
    value: float
    num_others: int

    @property
    def more(self) -> str:
        """How many others, as the end of a clause; empty if there are none."""
        return f" (and {self.num_others} more meters)" if self.num_others else ""


def metered(result: Result, ruleset: RuleSet) -> Iterator[Metered]:
    """The runs of a result that have power logs."""
    for log in result.runs:
        energy = energy_of(log, ruleset.energy, result.num_nodes)
        if energy is not None:
            yield Metered(log, energy)


def voided(result: Result, ruleset: RuleSet, *reasons: VoidReason) -> Iterator[Metered]:
    """The runs whose energy is void for one of `reasons`."""
    return (run for run in metered(result, ruleset) if set(reasons) & set(run.energy.void))


def flagged(result: Result, ruleset: RuleSet, *flags: EnergyFlag) -> Iterator[Metered]:
    """The runs whose energy has one of `flags`."""
    return (run for run in metered(result, ruleset) if set(flags) & set(run.energy.flags))


def worst(energy: RunEnergy, value: Callable[[MeterIntegral], float], *, over: float) -> Worst | None:
    """The meter whose value is farthest over `over`; None if none is."""
    parts = [(value(part.integral), part) for part in energy.parts if part.integral is not None]
    beyond = [item for item in parts if item[0] > over]
    if not beyond:
        return None
    largest, part = max(beyond, key=lambda item: item[0])
    return Worst(part, largest, len(beyond) - 1)
