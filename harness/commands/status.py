"""`tta status`: what became of a submission."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from harness.base import strict_json
from harness.base.files import small_file
from harness.base.http import HttpClient
from harness.base.ids import ID_PATTERN
from harness.base.values import mapping_or_empty
from harness.commands._arguments import Parser, add_format
from harness.errors import ExitStatus, InputError, UsageError, printable
from harness.handin import account
from harness.handin.receipt import NAME
from harness.handin.status import FAILED, SETTLED, status_text

WATCH_S = 2.0


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "submission",
        nargs="?",
        metavar="ID|RESULT",
        help="its id, or the folder that was submitted; none: all of yours",
    )
    parser.add_argument("--to", metavar="URL", help="the service (default: as in the folder's receipt.json)")
    parser.add_argument("--watch", action="store_true", help="wait until nothing more happens by itself")
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.submission, arguments.to, arguments.format, arguments.watch)


def run(what: str | None, address: str | None, output_format: str, is_watched: bool) -> ExitStatus:
    """Print the state of a submission, or of all that this user's team has.

    Returns:
        FINDINGS if it is not valid, could not be checked, or was rejected or retracted.

    Raises:
        UsageError: no service or no submission is named. InputError: nobody answers, or there is no such submission.
    """
    submission, address = _named(what, address)
    client = account.client_for(address)
    if submission is None:
        return _all(client, output_format)
    found = client.get(f"api/v1/submissions/{submission}")
    while is_watched and found.get("state") not in SETTLED:
        print(f"{submission}: {printable(found.get('words'))}", file=sys.stderr)
        time.sleep(WATCH_S)
        found = client.get(f"api/v1/submissions/{submission}")
    print(json.dumps(found, indent=2) if output_format == "json" else status_text(found))
    return ExitStatus.FINDINGS if found.get("state") in FAILED else ExitStatus.OK


def _named(what: str | None, address: str | None) -> tuple[str | None, str]:
    """Return the id of a submission, None for all, and the address of the service."""
    if what is None or ID_PATTERN.fullmatch(what):
        if address is None:
            raise UsageError("name the service with --to URL, or the folder of a result that was submitted")
        return what, address
    path = Path(what) / NAME
    if not path.is_file():
        raise UsageError(f"{printable(what)}: neither the id of a submission nor a folder with {NAME}")
    try:
        receipt = mapping_or_empty(strict_json.loads(small_file(path)))
    except ValueError as error:
        raise InputError(f"{path}: {printable(error)}") from None
    submission, service = receipt.get("submission"), address or receipt.get("service")
    if not isinstance(submission, str) or not ID_PATTERN.fullmatch(submission) or not isinstance(service, str):
        raise InputError(f"{path}: is not a receipt: it has no submission and service")
    return submission, service


def _all(client: HttpClient, output_format: str) -> ExitStatus:
    found: list[dict[str, Any]] = []
    path = "api/v1/submissions?mine=true&limit=200"
    while True:
        answer = client.get(path)
        found += [mapping_or_empty(item) for item in answer.get("submissions", [])]
        after = answer.get("next")
        if not isinstance(after, str):
            break
        path = f"api/v1/submissions?mine=true&limit=200&after={after}"
    if output_format == "json":
        print(json.dumps(found, indent=2))
    else:
        names = ("id", "benchmark", "system", "words")
        print("\n".join("  ".join(printable(item.get(name)) for name in names) for item in found) or "no submissions")
    return ExitStatus.OK
