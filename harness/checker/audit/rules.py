"""Reads the rules of the audit, `rules/audits/audit.yaml`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from harness.base.typed_yaml import load_yaml, only
from harness.base.values import is_number
from harness.checker.audit.signals import AuditRules, SignalRule
from harness.errors import RulesError, printable, unknown_name
from harness.findings import Severity

AUDIT_FILE = "audit.yaml"
_OWN = {"severity", "weight"}


def load_audit(path: Path) -> AuditRules:
    """The audit's rules in `path`.

    Raises:
        RulesError: it cannot be read, or has an unknown key, an impossible value, or a signal of severity error.
    """
    content = load_yaml(path)
    only(content, {"version", "signals", "bands"}, str(path))
    signals = content.get("signals")
    if not isinstance(signals, dict) or not signals:
        raise RulesError(f"{path}: 'signals' must map signals to their severity, weight and limits")
    bands = content.get("bands") or {}
    if not isinstance(bands, dict):
        raise RulesError(f"{path}: 'bands' must map benchmarks to two numbers")
    return AuditRules(
        version=printable(content.get("version")),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        signals={str(code): _signal(item, f"{path}: signals: {code}") for code, item in signals.items()},
        bands={str(name): _band(item, f"{path}: bands: {name}") for name, item in bands.items()},
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


def _number(content: Any, place: str) -> float:
    if not is_number(content):
        raise RulesError(f"{place}: {printable(content)!r} is not a number")
    return float(content)
