"""`tta audit`: odd things that no rule forbids, the most suspicious first. It suspects; it never judges."""

from __future__ import annotations

import argparse
import sys
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
from harness.checker.report import html, sarif, text
from harness.checker.results import AUTO, open_results
from harness.commands._arguments import Parser, add_format, add_results, as_path, utc_today
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.findings import Group, finding_object, group_object, grouped_by
from harness.ruleset import catalog, load
from harness.ruleset.detect import Detector
from harness.ruleset.model import RuleSet
from harness.submission import layout
from harness.submission.claim import Unreadable

FORMATS = ("text", "json", "sarif", "html")


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a log, a results folder, a submission, or a tree of them", default_ruleset=AUTO, has_auto=True)
    add_format(parser, "sarif", "html")
    parser.add_argument(
        "--mirror", type=as_path, metavar="FILE", help="MLflow's SQLite file, with which the logs are compared"
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.ruleset, arguments.format, utc_today(), arguments.mirror)


def run(
    paths: list[Path], ruleset_name: str, output_format: str, today: date, mirror: Path | None = None
) -> ExitStatus:
    """Audit every result at or below `paths`, alone and together, and write what is suspicious to standard output.

    Targets, limits and reference convergence are those of the ruleset; `auto` means none if the results point to none.

    Returns:
        OK whatever is suspicious: a suspicion is not a verdict. USAGE if a log was not audited because it cannot be
        read.

    Raises:
        UsageError: no path, an unknown ruleset or format, or results that point to two rulesets (`auto`).
        InputError: a path does not exist, has no result, or has one that cannot be read; the others are audited first.
    """
    if not paths:
        raise UsageError("audit: name the logs, folders or trees to audit")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.refuse_unknown(signals)
    ruleset = None if ruleset_name == AUTO else _load(ruleset_name)
    store = () if mirror is None else read_mirror(mirror)
    logs = dict(read.find(paths))
    results = open_results(
        paths,
        ruleset_name,
        found=logs,
        read=lambda path: read.read(path, logs[path]),
        left_out="not audited",
        announce=_announce,
    )
    if results.auto is not None and results.auto.chosen is not None:
        ruleset = _load(results.ruleset_name)
    tree, audited = Tree(), []
    for result in results:
        try:
            subject = read.subject(result, ruleset, rules.bands, today, store)
        except InputError as error:
            results.skip(result.path, error)
            continue
        tree.add(subject)
        suspicions = engine.audit(subject, rules, signals)
        audited.append(Audited(str(result.path), result.benchmark, len(subject.runs), tuple(suspicions)))
    audited = engine.with_tree(audited, engine.audit_tree(tree, rules, signals))
    if audited:
        match output_format:
            case "json":
                document = as_json(audited, rules, ruleset, results.unreadable)
            case "sarif":
                document = as_sarif(audited, rules, signals, ruleset, results.unreadable)
            case "html":
                documents = {code: signal.document for code, signal in signals.items()}
                document = html.as_html(_report(audited, rules, documents, today, ruleset, results.unreadable))
            case _:
                document = as_text(audited, rules, ruleset, results.unreadable)
        sys.stdout.write(document)
    results.raise_unreadable()
    # A description or a manifest that cannot be read takes nothing from what is audited; a log does.
    is_log_missing = any(layout.LOG_PATTERN.fullmatch(part.path.name) for part in results.unreadable)
    return ExitStatus.USAGE if is_log_missing else ExitStatus.OK


def _announce(auto: Detector) -> None:
    name = "no ruleset" if auto.chosen is None else f"ruleset {auto.name}"
    print(f"tta: auditing by {name}{auto.why}", file=sys.stderr)


def _load(name: str) -> RuleSet:
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def as_text(
    audited: Sequence[Audited], rules: AuditRules, ruleset: RuleSet | None = None, missed: Sequence[Unreadable] = ()
) -> str:
    """The ten most suspicious things, then every result with its suspicions, then what was not audited."""
    top = engine.worst(audited)
    blocks = []
    if top:
        lines = [f"{place:>2}. {_line(item)}" for place, item in enumerate(top, 1)]
        words = "The most suspicious thing" if len(top) == 1 else f"The {len(top)} most suspicious things"
        blocks.append("\n".join([f"{words}:", *lines]))
    for one in audited:
        name = "" if one.benchmark is None else f" ({printable(one.benchmark, 60)})"
        head = f"{printable(one.path, 1000)}{name}{': 1 run' if one.num_runs == 1 else f': {one.num_runs} runs'}"
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
        f"{printable(rules.version)} ({rules.digest[:12]}); {_ruleset_line(ruleset)}"
    )
    return "\n\n".join(blocks) + "\n"


