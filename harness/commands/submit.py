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
from harness.errors import ExitStatus, SubmissionError, TtaError, UsageError, printable, unknown_name
from harness.handin import account, receipt, sending
from harness.log import keys
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import pack, signature
from harness.submission.claim import Claim
from harness.submission.layout import CLAIM_NAME, MANIFEST_NAME, SYSTEM_NAME
from harness.submission.result import Result, read_result, results_below
from harness.submission.weights import are_apart, place_fault
from harness.witness.campaign import complete, is_complete

CATEGORIES = ("available", "preview", "research")


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
    claim = _claim(request, result, today)
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


def _claim(request: Request, result: Result, today: date) -> Claim:
    """The claim for a result, from its logs and its system description."""
    if not result.runs:
        why = f": {result.unreadable[0].path}: {result.unreadable[0].message}" if result.unreadable else ""
        raise SubmissionError(f"{request.result}: no run log (result_<k>.txt) in it can be read{why}")
    if result.system is None or result.system_path is None or result.system_sha256 is None:
        raise SubmissionError(_no_description(request.result, result))
    category = request.category or _category(result.system.get("status"))
    if category not in CATEGORIES:
        raise UsageError(unknown_name("category", category, CATEGORIES))
    first = result.runs[0]
    submitter, system = result.system.get("submitter"), result.system.get("system_name")
    for name in ("submitter", "system_name"):
        if not isinstance(result.system.get(name), str):
            raise SubmissionError(
                f"{result.system_path}: {name!r} is missing or not a string; `tta doctor --out` writes it"
            )
    if request.submitter is not None and request.submitter != submitter:
        raise UsageError(
            f"--submitter {printable(request.submitter)!r}: the runs were made under the name {printable(submitter)!r} "
            f"({result.system_path}); a log cannot be submitted under another name"
        )
    return Claim(
        submitter=str(submitter),
        system=str(system),
        benchmark=str(first.value(keys.SUBMISSION_BENCHMARK)),
        division=str(first.value(keys.SUBMISSION_DIVISION)),
        category=category,
        ruleset=request.ruleset,
        system_sha256=result.system_sha256,
        submitted=today.isoformat(),
        notes=request.notes,
        weights_at=_weights_at(request, result),
    )


def _weights_at(request: Request, result: Result) -> str:
    """The place of weights that are too large for a submission; empty if there are none.

    Raises:
        UsageError: there are some, and no place is named; or there are none; or it is no address.
    """
    apart = [log.path.name for log in result.runs if are_apart(log)]
    if apart and not request.weights_at:
        raise UsageError(
            f"{request.result}: {', '.join(apart)}: the weights are too large for a submission; publish what `tta run "
            "--keep-weights` left next to the result, and name the folder with --weights-at ADDRESS"
        )
    if request.weights_at and not apart:
        raise UsageError(f"--weights-at: no run of {request.result} has weights that are too large for a submission")
    if request.weights_at and (fault := place_fault(request.weights_at)):
        raise UsageError(f"--weights-at {printable(request.weights_at)!r}: {fault}")
    return request.weights_at


def _no_description(folder: Path, result: Result) -> str:
    """Why a result has no system description to be submitted with."""
    place = result.system_path or folder / SYSTEM_NAME
    why = next((part.message for part in result.unreadable if part.path == result.system_path), None)
    if why is not None:
        return f"{place}: {why}"
    if CLAIM_NAME in result.files:
        return (
            f"{folder}: has a {CLAIM_NAME}, so it is a submission already, and the description of its system belongs "
            f"at {place}, which does not exist; without {CLAIM_NAME} it is taken from {SYSTEM_NAME} next to the logs"
        )
    return f"{folder}: has no {SYSTEM_NAME}; `tta run` writes one there"


def _category(status: object) -> str:
    """The category for an availability in MLPerf's words; research if the words are not known."""
    return {"Available on-premise": "available", "Available cloud": "available", "Preview": "preview"}.get(
        str(status), "research"
    )


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
