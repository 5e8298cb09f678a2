"""Do MLCommons' package checker, RCP checker and result summariser agree with `tta` on every result of a folder?

    python -m tests.interop.agree_results FOLDER --round 5.1.0 [--json agreement.json] [--every 5]

Needs `pip install mlperf-logging`. Their programs write into the submission, so each result is laid out again in a
scratch folder, its logs as links, without its control files, and alone, so that each has its own verdict. Their
programs execute what their rule files contain and follow names that a log gives them: run them on other people's logs
only where that does no harm.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import math
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness.base.values import finite_number
from harness.checker import engine, registry
from harness.errors import TtaError
from harness.findings import Rule
from harness.mlperf import score as mlperf_score
from harness.mlperf.model import Round
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import layout
from harness.submission.result import Result, find_results, read_result

ACCEPT, REFUSE, CRASH, NONE = "accept", "refuse", "crash", "none"
# What their programs object to, too. Only `tta` has findings of other codes.
SHARED = re.compile(r"MLP00[0-9]|MLP010|MLR00[13678]|MLR01[127]|SYS001")
TOLERANCE = 1e-12  # relative, of minutes and factors: theirs are sums of doubles in another order


@dataclass(frozen=True)
class Opinion:
    """One program's verdict on a result; minutes are the score, None if there is none."""

    package: str
    convergence: str
    factor: float | None
    raw_minutes: float | None
    minutes: float | None
    reasons: tuple[str, ...]


class Tta:
    def __init__(self, ruleset: RuleSet) -> None:
        assert ruleset.round is not None
        self.ruleset, self.round = ruleset, ruleset.round
        self.checks: list[Rule] = list(registry.checks().values())

    def opinion(self, result: Result, today: date) -> Opinion:
        findings = engine.judge(result, self.ruleset, self.checks, today)
        codes = sorted({item.code for item in findings if item.counts})
        score = mlperf_score.round_score(result.runs, self.round)
        verdict = score.code
        return Opinion(
            package=REFUSE if any(SHARED.fullmatch(code) for code in codes) else ACCEPT,
            convergence=NONE if verdict is None else ACCEPT if verdict.status == "pass" else REFUSE,
            factor=None if verdict is None or verdict.status != "pass" else verdict.factor,
            raw_minutes=None if score.raw_seconds is None else mlperf_score.minutes(score.raw_seconds),
            minutes=None if score.seconds is None else mlperf_score.minutes(score.seconds),
            reasons=tuple(codes),
        )


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(re.sub(r"\S*/\S*|[0-9]+", "…", record.getMessage().strip().splitlines()[0])[:120])


class Theirs:
    """MLCommons' programs, in this process, on a result alone in a scratch folder."""

    def __init__(self, version: str) -> None:
        from mlperf_logging.package_checker import package_checker
        from mlperf_logging.rcp_checker import rcp_checker
        from mlperf_logging.result_summarizer import result_summarizer

        self.package, self.rcp, self.summary = package_checker, rcp_checker, result_summarizer
        self.version = version

    def opinion(self, tree: Path, folder: Path, is_closed: bool, in_epochs: bool) -> Opinion:
        """in_epochs: with their programs' option for logs of BERT that count in epochs."""
        errors = _Errors()
        logger = logging.getLogger()
        logger.handlers[:] = [errors]
        package, why = self._quietly(lambda: self._package(tree, in_epochs))
        reasons = [*dict.fromkeys(errors.lines), *([why] if why else [])]
        convergence, factor, message = NONE, None, ""
        if is_closed and self.version != "0.7.0":
            found, why = self._quietly(
                lambda: self.rcp.check_directory(
                    str(folder), "training", self.version, False, in_epochs, rcp_pass="pruned_rcps", set_scaling=True
                )
            )
            convergence = CRASH if found is None else ACCEPT if found[0] else REFUSE
            message = f"RCP: {why or found[1]}"
            factor = float(found[2]) if found is not None and found[0] else None
        logger.handlers[:] = [errors]
        (folder / layout.SCALING_NAME).unlink(missing_ok=True)
        score, why = self._quietly(
            lambda: self.summary._compute_strong_score_standalone(
                folder.name, folder.parent.name, False, str(folder), "training", self.version
            )
        )
        raw = None if score is None or score[0] is None else float(score[0])
        verdict = CRASH if package is None else ACCEPT if package else REFUSE
        reasons += [message] if message else []
        minutes = raw * (factor or 1.0) if raw is not None else None
        return Opinion(verdict, convergence, factor, raw, minutes, (*reasons, *([f"score: {why}"] if why else [])))

    def _package(self, tree: Path, in_epochs: bool) -> bool:
        is_valid = True
        if self.version != "0.7.0":
            is_valid = self.package.check_systems(str(tree), "training", self.version)
        found = self.package.check_training_result_files(
            str(tree), "training", self.version, True, False, False, in_epochs, False
        )
        return bool(is_valid and found)

    @staticmethod
    def _quietly(call: Any) -> tuple[Any, str]:
        """The result of `call`, or None and the reason why it raised: any exception, for they are theirs."""
        try:
            silent = io.StringIO()
            with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return call(), ""
        except Exception as error:  # noqa: BLE001  (whatever their programs raise is their answer)
            return None, f"{type(error).__name__}: {str(error)[:80]}"


