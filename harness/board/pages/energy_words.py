"""Meter classes, components, scopes and void reasons in words, the latter with the codes of their checks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.energy.limits import EnergyLimits
from harness.energy.reasons import VoidReason
from harness.findings import Rule

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
    "total": "total",
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


def in_words(name: str, words: Mapping[str, str]) -> str:
    """The words for a name; for an unknown one, the name itself with spaces."""
    return words.get(name, name.replace("_", " "))


def void_words(
    void: Iterable[VoidReason], limits: EnergyLimits, rules: Mapping[str, Rule]
) -> tuple[tuple[str | None, str], ...]:
    """Each reason in words, with the code of its check; None for a check that is not installed."""
    return tuple((reason.code if reason.code in rules else None, reason.words(limits)) for reason in void)
