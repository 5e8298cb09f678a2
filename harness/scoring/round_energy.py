"""The energy of a result of an MLPerf round: by MLPerf's two formulas, and as `tta` integrates it. Pure.

All three are means over the runs that the score by time keeps, times the factor of its normalisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from harness.energy.from_logs import energy_of
from harness.energy.limits import EnergyLimits
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import RunEnergy
from harness.errors import LogError
from harness.log.run_log import RunLog
from harness.mlperf.model import Round
from harness.mlperf.power import Formula, run_joules
from harness.mlperf.score import RoundScore, run_window

_MAX_MS = (1 << 63) / 1e6


@dataclass(frozen=True, slots=True)
class RunJoules:
    """The energy of one run, in joules.

    published_j: by the program of May 2024; rule_j: by the sum in the text of the rule; drawn: by `tta`'s integral from
    `run_start` to `run_stop`. None where they cannot be computed, and `why_not` says why.
    """

    published_j: float | None = None
    rule_j: float | None = None
    drawn: RunEnergy | None = None
    why_not: str | None = None

    @property
    def drawn_j(self) -> float | None:
        return None if self.drawn is None else self.drawn.joules


@dataclass(frozen=True, slots=True)
class RoundEnergy:
    """The energy of a result, in joules: the means of its runs', see `RunJoules`.

    void: why the energies of its runs, the averaged ones and the others, could not be ranked under the rules of `tta`.
    runs: in the order of the score's.
    """

    published_j: float | None
    rule_j: float | None
    drawn_j: float | None
    void: tuple[VoidReason, ...]
    why_not: str | None
    runs: tuple[RunJoules, ...]


def round_energy(
    score: RoundScore, round_: Round, limits: EnergyLimits, num_nodes: int | None = None
) -> RoundEnergy | None:
    """Return the energy of the result with this score; None if none of its runs has power logs.

    num_nodes: how many nodes the system description names.
    """
    if not any(run.log.nodes for run in score.runs):
        return None
    runs = [joules_of(run.log, limits, num_nodes) for run in score.runs]
    benchmark = round_.benchmark(score.benchmark)
    if benchmark is None or score.raw_seconds is None:
        return RoundEnergy(None, None, None, _void(runs), score.why_not, tuple(runs))
    seconds = [run.seconds if run.complies else None for run in score.runs]
    return mean_energy(runs, seconds, benchmark.drop, score.factor)


def joules_of(log: RunLog, limits: EnergyLimits, num_nodes: int | None = None) -> RunJoules:
    """Return the energy of a run from its power logs."""
    drawn, window = energy_of(log, limits, num_nodes), run_window(log)
    why_not = None
    if drawn is None:
        why_not = "has no power logs"
    elif any(node.dialect == "tta" for node in log.nodes):
        why_not = "MLPerf's formulas need power logs with wall time"
    elif window is None or not all(0 <= event.time_ms < _MAX_MS for event in window):
        why_not = "has no run_start and run_stop between which time passes"
    if window is None or why_not is not None:
        return RunJoules(drawn=drawn, why_not=f"{log.path.name}: {why_not}")
    start_ns, stop_ns = (round(event.time_ms * 1_000_000) for event in window)
    try:
        published_j, rule_j = (run_joules(formula, log.nodes, start_ns, stop_ns) for formula in get_args(Formula))
    except LogError as error:
        return RunJoules(drawn=drawn, why_not=f"{log.path.name}: {error}")
    return RunJoules(published_j, rule_j, drawn)


def mean_energy(runs: Sequence[RunJoules], seconds: Sequence[float | None], drop: int, factor: float) -> RoundEnergy:
    """Return the means over the runs without the `drop` fastest and the `drop` slowest (None: failed), times `factor`.

    There are more than 2 x `drop` runs.
    """
    order = sorted(range(len(runs)), key=lambda index: math.inf if (s := seconds[index]) is None else s)
    kept = [runs[index] for index in order[drop : len(order) - drop]]

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) * factor if len(known) == len(values) else None

    return RoundEnergy(
        published_j=mean([run.published_j for run in kept]),
        rule_j=mean([run.rule_j for run in kept]),
        drawn_j=mean([run.drawn_j for run in kept]),
        void=_void(runs),
        why_not=next((run.why_not for run in kept if run.why_not is not None), None),
        runs=tuple(runs),
    )


def _void(runs: Sequence[RunJoules]) -> tuple[VoidReason, ...]:
    return tuple(sorted({reason for run in runs if run.drawn is not None for reason in run.drawn.void}))
