"""Applies every attack of the catalogue to valid results, and writes which checks and signals find it.

    python -m tests.attacks [--seed N] [--real ROUND=FOLDER ...] [--out docs/reports/tampering.md]

FOLDER is the folder of one published result, for example 5.1.0=.../Krai/results/<system>/llama2_70b_lora.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from harness.checker import engine, registry
from harness.checker.audit import read
from harness.checker.audit.facts import Standard
from harness.errors import InputError
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from tests import fabricate, foreign
from tests.attacks.forgeries import FORGERIES
from tests.attacks.results import ATTACKS, Folder
from tests.attacks.score_cheats import CHEATS, outcome
from tests.attacks.text_edits import TEXT_EDITS
from tests.auditing import STANDARD, audit, v1
from tests.rules.box import TODAY, Box

ROOT = Path(__file__).parents[2]
REFERENCE = sorted((ROOT / "submissions" / "reference" / "results").glob("*/*/submission.yaml"))[0].parent
Seen = Counter[tuple[str, str]]


def seen(folder: Path, ruleset: RuleSet | None, standard: Standard | None = None) -> Seen:
    """What checks and audit find in the result in `folder`, by code and file."""
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


def new_codes(before: Seen, after: Seen) -> list[str]:
    """The codes that are found more often than before, in any file."""
    return sorted({code for (code, place), times in after.items() if times > before[code, place]})


def on_results(source: Path, ruleset: RuleSet | None, standard: Standard | None, seed: int) -> dict[str, list[str]]:
    """Each attack on a result of MLPerf's, and the codes that find it."""
    table = {}
    with tempfile.TemporaryDirectory() as place:
        before = seen(shutil.copytree(source, Path(place, "valid", *source.parts[-4:])), ruleset, standard)
        for number, attack in enumerate(ATTACKS):
            folder = Folder(
                Path(shutil.copytree(source, Path(place, str(number), *source.parts[-4:]))), random.Random(seed)
            )
            attack.act(folder)
            folder.write()
            table[attack.name] = new_codes(before, seen(folder.path, ruleset, standard))
    return table


def on_reference(seed: int) -> dict[str, list[str]]:
    """Each edit of a reference submission of `tta`, as text in its tree, and the codes that find it."""
    table = {}
    submitter = REFERENCE.parents[2]
    with tempfile.TemporaryDirectory() as place:
        valid = Path(shutil.copytree(submitter, Path(place, "valid", submitter.name)))
        before = seen(valid / REFERENCE.relative_to(submitter), v1())
        for number, edit in enumerate(TEXT_EDITS):
            rng = random.Random(seed)
            tree = Path(shutil.copytree(submitter, Path(place, str(number), submitter.name)))
            folder = tree / REFERENCE.relative_to(submitter)
            log = rng.choice(sorted(folder.glob("result_*.txt")))
            lines = edit.act(log.read_text().splitlines(), rng)
            log.write_text("".join(f"{line}\n" for line in lines))
            fabricate.reseal(folder)
            table[edit.name] = new_codes(before, seen(folder, v1()))
    return table


def on_fabricated() -> dict[str, list[str]]:
    """Each forgery of a fabricated submission of `tta`, and the codes that find it."""
    table = {}
    for forgery in FORGERIES:
        with tempfile.TemporaryDirectory() as place:
            box = Box(Path(place), **forgery.box)
            forgery.damage(box)
            if not box.is_written:
                box.write()
            found: Seen = Counter((item.code, Path(item.path).name) for item in box.judge())
            found.update(
                (item.finding.code, Path(item.finding.path).name) for item in audit(box.folder, None, box.ruleset)
            )
        name = f"{forgery.name} (careful)" if forgery.name in table else forgery.name
        table[name] = new_codes(Counter(), found)
    return table


def score_cheats() -> str:
    """The section on results of genuine logs: what each cheat gains, and what is found."""
    severities = v1().codes
    rows = [SCORE_CHEATS, "", "| cheat | measured time | score | found |  |", "|---|---:|---:|---|---|"]
    for cheat in CHEATS:
        with tempfile.TemporaryDirectory() as place:
            found = outcome(cheat, Path(place))
        shown = ", ".join(f"{code} ({severities[code]})" for code in sorted(found.codes)) or "**nothing**"
        score = percent(found.score) if found.is_valid else "none"
        rows.append(f"| {cheat.name} | {percent(found.measured)} | {score} | {shown} | {cheat.then} |")
    return "\n".join(rows)


