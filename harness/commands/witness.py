"""`tta witness`: campaigns of witnessed runs, and whether what a witness has said is in its log."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.base.files import small_file
from harness.base.http import HttpClient
from harness.base.values import mapping_or_empty
from harness.checker import engine, registry
from harness.checker.report import text
from harness.commands._arguments import EXIT_STATUSES, Parser, add_ruleset, as_path, as_positive, utc_today
from harness.errors import ExitStatus, InputError, UsageError, printable
from harness.handin import account
from harness.ruleset import catalog, load
from harness.submission.receipts import WITNESS_WORDS, drawn, witness_class
from harness.submission.result import read_result
from harness.witness import sealed, verification
from harness.witness.campaign import complete

_FAMILY = "WIT"


def _verify_arguments(parser: Parser) -> None:
    parser.add_argument("result", type=as_path, metavar="RESULT", help="a result or a submission with receipts")
    parser.add_argument("--key", type=as_path, metavar="FILE", help="the public key of the service")
    parser.add_argument(
        "--checkpoint", type=as_path, action="append", default=[], metavar="FILE",
        help="a checkpoint of the service's log, from anywhere; repeatable: two that contradict each other are found",
    )  # fmt: skip
    parser.add_argument("--from", dest="address", metavar="URL", help="the service: for its key, and for proofs")
    add_ruleset(parser)


def _cosign_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="URL", help="the service")
    parser.add_argument("--key", type=as_path, required=True, metavar="FILE", help="your SSH key")
    parser.add_argument(
        "--kept", type=as_path, required=True, metavar="FILE",
        help="where the checkpoint that was signed last is kept; the next must continue it",
    )  # fmt: skip


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="URL", help="the service")
    parser.add_argument("campaign", metavar="ID")


def _complete_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="URL", help="the service")
    parser.add_argument("result", type=as_path, metavar="RESULT", help="a folder that `tta run --witness` wrote")


def _fetch_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="URL", help="the service")
    parser.add_argument(
        "campaign",
        type=as_path,
        metavar="FILE",
        help="what `tta run … --print-campaign` printed where the runs are made",
    )
    parser.add_argument(
        "--out", type=as_path, required=True, metavar="FILE",
        help="the file for the tickets, for `tta run … --witness FILE`; one that is there is continued",
    )  # fmt: skip
    parser.add_argument("--round", metavar="NAME", help="the service's round (default: the only one that is open)")
    parser.add_argument(
        "--count", type=as_positive, metavar="N", help="tickets in it (default: as many as the rules ask for runs)"
    )


def verify(arguments: argparse.Namespace) -> ExitStatus:
    """Print what the receipts of a result show.

    Returns:
        FINDINGS if something contradicts.
    """
    if not arguments.result.is_dir():
        raise UsageError(f"{arguments.result}: is not the folder of a result")
    client = None if arguments.address is None else HttpClient(account.root_of(arguments.address))
    if client is None and arguments.key is None:
        raise UsageError("name the service's public key with --key FILE, or the service with --from URL")
    key = _key(arguments.key, client)
    result = read_result(arguments.result)
    ruleset = load.load_ruleset(catalog.ruleset_folder(arguments.ruleset), arguments.ruleset)
    every = engine.judge(result, ruleset, registry.checks().values(), utc_today())
    findings = [finding for finding in every if finding.code.startswith(_FAMILY)]
    found = verification.verify(result, key, verification.read_notes(arguments.checkpoint), client)
    name = witness_class(result)
    print(f"{result.path}: {name}, {WITNESS_WORDS.get(name, 'not witnessed')}; {found.num_receipts} receipts")
    if findings:
        print(text.findings_text(findings))
    for line in (*found.faults, *found.doubts):
        print(f"  {printable(line, 1000)}")
    where = "signatures" if client is None else f"signatures, and places in the log of {client.root}"
    if not found.faults and not found.doubts:
        print(f"  {where}: as they should be")
    if (chosen := drawn(result)) is not None:
        what = f"{chosen.log.path.name}, evaluation {chosen.number} ({chosen.samples:,} samples)"
        print(f"  drawn: {what}; repeat with: tta reproduce {printable(result.path)} --drawn")
    is_valid = engine.is_valid(findings) and not found.faults
    return ExitStatus.OK if is_valid else ExitStatus.FINDINGS


def _key(path: Path | None, client: HttpClient | None) -> str:
    """The first two words of a public key: its kind and itself."""
    if path is not None:
        content = small_file(path).decode("utf-8", "replace")
    else:
        assert client is not None
        content = str(client.get("api/v1/key").get("public_key"))
    words = content.split()
    if len(words) < 2 or not words[0].startswith("ssh-"):
        raise InputError(f"{path or 'the key of the service'}: is not an SSH public key")
    return " ".join(words[:2])


def cosign(arguments: argparse.Namespace) -> ExitStatus:
    """Sign the newest checkpoint of a service's log, as another party."""
    client = account.client_for(arguments.address)
    print(verification.cosign(client, arguments.key, arguments.kept))
    return ExitStatus.OK