def _ruleset_line(ruleset: RuleSet | None) -> str:
    """The ruleset that targets and limits were taken from."""
    return "no ruleset" if ruleset is None else f"ruleset {printable(ruleset.version)} ({ruleset.digest[:12]})"


def _missed_records(missed: Sequence[Unreadable]) -> list[dict[str, str]]:
    return [{"path": str(part.path), "why": part.message} for part in missed]


def _report(
    audited: Sequence[Audited],
    rules: AuditRules,
    documents: dict[str, str],
    today: date,
    ruleset: RuleSet | None,
    missed: Sequence[Unreadable],
) -> html.Report:
    """The ten most suspicious things, then every result, with why each signal matters and what to do."""
    parts = []
    for one in audited:
        num = len(one.suspicions)
        verdict = "nothing suspicious" if not num else "1 suspicion" if num == 1 else f"{num} suspicions"
        findings = tuple(item.finding for item in one.suspicions)
        kind = "unscored" if num else "valid"
        parts.append(html.Part(one.path, one.benchmark, verdict, kind, findings, (("Runs", str(one.num_runs)),)))
    return html.Report(
        title="Audit of results",
        noun="signal",
        rules=(f"audit rules {rules.version}", rules.digest),
        parts=parts,
        documents=documents,
        today=today,
        worst=[html.Worst(item.finding, item.score) for item in engine.worst(audited)],
        standard=_ruleset_line(ruleset),
        missed=[(str(part.path), part.message) for part in missed],
    )


def _grouped(one: Audited) -> list[str]:
    """One line per signal: its strongest finding, and how many more it has."""
    groups: dict[str, list[Suspicion]] = {}
    for item in one.suspicions:
        groups.setdefault(item.finding.code, []).append(item)
    lines = []
    for group in groups.values():
        more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
        lines.append(f"    {_line(group[0])}{more}")
    return lines


def _line(item: Suspicion) -> str:
    finding = item.finding
    return (
        f"[{item.score:5.1f}] {printable(finding.place, 1000)}: {finding.code} {finding.severity}: "
        f"{printable(finding.message, 2000)}"
    )


def as_json(
    audited: Sequence[Audited], rules: AuditRules, ruleset: RuleSet | None = None, missed: Sequence[Unreadable] = ()
) -> str:
    """One JSON document: the audit's rules and the ruleset with their digests; the most suspicious things; all findings
    of each result with their scores, those alike as one with their highest score; what was not audited, and why.
    """
    results = []
    for one in audited:
        findings = [{**group_object(group), "score": score} for group, score in _alike(one.suspicions)]
        results.append({"path": one.path, "benchmark": one.benchmark, "num_runs": one.num_runs, "findings": findings})
    document = {
        "audit_rules": rules.version,
        "audit_rules_digest": rules.digest,
        "ruleset": None if ruleset is None else ruleset.version,
        "ruleset_digest": None if ruleset is None else ruleset.digest,
        "most_suspicious": [{**finding_object(item.finding), "score": item.score} for item in engine.worst(audited)],
        "results": results,
        "not_audited": _missed_records(missed),
    }
    return text.dumped(document)


def as_sarif(
    audited: Sequence[Audited],
    rules: AuditRules,
    signals: Mapping[str, Signal],
    ruleset: RuleSet | None,
    missed: Sequence[Unreadable],
) -> str:
    """The same as a SARIF log, with the score as the rank."""
    levels = {code: rule.severity.value for code, rule in rules.signals.items()}
    properties = {"auditRules": rules.version, "auditRulesDigest": rules.digest, "notAudited": _missed_records(missed)}
    if ruleset is not None:
        properties |= {"ruleset": ruleset.version, "rulesetDigest": ruleset.digest}
    found = [group for one in audited for group in _alike(one.suspicions)]
    return sarif.as_sarif(found, (signal.as_rule for signal in signals.values()), levels, properties, Path.cwd())


def _alike(suspicions: Sequence[Suspicion]) -> list[tuple[Group, float]]:
    """The groups, each with its highest score, the worst first."""
    groups = grouped_by(suspicions, lambda item: item.finding)
    return [(Group(tuple(item.finding for item in members)), members[0].score) for members in groups]
