"""Witnessed runs: campaigns, tickets, and the heads of logs that are received while runs go on.

Every campaign, ticket, head and end is an event of the log, and is answered with that event, opened and signed: the
receipt. A request that is made again, since its answer was lost, gets the same receipt.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from harness.errors import UsageError, printable
from harness.log.ticket import SECRET_BYTES, commitment_of, nonce_of, seed_of
from harness.service import events, schema
from harness.service.events import News
from harness.service.instance import Instance
from harness.service.people import HOUR_MS, Actor
from harness.service.submissions import ConflictError, ForbiddenError, NotThereError, Submission
from harness.service.submitting import lock_quota, round_named
from harness.submission.receipts import CLOSED, ENDED, FINISHED, HEAD, ISSUED, OPENED, VOID
from harness.transparency.event import Opening
from harness.transparency.witnessed import NAMESPACE, Witnessed

START_MS = 15 * 60_000  # from the ticket to run_start: initialisation, and what comes before it
CAMPAIGN_DAYS = 30
TICKET_DAYS = 14
ISSUED_STATE, STARTED = "issued", "started"
OPEN = (ISSUED_STATE, STARTED)
ENDS = (FINISHED, "missed", "aborted")  # as a submitter says them
MAX_TICKETS = 200  # of a campaign
HEADS_AT_ONCE, HEADS_PER_S = 100, 10  # of a ticket: several times what the evaluations of any suite ask for
VOIDS_PER_RUNS = 1  # of N + 1 tickets, one may be voided
_campaign, _ticket, _event = schema.campaign, schema.ticket, schema.event


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a campaign is opened for. round: its name; None: the only one that is open."""

    benchmark: str
    division: str
    system_sha256: str
    code_sha256: str
    config_sha256: str
    num_runs: int
    round: str | None = None

    @property
    def identity(self) -> dict[str, str]:
        """What two campaigns of a round must not have in common."""
        names = ("benchmark", "division", "system_sha256", "code_sha256", "config_sha256")
        return {name: getattr(self, name) for name in names}


def open_campaign(instance: Instance, actor: Actor, proposed: Proposed) -> dict[str, Any]:
    """Open a campaign, or return the one that is open for the same system, code and configuration in this round.

    Raises:
        UsageError: there is no such benchmark or division, or not as many runs as the rules ask.
        ConflictError: the round is not open, or the campaign for this was closed.
        ForbiddenError: the team has as many open campaigns as it may.
    """
    now_ms, limit = instance.now_ms(), instance.settings.limits.max_campaigns
    with instance.database.write() as connection:
        lock_quota(connection, instance, actor)  # of two that are alike, the second is the first
        round_id = round_named(connection, proposed.round, now_ms)
        row = connection.execute(schema.round.select().where(schema.round.c.id == round_id)).one()
        rules = instance.ruleset(row.ruleset).benchmarks.get(proposed.benchmark)
        if rules is None:
            raise UsageError(f"ruleset {row.ruleset} has no benchmark {printable(proposed.benchmark, 60)!r}")
        if proposed.division not in instance.ruleset(row.ruleset).divisions:
            raise UsageError(f"there is no division {printable(proposed.division, 60)!r}")
        if proposed.num_runs != (asked := rules.required_runs(proposed.division)):
            raise UsageError(f"{proposed.num_runs} runs: the rules of {rules.name} ask for {asked}")
        identity = {"round": round_id, "organisation": actor.organisation, **proposed.identity}
        same = _campaign.select().where(*(_campaign.c[name] == value for name, value in identity.items()))
        if (known := connection.execute(same).one_or_none()) is not None:
            if known.closed_ms is not None or known.expires_ms <= now_ms:
                raise ConflictError(
                    f"campaign {known.id} was made with this code, system and configuration in this round, and is "
                    "closed; its runs count, and no others take their place"
                )
            return _answer(connection, instance, known.id, OPENED)
        is_open = (_campaign.c.organisation == actor.organisation) & _campaign.c.closed_ms.is_(None)
        num_open = connection.execute(select(func.count()).where(is_open)).scalar_one()
        if num_open >= limit:
            raise ForbiddenError(
                f"open campaigns of {actor.organisation_name}: {num_open:,} of at most {limit:,}; "
                "close one that has its runs"
            )
        found, secret = instance.new_id(), secrets.token_bytes(SECRET_BYTES)
        values = {
            **identity, "num_runs": proposed.num_runs, "opened_ms": now_ms,
            "expires_ms": now_ms + CAMPAIGN_DAYS * 24 * HOUR_MS,
        }  # fmt: skip
        connection.execute(insert(_campaign).values(id=found, person=actor.person, secret=secret.hex(), **values))
        body = {**values, "organisation": actor.organisation_name, "commitment": commitment_of(secret)}
        events.append(connection, now_ms, News(OPENED, found, body, actor.person))
        return _answer(connection, instance, found, OPENED)


