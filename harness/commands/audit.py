"""`tta audit`: odd things that no rule forbids, the most suspicious first. It suspects; it never judges."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.engine import Audited
from harness.checker.audit.facts import Tree
from harness.checker.audit.mlflow_db import read_mirror
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import AuditRules, Signal, Suspicion
from harness.checker.parallel import Complete
from harness.checker.report import html, sarif, text
from harness.checker.results import AUTO, open_results
from harness.commands._arguments import Parser, add_format, add_prepared, add_results, as_folder, as_path, utc_today
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.findings import Group, finding_object, group_object, grouped_by
from harness.ruleset.model import RuleSet
from harness.run.data_cache import default_cache
from harness.run.recompute import Recomputation
from harness.submission import layout
from harness.submission.claim import Unreadable

FORMATS = ("text", "json", "sarif", "html")


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a log, a results folder, a submission, or a tree of them", default_ruleset=AUTO, has_auto=True)
    add_format(parser, "sarif", "html")
    parser.add_argument(
        "--mirror", type=as_path, metavar="FILE", help="MLflow's SQLite file, with which the logs are compared"
    )
    add_prepared(parser)
    parser.add_argument(
        "--weights",
        type=as_folder,
        metavar="DIR",
        help="evaluate kept weights again: those in the results, and in DIR those that were too large to be submitted",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    cache = arguments.data or default_cache()
    facts: list[Complete] = [Recomputation(cache)]
    with tempfile.TemporaryDirectory(prefix="tta-weights-") as output:
        if arguments.weights is not None:
            from harness.run.reevaluation import Reevaluation  # what makes runs takes a quarter of a second

            facts.append(Reevaluation(cache, Path(output), arguments.weights, "auto", _say))
        return run(arguments.paths, arguments.ruleset, arguments.format, utc_today(), arguments.mirror, facts)


def _say(text: str) -> None:
    print(f"tta: {text}", file=sys.stderr, flush=True)


def run(
    paths: list[Path],
    ruleset_name: str,
    output_format: str,
    today: date,
    mirror: Path | None = None,
    facts: Sequence[Complete] = (),
) -> ExitStatus:
    """Audit every result at or below `paths`, alone and together, and write what is suspicious to standard output.

    Targets, limits and reference convergence are those of the ruleset; with `auto` those of each result's own, and none
    if it points to none. facts: each adds facts to a result, such as qualities that are computed again.

    Returns:
        OK whatever is suspicious: a suspicion is not a verdict. USAGE if a log was not audited because it cannot be
        read.

    Raises:
        UsageError: no path, or an unknown ruleset or format.
        InputError: a path does not exist, has no result, or has one that cannot be read; the others are audited first.
    """
    if not paths:
        raise UsageError("audit: name the logs, folders or trees to audit")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.refuse_unknown(signals)
    store = () if mirror is None else read_mirror(mirror)
    logs = dict(read.find(paths))
    results = open_results(
        paths, ruleset_name, found=logs, read=lambda path: read.read(path, logs[path]), left_out="not audited"
    )
    tree, audited = Tree(), []
    for result in results:
        choice = results.rulesets.choose(result)
        ruleset = None if choice.is_default else results.rulesets.load(choice.name)
        name = "no ruleset" if ruleset is None else f"ruleset {choice.name}"
        results.rulesets.announce(result.path, f"auditing by {name}", choice.why)
        try:
            if ruleset is not None:
                for complete in facts:
                    result = complete(result, ruleset)
            subject = read.subject(result, ruleset, rules, today, store)
        except InputError as error:
            results.skip(result.path, error)
            continue
        tree.add(subject)
        suspicions = engine.audit(subject, rules, signals)
        used = None if ruleset is None else ruleset.version
        audited.append(Audited(str(result.path), result.benchmark, len(subject.runs), tuple(suspicions), used))
    audited = engine.with_tree(audited, engine.audit_tree(tree, rules, signals))
    if audited:
        rulesets = [results.rulesets.load(name) for name in dict.fromkeys(one.ruleset for one in audited) if name]
        match output_format:
            case "json":
                document = as_json(audited, rules, rulesets, results.unreadable)
            case "sarif":
                document = as_sarif(audited, rules, signals, rulesets, results.unreadable)
            case "html":
                documents = {code: signal.document for code, signal in signals.items()}
                document = html.as_html(_report(audited, rules, documents, today, rulesets, results.unreadable))
            case _:
                document = as_text(audited, rules, rulesets, results.unreadable)
        sys.stdout.write(document)
    results.raise_unreadable()
    # A description or a manifest that cannot be read takes nothing from what is audited; a log does.
    is_log_missing = any(layout.LOG_PATTERN.fullmatch(part.path.name) for part in results.unreadable)
    return ExitStatus.USAGE if is_log_missing else ExitStatus.OK


def as_text(
    audited: Sequence[Audited], rules: AuditRules, rulesets: Sequence[RuleSet] = (), missed: Sequence[Unreadable] = ()
) -> str:
    """The ten most suspicious things, then every result with its suspicions, then what was not audited."""
    top = engine.worst(audited)
    blocks = []
    if top:
        lines = [f"{place:>2}. {_line(thing.first)}{_more(thing.num_more)}" for place, thing in enumerate(top, 1)]
        words = "The most suspicious thing" if len(top) == 1 else f"The {len(top)} most suspicious things"
        blocks.append("\n".join([f"{words}:", *lines]))
    is_mixed = len({one.ruleset for one in audited}) > 1
    for one in audited:
        name = "" if one.benchmark is None else f" ({printable(one.benchmark, 60)})"
        head = f"{printable(one.path, 1000)}{name}{': 1 run' if one.num_runs == 1 else f': {one.num_runs} runs'}"
        head += f", {_ruleset_of(one)}" if is_mixed else ""
        blocks.append("\n".join([f"{head}, nothing suspicious"] if not one.suspicions else [head, *_grouped(one)]))
    if missed:
        lines = [f"    {printable(part.path, 1000)}: {printable(part.message, 500)}" for part in missed]
        blocks.append("\n".join(["Not audited:", *lines]))
    counts = Counter(item.finding.severity.value for one in audited for item in one.suspicions)
    totals = ", ".join(
        f"{number} {name}{'' if number == 1 else 's'}" for name, number in sorted(counts.items(), reverse=True)
    )
    num_sound = sum(not one.suspicions for one in audited)
    results = "1 result" if len(audited) == 1 else f"{len(audited)} results"
    blocks.append(
        f"{results}, {num_sound} with nothing suspicious; {totals or 'no findings'}; audit rules "
        f"{printable(rules.version)} ({rules.digest[:12]}); {text.rulesets_line(rulesets)}"
    )
    return "\n\n".join(blocks) + "\n"


def _ruleset_of(one: Audited) -> str:
    return "no ruleset" if one.ruleset is None else f"ruleset {printable(one.ruleset)}"


def _missed_records(missed: Sequence[Unreadable]) -> list[dict[str, str]]:
    return [{"path": str(part.path), "why": part.message} for part in missed]


def _report(
    audited: Sequence[Audited],
    rules: AuditRules,
    documents: dict[str, str],
    today: date,
    rulesets: Sequence[RuleSet],
    missed: Sequence[Unreadable],
) -> html.Report:
    """The ten most suspicious things, then every result, with why each signal matters and what to do."""
    parts = []
    for one in audited:
        num = len(one.suspicions)
        verdict = "nothing suspicious" if not num else "1 suspicion" if num == 1 else f"{num} suspicions"
        findings = tuple(item.finding for item in one.suspicions)
        kind = "unscored" if num else "valid"
        facts = (("Runs", str(one.num_runs)), ("Targets and limits", _ruleset_of(one)))
        parts.append(html.Part(one.path, one.benchmark, verdict, kind, findings, one.ruleset or "none", facts))
    return html.Report(
        title="Audit of results",
        noun="signal",
        rules=[(f"audit rules {rules.version}", rules.digest)],
        parts=parts,
        documents=documents,
        today=today,
        worst=[html.Worst(thing.first.finding, thing.first.score) for thing in engine.worst(audited)],
        standard=text.rulesets_line(rulesets),
        missed=[(str(part.path), part.message) for part in missed],
    )


def _grouped(one: Audited) -> list[str]:
    """One line per signal: its strongest finding, and how many more it has."""
    groups: dict[str, list[Suspicion]] = {}
    for item in one.suspicions:
        groups.setdefault(item.finding.code, []).append(item)
    return [f"    {_line(group[0])}{_more(len(group) - 1)}" for group in groups.values()]


def _more(number: int) -> str:
    return f" (and {number} more)" if number else ""


def _line(item: Suspicion) -> str:
    finding = item.finding
    return (
        f"[{item.score:5.1f}] {printable(finding.place, 1000)}: {finding.code} {finding.severity}: "
        f"{printable(finding.message, 2000)}"
    )


def as_json(
    audited: Sequence[Audited], rules: AuditRules, rulesets: Sequence[RuleSet] = (), missed: Sequence[Unreadable] = ()
) -> str:
    """One JSON document: the audit's rules and the rulesets with their digests; the most suspicious things; all
    findings of each result with their scores, those alike as one with their highest score; what was not audited, and
    why.
    """
    results = []
    for one in audited:
        findings = [{**group_object(group), "score": score} for group, score in _alike(one.suspicions)]
        facts = {"path": one.path, "benchmark": one.benchmark, "ruleset": one.ruleset, "num_runs": one.num_runs}
        results.append({**facts, "findings": findings})
    document = {
        "audit_rules": rules.version,
        "audit_rules_digest": rules.digest,
        "rulesets": [text.ruleset_record(ruleset) for ruleset in rulesets],
        "most_suspicious": [
            {**finding_object(thing.first.finding), "score": thing.first.score, "num_more": thing.num_more}
            for thing in engine.worst(audited)
        ],
        "results": results,
        "not_audited": _missed_records(missed),
    }
    return text.dumped(document)


def as_sarif(
    audited: Sequence[Audited],
    rules: AuditRules,
    signals: Mapping[str, Signal],
    rulesets: Sequence[RuleSet],
    missed: Sequence[Unreadable],
) -> str:
    """The same as a SARIF log, with the score as the rank, and a run for each ruleset and for the results of none."""
    levels = {code: rule.severity.value for code, rule in rules.signals.items()}
    properties = {"auditRules": rules.version, "auditRulesDigest": rules.digest, "notAudited": _missed_records(missed)}
    by_name = {ruleset.version: ruleset for ruleset in rulesets}
    runs = []
    for name in dict.fromkeys(one.ruleset for one in audited):
        named = {} if name is None else {"ruleset": name, "rulesetDigest": by_name[name].digest}
        found = [group for one in audited if one.ruleset == name for group in _alike(one.suspicions)]
        documents = (signal.as_rule for signal in signals.values())
        runs.append(sarif.run_record(found, documents, levels, {**properties, **named}, Path.cwd()))
    return sarif.as_sarif(runs)


def _alike(suspicions: Sequence[Suspicion]) -> list[tuple[Group, float]]:
    """The groups, each with its highest score, the worst first."""
    groups = grouped_by(suspicions, lambda item: item.finding)
    return [(Group(tuple(item.finding for item in members)), members[0].score) for members in groups]
