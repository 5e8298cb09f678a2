"""`tta audit`: what no rule forbids and is still odd, the most suspicious first. Suspects; never judges."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from harness.checker import parallel, registry
from harness.checker.audit import engine, read
from harness.checker.audit.engine import Audited
from harness.checker.audit.facts import Tree
from harness.checker.audit.mlflow_db import read_mirror
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import AuditRules, Signal, Suspicion
from harness.checker.report import html, sarif, text
from harness.errors import ExitStatus, InputError, UsageError, printable, unknown_name
from harness.findings import Group, finding_object, group_object, grouped_by
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import layout
from harness.submission import result as submission_result
from harness.submission.claim import Unreadable
from harness.submission.result import Result

FORMATS = ("text", "json", "sarif", "html")


def run(
    paths: list[Path], ruleset_name: str, output_format: str, today: date, mirror: Path | None = None
) -> ExitStatus:
    """Audits every result at or below `paths`, alone and together, and writes what is suspicious to standard output.

    Targets, limits and reference convergence are those of the ruleset; "auto" is the one that the results point to
    (`harness.ruleset.detect`), which goes to standard error, and none where they point to none.

    Returns:
        OK whatever is suspicious: a suspicion is no verdict. USAGE where a log was not audited, as it cannot be read.

    Raises:
        UsageError: no path, an unknown ruleset or format; "auto", and the results point to two.
        InputError: a path is not there, has no result, or cannot be read; the others are audited first.
    """
    if not paths:
        raise UsageError("audit: which results? name logs, folders or trees of them")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.fits(signals)
    ruleset = None if ruleset_name == parallel.AUTO else _load(ruleset_name)
    store = () if mirror is None else read_mirror(mirror)
    missed = _Missed()
    results = _readable(read.find(paths), missed)
    if ruleset_name == parallel.AUTO:
        auto, results = parallel.held_to_one(results, paths)
        law = "no ruleset" if auto.chosen is None else f"ruleset {auto.name}"
        print(f"tta: auditing by {law}{auto.why}", file=sys.stderr)
        ruleset = None if auto.chosen is None else _load(auto.name)
    tree, audited = Tree(), []
    for result in results:
        try:
            subject = read.subject(result, ruleset, rules.bands, today, store)
        except InputError as error:
            missed.result(result.path, error)
            continue
        tree.add(subject)
        found = engine.audit(subject, rules, signals)
        audited.append(Audited(str(result.path), result.benchmark, len(subject.runs), tuple(found)))
    audited = engine.with_tree(audited, engine.audit_tree(tree, rules, signals))
    if audited:
        match output_format:
            case "json":
                document = as_json(audited, rules, ruleset, missed.parts)
            case "sarif":
                document = as_sarif(audited, rules, signals, ruleset, missed.parts)
            case "html":
                documents = {code: signal.document for code, signal in signals.items()}
                document = html.as_html(_report(audited, rules, documents, today, ruleset, missed.parts))
            case _:
                document = as_text(audited, rules, ruleset, missed.parts)
        sys.stdout.write(document)
    if missed.last is not None:
        raise missed.last
    return ExitStatus.USAGE if missed.has_log else ExitStatus.OK


@dataclass(slots=True)
class _Missed:
    """What cannot be read, of which each part is said at once. last: of the results, the last; it ends the command."""

    parts: list[Unreadable] = field(default_factory=list)
    last: InputError | None = None

    def part(self, part: Unreadable) -> None:
        self.parts.append(part)
        print(f"tta: {printable(part.path)}: not audited: {printable(part.message, 500)}", file=sys.stderr)

    def result(self, path: Path, error: InputError) -> None:
        self.parts.append(Unreadable(path, str(error).removeprefix(f"{path}: ")))
        if self.last is not None:
            print(f"tta: {printable(self.last, 2000)}", file=sys.stderr)
        self.last = error

    @property
    def has_log(self) -> bool:
        """Whether a run is among it; a description or a manifest takes nothing from what is audited."""
        return any(layout.LOG_PATTERN.fullmatch(part.path.name) for part in self.parts)


def _readable(found: Sequence[tuple[Path, Sequence[Path]]], missed: _Missed) -> Iterator[Result]:
    """The results of which a log can be read."""
    for path, logs in found:
        try:
            result = read.read(path, logs)
            for part in submission_result.unreadable_parts(result):
                missed.part(part)
            submission_result.require_runs(result)
        except InputError as error:
            missed.result(path, error)
            continue
        yield result


def _load(name: str) -> RuleSet:
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def as_text(
    audited: Sequence[Audited], rules: AuditRules, ruleset: RuleSet | None = None, missed: Sequence[Unreadable] = ()
) -> str:
    """The ten most suspicious things, then every result with what is suspicious about it; what was not audited."""
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
    said = ", ".join(
        f"{number} {name}{'' if number == 1 else 's'}" for name, number in sorted(counts.items(), reverse=True)
    )
    num_sound = sum(not one.suspicions for one in audited)
    results = "1 result" if len(audited) == 1 else f"{len(audited)} results"
    blocks.append(
        f"{results}, {num_sound} with nothing suspicious; {said or 'no findings'}; audit rules "
        f"{printable(rules.version)} ({rules.digest[:12]}); {_law(ruleset)}"
    )
    return "\n\n".join(blocks) + "\n"


def _law(ruleset: RuleSet | None) -> str:
    """The ruleset whose targets and limits were taken."""
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
    """The ten most suspicious things, then every result; the signals' documents say why and what to do."""
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
        law=(f"audit rules {rules.version}", rules.digest),
        parts=parts,
        documents=documents,
        today=today,
        worst=[html.Worst(item.finding, item.score) for item in engine.worst(audited)],
        standard=_law(ruleset),
        missed=[(str(part.path), part.message) for part in missed],
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


def as_json(
    audited: Sequence[Audited], rules: AuditRules, ruleset: RuleSet | None = None, missed: Sequence[Unreadable] = ()
) -> str:
    """One document: the audit's rules and the ruleset with their digests, the worst, and per result all findings with
    their scores, those that are alike as one, by the highest score among them; what was not audited, and why.
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
    """The same as a SARIF log; the score is the rank."""
    levels = {code: rule.severity.value for code, rule in rules.signals.items()}
    law = {"auditRules": rules.version, "auditRulesDigest": rules.digest, "notAudited": _missed_records(missed)}
    if ruleset is not None:
        law |= {"ruleset": ruleset.version, "rulesetDigest": ruleset.digest}
    found = [group for one in audited for group in _alike(one.suspicions)]
    return sarif.as_sarif(found, (signal.as_rule for signal in signals.values()), levels, law, Path.cwd())


def _alike(suspicions: Sequence[Suspicion]) -> list[tuple[Group, float]]:
    """The groups with the highest score in each, the worst first."""
    groups = grouped_by(suspicions, lambda item: item.finding)
    return [(Group(tuple(item.finding for item in members)), members[0].score) for members in groups]
