"""What a witness has said of a result's runs: its receipts, next to the logs, and what they show. Reads; never verifies
a signature.

    receipts_<k>.jsonl   of run k, as they were answered: of its ticket, of heads of its log, of its end; one a line
    campaign.json        of the end of the campaign, with all its tickets and the secret that its seeds are made of

A *head* is the digest of a log's last line, as the next line will have it in `prev`: who has sent one cannot change
what is before it.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.base import strict_json
from harness.base.files import small_file
from harness.base.values import is_whole
from harness.errors import InputError, SubmissionError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.log.ticket import Ticket, ticket_of
from harness.submission.layout import CAMPAIGN_NAME, receipts_name
from harness.submission.result import Result
from harness.transparency.witnessed import Witnessed, parse_witnessed

OPENED, ISSUED, HEAD, ENDED, CLOSED = (
    "campaign.opened",
    "ticket.issued",
    "ticket.head",
    "ticket.ended",
    "campaign.closed",
)
MAX_BYTES = 64 << 20  # a head every ten seconds for a week
FINISHED, VOID = "finished", "void"  # states of a ticket; void: it does not count, by an organiser's decision

# What makes a run a streamed one.
START_S = 5.0  # how late the head at run_start, at an evaluation's end or at run_stop may be sent
SHARE = 0.95  # of the evaluations, whose ends must have been sent in time
SILENCE_S = 60.0  # without a head, while the clock runs
# How a board says a class; W0 is not said.
WITNESS_WORDS = {"W1": "registered with a witness", "W2": "witnessed"}
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a log as the witness received it.

    line: of the file of receipts. number: which of the ticket's it is, from 1. seq: the event that was the last one.
    elapsed_ns: the run's clock when it was sent. received_ms: the witness's clock, since 1970.
    """

    line: int
    number: int
    seq: int
    head: str
    elapsed_ns: int
    received_ms: int


@dataclass(frozen=True, slots=True)
class RunReceipts:
    """The receipts of a run. issued: the body of the ticket's event. leaves: number and hash of all their events."""

    path: str
    ticket: str
    issued: dict[str, Any]
    issued_ms: int
    heads: tuple[Head, ...]
    is_ended: bool
    receipts: tuple[Witnessed, ...]


@dataclass(frozen=True, slots=True)
class CampaignEnd:
    """The end of a campaign. body: of its event, whose fields were looked at."""

    path: str
    campaign: str
    body: dict[str, Any]
    receipt: Witnessed

    @property
    def tickets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["tickets"]
        return found

    @property
    def num_tried(self) -> int | None:
        """How many campaigns with tickets the submitter had in its round for its benchmark and division when it ended.

        Itself included. None where the end does not say.
        """
        found = self.body.get("tried")
        return found if is_whole(found) and found > 0 else None

    @property
    def unfinished(self) -> list[dict[str, Any]]:
        """The tickets that count and have no finished run."""
        return [ticket for ticket in self.tickets if ticket["state"] not in (FINISHED, VOID)]


def parse_receipts(data: bytes, place: str) -> RunReceipts:
    """Return the receipts in a file's bytes.

    Raises:
        InputError: a line is none, or they are not of one ticket, in order.
    """
    receipts, heads = list[Witnessed](), list[Head]()
    ticket, issued, issued_ms, is_ended = "", dict[str, Any](), 0, False
    for line, text in enumerate(data.splitlines(), 1):
        where = f"{place}:{line}"
        receipt = parse_witnessed(_json(text, where), where)
        event = receipt.opening.event
        kind, body, at_ms = event["kind"], event["body"], event["at_ms"]
        if not is_whole(at_ms):
            raise InputError(f"{where}: the receipt has no time")
        if not receipts:
            if kind != ISSUED:
                raise InputError(f"{where}: the first receipt must be that of the ticket")
            ticket, issued, issued_ms = str(event["subject"]), body, at_ms
        elif event["subject"] != ticket or is_ended or kind not in (HEAD, ENDED):
            raise InputError(f"{where}: does not follow: it is {printable(kind, 60)!r} of {event['subject']!r:.60}")
        elif kind == HEAD:
            heads.append(_head(body, at_ms, line, where))
            if len(heads) > 1 and heads[-1].number <= heads[-2].number:
                raise InputError(f"{where}: head {heads[-1].number} comes after head {heads[-2].number}")
        is_ended = kind == ENDED
        receipts.append(receipt)
    if not receipts:
        raise InputError(f"{place}: has no receipt")
    return RunReceipts(place, ticket, issued, issued_ms, tuple(heads), is_ended, tuple(receipts))


