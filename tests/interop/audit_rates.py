"""How often each signal of `tta audit` fires on published rounds: results, alarms and rate, by round and half.

    python -m tests.interop.audit_rates DIR [--bands] [--dump FILE] [--out docs/explanation/audit.md]

DIR has one folder per round (training_v5.1 ...), and in it one per submitter. Submitters are split by the SHA-256 of
their names: limits were set on the even half, and alarms are counted on the odd half. An alarm is a result on which a
signal fires at least once, rightly or not. --bands prints the bands of audit.yaml (tuning half).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from harness.checker import registry
from harness.checker.audit import engine, read
from harness.checker.audit.facts import Subject, Tree
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import Suspicion
from harness.errors import TtaError
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

TODAY = date(2025, 12, 1)  # the latest of the rounds is of 2025
BEGIN, END = "<!-- rates: begin -->", "<!-- rates: end -->"
HALVES = ("tuning", "other")


def half(submitter: str) -> str:
    return HALVES[hashlib.sha256(submitter.encode()).digest()[0] % 2]


def ruleset(folder: str) -> RuleSet | None:
    match = re.search(r"v(\d+\.\d+)", folder)
    name = f"mlperf_training/{match.group(1)}.0" if match else ""
    if name not in dict(catalog.ruleset_folders()):
        return None
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="DIR")
    parser.add_argument("--bands", action="store_true")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="every suspicion as a line of JSON")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page whose marks the table goes between")
    arguments = parser.parse_args()
    rules, signals = load_audit(registry.audit_file()), registry.signals()
    rules.refuse_unknown(signals)
    totals: Counter[tuple[str, str]] = Counter()
    alarms: Counter[tuple[str, str, str]] = Counter()
    bands: dict[str, list[float]] = {}
    spoken: list[str] = []
    for folder in sorted(path for path in arguments.place.iterdir() if path.is_dir()):
        round_rules, tree, found = ruleset(folder.name), Tree(), {}
        for path, logs in read.find([folder]):
            try:
                subject = read.subject(read.read(path, logs), round_rules, rules.bands, TODAY)
            except TtaError as error:
                print(f"{path}: {error}", file=sys.stderr)
                continue
            submitter = path.relative_to(folder).parts[0]
            totals[folder.name, half(submitter)] += 1
            tree.add(subject)
            found[str(path)] = (submitter, engine.audit(subject, rules, signals))
            if half(submitter) == "tuning":
                widen(bands, subject)
        for path_text, item in engine.audit_tree(tree, rules, signals):
            found[path_text][1].append(item)
        for path_text, (submitter, items) in found.items():
            for code in {item.finding.code for item in items}:
                alarms[code, folder.name, half(submitter)] += 1
            spoken += [line(folder.name, half(submitter), path_text, item) for item in items]
    if arguments.dump is not None:
        arguments.dump.write_text("".join(f"{text}\n" for text in spoken))
    if arguments.bands:
        bands.setdefault("ssd", []).extend(bands.get("retinanet", []))  # since v2.0 logs call RetinaNet so, too
        for name, values in sorted((name, values) for name, values in bands.items() if values):
            print(f"  {name}: [{min(values):.6g}, {max(values):.6g}]")
        return 0
    text = table(totals, alarms, {code: signals[code].name for code in rules.signals})
    if arguments.out is None:
        print(text)
    else:
        page = arguments.out.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        arguments.out.write_text(f"{page[:begin]}\n{text}\n{page[end:]}")
    return 0


def widen(bands: dict[str, list[float]], subject: Subject) -> None:
    for run in subject.runs:
        name = str(run.log.value("submission_benchmark"))
        bands.setdefault(name, []).extend(point.value for point in run.curve)


def line(folder: str, which: str, path: str, item: Suspicion) -> str:
    finding = item.finding
    return json.dumps([finding.code, folder, which, item.score, finding.place, finding.message])


def table(totals: Counter[tuple[str, str]], alarms: Counter[tuple[str, str, str]], names: dict[str, str]) -> str:
    columns = [(folder, which) for folder in sorted({folder for folder, _ in totals}) for which in HALVES]
    columns = [column for column in columns if totals[column]]
    head = " | ".join(f"{folder.removeprefix('training_')} {which}" for folder, which in columns)
    rows = [f"| signal | {head} | tuning | other |", "|---" * (len(columns) + 3) + "|"]
    numbers = " | ".join(str(totals[column]) for column in columns)
    sums = {which: sum(number for (_, other), number in totals.items() if other == which) for which in HALVES}
    rows.append(f"| results | {numbers} | {sums['tuning']} | {sums['other']} |")
    for code, name in names.items():
        cells = [str(alarms[code, *column]) for column in columns]
        for which in HALVES:
            number = sum(alarms[code, *column] for column in columns if column[1] == which)
            cells.append(f"{number} ({100 * number / max(1, sums[which]):.1f} %)")
        rows.append(f"| {code} {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
