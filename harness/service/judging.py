"""From the files of a submission to a verdict and a row: the very check of `tta check`, in a confined child."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from harness import __version__
from harness.board import leaderboard
from harness.board.export import row_document
from harness.board.index import Board, board_of_one, relative_finding, without_root
from harness.board.leaderboard import Leaderboard, Row
from harness.board.pages.render import Renderer, renderer_of, result_body
from harness.checker import engine, registry
from harness.errors import InputError, OutputError
from harness.findings import Finding, Rule
from harness.log.events import canonical_json
from harness.ruleset.model import RuleSet
from harness.service.instance import Instance
from harness.service.submitting import ListedFile, places_of
from harness.submission import receipts
from harness.submission.layout import CAMPAIGN_NAME, RECEIPTS_PATTERN
from harness.submission.result import read_result


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is stored of a result that was judged. findings: as JSON, sorted, with paths relative to the tree.

    page: what the result's page shows, as HTML; empty where it has no benchmark to be shown by.
    errors: of the score's logarithm, as `harness.base.stats.Estimate` has them.
    row: as `tta score` writes it; None where the result cannot be read, which is the only finding then.
    repeatable: what it is compared by with what it repeats, and with what repeats it; None where `row` is.
    """

    ruleset: str
    ruleset_digest: str
    checker: str
    is_valid: bool
    num_errors: int
    num_warnings: int
    findings: tuple[dict[str, Any], ...]
    row: dict[str, Any] | None
    repeatable: dict[str, Any] | None
    errors: list[list[float]]
    page: str
    cpu_s: float


@contextlib.contextmanager
def laid_out(instance: Instance, files: Sequence[ListedFile], name: str) -> Iterator[Path]:
    """Yield a tree with the files of a submission, as links to the blobs; removed at the end."""
    tree = instance.folder / "work" / f"{name}.{os.getpid()}"
    shutil.rmtree(tree, ignore_errors=True)
    try:
        for item in files:
            target = tree / item.path
            try:
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.link(instance.blobs.path(item.sha256), target)
            except OSError as error:
                raise OutputError(f"{target}: cannot be linked: {error.strerror}") from None
        yield tree
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def judge(
    tree: Path,
    files: Sequence[ListedFile],
    ruleset: RuleSet,
    at_ms: int,
    division: str | None = None,
    name: str = "result",
    receipt_faults: Sequence[tuple[str, str]] = (),
) -> Judgement:
    """Judge and score the result in `tree`, as of the day of `at_ms`.

    name: of its page. receipt_faults: what `witnessing.receipt_faults` says, with places relative to the tree.
    division: in which it counts, where that is not the one that it claims: a closed result that was moved to open is
    checked by the rules that it was made under, and scored by those of the open division.
    """
    started_s = time.process_time()
    today = datetime.fromtimestamp(at_ms / 1000, UTC).date()
    place = places_of(files).result
    try:
        placed = tuple((str(tree / item), why) for item, why in receipt_faults)
        result = replace(read_result(tree / place), receipt_faults=placed)
    except InputError as error:
        fault = {"code": "", "name": "unreadable", "severity": "error", "path": place, "line": None, "waived": None}
        findings = ({**fault, "message": without_root(str(error), tree)},)
        cpu_s = time.process_time() - started_s
        return Judgement(ruleset.version, ruleset.digest, __version__, False, 1, 0, findings, None, None, [], "", cpu_s)
    found = [
        relative_finding(item, tree) for item in engine.judge(result, ruleset, prepared(ruleset)[0].values(), today)
    ]
    counted = result
    if division and result.claim is not None and result.claim.division != division:
        counted = replace(result, claim=replace(result.claim, division=division))
    row = leaderboard.rate(counted, ruleset, found, ruleset.prices)
    # Wherever it was laid out: the same result gives the same document, which reveals nothing of this machine.
    root = json.dumps(f"{tree}/")[1:-1]
    document: dict[str, Any] = json.loads(canonical_json(row_document(row)).replace(root, ""))
    page = ""
    if counted.benchmark in ruleset.benchmarks:
        checks, render = prepared(ruleset)
        page = result_body(board_of_one(counted, row, name, tree, ruleset, checks, partial(_rank, ruleset)), render)
    return Judgement(
        ruleset=ruleset.version,
        ruleset_digest=ruleset.digest,
        checker=__version__,
        is_valid=engine.is_valid(found),
        num_errors=row.num_errors,
        num_warnings=row.num_warnings,
        findings=tuple(map(_finding, found)),
        row=document,
        repeatable=None if row.repeatable is None else row.repeatable.record(),
        errors=[] if row.score.seconds is None else [list(error) for error in row.score.estimate.errors],
        page=page,
        cpu_s=time.process_time() - started_s,
    )


def has_receipts(files: Sequence[ListedFile]) -> bool:
    """Whether a submission has receipts of a witness."""
    names = (Path(item.path).name for item in files)
    return any(name == CAMPAIGN_NAME or RECEIPTS_PATTERN.fullmatch(name) for name in names)


def claimed_in(tree: Path, files: Sequence[ListedFile]) -> tuple[list[tuple[str, int, str]], list[tuple[str, str]]]:
    """Return what a result shows of a witness, with places relative to the tree; for a confined child, too.

    Place, number and leaf of every receipt; and, if it has the end of its campaign, place and ticket of every run.
    """
    try:
        result = read_result(tree / places_of(files).result)
    except InputError:
        return [], []  # which the check says
    leaves = [(without_root(place, tree), seq, leaf) for place, seq, leaf in receipts.leaves(result)]
    runs = receipts.witnessed_runs(result) if CAMPAIGN_NAME in result.files else ()
    return leaves, [(without_root(str(run.log.path), tree), run.ticket.ticket) for run in runs]


_prepared: dict[str, tuple[Mapping[str, Rule], Renderer]] = {}  # by the ruleset's digest


def prepared(ruleset: RuleSet) -> tuple[Mapping[str, Rule], Renderer]:
    """Return the checks and the templates for a ruleset, read and compiled once: before children are forked."""
    if ruleset.digest not in _prepared:
        checks = registry.checks()
        empty = Board(ruleset, checks, ruleset.prices, Leaderboard(ruleset.version, ruleset.digest, ()), {}, ())
        render = renderer_of(empty, is_stored=True)
        render.environment.get_template("result_body.html")
        for included in ("macros.html", "power.html", "reproductions.html"):
            render.environment.get_template(included)
        _prepared[ruleset.digest] = checks, render
    return _prepared[ruleset.digest]


def _rank(ruleset: RuleSet, rows: Sequence[Row]) -> Leaderboard:
    return leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": str(finding.severity),
        "path": finding.path,
        "line": finding.line,
        "message": finding.message,
        "waived": finding.waived,
    }
