"""The tokens by which services know this user: one for each address, in a file that nobody else can read."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from harness.base import strict_json
from harness.base.files import small_file
from harness.base.http import HttpClient
from harness.errors import InputError, OutputError, SubmissionError, UsageError, printable

VARIABLE = "TTA_BOARD_TOKEN"


def tokens_file() -> Path:
    """Return where the tokens are kept."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "tta" / "tokens.json"


def root_of(address: str) -> str:
    """Return an address of a service as it is kept: with a slash at its end."""
    return address if address.endswith("/") else f"{address}/"


def token_for(address: str) -> str | None:
    """Return the token for a service: the one in TTA_BOARD_TOKEN, or the one that is kept; None if there is none.

    Raises:
        InputError: the file with the tokens cannot be read.
    """
    if given := os.environ.get(VARIABLE):
        return given
    return _kept().get(root_of(address))


def client_for(address: str) -> HttpClient:
    """Return a client of a service, with its token.

    Raises:
        UsageError: the address is none, or there is no token for it.
    """
    client = HttpClient(root_of(address))
    client.token = token_for(address)
    if client.token is None:
        raise UsageError(f"{printable(address)}: there is no token for it; run `tta login {printable(address)}`")
    return client


def keep(address: str, token: str) -> Path:
    """Keep a token; return the file.

    Raises:
        InputError: the file cannot be read. OutputError: it cannot be written.
    """
    path = tokens_file()
    known = {**_kept(), root_of(address): token}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd, draft = tempfile.mkstemp(dir=path.parent, prefix=".tokens.")  # of mode 0600
        with os.fdopen(fd, "w") as stream:
            stream.write(json.dumps(known, indent=1, sort_keys=True) + "\n")
        Path(draft).replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _kept() -> dict[str, str]:
    path = tokens_file()
    if not path.exists():
        return {}
    try:
        found = strict_json.loads(small_file(path))
    except (SubmissionError, ValueError) as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}; remove it and sign in again") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InputError(f"{path}: is not a list of tokens by address; remove it and sign in again")
    return found
