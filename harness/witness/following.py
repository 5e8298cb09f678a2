"""Which head of a log is sent when: after run_start, each evaluation and the end at once, otherwise every ten seconds.

The present head is what is sent, never an older one: it binds all that is before it. What could not be sent is not made
up for, since a receipt shows when it was given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.base.clock import MonotonicClock
from harness.base.files import small_file
from harness.base.http import HttpClient, RefusedError
from harness.base.values import is_whole, mapping_or_empty
from harness.errors import InputError, LogError, printable
from harness.log import keys
from harness.log.events import Event
from harness.log.tail import Tail
from harness.log.ticket import Ticket, parse_ticket
from harness.submission.layout import receipts_name
from harness.submission.receipts import MAX_BYTES, parse_receipts
from harness.witness import campaign

EVERY_S = 10.0
LONGEST_WAIT_S = 8.0  # between two attempts
_AT_ONCE = {keys.RUN_START, keys.EVAL_STOP, keys.RUN_STOP, keys.TTA_RESUME, keys.TTA_END}


def raw_ns() -> int:
    """Return the system clock that a run's clock counts from."""
    return time.clock_gettime_ns(MonotonicClock.clock_id())


@dataclass(slots=True)
class Followed:
    """A log that grows, and what its witness has of it.

    now_ns: the clock that the log's counts from; tests have their own.
    """

    path: Path
    client: HttpClient
    say: Callable[[str], None]
    now_ns: Callable[[], int] = raw_ns
    ticket: Ticket | None = None
    is_done: bool = False
    has_failed: bool = False
    _tail: Tail = field(init=False)
    _number: int = 0
    _seq: int = -1
    _origin_ns: int | None = None
    _is_due: bool = False
    _has_ended: bool = False
    _is_whole: bool = False  # the head of the whole log was received; its end is still to be said
    _state: str = "aborted"
    _sent_ns: int = 0
    _not_before_ns: int = 0
    _wait_s: float = 1.0

    def __post_init__(self) -> None:
        self._tail = Tail(self.path)

    @property
    def _receipts(self) -> Path:
        return self.path.with_name(receipts_name(self.path.stem))

    def read(self) -> None:
        """Read what the log has gained."""
        if self.is_done:
            return
        try:
            for event in self._tail.events():
                self._take(event)
        except LogError as error:
            self._give_up(str(error))

    def _take(self, event: Event) -> None:
        seq = event.metadata.get("seq")
        self._seq = seq if is_whole(seq) else self._seq
        if event.key == keys.TTA_TICKET:
            try:
                self.ticket = parse_ticket(event.value)
                before = parse_receipts(small_file(self._receipts, MAX_BYTES), str(self._receipts))
            except (ValueError, InputError) as error:
                self._give_up(f"{self.path}: {error}")
            else:  # of a run that goes on
                self.is_done, self._number = before.is_ended, before.heads[-1].number if before.heads else 0
        elif event.key in (keys.TTA_CLOCK, keys.TTA_RESUME):
            mono_ns = mapping_or_empty(event.value).get("mono_ns")
            self._origin_ns = mono_ns if is_whole(mono_ns) else self._origin_ns
        elif event.key == keys.RUN_STOP:
            is_interrupted = event.metadata.get("reason") == "interrupted"
            reached = event.metadata.get("status") == "success"
            self._state = "finished" if reached else "aborted" if is_interrupted else "missed"
        self._is_due |= event.key in _AT_ONCE
        self._has_ended |= event.key == keys.TTA_END

    def send(self) -> None:
        """Send what is due; at most one request, which nobody waits for but this process."""
        now_ns = self.now_ns()
        if self.is_done or self.ticket is None or self._origin_ns is None or now_ns < self._not_before_ns:
            return
        if not self._is_due and now_ns - self._sent_ns < EVERY_S * 1e9:
            return
        try:
            if not self._is_whole:
                self._send_head(self.ticket, now_ns, now_ns - self._origin_ns)
            if self._is_whole:
                end = campaign.send_end(self.client, self.ticket.ticket, self._state, self.path)
                campaign.append(self._receipts, end)
                self.is_done = True
        except RefusedError as error:
            self._give_up(str(error))
        except InputError as error:
            if self._wait_s == 1.0 and not self.has_failed:
                self.has_failed = True
                self.say(f"{error}; the run goes on, registered with its witness and not streamed meanwhile")
            self._not_before_ns = now_ns + int(self._wait_s * 1e9)
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)

    def _send_head(self, ticket: Ticket, now_ns: int, elapsed_ns: int) -> None:
        head = {"number": self._number + 1, "seq": self._seq, "head": self._tail.head, "elapsed_ns": elapsed_ns}
        receipt = campaign.send_head(self.client, ticket.ticket, head)
        campaign.append(self._receipts, receipt)
        self._number += 1
        self._sent_ns, self._wait_s = now_ns, 1.0
        # Otherwise it is the receipt of an earlier head of this number, whose answer was lost.
        is_present = receipt.opening.event["body"].get("head") == head["head"]
        self._is_whole = is_present and self._has_ended
        self._is_due = not is_present or self._has_ended

    def _give_up(self, why: str) -> None:
        self.is_done = self.has_failed = True
        self.say(f"{printable(why, 500)}; {self.path.name} is not streamed to its witness any more")