def issue(
    instance: Instance, actor: Actor, campaign_id: str, client_nonce: str, host_sha256: str, *, is_sealed: bool = False
) -> dict[str, Any]:
    """Issue the next ticket of a campaign. It counts from now on; the one that was open before it, if any, is lost.

    is_sealed: for a run without a network. It is not expected to begin at once, and sealed tickets are open next to one
    another.

    Raises:
        NotThereError, ForbiddenError: the campaign is not this team's. ConflictError: it is closed, or has too many.
    """
    with instance.database.write() as connection:
        campaign = _own_campaign(connection, actor, campaign_id)
        now_ms = instance.now_ms()
        known = connection.execute(
            select(_ticket.c.id).where(_ticket.c.campaign == campaign.id, _ticket.c.client_nonce == client_nonce)
        ).scalar()
        if known is not None:
            return _answer(connection, instance, known, ISSUED)
        if campaign.closed_ms is not None or campaign.expires_ms <= now_ms:
            raise ConflictError(f"campaign {campaign.id} is closed")
        rows = connection.execute(_tickets_of(campaign.id)).all()
        if len(rows) >= MAX_TICKETS:
            raise ConflictError(f"campaign {campaign.id} has {MAX_TICKETS} tickets; no more are issued")
        news = [
            _ending(connection, row, "lost", "another run was begun", now_ms)
            for row in rows
            if row.state in OPEN and not (is_sealed and row.is_sealed)
        ]
        found, number = instance.new_id(), len(rows) + 1
        server_nonce = nonce_of(bytes.fromhex(campaign.secret), campaign.id, number)
        end_by_ms = now_ms + TICKET_DAYS * 24 * HOUR_MS
        values = {
            "campaign": campaign.id, "number": number, "server_nonce": server_nonce, "client_nonce": client_nonce,
            "seed": seed_of(found, server_nonce, client_nonce), "host_sha256": host_sha256,
            "is_sealed": is_sealed, "end_by_ms": end_by_ms,
            "start_by_ms": end_by_ms if is_sealed else now_ms + START_MS,
        }  # fmt: skip
        connection.execute(
            insert(_ticket).values(
                id=found, state=ISSUED_STATE, num_heads=0, heard_ms=now_ms, issued_ms=now_ms, **values
            )
        )
        events.append_all(connection, now_ms, [*news, News(ISSUED, found, values, actor.person)])
        return _answer(connection, instance, found, ISSUED)


def receive(
    instance: Instance, actor: Actor, ticket_id: str, number: int, seq: int, head: str, elapsed_ns: int
) -> dict[str, Any]:
    """Receive head `number` of a ticket's log.

    Raises:
        NotThereError, ForbiddenError: the ticket is not this team's. ConflictError: it has ended, came too late, or a
            later head was received; or its heads are numbered faster than any run's are.
    """
    with instance.database.write() as connection:
        ticket = _own_ticket(connection, actor, ticket_id)
        now_ms = max(instance.now_ms(), ticket.heard_ms)  # a clock that was set back must not shorten a run
        if 0 < number == ticket.num_heads:
            return _answer(connection, instance, ticket.id, HEAD)
        _settle(connection, ticket, now_ms)
        if number <= ticket.num_heads:
            raise ConflictError(f"head {number}: {ticket.num_heads} was received already")
        if number > HEADS_AT_ONCE + HEADS_PER_S * (now_ms - ticket.issued_ms) / 1000:  # each number is used once
            raise ConflictError(f"head {number}: {HEADS_PER_S} a second are received, and {HEADS_AT_ONCE} at once")
        connection.execute(
            update(_ticket).where(_ticket.c.id == ticket.id).values(state=STARTED, num_heads=number, heard_ms=now_ms)
        )
        body = {"number": number, "seq": seq, "head": head, "elapsed_ns": elapsed_ns}
        events.append(connection, now_ms, News(HEAD, ticket.id, body, actor.person))
        return _answer(connection, instance, ticket.id, HEAD)