def percent(ratio: float) -> str:
    """How much less or more, with a true minus sign; +0.0 % and -0.0 % are 0.0 %."""
    change = round(100 * (ratio - 1), 1)
    return "0.0 %" if change == 0 else f"{change:+.1f} %".replace("-", "−")


def cell(codes: list[str]) -> str:
    shown = ", ".join(codes[:6])
    return (f"{shown} and {len(codes) - 6} more" if len(codes) > 6 else shown) or "**not found**"


def named(folder: Path) -> str:
    """Submitter, system and benchmark of `folder`, .../<submitter>/results/<system>/<benchmark>."""
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
        made = foreign.write(foreign.result(Path(place)), [foreign.rows(index, has_stats=True) for index in range(5)])
        columns = {"fabricated": on_results(made, None, STANDARD, arguments.seed)}
    for item in arguments.real:
        name, _, folder = item.partition("=")
        ruleset = load.load_ruleset(catalog.ruleset_folder(f"mlperf_training/{name}"), f"mlperf_training/{name}")
        path = Path(folder)
        columns[f"{name}: {named(path)}"] = on_results(path, ruleset, None, arguments.seed)
    parts = [
        HEAD.format(seed=arguments.seed),
        section("Results in MLPerf's manner", columns),
        section("A `tta` submission, edited as text", {named(REFERENCE): on_reference(arguments.seed)}),
        section("A `tta` submission, forged carefully or carelessly", {"fabricated": on_fabricated()}),
        score_cheats(),
    ]
    text = "\n\n".join([*parts, TAIL]) + "\n"
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text)
    return 0


HEAD = """\
# Tampering: kinds of change and what finds them

Made by `python -m tests.attacks --seed {seed} --real ROUND=FOLDER …`, with one `--real` for each published result.
Each kind is one change to a valid result; the codes are those of the checks (`tta check`) and signals (`tta audit`)
that report something afterwards and did not before. A kind that nothing finds is listed as such: it is why results
are reproduced."""

SCORE_CHEATS = """\
## Cheats on the score

Results whose logs are genuine in form, made faster by luck, tuning or omission: the change against an honest result
of the same system. Its seeds differ by 5 %, and its runs are evaluated every 7.7 % of their length. What such cheats
do to the reference's own runs is in [How a score is made](../explanation/statistics.md)."""

TAIL = """\
## What no file shows

These attacks were tried or thought through by people who know the code, and leave files that are consistent. What
helps against them is a second run by someone else, and a look at the machine.

- **Any log**: one that is forged entirely, including other programs' lines. All times of all runs shortened by a
  fifth, if no other program's line has a date and no line states a time, or samples per second and samples.
  `init_start` written later than initialisation began.
- **MLPerf's rounds**: a smaller batch size, or milder settings, stated everywhere. A tenth more samples or epochs in
  all runs, if the round's page has no schedule (`tta explain` shows it) and the batch size is between those of the
  reference. Every second evaluation taken out of all runs, if so few are left that a run has no more than two
  distances. Work before the clock that makes the first section less than 1.6 times as fast: up to five minutes of a
  run that is evaluated rarely. Evaluations cut short if they naturally take longer than training. Every quality of
  copied runs moved by as much as seeds move it. All times shortened, and the times that the runs state with them, if
  no other program's line has a date and no system of the same accelerator was submitted by two others. Half of the
  accelerators described, if there are no such systems. `init_start` of all processes but the last left out. A folder of
  a submitter's that is called like an older round, or the dates of all logs, in a tree that is not named after a round.
  Power readings halved everywhere. Where checkpoints are evaluated afterwards (MiniGo, Stable Diffusion), `run_stop` up
  to one percent of the run, or one model of self-play, before training was at the one that decides. A run of BERT or
  DLRM whose lines are all made up so that it was evaluated afterwards. A loss before the last that is made worse,
  which gains nothing.
- **`tta`'s logs**: several hosts under one name. The best of many runs, with random seeds, from one series of
  attempts. Qualities altered together with all losses and times. Other data, if the rules have no digest of them. The
  wording of `evidence` and `reason`. A power trace imported as a file with a wrong clock; the scope or the accuracy
  of a meter; an accelerator that is neither metered nor described; a shift of a power log by less than the start
  phase allows."""


if __name__ == "__main__":
    sys.exit(main())
