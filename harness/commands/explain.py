"""`tta explain`: a check's document, the whole rulebook as Markdown, or the rules of a benchmark of MLPerf's."""

from __future__ import annotations

import re
import sys

from harness.checker.rulebook import SCOPES, rulebook
from harness.errors import ExitStatus, UsageError, printable, unknown_name
from harness.findings import Rule
from harness.mlperf import describe
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

DEFAULT_RULESET = "v1"
_CODE = re.compile("[A-Za-z]{3}[0-9]{3}")
_ROUND_FAMILIES = ("MLP", "MLR")  # of MLPerf's rounds; not in force in v1 and its heirs


def run(code: str | None, all_codes: bool, ruleset_name: str = DEFAULT_RULESET) -> ExitStatus:
    """Prints the document of the check `code`, or those of all checks, with their severity in the ruleset.

    Of a round of MLPerf's, `code` may be a benchmark: prints its rules; without a code, prints the round's benchmarks.

    Raises:
        UsageError: neither or both are asked for, or there is no such ruleset, check or benchmark.
    """
    if code is not None and all_codes:
        raise UsageError(f"explain: {printable(code, 60)!r} and --all: one check or the whole rulebook, not both")
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    if ruleset.round is not None and not all_codes:
        known = ruleset.round.benchmarks
        if code is None:
            sys.stdout.write(describe.round_in_words(ruleset.round))
            return ExitStatus.OK
        if code in known:
            sys.stdout.write(describe.benchmark_in_words(ruleset.round, known[code]))
            return ExitStatus.OK
    if code is not None:
        rule = _rule(code, ruleset)
        sys.stdout.write(f"{_head(rule, ruleset)}\n\n{rule.document}\n")
    elif all_codes:
        sys.stdout.write(_rulebook(ruleset))
    else:
        raise UsageError("explain: name one check (for example LOG001), or ask for the whole rulebook with --all")
    return ExitStatus.OK


def _rule(code: str, ruleset: RuleSet) -> Rule:
    """The check or signal with this code, in any case.

    Raises:
        UsageError: there is none; with the nearest, and how to see all.
    """
    rules = {**catalog.checks(), **{item.code: item.as_rule for item in catalog.signals().values()}}
    if code.upper() in rules:
        return rules[code.upper()]
    asked = code.upper() if _CODE.fullmatch(code) else code
    if ruleset.round is None:
        raise UsageError(unknown_name("check", asked, rules, "`tta explain --all` prints all of them"))
    listing = f"`tta explain --ruleset {ruleset.version}` lists the benchmarks, `tta explain --all` prints all checks"
    raise UsageError(unknown_name("check or benchmark", asked, [*rules, *ruleset.round.benchmarks], listing))


def _head(rule: Rule, ruleset: RuleSet) -> str:
    if rule.code[:3] in _ROUND_FAMILIES and ruleset.round is None:
        return f"{rule.code} {rule.name} (of MLPerf's rounds; {SCOPES[rule.scope]})"
    severity = ruleset.codes.get(rule.code)
    if rule.code.startswith("AUD"):
        return f"{rule.code} {rule.name} (a signal of `tta audit`; {SCOPES[rule.scope]})"
    force = f"{severity} in ruleset {ruleset.version}" if severity else f"not in force in ruleset {ruleset.version}"
    return f"{rule.code} {rule.name} ({force}; {SCOPES[rule.scope]})"


def _rulebook(ruleset: RuleSet) -> str:
    """Of the default ruleset: all checks and signals, and which rulesets have them in force; of another: its own."""
    rules = catalog.checks().values()
    if ruleset.version != DEFAULT_RULESET:
        return rulebook([rule for rule in rules if rule.code in ruleset.codes], [ruleset])
    names = sorted((name for name, _ in catalog.ruleset_folders()), key=lambda name: ("/" in name, name))
    rulesets = [load.load_ruleset(catalog.ruleset_folder(name), name) for name in names]
    return rulebook([*rules, *(signal.as_rule for signal in catalog.signals().values())], rulesets)