def end(
    instance: Instance, actor: Actor, ticket_id: str, state: str, log_sha256: str | None, reason: str | None
) -> dict[str, Any]:
    """End a ticket as its submitter says: finished, missed or aborted. Said again, it is the same.

    Raises:
        UsageError: there is no such end. NotThereError, ForbiddenError, ConflictError: see `receive`.
    """
    if state not in ENDS:
        raise UsageError(f"a ticket ends as {', '.join(ENDS)}, not as {printable(state, 60)!r}")
    with instance.database.write() as connection:
        ticket = _own_ticket(connection, actor, ticket_id)
        now_ms = max(instance.now_ms(), ticket.heard_ms)
        if ticket.state == state and ticket.log_sha256 == log_sha256:
            return _answer(connection, instance, ticket.id, ENDED)
        _settle(connection, ticket, now_ms)
        events.append(connection, now_ms, _ending(connection, ticket, state, reason, now_ms, log_sha256, actor.person))
        return _answer(connection, instance, ticket.id, ENDED)


def void(instance: Instance, actor: Actor, ticket_id: str, reason: str) -> dict[str, Any]:
    """Have a ticket not count, as an organiser, since something else than its run has ended it.

    Raises:
        ForbiddenError: for organisers of another organisation. NotThereError: there is no such ticket.
        UsageError: there is no reason. ConflictError: it was finished, the campaign is closed, or another was voided.
    """
    if not reason.strip():
        raise UsageError("say why the ticket is voided")
    with instance.database.write() as connection:
        # The campaign first, as everywhere: two of its tickets are not voided at once.
        own = _campaign.c.id.in_(select(_ticket.c.campaign).where(_ticket.c.id == ticket_id))
        campaign = connection.execute(_campaign.select().where(own).with_for_update()).one_or_none()
        if campaign is None or not actor.is_known or not actor.sees_all:
            raise NotThereError(f"there is no ticket {printable(ticket_id, 60)}")
        ticket = connection.execute(_ticket.select().where(_ticket.c.id == ticket_id).with_for_update()).one()
        if not actor.is_organiser or actor.organisation == campaign.organisation:
            raise ForbiddenError("tickets are voided by organisers of another organisation")
        if campaign.closed_ms is not None or ticket.state in (FINISHED, "missed", VOID):
            raise ConflictError(f"ticket {ticket.number} is {ticket.state}; what is known to be good or bad stays")
        voided = connection.execute(
            select(func.count()).where(_ticket.c.campaign == campaign.id, _ticket.c.state == VOID)
        ).scalar_one()
        if voided >= VOIDS_PER_RUNS:
            raise ConflictError("a ticket of this campaign was voided already; one may be")
        now_ms = max(instance.now_ms(), ticket.heard_ms)
        news = _ending(connection, ticket, VOID, reason.strip()[:500], now_ms, None, actor.person)
        events.append(connection, now_ms, news)
        return _answer(connection, instance, ticket.id, ENDED)


def close(instance: Instance, actor: Actor, campaign_id: str) -> dict[str, Any]:
    """Close a campaign: no further ticket is issued, open ones are lost, and the secret of its seeds is published.

    Raises:
        NotThereError, ForbiddenError: it is not this team's.
    """
    with instance.database.write() as connection:
        campaign = _own_campaign(connection, actor, campaign_id)
        if campaign.closed_ms is None:
            _close(connection, campaign, instance.now_ms(), "the campaign was closed", actor.person)
        return _answer(connection, instance, campaign.id, CLOSED)


