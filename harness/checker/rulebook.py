"""The rulebook: every check's document by family, with the rulesets that have it in force. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from harness.findings import Rule
from harness.ruleset.model import RuleSet

SCOPES = {
    "log": "looks at each log",
    "result": "looks at a whole result",
    "tree": "looks at all results together",
    "judgement": "looks at the other findings",
}
FAMILIES = {
    "LOG": "The log as a log",
    "TIM": "Time",
    "QUA": "Quality",
    "HYP": "Hyperparameters",
    "RUN": "The runs of a result",
    "CNV": "Convergence",
    "SYS": "The system",
    "DAT": "The data",
    "PKG": "The submission as a package",
    "SIG": "Signatures",
    "PWR": "Energy",
    "CST": "Cost",
    "RUL": "The rulebook itself",
    "MLP": "MLPerf's rounds: a log",
    "MLR": "MLPerf's rounds: a result",
    "AUD": "The audit: suspicions, never a verdict",
}
AUDIT = "AUD"


def rulebook(rules: Iterable[Rule], rulesets: Sequence[RuleSet]) -> str:
    """Markdown: a table of contents, then every document.

    rulesets: in the order in which they are named; those of one severity that follow each other are named as a span.
    """
    order = {family: place for place, family in enumerate(FAMILIES)}
    listed = sorted(rules, key=lambda rule: (order.get(rule.code[:3], len(order)), rule.code))
    families = [(family, list(members)) for family, members in itertools.groupby(listed, key=lambda r: r.code[:3])]
    checks = sum(rule.code[:3] != AUDIT for rule in listed)
    parts = [
        "# The rulebook",
        f"{checks} checks and {len(listed) - checks} signals of the audit. Each has what it does, why it matters, an "
        "example, what to do instead, and where it comes from. An error takes a result out of the ranking, a warning "
        "asks for a person's eyes, a note is worth knowing; a signal of the audit is a question and decides nothing.",
        "\n".join(_contents(families)),
    ]
    for family, members in families:
        parts.append(f"## {FAMILIES.get(family, family)}")
        for rule in members:
            parts.append(f"### {rule.code} {rule.name}")
            parts.append(f"*{_capital(SCOPES[rule.scope])}. {in_force(rule, rulesets)}*")
            parts.append(rule.document.replace("\n## ", "\n#### "))
    return "\n\n".join(parts) + "\n"


def _contents(families: Sequence[tuple[str, Sequence[Rule]]]) -> list[str]:
    lines = ["| code | finds |", "|---|---|"]
    for family, members in families:
        lines.append(f"| **{family}** | **{FAMILIES.get(family, family)}** |")
        lines += [f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.title} |" for rule in members]
    return lines


def in_force(rule: Rule, rulesets: Sequence[RuleSet]) -> str:
    """`error in v1; warning in mlperf_training/4.0.0 to 6.0.0`, as a sentence."""
    if rule.code[:3] == AUDIT:
        return "In force in every audit."
    parts = []
    for (severity, family), members in itertools.groupby(
        rulesets, key=lambda ruleset: (ruleset.codes.get(rule.code), ruleset.version.rpartition("/")[0])
    ):
        names = [ruleset.version for ruleset in members]
        span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1].removeprefix(f'{family}/')}"
        if severity is not None:
            parts.append(f"{severity} in {span}")
    return f"{_capital('; '.join(parts))}." if parts else "In force in no ruleset that comes with the harness."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