def lay_out(folder: Path, scratch: Path) -> tuple[Path, Path]:
    """The result in `folder` as its own submission below `scratch`: the submitter's folder, and the result's."""
    submitter = folder.parents[2]
    tree = scratch / submitter.name
    copy = tree / "results" / folder.parent.name / folder.name
    copy.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name == layout.SCALING_NAME or path.name == layout.PARAMETERS_NAME:
            continue
        (copy / path.name).symlink_to(path.absolute())
    (tree / "systems").mkdir()
    system = layout.system_file(folder)
    if system is not None and system.is_file():
        shutil.copy(system, tree / "systems")
    return tree, copy


def in_epochs(result: Result, round_: Round) -> bool:
    """Whether the evaluations of BERT count in epochs."""
    benchmark = round_.benchmark(result.benchmark)
    if benchmark is None or benchmark.name != "bert":
        return False
    counts = [log.all("eval_accuracy")[-1].metadata.get("epoch_num") for log in result.runs if log.all("eval_accuracy")]
    return any(
        mlperf_score.counts_in_epochs(finite_number(count), log, benchmark)
        for count, log in zip(counts, result.runs, strict=False)
    )


def by_later_rule(version: str, theirs: Opinion) -> bool:
    """Whether their only objections to a result of a round before 4.1 are seeds and status, rules of 4.1."""
    errors = [reason for reason in theirs.reasons if not reason.startswith("RCP: ")]
    later = ("Field status contains", "logs no seed", "Seed checker failed")
    is_earlier = tuple(map(int, version.split("."))) < (4, 1, 0)
    return is_earlier and theirs.package == REFUSE and all(any(word in error for word in later) for error in errors)


def is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE)


def differences(mine: Opinion, theirs: Opinion) -> Iterator[str]:
    """What the two differ in, one word each."""
    if mine.package != theirs.package:
        yield f"package: tta {mine.package}, theirs {theirs.package}"
    if mine.convergence != theirs.convergence:
        yield f"convergence: tta {mine.convergence}, theirs {theirs.convergence}"
    if theirs.convergence == ACCEPT and not is_same(mine.factor, theirs.factor):
        yield f"factor: tta {mine.factor}, theirs {theirs.factor}"
    if not is_same(mine.raw_minutes, theirs.raw_minutes):
        yield f"raw score: tta {mine.raw_minutes}, theirs {theirs.raw_minutes}"
    if not is_same(mine.minutes, theirs.minutes):
        yield f"score: tta {mine.minutes}, theirs {theirs.minutes}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--round", required=True, dest="version")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth result")
    options = parser.parse_args()
    name = f"mlperf_training/{options.version}"
    mine, theirs = Tta(load.load_ruleset(catalog.ruleset_folder(name), name)), Theirs(options.version)
    rows, kinds = [], Counter[str]()
    mine_s = theirs_s = 0.0
    for path in find_results(options.folder)[:: options.every]:
        if not layout.is_result_place(path):
            continue
        started = time.process_time()
        try:
            result = read_result(path)
        except TtaError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        ours = mine.opinion(result, date.today())
        mine_s += time.process_time() - started
        started = time.process_time()
        is_closed = bool(result.runs) and result.runs[0].value("submission_division") == "closed"
        with tempfile.TemporaryDirectory() as scratch:
            others = theirs.opinion(*lay_out(path, Path(scratch)), is_closed, in_epochs(result, mine.round))
        theirs_s += time.process_time() - started
        found = list(differences(ours, others))
        rows.append({"path": str(path), "ours": asdict(ours), "theirs": asdict(others), "differences": found})
        if ours.package == ACCEPT and by_later_rule(options.version, others):
            kinds["package: differs, theirs by rules of 4.1 only"] += 1
        for item in ("package", "convergence", "factor", "raw score", "score"):
            kinds[f"{item}: {'differs' if any(word.startswith(f'{item}:') for word in found) else 'agrees'}"] += 1
        if found:
            print(f"{path.relative_to(options.folder)}: {'; '.join(found)}\n    tta: {', '.join(ours.reasons)}")
            print(f"    theirs: {' | '.join(others.reasons)}")
    print(f"{len(rows)} results of round {options.version}: tta {mine_s:.1f} CPU-s, theirs {theirs_s:.1f} CPU-s")
    for kind, number in sorted(kinds.items()):
        print(f"  {kind}: {number}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(row["differences"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