def show(arguments: argparse.Namespace) -> ExitStatus:
    """Print a campaign with its tickets."""
    client = account.client_for(arguments.address)
    if not arguments.campaign.isalnum():
        raise UsageError(f"{printable(arguments.campaign)}: is not the id of a campaign")
    found = client.get(f"api/v1/campaigns/{arguments.campaign}")
    names = ("benchmark", "division", "num_runs")
    what = ", ".join(printable(found.get(name)) for name in names)
    print(f"{printable(found.get('id'))}: {what} runs; {'closed' if found.get('closed_ms') else 'open'}")
    tickets = found.get("tickets")
    for item in tickets if isinstance(tickets, list) else []:
        ticket: dict[str, Any] = mapping_or_empty(item)
        reason = f": {printable(ticket['reason'], 300)}" if ticket.get("reason") else ""
        heads = printable(ticket.get("num_heads"))
        print(f"  {printable(ticket.get('number'))}  {printable(ticket.get('state'))}, {heads} heads{reason}")
    return ExitStatus.OK


def finish(arguments: argparse.Namespace) -> ExitStatus:
    """Close the campaign of a result whose runs are there; `tta submit --to URL` does so by itself."""
    if not arguments.result.is_dir():
        raise UsageError(f"{arguments.result}: is not the folder of a result")
    complete(account.client_for(arguments.address), read_result(arguments.result))
    print(f"{arguments.result}: {witness_class(read_result(arguments.result))}")
    return ExitStatus.OK


def fetch(arguments: argparse.Namespace) -> ExitStatus:
    """Fetch tickets, each of which counts from now on, for runs where the service cannot be reached."""
    found = sealed.fetch(
        account.client_for(arguments.address), arguments.campaign, arguments.out, arguments.count, arguments.round
    )
    what = f"{len(found.receipts)} tickets for {found.identity.benchmark}"
    print(f"{printable(arguments.out)}: {what}; each counts from now on")
    return ExitStatus.OK


ACTIONS: dict[str, tuple[str, Callable[[Parser], None], Callable[[argparse.Namespace], ExitStatus]]] = {
    "verify": ("compare a result's receipts with its logs, with the witness's key and with its log", _verify_arguments,
               verify),
    "cosign": ("sign the newest checkpoint of a service's log if it continues the last one", _cosign_arguments, cosign),
    "fetch": ("fetch tickets for runs on a machine without a network", _fetch_arguments, fetch),
    "show": ("show a campaign of your team with its tickets", _show_arguments, show),
    "close": ("close the campaign of a result, as `tta submit` does", _complete_arguments, finish),
}  # fmt: skip


def add_arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    for name, (summary, add, carry_out) in ACTIONS.items():
        one = actions.add_parser(name, help=summary, epilog=EXIT_STATUSES, allow_abbrev=False)
        one.description = summary[0].upper() + summary[1:] + "."
        add(one)
        one.set_defaults(witness_action=carry_out)


def call(arguments: argparse.Namespace) -> ExitStatus:
    status: ExitStatus = arguments.witness_action(arguments)
    return status
