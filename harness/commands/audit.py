"""`tta audit`: what no rule forbids and is still odd, the most suspicious first. Suspects; never judges."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from harness import checking, grouping, loader, registry, render, report, sarif, unread
from harness.auditing import engine, reading
from harness.auditing.engine import Audited
from harness.auditing.facts import Tree
from harness.auditing.mirrored import read_mirror
from harness.auditing.suspicion import AuditRules, Signal, Suspicion
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.grouping import Group
from harness.loader.audit import load_audit
from harness.ruleset import RuleSet
from harness.submission import Result

FORMATS = ("text", "json", "sarif", "html")


def run(
    paths: list[Path], ruleset_name: str, output_format: str, today: date, mirror: Path | None = None
) -> ExitStatus:
    """Audits every result at or below `paths`, alone and together, and writes what is suspicious to standard output.

    Targets, limits and reference convergence are those of the ruleset; "auto" is the first that a log of a result
    names, of a log of MLPerf's the round it is of, and none where nobody knows one.

    Returns:
        OK whatever is suspicious: a suspicion is no verdict.

    Raises:
        UsageError: no path, an unknown ruleset or format.
        InputError: a path is not there, has no result, or cannot be read; the others are audited first.
    """
    if not paths:
        raise UsageError("audit: which results? name logs, folders or trees of them")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.fits(signals)
    rulesets: dict[str, RuleSet] = {}
    store = () if mirror is None else read_mirror(mirror)
    chosen = None if ruleset_name == checking.AUTO else _load(ruleset_name, rulesets)
    tree, audited = Tree(), []
    unreadable: InputError | None = None
    for path, logs in reading.find(paths):
        try:
            result = reading.read(path, logs)
            for part in unread.parts(result):
                print(f"tta: {printable(part.path)}: not audited: {printable(part.message, 500)}", file=sys.stderr)
            unread.refuse_without_runs(result)
            ruleset = chosen or _named(result, rulesets)
            subject = reading.subject(result, ruleset, rules.bands, today, store)
        except InputError as error:
            if unreadable is not None:
                print(f"tta: {printable(unreadable, 2000)}", file=sys.stderr)
            unreadable = error
            continue
        tree.add(subject)
        found = engine.audit(subject, rules, signals)
        audited.append(Audited(str(path), result.benchmark, len(subject.runs), tuple(found)))
    audited = engine.with_tree(audited, engine.audit_tree(tree, rules, signals))
    if audited:
        match output_format:
            case "json":
                document = as_json(audited, rules)
            case "sarif":
                document = as_sarif(audited, rules, signals)
            case "html":
                documents = {code: signal.document for code, signal in signals.items()}
                document = report.as_html(_report(audited, rules, documents, today))
            case _:
                document = as_text(audited, rules)
        sys.stdout.write(document)
    if unreadable is not None:
        raise unreadable
    return ExitStatus.OK


def _load(name: str, loaded: dict[str, RuleSet]) -> RuleSet:
    if name not in loaded:
        loaded[name] = loader.load_ruleset(registry.ruleset_folder(name), name)
    return loaded[name]


def _named(result: Result, loaded: dict[str, RuleSet]) -> RuleSet | None:
    """The ruleset that `tta check --ruleset auto` takes; None where no log says what it is."""
    named = checking.named_ruleset(result)
    return None if named is None else _load(named[0], loaded)


def as_text(audited: Sequence[Audited], rules: AuditRules) -> str:
    """The ten most suspicious things, then every result with what is suspicious about it."""
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
    counts = Counter(item.finding.severity.value for one in audited for item in one.suspicions)
    said = ", ".join(
        f"{number} {name}{'' if number == 1 else 's'}" for name, number in sorted(counts.items(), reverse=True)
    )
    num_sound = sum(not one.suspicions for one in audited)
    results = "1 result" if len(audited) == 1 else f"{len(audited)} results"
    blocks.append(
        f"{results}, {num_sound} with nothing suspicious; {said or 'no findings'}; audit rules "
        f"{printable(rules.version)} ({rules.digest[:12]})"
    )
    return "\n\n".join(blocks) + "\n"


def _report(audited: Sequence[Audited], rules: AuditRules, documents: dict[str, str], today: date) -> report.Report:
    """The ten most suspicious things, then every result; the signals' documents say why and what to do."""
    parts = []
    for one in audited:
        num = len(one.suspicions)
        verdict = "nothing suspicious" if not num else "1 suspicion" if num == 1 else f"{num} suspicions"
        findings = tuple(item.finding for item in one.suspicions)
        kind = "unscored" if num else "valid"
        parts.append(report.Part(one.path, one.benchmark, verdict, kind, findings, (("Runs", str(one.num_runs)),)))
    return report.Report(
        title="Audit of results",
        noun="signal",
        law=(f"audit rules {rules.version}", rules.digest),
        parts=parts,
        documents=documents,
        today=today,
        worst=[report.Worst(item.finding, item.score) for item in engine.worst(audited)],
    )


def _grouped(one: Audited) -> list[str]:
    """One line a signal: the strongest finding, and how many more there are like it."""
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


def as_json(audited: Sequence[Audited], rules: AuditRules) -> str:
    """One document: the audit's rules with their digest, the worst, and per result all findings with their scores,
    those that are alike as one, by the highest score among them.
    """
    results = []
    for one in audited:
        findings = [{**grouping.record(group), "score": score} for group, score in _alike(one.suspicions)]
        results.append({"path": one.path, "benchmark": one.benchmark, "num_runs": one.num_runs, "findings": findings})
    document = {
        "audit_rules": rules.version,
        "audit_rules_digest": rules.digest,
        "most_suspicious": [{**grouping.alone(item.finding), "score": item.score} for item in engine.worst(audited)],
        "results": results,
    }
    return render.dumped(document)


def as_sarif(audited: Sequence[Audited], rules: AuditRules, signals: Mapping[str, Signal]) -> str:
    """The same as a SARIF log; the score is the rank."""
    levels = {code: rule.severity.value for code, rule in rules.signals.items()}
    law = {"auditRules": rules.version, "auditRulesDigest": rules.digest}
    found = [group for one in audited for group in _alike(one.suspicions)]
    return sarif.as_sarif(found, (signal.as_rule for signal in signals.values()), levels, law, Path.cwd())


def _alike(suspicions: Sequence[Suspicion]) -> list[tuple[Group, float]]:
    """The groups with the highest score in each, the worst first."""
    together = grouping.together(suspicions, lambda item: item.finding)
    return [(Group(tuple(item.finding for item in members)), members[0].score) for members in together]
