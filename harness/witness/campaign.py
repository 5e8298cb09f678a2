"""A campaign at a leaderboard's service: opened for the runs of a result, which draw their tickets from it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.base.clock import boot_id
from harness.base.companion import Companion, start
from harness.base.files import sha256_of, small_file, write_new
from harness.base.http import HttpClient
from harness.base.values import is_whole, mapping_or_empty
from harness.errors import InputError, OutputError, SubmissionError, UsageError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.log.ticket import Ticket, parse_ticket, seed_of, ticket_of
from harness.submission.layout import CAMPAIGN_NAME, receipts_name
from harness.submission.receipts import ISSUED, MAX_BYTES, parse_campaign, parse_receipts
from harness.submission.result import Result
from harness.transparency.witnessed import Witnessed, parse_witnessed

_MACHINE_ID = Path("/etc/machine-id")
PATIENCE_S = 15.0  # for the last heads, after the last run
TOKEN_VARIABLE = "TTA_WITNESS_TOKEN"  # noqa: S105  (its name) of the process that sends the heads
_ANY_HEAD = {"seq": 0, "head": "0" * 64, "elapsed_ns": 0}  # for the receipt of a head that was received before
_STATES = {"success": "finished", "unfinished": "aborted"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What the runs of a campaign have in common, by digest."""

    benchmark: str
    division: str
    system_sha256: str
    code_sha256: str
    config_sha256: str
    num_runs: int

    def record(self) -> dict[str, Any]:
        """As a service is asked for a campaign."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Witness(Protocol):
    """Where the runs of a result draw their tickets from."""

    def draw(self, index: int) -> Ticket:
        """Return a new ticket for run `index`, whose receipt is the first in the run's file of receipts."""

    def follow(self) -> Companion | None:
        """Start the process that sends the heads of the logs in the folder; None where there is nobody to send to."""


class Campaign:
    """An open campaign. folder: of the result. round: its name; None: the only one that is open."""

    def __init__(self, client: HttpClient, identity: Identity, folder: Path, round: str | None = None) -> None:
        """Raises:
        InputError: nobody answers, or the service refuses.
        """
        self.id = opened(client, identity, round)
        self._client = client
        self._folder = folder

    def draw(self, index: int) -> Ticket:
        """Return a new ticket for run `index`, whose receipt is the first in the run's file of receipts.

        It counts from now on.

        Raises:
            InputError: nobody answers, the service refuses, or the seed is not made of both nonces.
            OutputError: the receipt cannot be written.
        """
        receipt = issued(self._client, self.id, secrets.token_hex(32), host_digest())
        write_new(self._folder / receipts_name(f"result_{index}"), receipt_line(receipt))
        return ticket_in(receipt, self._client.root)

    def follow(self) -> Companion:
        """Start the process that sends the heads of the logs in the folder."""
        assert self._client.token is not None
        arguments = [str(self._folder.absolute()), f"--address={self._client.root}"]
        return start("harness.witness", "the process that streams to the witness", arguments,
                     {TOKEN_VARIABLE: self._client.token})  # fmt: skip


def opened(client: HttpClient, identity: Identity, round: str | None) -> str:
    """Open a campaign, or find the one that is open for this; return its id.

    Raises:
        InputError: nobody answers, or the service refuses.
    """
    return _text(client, client.post("api/v1/campaigns", {**identity.record(), "round": round}), "id")


def issued(
    client: HttpClient, campaign: str, client_nonce: str, host_sha256: str, *, is_sealed: bool = False
) -> Witnessed:
    """Have a ticket issued, which counts from now on; return its receipt. Asked again with one nonce, it is the same.

    Raises:
        InputError: nobody answers, the service refuses, or the seed is not made of both nonces.
    """
    wanted = {"client_nonce": client_nonce, "host_sha256": host_sha256, "is_sealed": is_sealed}
    receipt = _receipt(client, client.post(f"api/v1/campaigns/{campaign}/tickets", wanted))
    ticket = ticket_in(receipt, client.root)
    if (ticket.campaign, ticket.client_nonce) != (campaign, client_nonce):
        raise InputError(f"{client.root}: answered with another ticket than the one that was asked for")
    return receipt


def ticket_in(receipt: Witnessed, place: str) -> Ticket:
    """Return the ticket that a receipt is of.

    Raises:
        InputError: it is of none, or of one whose seed is not made of both nonces.
    """
    event = receipt.opening.event
    body = event["body"]
    names = ("campaign", "number", "server_nonce", "client_nonce", "seed")
    record = {"witness": receipt.origin, "ticket": event["subject"], **{name: body.get(name) for name in names}}
    try:
        ticket = parse_ticket(record)
    except ValueError as error:
        raise InputError(f"{place}: not a ticket: {error}") from None
    if event["kind"] != ISSUED:
        raise InputError(f"{place}: not the receipt of a ticket, but of {printable(event['kind'], 60)}")
    if ticket.seed != seed_of(ticket.ticket, ticket.server_nonce, ticket.client_nonce):
        raise InputError(f"{place}: the seed {ticket.seed} is not made of both nonces; the service chose it")
    return ticket


