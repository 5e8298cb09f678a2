"""Meter classes, components and scopes in words; void reasons with the codes of their checks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.energy.reasons import VOID_CODES
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


def code_of(name: str, rules: Mapping[str, Rule]) -> str | None:
    """The code of the check that reports this reason; None where no such check is installed."""
    code = VOID_CODES.get(name)
    return code if code in rules else None