def _close(connection: Connection, campaign: Row[Any], now_ms: int, reason: str, person: str | None) -> None:
    query = _tickets_of(campaign.id)
    news = [
        _ending(connection, row, "lost", reason, now_ms) for row in connection.execute(query).all() if row.state in OPEN
    ]
    names = ("number", "server_nonce", "client_nonce", "seed", "host_sha256", "is_sealed", "state", "reason",
             "num_heads", "issued_ms", "ended_ms", "log_sha256")  # fmt: skip
    tickets = [
        {"ticket": row.id, **{name: getattr(row, name) for name in names}} for row in connection.execute(query).all()
    ]
    others = connection.execute(
        select(func.count(func.distinct(_ticket.c.campaign)))
        .select_from(_ticket.join(_campaign, _campaign.c.id == _ticket.c.campaign))
        .where(
            *(_campaign.c[name] == getattr(campaign, name) for name in ("round", "organisation", "benchmark")),
            _campaign.c.division == campaign.division,
        )
    ).scalar_one()
    body = {
        "secret": campaign.secret,
        "commitment": commitment_of(bytes.fromhex(campaign.secret)),
        **{
            name: getattr(campaign, name)
            for name in ("benchmark", "division", "system_sha256", "code_sha256", "config_sha256", "num_runs")
        },
        "tried": others,  # campaigns of this team for this benchmark in this round that have tickets
        "tickets": tickets,
    }
    connection.execute(update(_campaign).where(_campaign.c.id == campaign.id).values(closed_ms=now_ms))
    events.append_all(connection, now_ms, [*news, News(CLOSED, campaign.id, body, person)])


def _tickets_of(campaign: str) -> Select[Any]:
    """Return the query of a campaign's tickets, which nobody else changes until the transaction ends."""
    return _ticket.select().where(_ticket.c.campaign == campaign).order_by(_ticket.c.number).with_for_update()


def show(instance: Instance, actor: Actor, campaign_id: str) -> dict[str, Any]:
    """Return a campaign with its tickets, to its team, to auditors and to organisers; its secret is not there.

    Raises:
        NotThereError: there is none, or not for `actor`.
    """
    with instance.database.read() as connection:
        campaign = connection.execute(_campaign.select().where(_campaign.c.id == campaign_id)).one_or_none()
        if campaign is None or not (actor.is_known and (actor.organisation == campaign.organisation or actor.sees_all)):
            raise NotThereError(f"there is no campaign {printable(campaign_id, 60)}")
        rows = connection.execute(
            _ticket.select().where(_ticket.c.campaign == campaign.id).order_by(_ticket.c.number)
        ).all()
    known = {name: value for name, value in campaign._mapping.items() if name not in ("secret", "person")}
    names = ("id", "number", "seed", "state", "reason", "num_heads", "heard_ms", "issued_ms", "ended_ms")
    return {**known, "tickets": [{name: getattr(row, name) for name in names} for row in rows]}


def expire(instance: Instance) -> None:
    """End the tickets whose run did not start, or did not end, in time, and the campaigns whose days are over."""
    now_ms = instance.now_ms()
    with instance.database.write() as connection:
        due = (_ticket.c.ended_ms.is_(None)) & (
            ((_ticket.c.state == ISSUED_STATE) & (_ticket.c.start_by_ms <= now_ms)) | (_ticket.c.end_by_ms <= now_ms)
        )
        # As they are when nobody else changes them: a head may just have come, or another worker may have looked.
        rows = connection.execute(_ticket.select().where(due).order_by(_ticket.c.id).with_for_update()).all()
        news = [_ending(connection, row, "expired", _why_expired(row), now_ms) for row in rows]
        if news:
            events.append_all(connection, now_ms, news)
    with instance.database.write() as connection:
        over = (_campaign.c.closed_ms.is_(None)) & (_campaign.c.expires_ms <= now_ms)
        row = connection.execute(_campaign.select().where(over).limit(1).with_for_update()).one_or_none()
        if row is not None:
            _close(connection, row, now_ms, "the campaign's days are over", None)


