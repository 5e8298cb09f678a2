"""`tta_ticket`: which ticket of a witness a run was made with, and how the run's seed follows from it.

The witness, a leaderboard's service, draws 32 random bytes for a campaign, publishes their commitment, and makes of
them a nonce for each ticket. The submitter adds a nonce of its own before it knows that one. The seed is made of both,
so that neither side chooses it. When the campaign is closed the witness publishes the 32 bytes, and anybody can make
every nonce and every seed again.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.base.values import is_whole
from harness.errors import printable
from harness.log import keys
from harness.log.events import digest_of
from harness.log.run_log import RunLog

SECRET_BYTES = 32
_ID, _DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
_OF_ONE_RUN = ("seed", "weights_seed", "noise_seed")  # fields of `tta_config`


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as a log has it.

    witness: the origin of the witness's log. campaign, ticket: ids. number: which of the campaign's tickets it is, from
    1. server_nonce, client_nonce: 64 hexadecimal digits each.
    """

    witness: str
    campaign: str
    ticket: str
    number: int
    server_nonce: str
    client_nonce: str
    seed: int

    def record(self) -> dict[str, Any]:
        """The value of `tta_ticket`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def commitment_of(secret: bytes) -> str:
    """Return what the witness publishes of its secret when a campaign is opened."""
    return hashlib.sha256(b"tta-s" + secret).hexdigest()


def nonce_of(secret: bytes, campaign: str, number: int) -> str:
    """Return the witness's part of ticket `number` of a campaign: HMAC-SHA-256 of `<campaign>:<number>`."""
    return hmac.new(secret, f"{campaign}:{number}".encode(), hashlib.sha256).hexdigest()


def seed_of(ticket: str, server_nonce: str, client_nonce: str) -> int:
    """Return the seed of a ticket: the first 31 bits of the SHA-256 of `tta-seed`, its id and the nonces, as text."""
    digest = hashlib.sha256(f"tta-seed{ticket}{server_nonce}{client_nonce}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def config_digest(config: Mapping[str, Any]) -> str:
    """Return the digest of a configuration (`tta_config`) without its seeds: all runs of a result have the same."""
    return digest_of({name: value for name, value in config.items() if name not in _OF_ONE_RUN})


def parse_ticket(value: object) -> Ticket:
    """Return the ticket that is the value of `tta_ticket`.

    Raises:
        ValueError: it is none; says why.
    """
    if not isinstance(value, dict) or set(value) != set(Ticket.__dataclass_fields__):
        raise ValueError(f"must have exactly the fields {', '.join(Ticket.__dataclass_fields__)}")
    for name in ("campaign", "ticket"):
        if not isinstance(value[name], str) or not _ID.fullmatch(value[name]):
            raise ValueError(f"{name} is {printable(value[name], 60)}; it must be 32 hexadecimal digits")
    for name in ("server_nonce", "client_nonce"):
        if not isinstance(value[name], str) or not _DIGEST.fullmatch(value[name]):
            raise ValueError(f"{name} is {printable(value[name], 60)}; it must be 64 hexadecimal digits")
    if not isinstance(value["witness"], str) or not 0 < len(value["witness"]) <= 200:
        raise ValueError("witness must name the log of the witness")
    for name in ("number", "seed"):
        if not is_whole(value[name]) or value[name] < 0:
            raise ValueError(f"{name} is {printable(value[name], 60)}; it must be a whole number")
    return Ticket(**value)


def ticket_of(log: RunLog) -> Ticket | None:
    """Return the ticket of a run; None if it has none that can be read."""
    try:
        return parse_ticket(log.value(keys.TTA_TICKET)) if log.first(keys.TTA_TICKET) is not None else None
    except ValueError:
        return None
