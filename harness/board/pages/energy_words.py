"""Classes, components and void reasons of an energy in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.findings import Rule
from harness.ruleset.model import RuleSet

CLASS_WORDS = {
    "A": "external calibrated meter",
    "B": "the node's own sensor",
    "C": "component energy counter",
    "D": "component power, sampled",
    "E": "modelled",
    "N": "not measured",
}
COMPONENT_WORDS = {
    "node": "whole node",
    "pdu": "outlet",
    "gpu": "accelerator",
    "cpu_package": "processor package",
    "dram": "memory",
    "switch": "switch",
    "cooling": "cooling",
    "psys": "platform",
    "core": "cores",
    "uncore": "uncore",
    "total": "all together",
}
SCOPE_WORDS = {
    "ac": "AC, at the wall",
    "dc": "DC side of the supply",
    "module": "module",
    "board": "board",
    "package": "package",
    "model": "modelled",
    "unstated": "side not stated",
}
BOARD_WORDS = {
    "node": "Whole nodes, metered at the wall or by the node",
    "component": "Processors, memory and accelerators, metered by themselves",
}
FLAG_WORDS = {
    "disagree": "a counter and the sampled power of one device disagree",
    "fallback": "a counter did not move; its sampled power was taken",
    "parts_exceed_whole": "the components draw more than the node's own meter says",
    "slow_sampling": "a meter was read less than once a second",
    "clock_offset": "a node's clock is over 0.2 s from the referee's after correction",
    "clock_unknown": "no clock offset is logged",
    "failed_reads": "some reads failed",
    "duplicates": "readings with the time of the one before were left out",
    "held_edges": "a meter began late or ended early; its nearest power was held",
    "accuracy_assumed": "a meter does not declare its accuracy; 5 % is assumed",
}
VOID_CODES = {
    "coverage": "PWR004",
    "gap": "PWR005",
    "few_samples": "PWR006",
    "clocks_apart": "PWR007",
    "clock_unknown": "PWR007",
    "node_missing": "PWR008",
    "node_extra": "PWR008",
    "scope_mixed": "PWR008",
    "counted_twice": "PWR009",
    "same_trace": "PWR009",
    "accuracy_undeclared": "PWR010",
    "accuracy_poor": "PWR010",
    "uncertain": "PWR010",
    "estimated_share": "PWR011",
    "counter_reset": "PWR012",
    "double_wrap": "PWR012",
    "time_backwards": "PWR013",
    "other_run": "PWR016",
    "devices_missing": "PWR022",
    "other_time": "PWR023",
    "of_nobody": "PWR024",
    "no_energy": "PWR020",
    "unplaced": "PWR020",
    "unmetered": "PWR020",
}


def void_words(ruleset: RuleSet) -> dict[str, str]:
    """Why an energy is not ranked, by the name of the reason, with the limits of the rules."""
    limits = ruleset.energy
    return {
        "no_energy": "nothing was metered or modelled",
        "node_missing": "a node has no power log, or its meters give no joules",
        "node_extra": "a power log is of no node of the run",
        "counted_twice": "one meter stands in two logs; it was added once",
        "same_trace": "two logs have the very same readings",
        "scope_mixed": "the nodes or runs are not all metered at the same places",
        "coverage": f"the readings cover less than {100 * limits.min_coverage:g} % of a run",
        "gap": f"a meter gave nothing for more than {limits.max_gap_s:g} s",
        "few_samples": f"a meter gave fewer than {limits.min_samples} readings in a run",
        "time_backwards": "the times of a meter's readings go back",
        "counter_reset": "a counter began anew within a run",
        "double_wrap": "a counter may have wrapped once more than it shows",
        "accuracy_undeclared": "an external meter does not declare its accuracy",
        "accuracy_poor": f"a meter is less accurate than {limits.max_accuracy_pct:g} %",
        "uncertain": f"the 95 % interval is wider than ± {100 * limits.max_uncertainty_share:g} % of the joules",
        "clocks_apart": f"a node's clock is more than {limits.max_clock_error_s:g} s from the referee's",
        "clock_unknown": "of several nodes, one logs no clock offset",
        "estimated_share": f"more than {100 * limits.max_estimated_share:g} % of the joules are modelled",
        "unplaced": "the log does not say where on the clock of the power logs the run lies",
        "other_run": "a power log is of another run",
        "other_time": "the readings of a power log were not taken while the run went on",
        "of_nobody": "a power log is neither the referee's nor one that a person brought",
        "devices_missing": "of the accelerators that are described, some were metered and some not",
        "unmetered": "one of the runs that are averaged was not metered",
    }


def said(name: str, words: Mapping[str, str]) -> str:
    """The words for a name, or the name itself made readable."""
    return words.get(name, name.replace("_", " "))


def code_of(name: str, rules: Mapping[str, Rule]) -> str | None:
    """The code of the check that finds this reason; None where no such check is installed."""
    code = VOID_CODES.get(name)
    return code if code in rules else None