def host_digest() -> str:
    """Return a digest that names this machine since it was started, and reveals nothing of it."""
    try:
        machine = _MACHINE_ID.read_text().strip()
    except OSError:
        machine = ""
    try:
        boot = boot_id()
    except OSError:
        boot = ""
    return hashlib.sha256(f"tta-host:{machine}:{boot}:{os.uname().nodename}".encode()).hexdigest()


def receipt_line(receipt: Witnessed) -> bytes:
    """Return a receipt as a line of a file of receipts."""
    return json.dumps(receipt.record(), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def append(path: Path, receipt: Witnessed) -> None:
    """Add a receipt to a file of receipts.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with os.fdopen(fd, "wb") as stream:
            stream.write(receipt_line(receipt))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None


def state_of(log: RunLog) -> str:
    """Return how a run ended, in the words of a ticket: finished, missed or aborted."""
    stop = log.first(keys.RUN_STOP)
    status = None if stop is None else stop.metadata.get("status")
    if status == "aborted" and stop is not None and stop.metadata.get("reason") == "interrupted":
        return "aborted"
    return _STATES.get(str(status), "missed" if stop is not None else "aborted")


def send_end(client: HttpClient, ticket: str, state: str, log: Path) -> Witnessed:
    """Tell the witness how the run of a ticket ended, and the digest of its log; return the receipt."""
    body = {"state": state, "log_sha256": sha256_of(log)}
    return _receipt(client, client.post(f"api/v1/tickets/{ticket}/end", body))


def send_head(client: HttpClient, ticket: str, head: Mapping[str, Any]) -> Witnessed:
    """Send the head of a log, once; return its receipt."""
    data = json.dumps(dict(head)).encode()
    path = f"api/v1/tickets/{ticket}/heads"
    answer = client.request("POST", path, data, {"content-type": "application/json"}, retries=0)
    return _receipt(client, answer.json(client.root + path))


def is_complete(result: Result) -> bool:
    """Whether a result has nothing to ask of a witness: it has no tickets, or the end of its campaign."""
    return CAMPAIGN_NAME in result.files or all(ticket_of(log) is None for log in result.runs)


def complete(client: HttpClient, result: Result) -> None:
    """Send the ends of runs that the witness does not have, close the campaign, and keep its end with the result.

    The receipt of a last head whose answer was lost is fetched: one that the witness received must not be missing.

    A result without tickets, and one that has the end already, stay as they are.

    Raises:
        UsageError: runs are missing. InputError: nobody answers, or the service refuses.
        OutputError: a receipt cannot be written.
    """
    if is_complete(result):
        return
    tickets = [(log, ticket) for log in result.runs if (ticket := ticket_of(log)) is not None]
    found = client.get(f"api/v1/campaigns/{tickets[0][1].campaign}")
    if is_whole(found.get("num_runs")) and len(tickets) < found["num_runs"]:
        raise UsageError(
            f"{result.path}: {len(tickets)} of the campaign's {found['num_runs']} runs are there; `tta run --resume` "
            "makes the others; nothing was sent"
        )
    listed = found.get("tickets")
    known = {item.get("id"): item for item in map(mapping_or_empty, listed if isinstance(listed, list) else ())}
    for log, ticket in tickets:
        path = log.path.with_name(receipts_name(log.path.stem))
        try:
            own = parse_receipts(small_file(path, MAX_BYTES), str(path))
        except SubmissionError as error:
            raise InputError(f"the receipts of the ticket are not there: {error}") from None
        state = known.get(ticket.ticket, {})
        if not own.is_ended:
            if state.get("num_heads") == (own.heads[-1].number if own.heads else 0) + 1:  # its answer was lost
                append(path, send_head(client, ticket.ticket, {**_ANY_HEAD, "number": state["num_heads"]}))
            if state.get("state") in ("issued", "started"):  # otherwise the ticket was ended without it
                append(path, send_end(client, ticket.ticket, state_of(log), log.path))
    answer = client.post(f"api/v1/campaigns/{tickets[0][1].campaign}/close")
    data = receipt_line(_receipt(client, answer))
    parse_campaign(data, client.root)
    write_new(result.path / CAMPAIGN_NAME, data)


def _receipt(client: HttpClient, answer: Mapping[str, Any]) -> Witnessed:
    found = parse_witnessed(answer.get("receipt"), f"{client.root}: the answer")
    if not is_whole(found.opening.event["at_ms"]):
        raise InputError(f"{client.root}: the receipt has no time")
    return found


def _text(client: HttpClient, answer: Mapping[str, Any], name: str) -> str:
    found = answer.get(name)
    if not isinstance(found, str) or not found.isalnum():
        raise InputError(f"{client.root}: the service answered with {name} {printable(found, 60)}")
    return found
