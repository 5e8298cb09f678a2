#!/usr/bin/env python3
"""Changes valid results in every kind there is, and writes what finds each: kinds x detection.

    python -m tests.rules.tamper [--seed N] [--real ROUND=FOLDER ...] [--out docs/reports/tampering.md]

FOLDER is the folder of one published result, for example 5.1.0=.../Krai/results/<system>/llama2_70b_lora. Ours are a
fabricated submission and the first one under submissions/reference. Kinds: tests/rules/tamperkinds.py and
tests/rules/test_tampering.py.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it can be called from anywhere

from harness.checker import engine, registry
from harness.checker.audit import read
from harness.checker.audit.facts import Standard
from harness.errors import InputError
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from tests import foreign
from tests.auditing import STANDARD, audit, v1
from tests.rules import tamperkinds
from tests.rules.box import Box
from tests.rules.tamperkinds import Folder, difference
from tests.rules.test_tampering import TAMPERINGS

TODAY = date(2025, 12, 1)
ROOT = Path(__file__).parents[2]
Seen = Counter[tuple[str, str]]


def seen(folder: Path, ruleset: RuleSet | None, standard: Standard | None = None) -> Seen:
    """What checks and audit say of the result in `folder`, by code and file."""
    found: Seen = Counter()
    checks = registry.checks().values()
    for path, logs in read.find([folder]):
        try:
            result = read.read(path, logs)
        except InputError:
            return Counter({("unreadable", folder.name): 1})
        found.update({("unreadable", part.path.name): 1 for part in result.unreadable})
        if ruleset is not None:
            found.update((item.code, Path(item.path).name) for item in engine.judge(result, ruleset, checks, TODAY))
    found.update((item.finding.code, Path(item.finding.path).name) for item in audit(folder, standard, ruleset))
    return found


def on_results(source: Path, ruleset: RuleSet | None, standard: Standard | None, seed: int) -> dict[str, list[str]]:
    """Each kind of change to a result in MLPerf's manner, and the codes that speak of it."""
    table = {}
    with tempfile.TemporaryDirectory() as place:
        before = seen(shutil.copytree(source, Path(place, "sound", *source.parts[-4:])), ruleset, standard)
        for number, kind in enumerate(tamperkinds.RESULTS):
            folder = Path(shutil.copytree(source, Path(place, str(number), *source.parts[-4:])))
            box = Folder(folder, random.Random(seed))
            kind.act(box)
            box.write()
            table[kind.name] = difference(before, seen(folder, ruleset, standard))
    return table


def on_reference(source: Path, ruleset: RuleSet, seed: int) -> dict[str, list[str]]:
    """Each kind of change to a submission of ours, edited as text in its tree."""
    table = {}
    submitter = source.parents[2]
    with tempfile.TemporaryDirectory() as place:
        sound = Path(shutil.copytree(submitter, Path(place, "sound", submitter.name)))
        before = seen(sound / source.relative_to(submitter), ruleset)
        for number, (name, act) in enumerate(tamperkinds.OURS):
            rng = random.Random(seed)
            tree = Path(shutil.copytree(submitter, Path(place, str(number), submitter.name)))
            folder = tree / source.relative_to(submitter)
            log = rng.choice(sorted(folder.glob("result_*.txt")))
            lines = act(log.read_text().splitlines(), rng)
            log.write_text("".join(f"{line}\n" for line in lines))
            tamperkinds.reseal(folder)
            table[name] = difference(before, seen(folder, ruleset))
    return table


def on_fabricated() -> dict[str, list[str]]:
    """The ways of `test_tampering`: naive ones and careful ones."""
    table = {}
    for number, tampering in enumerate(TAMPERINGS):
        with tempfile.TemporaryDirectory() as place:
            box = Box(Path(place), **tampering.box)
            tampering.act(box)
            if not box.is_written:
                box.write()
            found: Seen = Counter((item.code, Path(item.path).name) for item in box.judge())
            found.update(
                (item.finding.code, Path(item.finding.path).name) for item in audit(box.folder, None, box.ruleset)
            )
            manner = "careful" if tampering.manner == "unseen" else tampering.manner
            table[f"{tampering.name} ({manner})" if tampering.name in table else tampering.name] = difference(
                Counter(), found
            )
            del number
    return table


