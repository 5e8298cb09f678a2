"""Tickets for runs where no service can be reached: fetched beforehand on another machine, with their seeds, as a file.

    tta run … --print-campaign > campaign.json      where the runs will be made: what they are, by digest
    tta witness fetch URL campaign.json --out tickets.json      where the service can be reached
    tta run … --witness tickets.json                where the runs are made

Order and number of the tickets hold as they do for others. Their seeds are known before the runs, and no heads are
received: such a result is registered (W1), not witnessed.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import strict_json
from harness.base.files import small_file, write_new
from harness.base.http import HttpClient
from harness.base.values import is_whole
from harness.errors import InputError, OutputError, SubmissionError, UsageError, printable
from harness.log.ticket import Ticket
from harness.submission.layout import receipts_name
from harness.submission.receipts import MAX_BYTES, parse_receipts
from harness.transparency.witnessed import Witnessed, parse_witnessed
from harness.witness.campaign import Identity, host_digest, issued, opened, receipt_line, ticket_in

_NONCE = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Sealed:
    """A file of sealed tickets. nonces: the submitter's, of all tickets. receipts: of those that were issued so far."""

    identity: Identity
    host_sha256: str
    nonces: tuple[str, ...]
    receipts: tuple[Witnessed, ...]

    def record(self) -> dict[str, Any]:
        """What the file has."""
        return {
            **wanted(self.identity, self.host_sha256),
            "nonces": list(self.nonces),
            "receipts": [item.record() for item in self.receipts],
        }


def wanted(identity: Identity, host_sha256: str | None = None) -> dict[str, Any]:
    """Return what `tta run --print-campaign` prints: the campaign to open, and the machine that it is for."""
    return {"campaign": identity.record(), "host_sha256": host_sha256 or host_digest()}


def fetch(client: HttpClient, request: Path, path: Path, count: int | None, round: str | None = None) -> Sealed:
    """Fetch sealed tickets for the campaign in the file `request` into the file `path`; what is there is continued.

    count: of all tickets in the file afterwards; None: as many as the campaign has runs. round: of the service; None:
    the only one that is open. The submitter's nonces are in the file before anything is asked for, so that a ticket
    whose answer was lost is fetched again, and not another.

    Raises:
        InputError: a file cannot be used, nobody answers, or the service refuses. UsageError: `path` has the tickets of
            another campaign, or more than `count`. OutputError: `path` cannot be written.
    """
    asked = _parse(request, is_request=True)
    before = _parse(path) if path.exists() else asked
    for name, value in asked.identity.record().items():
        if before.identity.record()[name] != value:
            raise UsageError(f"{path}: has tickets of another {name} than {request}; choose another --out")
    total = asked.identity.num_runs if count is None else count
    if total < len(before.nonces):
        raise UsageError(f"{path}: has {len(before.nonces)} tickets already, which count; --count {total} is less")
    nonces = *before.nonces, *(secrets.token_hex(32) for _ in range(total - len(before.nonces)))
    found = Sealed(asked.identity, asked.host_sha256, nonces, before.receipts)
    _replace(path, found)
    campaign = opened(client, found.identity, round)
    for nonce in nonces[len(found.receipts) :]:
        receipt = issued(client, campaign, nonce, found.host_sha256, is_sealed=True)
        found = Sealed(found.identity, found.host_sha256, nonces, (*found.receipts, receipt))
        _replace(path, found)
    return found


def _replace(path: Path, sealed: Sealed) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(json.dumps(sealed.record(), indent=1) + "\n")
        draft.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None


class SealedCampaign:
    """The tickets in a file, for the runs of a result in `folder`."""

    def __init__(self, path: Path, identity: Identity, folder: Path) -> None:
        """Raises:
        InputError: the file cannot be read. UsageError: its tickets are for other runs.
        """
        found = _parse(path)
        for name, value in identity.record().items():
            if found.identity.record()[name] != value:
                own, other = printable(value, 60), printable(found.identity.record()[name], 60)
                raise UsageError(f"--witness {path}: its tickets are for {name} {other}; these runs have {own}")
        self._path, self._folder = path, folder
        self._receipts = found.receipts

    def draw(self, index: int) -> Ticket:
        """Return the first ticket that no run in the folder has, finished or not; its receipt is kept for run `index`.

        Raises:
            UsageError: every ticket is used. OutputError: the receipt cannot be written.
        """
        used = {_ticket_of(path) for path in self._folder.rglob(receipts_name("*"))}
        for receipt in self._receipts:
            ticket = ticket_in(receipt, str(self._path))
            if ticket.ticket not in used:
                write_new(self._folder / receipts_name(f"result_{index}"), receipt_line(receipt))
                return ticket
        raise UsageError(
            f"{self._path}: each of its {len(self._receipts)} tickets has had its run; fetch more: `tta witness fetch` "
            f"with --count {len(self._receipts) + 1}"
        )

    def follow(self) -> None:
        """Nobody is sent the heads of these runs."""


def _ticket_of(path: Path) -> str | None:
    try:
        return parse_receipts(small_file(path, MAX_BYTES), str(path)).ticket
    except (InputError, SubmissionError):
        return None  # which a check of the result says


def _parse(path: Path, *, is_request: bool = False) -> Sealed:
    """Read a file of tickets, or what was printed for the campaign."""
    try:
        found = strict_json.loads(small_file(path, MAX_BYTES))
    except SubmissionError as error:
        raise InputError(str(error)) from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    what = "what `tta run --print-campaign` prints" if is_request else "a file that `tta witness fetch` wrote"
    match found:
        case {"campaign": dict(campaign), "host_sha256": str(host), "nonces": list(nonces), "receipts": list(receipts)}:
            pass
        case {"campaign": dict(campaign), "host_sha256": str(host)} if is_request:
            nonces, receipts = [], []
        case _:
            raise InputError(f"{path}: is not {what}")
    is_identity = set(campaign) == set(Identity.__dataclass_fields__) and all(
        is_whole(value) if name == "num_runs" else isinstance(value, str) for name, value in campaign.items()
    )
    if not is_identity or not _NONCE.fullmatch(host):
        raise InputError(f"{path}: is not {what}: a field of `campaign` or `host_sha256` is missing or wrong")
    if not all(isinstance(item, str) and _NONCE.fullmatch(item) for item in nonces) or len(receipts) > len(nonces):
        raise InputError(f"{path}: is not {what}: the nonces are wrong, or too few")
    witnessed = tuple(parse_witnessed(item, f"{path}: receipt {number}") for number, item in enumerate(receipts, 1))
    return Sealed(Identity(**campaign), host, tuple(nonces), witnessed)