def _head(body: dict[str, Any], at_ms: int, line: int, where: str) -> Head:
    numbers = [body.get(name) for name in ("number", "seq", "elapsed_ns")]
    digest = body.get("head")
    if not all(is_whole(item) for item in numbers) or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InputError(f"{where}: not the receipt of a head: number, seq, elapsed_ns or head is missing or wrong")
    number, seq, elapsed_ns = (int(item or 0) for item in numbers)
    return Head(line, number, seq, digest, elapsed_ns, at_ms)


def parse_campaign(data: bytes, place: str) -> CampaignEnd:
    """Return the end of a campaign in a file's bytes.

    Raises:
        InputError: it is none.
    """
    receipt = parse_witnessed(_json(data, place), place)
    event = receipt.opening.event
    body, tickets = event["body"], event["body"].get("tickets")
    texts = ("secret", "commitment", "system_sha256", "code_sha256", "config_sha256", "benchmark", "division")
    is_whole_end = (
        event["kind"] == CLOSED
        and isinstance(event["subject"], str)
        and all(isinstance(body.get(name), str) for name in texts)
        and isinstance(tickets, list)
        and all(map(_is_ticket, tickets))
        and bool(re.fullmatch("[0-9a-f]{64}", body["secret"]))
    )
    if not is_whole_end:
        raise InputError(f"{place}: not the receipt of the end of a campaign: a field is missing or wrong")
    return CampaignEnd(place, event["subject"], body, receipt)


def _is_ticket(item: object) -> bool:
    if not isinstance(item, dict) or not is_whole(item.get("number")) or not is_whole(item.get("seed")):
        return False
    return all(isinstance(item.get(name), str) for name in ("ticket", "state", "server_nonce", "client_nonce"))


def _json(data: bytes, place: str) -> object:
    try:
        return strict_json.loads(data)
    except ValueError as error:
        raise InputError(f"{place}: not JSON: {printable(error)}") from None


@dataclass(frozen=True, slots=True)
class WitnessedRun:
    """A run with a ticket. receipts: None where there are none, or `fault` says why they cannot be read."""

    log: RunLog
    ticket: Ticket
    receipts: RunReceipts | None
    fault: str | None = None


def witnessed_runs(result: Result) -> Iterator[WitnessedRun]:
    """Yield the runs of a result that have a ticket."""
    for log in result.runs:
        if (ticket := ticket_of(log)) is None:
            continue
        name = receipts_name(log.path.stem)
        if name not in result.files:
            yield WitnessedRun(log, ticket, None)
            continue
        place = result.path / name
        try:
            yield WitnessedRun(log, ticket, parse_receipts(small_file(place, MAX_BYTES), str(place)))
        except (InputError, SubmissionError) as error:
            yield WitnessedRun(log, ticket, None, str(error))


def campaign_end(result: Result) -> CampaignEnd | None:
    """Return the end of the campaign that a result was made in; None if the result does not have it.

    Raises:
        InputError: it cannot be read.
    """
    if CAMPAIGN_NAME not in result.files:
        return None
    place = result.path / CAMPAIGN_NAME
    return parse_campaign(small_file(place, MAX_BYTES), str(place))


@dataclass(frozen=True, slots=True)
class Drawn:
    """An evaluation that the witness has drawn, for its run to be repeated up to there.

    number: which of the run's evaluations it is, from 1, without the one before training.
    evaluations: samples, digest of the predictions, and quality of each one up to it.
    """

    log: RunLog
    seed: int
    number: int
    evaluations: tuple[tuple[int, str, float], ...]

    @property
    def samples(self) -> int:
        return self.evaluations[-1][0]


def drawn(result: Result) -> Drawn | None:
    """Return the evaluation of a finished run that is drawn for repetition; None: no end of a campaign, or no such run.

    It is drawn by the campaign's secret, which was fixed before the runs and is known to the service alone, and by the
    digests of all logs, which were sent before the secret was published. So neither side chooses it.

    Raises:
        InputError: the end of the campaign cannot be read.
    """
    end = campaign_end(result)
    if end is None:
        return None
    logs = {run.ticket.ticket: run.log for run in witnessed_runs(result)}
    finished = [item for item in end.tickets if item["state"] == FINISHED and item["ticket"] in logs]
    runs = [(item, found) for item in finished if (found := evaluations(logs[item["ticket"]]))]
    if not runs:
        return None
    text = ",".join(["drawn", end.campaign, *(str(item.get("log_sha256")) for item in finished)])
    number = int.from_bytes(hmac.new(bytes.fromhex(end.body["secret"]), text.encode(), hashlib.sha256).digest(), "big")
    number, index = divmod(number, len(runs))
    item, found = runs[index]
    last = number % len(found) + 1
    return Drawn(logs[item["ticket"]], item["seed"], last, tuple(found[:last]))


