"""Reads the rules of the audit, `rules/audits/audit.yaml`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base.stats import binomial_interval
from harness.base.typed_yaml import load_yaml, only
from harness.base.values import is_number, is_whole
from harness.checker.audit.signals import AuditRules, SignalRule
from harness.errors import RulesError, printable, unknown_name
from harness.findings import Severity

_OWN = {"severity", "weight"}
MAX_FLOPS = 1e18  # of one sample, forward


@dataclass(frozen=True, slots=True)
class Rates:
    """On how many of `num_results` held-out published results, on which no limit was set, each signal fires."""

    num_results: int
    alarms: Mapping[str, int]

    def sentence(self, code: str) -> str:
        """How often the signal fires, with an interval of 95 %."""
        if code not in self.alarms:
            return "Not counted yet: `python -m tests.interop.audit_rates`, docs/how-to/add-a-check.md."
        number = self.alarms[code]
        low, high = binomial_interval(number, self.num_results)
        share = f"{100 * number / self.num_results:.1f} %; 95 % interval {100 * low:.1f} to {100 * high:.1f} %"
        return (
            f"Fires on {number} of {self.num_results} held-out published results ({share}): docs/explanation/audit.md."
        )


def load_rates(path: Path) -> Rates:
    """The rates in `path`.

    Raises:
        RulesError: it cannot be read, or has an unknown key or an impossible number.
    """
    content = load_yaml(path)
    only(content, {"results", "alarms"}, str(path))
    alarms = content.get("alarms")
    if not isinstance(alarms, dict):
        raise RulesError(f"{path}: 'alarms' must map signals to numbers of results")
    num_results = content.get("results")
    if not is_whole(num_results) or num_results < 1:
        raise RulesError(f"{path}: results: {printable(num_results)!r} is not a number of results")
    for code, number in alarms.items():
        if not is_whole(number) or not 0 <= number <= num_results:
            raise RulesError(f"{path}: {printable(code)}: {printable(number)!r} is not a number of results")
    return Rates(num_results, alarms)


def load_audit(path: Path) -> AuditRules:
    """The audit's rules in `path`.

    Raises:
        RulesError: it cannot be read, or has an unknown key, an impossible value, or a signal of severity error.
    """
    content = load_yaml(path)
    only(content, {"version", "signals", "bands", "flops"}, str(path))
    signals = content.get("signals")
    if not isinstance(signals, dict) or not signals:
        raise RulesError(f"{path}: 'signals' must map signals to their severity, weight and limits")
    bands = content.get("bands") or {}
    if not isinstance(bands, dict):
        raise RulesError(f"{path}: 'bands' must map benchmarks to two numbers")
    flops = content.get("flops") or {}
    if not isinstance(flops, dict):
        raise RulesError(f"{path}: 'flops' must map benchmarks to a number")
    return AuditRules(
        version=printable(content.get("version")),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        signals={str(code): _signal(item, f"{path}: signals: {code}") for code, item in signals.items()},
        bands={str(name): _band(item, f"{path}: bands: {name}") for name, item in bands.items()},
        flops={str(name): _flops(item, f"{path}: flops: {name}") for name, item in flops.items()},
    )


def _signal(content: Any, place: str) -> SignalRule:
    if not isinstance(content, dict) or not set(content) >= _OWN:
        raise RulesError(f"{place}: must be a mapping with severity and weight")
    severities = [Severity.WARNING, Severity.NOTE]
    if content["severity"] not in severities:
        # A suspicion makes no result invalid; only a check does.
        raise RulesError(f"{place}: {unknown_name('severity', printable(content['severity']), severities)}")
    numbers = {str(name): _number(item, f"{place}: {name}") for name, item in content.items() if name != "severity"}
    weight = numbers.pop("weight")
    if not 0 < weight <= 100:
        raise RulesError(f"{place}: weight is {weight:g}; it must be above 0 and at most 100")
    return SignalRule(Severity(content["severity"]), weight, numbers)


def _band(content: Any, place: str) -> tuple[float, float]:
    if not isinstance(content, list) or len(content) != 2:
        raise RulesError(f"{place}: must be a list of two numbers")
    low, high = (_number(item, place) for item in content)
    if low > high:
        raise RulesError(f"{place}: the lower limit {low:g} is above the upper limit {high:g}")
    return low, high


def _flops(content: Any, place: str) -> float:
    number = _number(content, place)
    if not 1 <= number <= MAX_FLOPS:
        raise RulesError(f"{place}: {number:g} is not a number of operations from 1 to {MAX_FLOPS:g}")
    return number


def _number(content: Any, place: str) -> float:
    if not is_number(content):
        raise RulesError(f"{place}: {printable(content)!r} is not a number")
    return float(content)