def cell(codes: list[str]) -> str:
    shown = ", ".join(codes[:6])
    return (f"{shown} and {len(codes) - 6} more" if len(codes) > 6 else shown) or "**not found**"


def named(folder: Path) -> str:
    """Which result `folder` holds, .../<submitter>/results/<system>/<benchmark>."""
    submitter, _, system, benchmark = folder.resolve().parts[-4:]
    return f"{submitter}, {system}, {benchmark}"


def section(title: str, columns: dict[str, dict[str, list[str]]]) -> str:
    names = list(next(iter(columns.values())))
    rows = [f"## {title}", "", f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    rows += [f"| {name} | {' | '.join(cell(table[name]) for table in columns.values())} |" for name in names]
    for column, table in columns.items():
        found = sum(bool(codes) for codes in table.values())
        rows += ["", f"{column}: {found} of {len(table)} found."]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--real", action="append", default=[], metavar="ROUND=FOLDER")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        made = foreign.write(foreign.result(Path(place)), [foreign.rows(index) for index in range(5)])
        columns = {"fabricated": on_results(made, None, STANDARD, arguments.seed)}
    for item in arguments.real:
        name, _, folder = item.partition("=")
        law = load.load_ruleset(catalog.ruleset_folder(f"mlperf_training/{name}"), f"mlperf_training/{name}")
        path = Path(folder)
        columns[f"{name}: {named(path)}"] = on_results(path, law, None, arguments.seed)
    reference = sorted((ROOT / "submissions" / "reference" / "results").glob("*/*/submission.yaml"))[0].parent
    parts = [
        HEAD.format(seed=arguments.seed),
        section("Results in MLPerf's manner", columns),
        section(
            "A `tta` submission, edited as text", {named(reference): on_reference(reference, v1(), arguments.seed)}
        ),
        section("A `tta` submission, forged carefully or carelessly", {"fabricated": on_fabricated()}),
    ]
    text = "\n\n".join([*parts, TAIL]) + "\n"
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text)
    return 0


HEAD = """\
# Tampering: kinds of change and what finds them

Made by `python -m tests.rules.tamper --seed {seed}`. Each kind is one change to a valid result; the codes are those of
the checks (`tta check`) and signals (`tta audit`) that report something afterwards and did not before. A kind that
nothing finds is listed as such: it is why results are reproduced."""

TAIL = """\
## What no file shows

These attacks were tried or thought through by people who know the code, and leave files that are consistent. What
helps against them is a second run by someone else, and a look at the machine.

- **Any log**: one that is forged entirely, including other programs' lines. All times of all runs shortened by a
  fifth, if no other program's line has a date. `init_start` written later than initialisation began.
- **MLPerf's rounds**: a smaller batch size, or milder settings, stated everywhere. A tenth more samples or epochs in
  all runs, if the round's page has no schedule (`tta explain` shows it) and the batch size is between those of the
  reference. Work before the clock that makes the first section less than 1.6 times as fast. Evaluations cut short if
  they naturally take longer than training. Every quality of copied runs moved by as much as seeds move it. Dates of
  all logs in a tree that is not named after a round. Power readings halved everywhere.
- **`tta`'s logs**: several hosts under one name. The best of many runs, with random seeds, from one series of
  attempts. Qualities altered together with all losses and times. Other data, if the rules have no digest of them. The
  wording of `evidence` and `reason`. A power trace imported as a file with a wrong clock; the scope or the accuracy
  of a meter; an accelerator that is neither metered nor described; a shift of a power log by less than the start
  phase allows."""


if __name__ == "__main__":
    sys.exit(main())
