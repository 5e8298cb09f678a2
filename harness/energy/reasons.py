"""Why an energy is void, and what is flagged about it without voiding it: names, words, and the check of each.

A void energy is shown and never ranked. The values of both enumerations are the names in logs, JSON and CSV.
"""

from __future__ import annotations

from enum import StrEnum

from harness.energy.limits import EnergyLimits


class _Reason(StrEnum):
    """A name with the code of the check that reports it, and its words as a format string over the limits."""

    code: str
    _template: str

    def __new__(cls, value: str, code: str, template: str) -> _Reason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.code = code
        member._template = template
        return member

    def words(self, limits: EnergyLimits) -> str:
        """The reason as a clause, with the limits of the rules."""
        return self._template.format(
            limits=limits,
            coverage_pct=100 * limits.min_coverage,
            uncertainty_pct=100 * limits.max_uncertainty_share,
            estimated_pct=100 * limits.max_estimated_share,
        )


class VoidReason(_Reason):
    """Why an energy is void."""

    NO_ENERGY = "no_energy", "PWR020", "no meter or model gave any energy"
    NODE_MISSING = "node_missing", "PWR008", "a node of the run has no power log, or its meters give no joules"
    NODE_EXTRA = "node_extra", "PWR008", "a power log does not belong to any node of the run"
    COUNTED_TWICE = "counted_twice", "PWR009", "one meter is in two power logs; it was added once"
    SAME_TRACE = "same_trace", "PWR009", "two power logs have identical readings; both were added"
    SCOPE_MIXED = "scope_mixed", "PWR008", "the nodes or runs were not all metered in the same places"
    COVERAGE = "coverage", "PWR004", "a meter's readings cover less than {coverage_pct:g} % of a run"
    GAP = "gap", "PWR005", "a meter gave no reading for more than {limits.max_gap_s:g} s"
    FEW_SAMPLES = (
        "few_samples",
        "PWR006",
        "a meter of power gave fewer than {limits.min_samples} readings in a run",
    )
    TIME_BACKWARDS = "time_backwards", "PWR013", "the times of a meter's readings go backwards"
    COUNTER_RESET = "counter_reset", "PWR012", "a counter was reset during a run"
    DOUBLE_WRAP = "double_wrap", "PWR012", "between two readings a counter may have wrapped once more than it shows"
    ACCURACY_UNDECLARED = "accuracy_undeclared", "PWR010", "an external meter (class A) does not declare its accuracy"
    ACCURACY_POOR = "accuracy_poor", "PWR010", "a meter is less accurate than {limits.max_accuracy_pct:g} %"
    # An interval this wide would tie with every other result's.
    UNCERTAIN = "uncertain", "PWR010", "the 95 % interval is wider than ± {uncertainty_pct:g} % of the energy"
    CLOCKS_APART = (
        "clocks_apart",
        "PWR007",
        "a node's clock is more than {limits.max_clock_error_s:g} s from the referee's after correction",
    )
    CLOCK_UNKNOWN = "clock_unknown", "PWR007", "one of several nodes logs no clock offset"
    ESTIMATED_SHARE = "estimated_share", "PWR011", "more than {estimated_pct:g} % of the energy is modelled"
    UNPLACED = (
        "unplaced",
        "PWR020",
        "the run's log has no run_start, run_stop or clock that aligns the power logs with the run",
    )
    OTHER_RUN = "other_run", "PWR016", "a power log names another run, or none"
    OUTSIDE_RUN = "other_time", "PWR023", "the readings of a power log were not taken during the run"
    UNATTRIBUTED = "of_nobody", "PWR024", "a power log was neither written by the referee nor imported"
    UNMETERED = "unmetered", "PWR020", "one of the averaged runs was not metered"
    DEVICES_MISSING = "devices_missing", "PWR022", "only some of the described accelerators were metered"


class EnergyFlag(_Reason):
    """What is reported about an energy and does not void it."""

    DISAGREE = "disagree", "PWR018", "two meters of one device differ by more than 10 %"
    FALLBACK = "fallback", "PWR018", "the better meter of a device or node gave no joules; another was used"
    PARTS_EXCEED_WHOLE = "parts_exceed_whole", "PWR018", "the components of a node drew more than the node"
    SLOW_SAMPLING = (
        "slow_sampling",
        "PWR015",
        "a meter of power was read less often than every {limits.told_step_s:g} s",
    )
    FAILED_READS = "failed_reads", "PWR021", "some reads of a meter failed"
    DUPLICATES = "duplicates", "PWR021", "readings with the time of the one before were left out"
    HELD_EDGES = "held_edges", "PWR021", "a meter began late or ended early; its nearest power was held"
    ACCURACY_ASSUMED = (
        "accuracy_assumed",
        "PWR021",
        "a meter does not declare its accuracy; 5 % is assumed, 40 % for a model",
    )
    CLOCK_OFFSET = (
        "clock_offset",
        "PWR021",
        "a node's clock is more than {limits.told_clock_error_s:g} s from the referee's after correction",
    )
    CLOCK_UNKNOWN = "clock_unknown", "PWR021", "no clock offset is logged"