def evaluations(log: RunLog) -> list[tuple[int, str, float]]:
    """Samples, digest of the predictions, and quality of each evaluation after training has begun."""
    found = []
    for event in log.all(keys.EVAL_ACCURACY):
        samples, digest = event.metadata.get("samples_count"), event.metadata.get("predictions")
        if is_whole(samples) and samples > 0 and isinstance(digest, str) and isinstance(event.value, int | float):
            found.append((samples, digest, float(event.value)))
    return found


def num_unfinished(result: Result) -> int:
    """Return how many tickets of a result's campaign count and have no run: such a ticket is a run that missed."""
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError):
        return 0  # which a check says
    if end is None:
        return 0
    own = {run.ticket.ticket for run in witnessed_runs(result)}  # such a run may have missed, which its log says
    return sum(ticket["ticket"] not in own for ticket in end.unfinished)


def not_streamed(run: WitnessedRun) -> str | None:
    """Return what is missing for the log of a run to have been streamed to the witness; None if nothing is."""
    receipts, log = run.receipts, run.log
    if receipts is None or not receipts.heads:
        return "there is no receipt of a head of its log"
    start, stop = log.first(keys.RUN_START), log.first(keys.RUN_STOP)
    if start is None or stop is None or start.elapsed_ns is None or stop.elapsed_ns is None:
        return "the log has no run_start or no run_stop"
    sent = [(head.seq, head.elapsed_ns) for head in receipts.heads]

    def is_in_time(seq: Any, elapsed_ns: int | None) -> bool:
        limit_ns = (elapsed_ns or 0) + START_S * 1e9
        return is_whole(seq) and any(known >= seq and at_ns <= limit_ns for known, at_ns in sent)

    for event in (start, stop):
        if not is_in_time(event.metadata.get("seq"), event.elapsed_ns):
            return f"no head was sent within {START_S:g} s after {event.key}"
    ends = log.all(keys.EVAL_STOP)
    in_time = sum(is_in_time(event.metadata.get("seq"), event.elapsed_ns) for event in ends)
    if in_time < SHARE * len(ends):
        return f"the heads of {in_time} of {len(ends)} evaluations were sent within {START_S:g} s"
    times = [start.elapsed_ns, *(at for _, at in sent if start.elapsed_ns < at < stop.elapsed_ns), stop.elapsed_ns]
    silence_s = max(later - earlier for earlier, later in itertools.pairwise(times)) / 1e9
    if silence_s > SILENCE_S:
        return f"no head was sent for {silence_s:.0f} s; at most {SILENCE_S:g} s may be without one"
    return None


def num_campaigns(result: Result) -> int | None:
    """Return how many campaigns the submitter had tried when that of a result ended; None: of class W0, or not said."""
    if witness_class(result) == "W0":
        return None
    end = campaign_end(result)
    return None if end is None else end.num_tried


def witness_class(result: Result) -> str:
    """Return how far the runs of a result were witnessed, as its receipts say.

    W0: not at all, or other starts are not known. W1: each was registered before it began, and every start is known.
    W2: each was also streamed while it went on.
    """
    runs = list(witnessed_runs(result))
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError):
        end = None
    if end is None or not runs or len(runs) < len(result.runs):
        return "W0"
    return "W1" if any(map(not_streamed, runs)) else "W2"


def leaves(result: Result) -> Sequence[tuple[str, int, str]]:
    """Return place, number and hash of the leaf of every receipt of a result that can be read, for its witness."""
    found = [
        (f"{run.receipts.path}:{line}", item)
        for run in witnessed_runs(result)
        if run.receipts is not None
        for line, item in enumerate(run.receipts.receipts, 1)
    ]
    try:
        end = campaign_end(result)
    except (InputError, SubmissionError):
        end = None
    if end is not None:
        found.append((end.path, end.receipt))
    return [(place, item.opening.seq, item.opening.leaf.hex()) for place, item in found]
