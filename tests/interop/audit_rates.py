"""How often each signal of `tta audit` fires on published rounds, and the limits and pages that follow from it.

    python -m tests.interop.audit_rates DIR [--round NAME ...] [--bands] [--dump FILE] [--write]

DIR has one folder per round (training_v5.1 ...), and in it one per submitter. Submitters are split by the SHA-256 of
their names; limits were set on those whose first byte is even. One round is left out: no limit was set on it, whoever
submitted. An alarm is a result on which a signal fires at least once, rightly or not. --write puts the rates in
rules/audits/rates.yaml, which `tta explain` shows, and a sentence and a table in docs/explanation/audit.md. --bands
prints the bands of audit.yaml, from the tuning half.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from harness.base.stats import binomial_interval
from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.facts import Subject, Tree
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import Suspicion
from harness.errors import TtaError
from harness.findings import Severity
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

TODAY = date(2025, 12, 1)  # the latest of the rounds is of 2025
LEFT_OUT = "training_v3.1"
TUNING, OTHER, OUT = "tuning half", "other half", "round left out"
PARTS = (TUNING, OTHER, OUT)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "audit.md"
BEGIN, END = "<!-- rates: begin -->", "<!-- rates: end -->"
RATES_HEAD = """\
# Alarms among held-out published results, on which no limit was set: the other half of the submitters, and the round
# left out.
# Made by `python -m tests.interop.audit_rates DIR --write`; docs/explanation/audit.md has the table.
"""


def part(folder: str, submitter: str) -> str:
    """Which part of the published results a submitter's results in a round are of."""
    if folder == LEFT_OUT:
        return OUT
    return OTHER if hashlib.sha256(submitter.encode()).digest()[0] % 2 else TUNING


def ruleset(folder: str) -> RuleSet | None:
    match = re.search(r"v(\d+\.\d+)", folder)
    name = f"mlperf_training/{match.group(1)}.0" if match else ""
    if name not in dict(catalog.ruleset_folders()):
        return None
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="DIR")
    parser.add_argument("--round", action="append", default=[], metavar="NAME", help="only this folder of DIR")
    parser.add_argument("--bands", action="store_true")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="every suspicion as a line of JSON")
    parser.add_argument("--write", action="store_true", help="the rates, and what the page says of them")
    arguments = parser.parse_args()
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.refuse_unknown(signals)
    totals: Counter[str] = Counter()
    alarms: Counter[tuple[str, str]] = Counter()
    warned: Counter[str] = Counter()
    bands: dict[str, list[float]] = {}
    spoken: list[str] = []
    for folder in sorted(path for path in arguments.place.iterdir() if path.is_dir()):
        if arguments.round and folder.name not in arguments.round:
            continue
        round_rules, tree, found = ruleset(folder.name), Tree(), {}
        for path, logs in read.find([folder]):
            try:
                subject = read.subject(read.read(path, logs), round_rules, rules, TODAY)
            except TtaError as error:
                print(f"{path}: {error}", file=sys.stderr)
                continue
            submitter = path.relative_to(folder).parts[0]
            where = part(folder.name, submitter)
            totals[where] += 1
            tree.add(subject)
            found[str(path)] = (where, engine.audit(subject, rules, signals))
            if where == TUNING:
                widen(bands, subject)
        for path_text, item in engine.audit_tree(tree, rules, signals):
            found[path_text][1].append(item)
        for where, items in found.values():
            for code in {item.finding.code for item in items}:
                alarms[code, where] += 1
            warned[where] += any(item.finding.severity is Severity.WARNING for item in items)
            spoken += [line(folder.name, where, item) for item in items]
    if arguments.dump is not None:
        arguments.dump.write_text("".join(f"{text}\n" for text in spoken))
    if arguments.bands:
        bands.setdefault("ssd", []).extend(bands.get("retinanet", []))  # since v2.0 logs call RetinaNet so, too
        for name, values in sorted((name, values) for name, values in bands.items() if values):
            print(f"  {name}: [{min(values):.6g}, {max(values):.6g}]")
        return 0
    names = {code: (signals[code].name, rule.severity) for code, rule in rules.signals.items()}
    text = f"{sentence(totals, warned)}\n\n{table(totals, alarms, names)}"
    if not arguments.write:
        print(text)
        return 0
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(f"{page[:begin]}\n{text}\n{page[end:]}")
    registry.rates_file().write_text(rates(totals, alarms, rules.signals))
    return 0


def widen(bands: dict[str, list[float]], subject: Subject) -> None:
    for run in subject.runs:
        name = str(run.log.value("submission_benchmark"))
        bands.setdefault(name, []).extend(point.value for point in run.curve)


def line(folder: str, where: str, item: Suspicion) -> str:
    finding = item.finding
    return json.dumps([finding.code, folder, where, item.score, finding.place, finding.message])


def rates(totals: Counter[str], alarms: Counter[tuple[str, str]], codes: Iterable[str]) -> str:
    """The file of the rates on what no limit was set on."""
    rows = [f"  {code}: {alarms[code, OTHER] + alarms[code, OUT]}" for code in codes]
    return "\n".join([f"{RATES_HEAD}results: {totals[OTHER] + totals[OUT]}", "alarms:", *rows]) + "\n"


def sentence(totals: Counter[str], warned: Counter[str]) -> str:
    """How many results of the parts on which no limit was set have a warning."""
    return (
        f"{warned[OUT]} of {totals[OUT]} results of the round left out have a warning, and {warned[OTHER]} of "
        f"{totals[OTHER]} of the other half."
    )


def table(totals: Counter[str], alarms: Counter[tuple[str, str]], names: dict[str, tuple[str, str]]) -> str:
    rows = [f"| signal | severity | {' | '.join(PARTS)} | both unseen parts |", "|---|---|---|---|---|---|"]
    unseen = totals[OTHER] + totals[OUT]
    numbers = " | ".join(str(totals[where]) for where in PARTS)
    rows.append(f"| results | | {numbers} | {unseen} |")
    for code, (name, severity) in names.items():
        counts = [(alarms[code, where], totals[where]) for where in PARTS]
        cells = [cell(*pair) for pair in (*counts, (counts[1][0] + counts[2][0], unseen))]
        rows.append(f"| {code} {name} | {severity} | {' | '.join(cells)} |")
    return "\n".join(rows)


def cell(number: int, of: int) -> str:
    """`2: 1.2 % (0.1 to 4.1)`."""
    low, high = binomial_interval(number, of)
    return f"{number}: {100 * number / max(1, of):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    sys.exit(main())
