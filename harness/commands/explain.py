"""`tta explain`: a check's document, or the whole rulebook as Markdown."""

from __future__ import annotations

import itertools
import sys

from harness import loader, registry
from harness.errors import ExitStatus, UsageError
from harness.findings import Rule
from harness.ruleset import RuleSet

DEFAULT_RULESET = "v1"
_SCOPES = {"log": "looks at each log", "result": "looks at a whole result", "judgement": "looks at the other findings"}
_FAMILIES = {
    "LOG": "The log as a log",
    "TIM": "Time",
    "QUA": "Quality",
    "HYP": "Hyperparameters",
    "RUN": "The runs of a result",
    "CNV": "Convergence",
    "SYS": "The system",
    "DAT": "The data",
    "PKG": "The submission as a package",
    "PWR": "Energy",
    "CST": "Cost",
    "RUL": "The rulebook itself",
}


def run(code: str | None, all_codes: bool) -> ExitStatus:
    """Prints the document of the check `code`, or those of all checks.

    Raises:
        UsageError: neither or both are asked for, or there is no such check.
    """
    if (code is None) != all_codes:
        raise UsageError("explain: name one check (for example LOG001), or ask for the whole rulebook with --all")
    ruleset = loader.load_ruleset(registry.ruleset_folder(DEFAULT_RULESET), DEFAULT_RULESET)
    if code is not None:
        rule = registry.check(code)
        sys.stdout.write(f"{_head(rule, ruleset)}\n\n{rule.document}\n")
    else:
        sys.stdout.write(_rulebook(ruleset))
    return ExitStatus.OK


def _head(rule: Rule, ruleset: RuleSet) -> str:
    severity = ruleset.codes.get(rule.code)
    force = f"{severity} in ruleset {ruleset.version}" if severity else f"not in force in ruleset {ruleset.version}"
    return f"{rule.code} {rule.name} ({force}; {_SCOPES[rule.scope]})"


def _rulebook(ruleset: RuleSet) -> str:
    parts = [f"# Checks of ruleset {ruleset.version}"]
    order = {family: place for place, family in enumerate(_FAMILIES)}
    rules = sorted(registry.checks().values(), key=lambda rule: (order.get(rule.code[:3], len(order)), rule.code))
    for family, members in itertools.groupby(rules, key=lambda rule: rule.code[:3]):
        parts.append(f"## {_FAMILIES.get(family, family)}")
        for rule in members:
            parts += [f"### {_head(rule, ruleset)}", rule.document.replace("\n## ", "\n#### ")]
    return "\n\n".join(parts) + "\n"
