"""`tta submit`: turn a result into a submission: gather its files, check them as the organiser would, place them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from harness.base.http import is_address
from harness.board import leaderboard
from harness.board.reproductions import notes
from harness.board.text import rank_text
from harness.checker import engine, registry
from harness.checker.report import text
from harness.commands._arguments import Parser, add_ruleset, as_path, utc_today
from harness.errors import ExitStatus, SubmissionError, TtaError, UsageError, printable
from harness.handin import account, receipt, sending
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import pack, signature
from harness.submission.claim import Claim
from harness.submission.claiming import claim_of
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result, read_result, results_below
from harness.witness.campaign import complete, is_complete


@dataclass(frozen=True, slots=True)
class Request:
    """What to submit, where, and as what."""

    result: Path
    to: str
    submitter: str | None
    category: str | None
    notes: str
    ruleset: str
    is_dry: bool
    sign: Path | None = None
    weights_at: str = ""
    options: sending.Options = sending.Options()  # noqa: RUF009  (frozen)

    @property
    def tree(self) -> Path:
        """The tree, of a request that is not for a service."""
        return as_path(self.to)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("result", type=as_path, metavar="RESULT", help="a folder that `tta run` wrote")
    parser.add_argument(
        "--to",
        type=_as_target,
        required=True,
        metavar="URL|TREE",
        help="the address of a leaderboard's service, or a shared folder or git checkout",
    )
    parser.add_argument("--round", metavar="NAME", help="service: the round (default: the only one that is open)")
    parser.add_argument("--supersedes", metavar="ID", help="service: an own submission that this one improves")
    parser.add_argument(
        "--submitter", metavar="NAME", help="must be the one in the system description (default: that one)"
    )
    parser.add_argument(
        "--category", help="available, preview or research (default: what the system description's status says)"
    )
    parser.add_argument("--notes", default="", help="a line for readers of the leaderboard")
    parser.add_argument(
        "--weights-at",
        default="",
        metavar="ADDRESS",
        help="of a folder with the kept weights (weights_<k>.safetensors) that are too large for a submission",
    )
    add_ruleset(parser)
    parser.add_argument(
        "--sign",
        type=as_path,
        metavar="KEY",
        help="an SSH key to sign the manifest with; a public one is looked up in the SSH agent",
    )
    parser.add_argument("--dry-run", action="store_true", help="do everything except place it")


def _as_target(text: str) -> str:
    """The address of a service, or the path of a tree."""
    return text if is_address(text) else str(as_path(text))


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(
        Request(
            result=arguments.result,
            to=arguments.to,
            submitter=arguments.submitter,
            category=arguments.category,
            notes=arguments.notes,
            ruleset=arguments.ruleset,
            is_dry=arguments.dry_run,
            sign=arguments.sign,
            weights_at=arguments.weights_at,
            options=sending.Options(arguments.round, arguments.supersedes),
        ),
        utc_today(),
    )


def run(request: Request, today: date) -> ExitStatus:
    """Check the result and place it.

    Returns:
        FINDINGS if it is not valid; nothing was placed then.

    Raises:
        TtaError: the result cannot be read, or cannot be placed.
    """
    folder = catalog.ruleset_folder(request.ruleset)
    ruleset = load.load_ruleset(folder, request.ruleset)
    if not request.result.is_dir():
        raise UsageError(f"{request.result}: is not a folder that `tta run` wrote")
    result = read_result(request.result)
    claim = claim_of(
        result,
        request.ruleset,
        today,
        submitter=request.submitter,
        category=request.category,
        notes=request.notes,
        weights_at=request.weights_at,
    )
    paths = pack.pack_paths(claim, result.repeats)
    if is_address(request.to):
        return _send(request, result, claim, ruleset, today)
    if any(asdict(request.options).values()):
        raise UsageError(f"{printable(request.to)}: --round and --supersedes are for a service's address")
    with pack.packed(request.tree, result, claim) as staging:
        if request.sign is not None:
            signature.sign(staging / paths.result / MANIFEST_NAME, request.sign)
        staged = read_result(staging / paths.result)
        findings = engine.judge(staged, ruleset, registry.checks().values(), today)
        print(text.findings_text(findings).replace(f"{staging}/", ""))
        if not engine.is_valid(findings):
            print("not valid under these rules; nothing was placed", file=sys.stderr)
            return ExitStatus.FINDINGS
        pack.refuse_existing(request.tree, paths)  # otherwise it would be ranked against itself
        if request.sign is not None:
            print(signature.verdict(staged, ruleset.allowed_signers, ruleset.version).sentence)
        print(_standing(request.tree, staged, ruleset, today))
        if request.is_dry:
            print(f"dry run: it would be placed at {request.tree / paths.result}", file=sys.stderr)
            return ExitStatus.OK
        place = pack.add_to_tree(request.tree, staging, paths)
    print(f"placed at {place}")
    return ExitStatus.OK


def _send(request: Request, result: Result, claim: Claim, ruleset: RuleSet, today: date) -> ExitStatus:
    """Check the result and send it to a service, which checks it again."""
    client = account.client_for(request.to)
    if not is_complete(result) and not request.is_dry:
        complete(client, result)
        result = read_result(request.result)
    with (
        tempfile.TemporaryDirectory(prefix="tta-submission-") as name,
        pack.packed(Path(name), result, claim) as staging,
    ):
        paths = pack.pack_paths(claim, result.repeats)
        if request.sign is not None:
            signature.sign(staging / paths.result / MANIFEST_NAME, request.sign)
        findings = engine.judge(read_result(staging / paths.result), ruleset, registry.checks().values(), today)
        print(text.findings_text(findings).replace(f"{staging}/", ""))
        if not engine.is_valid(findings):
            print("not valid under these rules; nothing was sent", file=sys.stderr)
            return ExitStatus.FINDINGS
        if request.is_dry:
            print(f"dry run: it would be sent to {client.root}", file=sys.stderr)
            return ExitStatus.OK
        found = sending.send(client, staging, request.options, lambda line: print(line, file=sys.stderr))
    place = receipt.keep(found, client.root, request.result)
    print(receipt.verified(client, found))
    print(f"the receipt is in {place}; `tta status {request.result}` says what becomes of it", file=sys.stderr)
    return ExitStatus.OK


def _standing(tree: Path, staged: Result, ruleset: RuleSet, today: date) -> str:
    """Where the result would rank among those in the tree, and what it says of the one that it repeats."""
    checks = list(registry.checks().values())
    mine = leaderboard.row(staged, ruleset, checks, ruleset.prices, today)
    rows = [mine]
    try:
        others = results_below(tree)
    except SubmissionError as error:
        return f"not ranked: {error}"
    for path in others:
        try:
            other = read_result(path)
        except TtaError as error:
            print(f"{path}: left out of the ranking: {error}", file=sys.stderr)
            continue
        if other.benchmark == staged.benchmark:
            rows.append(leaderboard.row(other, ruleset, checks, ruleset.prices, today))
    board = leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)
    lines = [f"not ranked: {mine.score.why_not or 'no score'}"]
    for table in board.tables:
        for row in table.rows:
            if row.path == mine.path and row.ranks is not None:
                num_ranked = sum(other.ranks is not None for other in table.rows)
                lines[0] = (
                    f"{table.benchmark}, {table.division}: score {row.score.seconds:.3f} s, measured "
                    f"{row.score.measured_seconds:.3f} s; rank {rank_text(row.ranks)} of {num_ranked}"
                )
            if row.path == mine.path:
                lines += map(printable, notes(row, row.links))
    return "\n".join(lines)
