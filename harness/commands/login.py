"""`tta login`: keep the token by which a leaderboard's service knows this user."""

from __future__ import annotations

import argparse
import getpass
import sys

from harness.base.http import HttpClient, RefusedError
from harness.commands._arguments import Parser
from harness.errors import ExitStatus, UsageError, printable
from harness.handin import account


def add_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="URL", help="of the service, as in a browser")


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.address)


def run(address: str) -> ExitStatus:
    """Ask for a token, or read it from standard input; keep it if the service knows it.

    Raises:
        UsageError: the address or the token is none. InputError: nobody answers, or the token is refused.
    """
    client = HttpClient(account.root_of(address))
    if sys.stdin.isatty():
        token = getpass.getpass(f"token for {client.root} (make one on its page Account): ")
    else:
        token = sys.stdin.readline()
    client.token = token.strip()
    if not client.token or not client.token.isascii() or not client.token.isprintable():
        raise UsageError("that is not a token: a token is one word of letters, digits, - and _")
    try:
        me = client.get("api/v1/me")
    except RefusedError as error:
        if error.status == 401:
            raise UsageError(f"{client.root}: the service does not know this token, or no longer") from None
        raise
    place = account.keep(client.root, client.token)
    roles = ", ".join(map(str, me.get("roles", [])))
    print(f"{printable(me.get('name'))} of {printable(me.get('organisation'))} ({printable(roles)})")
    print(f"the token is kept in {place}", file=sys.stderr)
    return ExitStatus.OK
