"""A witness without a service, for tests: gives tickets to fabricated runs, and the receipts that a service would give.

Nothing is signed; receipts are events of a log that exists only here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.log import keys, run_log
from harness.log.events import line_digest
from harness.log.ticket import Ticket, commitment_of, config_digest, nonce_of, seed_of
from harness.submission.layout import CAMPAIGN_NAME, receipts_name
from harness.submission.receipts import CLOSED, ENDED, HEAD, ISSUED
from harness.transparency.event import Opening, event_text
from harness.transparency.witnessed import Witnessed
from tests.fabricate import WALL_START_MS, Step
from tests.rules.box import configure, put, recount

CAMPAIGN = "c" * 32
SECRET = bytes(range(32))
ORIGIN = "witness.example/log"
TRANSIT_MS = 20


def ticket_id(index: int) -> str:
    return hashlib.sha256(f"ticket {index}".encode()).hexdigest()[:32]


def ticket(index: int) -> Ticket:
    """The ticket of run `index`."""
    name, server = ticket_id(index), nonce_of(SECRET, CAMPAIGN, index + 1)
    client = hashlib.sha256(f"client {index}".encode()).hexdigest()
    return Ticket(ORIGIN, CAMPAIGN, name, index + 1, server, client, seed_of(name, server, client))


def give_tickets(runs: Sequence[list[Step]]) -> None:
    """Each run has a ticket, and its seed."""
    for index, steps in enumerate(runs):
        found = ticket(index)
        configure(steps, seed=found.seed)
        put(steps, Step(0.0, keys.TTA_TICKET, found.record()), keys.TTA_RULES)
        recount(steps)


@dataclass
class FakeWitness:
    """The receipts for a folder of logs. change: what is done to each head's body; None leaves one out.

    lost: tickets that were issued beyond those of the logs, by state. campaign: what the end of the campaign says
    instead; campaign_id: of which it is; state_of_first, first_number: what it says of the first ticket.
    """

    folder: Path
    change: Callable[[int, dict[str, Any]], dict[str, Any] | None] = lambda index, body: body
    lost: Sequence[str] = ()
    late_ms: Callable[[dict[str, Any]], int] = lambda body: TRANSIT_MS
    campaign: dict[str, Any] = field(default_factory=dict)
    campaign_id: str = CAMPAIGN
    state_of_first: str = "finished"
    first_number: int = 1
    _seq: int = 0

    def receipt(self, kind: str, subject: str, body: dict[str, Any], at_ms: int) -> Witnessed:
        """An event that was appended."""
        text = event_text(self._seq, at_ms, None, kind, subject, body, "0" * 64)
        self._seq += 1
        return Witnessed(ORIGIN, Opening(self._seq - 1, "ab" * 16, text))

    def write(self) -> None:
        """Write the receipts of every run, and the end of the campaign."""
        logs = [run_log.read(path) for path in sorted(self.folder.glob("result_*.txt"))]
        for index, log in enumerate(logs):
            self._write_run(index, log)
        config = logs[0].value(keys.TTA_CONFIG)
        tickets = [self._ended(index, log.sha256, "finished") for index, log in enumerate(logs)]
        tickets[0] |= {"state": self.state_of_first, "number": self.first_number}
        tickets += [self._ended(len(logs) + more, None, state) for more, state in enumerate(self.lost)]
        body = {
            "secret": SECRET.hex(),
            "commitment": commitment_of(SECRET),
            "benchmark": logs[0].value(keys.SUBMISSION_BENCHMARK),
            "division": logs[0].value(keys.SUBMISSION_DIVISION),
            "system_sha256": logs[0].field(keys.TTA_SYSTEM, "digest"),
            "code_sha256": logs[0].field(keys.TTA_CODE, "digest"),
            "config_sha256": config_digest(config),
            "num_runs": len(logs),
            "tickets": tickets,
            **self.campaign,
        }
        record = self.receipt(CLOSED, self.campaign_id, body, WALL_START_MS + 900_000).record()
        (self.folder / CAMPAIGN_NAME).write_text(json.dumps(record) + "\n")

    def _ended(self, index: int, log_sha256: str | None, state: str) -> dict[str, Any]:
        found = ticket(index)
        names = ("ticket", "number", "server_nonce", "client_nonce", "seed")
        return {**{name: getattr(found, name) for name in names}, "state": state, "log_sha256": log_sha256}

    def _write_run(self, index: int, log: run_log.RunLog) -> None:
        found, start_ms = ticket(index), log.events[0].time_ms
        names = ("campaign", "number", "server_nonce", "client_nonce", "seed")
        issued = {name: getattr(found, name) for name in names}
        receipts = [self.receipt(ISSUED, found.ticket, issued, start_ms - 1000)]
        lines = log.path.read_text().splitlines()
        number = 0
        for seq, event in enumerate(log.events):
            if event.key not in (keys.RUN_START, keys.EVAL_STOP, keys.RUN_STOP, keys.TTA_END):
                continue
            assert event.elapsed_ns is not None
            later = log.events[seq + 1].elapsed_ns if seq + 1 < len(log.events) else None
            sent_ns = event.elapsed_ns + 100_000_000
            if later is not None and later < sent_ns:  # sent with what followed at once
                sent_ns = event.elapsed_ns
            number += 1
            wanted = {"number": number, "seq": seq, "head": line_digest(lines[seq]), "elapsed_ns": sent_ns}
            body = self.change(index, wanted)
            if body is not None:
                at_ms = start_ms + sent_ns // 1_000_000 + self.late_ms(body)
                receipts.append(self.receipt(HEAD, found.ticket, body, at_ms))
        ended = {"state": "finished", "log_sha256": log.sha256}
        last_ms = start_ms + (log.events[-1].elapsed_ns or 0) // 1_000_000 + 1000
        receipts.append(self.receipt(ENDED, found.ticket, ended, last_ms))
        text = "".join(json.dumps(item.record()) + "\n" for item in receipts)
        (self.folder / receipts_name(log.path.stem)).write_text(text)
