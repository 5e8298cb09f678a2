"""Classes, components and void reasons of an energy in words. Pure."""

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


def said(name: str, words: Mapping[str, str]) -> str:
    """The words for a name, or the name itself made readable."""
    return words.get(name, name.replace("_", " "))


def code_of(name: str, rules: Mapping[str, Rule]) -> str | None:
    """The code of the check that finds this reason; None where no such check is installed."""
    code = VOID_CODES.get(name)
    return code if code in rules else None
