"""`tta explain`: the document of one check or of all, the rulebook as pages, or the rules of an MLPerf benchmark."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.checker import registry
from harness.checker.rulebook import AUDIT, SCOPES, rulebook_pages
from harness.commands._arguments import Parser, as_path
from harness.errors import ExitStatus, UsageError, printable, unknown_name
from harness.findings import Rule
from harness.mlperf import describe
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

DEFAULT_RULESET = "v1"
_CODE = re.compile("[A-Za-z]{3}[0-9]{3}")
_ROUND_FAMILIES = ("MLP", "MLR")  # of MLPerf's rounds; v1 and the rulesets that extend it do not have them in force


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "code", nargs="?", metavar="CODE", help="for example LOG001; with an MLPerf round, also a benchmark"
    )
    parser.add_argument("--all", action="store_true", help="every check and signal")
    parser.add_argument(
        "--out", type=as_path, metavar="DIR", help="with --all: write the rulebook as Markdown pages, one per family"
    )
    parser.add_argument(
        "--ruleset",
        default=DEFAULT_RULESET,
        metavar="NAME",
        help="the ruleset that sets the severities (default: %(default)s); `tta explain --ruleset "
        "mlperf_training/5.1.0 retinanet` prints the rules of a benchmark",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.code, arguments.all, arguments.ruleset, arguments.out)


def run(code: str | None, all_codes: bool, ruleset_name: str = DEFAULT_RULESET, out: Path | None = None) -> ExitStatus:
    """Print the document of the check `code`, or of all checks, with their severity in the ruleset.

    With an MLPerf round, `code` may be a benchmark, whose rules are printed; without a code, the benchmarks of the
    round are. Of the default ruleset all checks are printed, of another one those that it has in force. out: the folder
    that the rulebook's pages are written to instead.

    Raises:
        UsageError: neither a code nor all are asked for, or both are; or there is no such ruleset, check or benchmark.
    """
    if code is not None and all_codes:
        raise UsageError(f"explain: name either a check, such as {printable(code, 60)!r}, or --all")
    if out is not None and not all_codes:
        raise UsageError("explain: --out writes the whole rulebook; give --all as well")
    ruleset = _load(ruleset_name)
    if ruleset.round is not None and not all_codes:
        known = ruleset.round.benchmarks
        if code is None:
            sys.stdout.write(describe.round_in_words(ruleset.round))
            return ExitStatus.OK
        if code in known:
            sys.stdout.write(describe.benchmark_in_words(ruleset.round, known[code]))
            return ExitStatus.OK
    if code is not None:
        _print([_rule(code, ruleset)], ruleset)
    elif all_codes:
        rules = list(registry.checks_and_signals().values())
        if ruleset.version != DEFAULT_RULESET:
            rules = [rule for rule in rules if rule.code in ruleset.codes]
        if out is None:
            _print(rules, ruleset)
        else:
            _write(out, rules, ruleset)
    else:
        raise UsageError("explain: name a check (for example LOG001), or ask for all of them with --all")
    return ExitStatus.OK


def _print(rules: Iterable[Rule], ruleset: RuleSet) -> None:
    sys.stdout.write("\n\n".join(f"{_head(rule, ruleset)}\n\n{rule.document}" for rule in rules) + "\n")


def _write(folder: Path, rules: Iterable[Rule], ruleset: RuleSet) -> None:
    rulesets = [ruleset]
    if ruleset.version == DEFAULT_RULESET:
        names = sorted((name for name, _ in catalog.ruleset_folders()), key=lambda name: ("/" in name, name))
        rulesets = [_load(name) for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    pages = rulebook_pages(rules, rulesets, registry.families())
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{printable(folder, 1000)}: {len(pages)} pages")


def _load(name: str) -> RuleSet:
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def _rule(code: str, ruleset: RuleSet) -> Rule:
    """The check or signal with this code, in upper or lower case.

    Raises:
        UsageError: there is none; with the nearest codes, and how to list all.
    """
    rules = registry.checks_and_signals()
    if code.upper() in rules:
        return rules[code.upper()]
    name = code.upper() if _CODE.fullmatch(code) else code
    if ruleset.round is None:
        raise UsageError(unknown_name("check", name, rules, "`tta explain --all` prints all of them"))
    listing = f"`tta explain --ruleset {ruleset.version}` lists the benchmarks, `tta explain --all` prints all checks"
    raise UsageError(unknown_name("check or benchmark", name, [*rules, *ruleset.round.benchmarks], listing))


def _head(rule: Rule, ruleset: RuleSet) -> str:
    if rule.code[:3] in _ROUND_FAMILIES and ruleset.round is None:
        return f"{rule.code} {rule.name} (for MLPerf rounds; {SCOPES[rule.scope]})"
    if rule.code.startswith(AUDIT):
        return f"{rule.code} {rule.name} (a signal of `tta audit`; {SCOPES[rule.scope]})"
    severity = ruleset.severity_in_words(rule.code)
    force = f"{severity} in ruleset {ruleset.version}" if severity else f"not in force in ruleset {ruleset.version}"
    return f"{rule.code} {rule.name} ({force}; {SCOPES[rule.scope]})"
