"""What a ruleset requires of a measurement of energy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnergyLimits:
    """The `energy` block of a ruleset. Each limit is the worst value that is still permitted.

    max_gap_s, min_samples, told_step_s: of readings of power. A counter needs two, which bracket the run; for it, a gap
        is an edge of the run that no reading is beyond.
    told_clock_error_s, told_step_s: beyond these a measurement is flagged, not void. node_classes, component_classes:
        the meter classes that are ranked, each in its own table.

    Source: MLPerf's power measurement rules for how often to read and how accurate a meter must be. The limits on
    coverage, gaps and clocks are `tta`'s; PTDaemon's flow also allows 0.8 s between the clocks of its two sides.
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