def receipt_faults(
    connection: Connection,
    submission: Submission,
    leaves: Sequence[tuple[str, int, str]],
    tickets: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a submission's receipts by this log: the place of each fault, and why.

    leaves: place, number and leaf of each receipt. tickets: place and ticket of each run.
    """
    shown = set()
    for place, seq, leaf in leaves:
        event = connection.execute(_event.select().where(_event.c.seq == seq, _event.c.leaf == leaf)).one_or_none()
        if event is None:
            yield place, "the log of this service has no such event"
            continue
        shown.add(seq)
        if event.kind == CLOSED:
            campaign = connection.execute(_campaign.select().where(_campaign.c.id == event.subject)).one()
            if campaign.organisation != submission.organisation:
                yield place, "the campaign is another organisation's"
            if campaign.round != submission.round:
                yield place, "the campaign was opened in another round than the one that the result is submitted to"
    for place, ticket in tickets:
        received = select(_event.c.seq).where(_event.c.subject == ticket, _event.c.kind == HEAD).order_by(_event.c.seq)
        missing = [seq for seq in connection.execute(received).scalars() if seq not in shown]
        if missing:
            yield place, f"{len(missing)} heads of its log that this service received are not among the receipts"


def _why_expired(ticket: Row[Any]) -> str:
    return "no head came in time" if ticket.state == ISSUED_STATE else "the run did not end in time"


def _settle(connection: Connection, ticket: Row[Any], now_ms: int) -> None:
    """Refuse what comes for a ticket that has ended, or should have."""
    if ticket.state not in OPEN:
        raise ConflictError(f"ticket {ticket.number} is {ticket.state}; it stays so")
    if (ticket.state == ISSUED_STATE and ticket.start_by_ms <= now_ms) or ticket.end_by_ms <= now_ms:
        raise ConflictError(f"ticket {ticket.number} has expired: {_why_expired(ticket)}")


def _ending(
    connection: Connection,
    ticket: Row[Any],
    state: str,
    reason: str | None,
    now_ms: int,
    log_sha256: str | None = None,
    person: str | None = None,
) -> News:
    values = {"state": state, "reason": reason, "log_sha256": log_sha256}
    connection.execute(update(_ticket).where(_ticket.c.id == ticket.id).values(ended_ms=now_ms, **values))
    return News(ENDED, ticket.id, {"number": ticket.number, **values}, person)


def _own_campaign(connection: Connection, actor: Actor, campaign_id: str) -> Row[Any]:
    found = connection.execute(_campaign.select().where(_campaign.c.id == campaign_id).with_for_update()).one_or_none()
    if found is None or found.organisation != actor.organisation:
        raise NotThereError(f"there is no campaign {printable(campaign_id, 60)} of your team")
    return found


def _own_ticket(connection: Connection, actor: Actor, ticket_id: str) -> Row[Any]:
    found = connection.execute(_ticket.select().where(_ticket.c.id == ticket_id).with_for_update()).one_or_none()
    if found is not None:
        owner = connection.execute(select(_campaign.c.organisation).where(_campaign.c.id == found.campaign)).scalar()
        if owner == actor.organisation:
            return found
    raise NotThereError(f"there is no ticket {printable(ticket_id, 60)} of your team")


def _answer(connection: Connection, instance: Instance, subject: str, kind: str) -> dict[str, Any]:
    """Return the receipt of the last event of this kind about a campaign or a ticket."""
    row = connection.execute(
        select(_event.c.seq, _event.c.salt, _event.c.document)
        .where(_event.c.subject == subject, _event.c.kind == kind)
        .order_by(_event.c.seq.desc())
        .limit(1)
    ).one()
    found = Witnessed(instance.settings.origin, Opening(*row))
    signed = Witnessed(found.origin, found.opening, instance.key.sign(found.text.encode(), NAMESPACE))
    event: Mapping[str, Any] = json.loads(signed.opening.text)
    return {"id": subject, **event["body"], "at_ms": event["at_ms"], "receipt": signed.record()}
