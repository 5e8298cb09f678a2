"""Campaigns, tickets and heads at the service: what counts, what is refused, and that every receipt is in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.base import ssh_signature
from harness.log.ticket import commitment_of, nonce_of, seed_of
from harness.service import events, schema, verifying, witnessing
from harness.submission.receipts import parse_campaign
from harness.transparency.witnessed import NAMESPACE, parse_witnessed
from tests.harness.service.world import Member, World

IDENTITY = {
    "benchmark": "toy_mini", "division": "closed", "system_sha256": "a" * 64, "code_sha256": "b" * 64,
    "config_sha256": "c" * 64, "num_runs": 5,
}  # fmt: skip
HEAD = {"number": 1, "seq": 9, "head": "d" * 64, "elapsed_ns": 10**9}


def opened(member: Member, **changes: Any) -> str:
    answer = member.post("/campaigns", json={**IDENTITY, **changes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ticket(member: Member, campaign: str, nonce: str = "1") -> dict[str, Any]:
    body = {"client_nonce": nonce * 64, "host_sha256": "e" * 64}
    answer = member.post(f"/campaigns/{campaign}/tickets", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def head(member: Member, ticket_id: str, **changes: Any) -> Any:
    return member.post(f"/tickets/{ticket_id}/heads", json={**HEAD, **changes})


def states(member: Member, campaign: str) -> list[str]:
    return [item["state"] for item in member.get(f"/campaigns/{campaign}").json()["tickets"]]


def test_every_receipt_is_an_event_of_the_log_and_signed(unreviewed: World) -> None:
    """From the campaign to its end, whose secret makes every nonce and every seed again."""
    world, alice = unreviewed, unreviewed.alice
    answers = [alice.post("/campaigns", json=IDENTITY).json()]
    campaign = answers[0]["id"]
    drawn = ticket(alice, campaign)
    answers += [drawn, head(alice, drawn["id"]).json(), head(alice, drawn["id"], number=2, seq=20).json()]
    answers.append(alice.post(f"/tickets/{drawn['id']}/end", json={"state": "finished", "log_sha256": "f" * 64}).json())
    answers.append(alice.post(f"/campaigns/{campaign}/close").json())

    with world.instance.database.read() as connection:
        known = {item.seq: item for item in events.all_events(connection)}
    for answer in answers:
        receipt = parse_witnessed(answer["receipt"], "answer")
        assert known[receipt.opening.seq] == receipt.opening
        signer = f"board {world.instance.key.public}\n".encode()
        text, signature = receipt.text.encode(), receipt.signature.encode()
        assert ssh_signature.refusal(text, signature, NAMESPACE, signer, "board") is None
    end = parse_campaign(json.dumps(answers[-1]["receipt"]).encode(), "answer")
    secret = bytes.fromhex(end.body["secret"])
    assert answers[0]["commitment"] == commitment_of(secret)
    [stated] = end.tickets
    assert stated["server_nonce"] == drawn["server_nonce"] == nonce_of(secret, campaign, 1)
    assert stated["seed"] == seed_of(drawn["id"], drawn["server_nonce"], "1" * 64)
    assert (stated["state"], stated["num_heads"], stated["log_sha256"]) == ("finished", 2, "f" * 64)


def test_a_request_that_is_made_again_gets_the_same_receipt(unreviewed: World) -> None:
    """Its answer may have been lost; nothing is counted twice."""
    alice = unreviewed.alice
    campaign = opened(alice)
    assert opened(alice) == campaign
    first, again = ticket(alice, campaign), ticket(alice, campaign)
    assert (first["id"], first["receipt"]["opening"]) == (again["id"], again["receipt"]["opening"])
    heads = [head(alice, first["id"]).json()["receipt"]["opening"] for _ in range(2)]
    assert heads[0] == heads[1]
    body = {"state": "missed", "log_sha256": "f" * 64}
    ends = [alice.post(f"/tickets/{first['id']}/end", json=body).json()["receipt"]["opening"] for _ in range(2)]
    assert ends[0] == ends[1]
    closed = [alice.post(f"/campaigns/{campaign}/close").json()["receipt"]["opening"] for _ in range(2)]
    assert closed[0] == closed[1]
    assert states(alice, campaign) == ["missed"]


def test_a_ticket_counts_whatever_becomes_of_it(small: World) -> None:
    """One that another follows is lost; one whose run does not start, or end, expires."""
    alice = small.alice
    campaign = opened(alice)
    ticket(alice, campaign, "1")
    second = ticket(alice, campaign, "2")
    assert states(alice, campaign) == ["lost", "issued"]
    small.time.now_ms += witnessing.START_MS
    late = head(alice, second["id"])
    assert late.status_code == 409
    assert "expired" in late.json()["detail"]
    witnessing.expire(small.instance)
    third = ticket(alice, campaign, "3")
    assert head(alice, third["id"]).status_code == 200
    small.time.advance(witnessing.TICKET_DAYS)
    assert head(alice, third["id"], number=2).status_code == 409
    witnessing.expire(small.instance)
    assert states(alice, campaign) == ["lost", "expired", "expired"]
    assert head(alice, third["id"], number=2).status_code == 409
    small.time.advance(witnessing.CAMPAIGN_DAYS)
    witnessing.expire(small.instance)
    assert alice.get(f"/campaigns/{campaign}").json()["closed_ms"] is not None
    assert alice.post(f"/campaigns/{campaign}/tickets", json={"client_nonce": "4" * 64, "host_sha256": "e" * 64}
                      ).status_code == 409  # fmt: skip


def test_sealed_tickets_wait_for_their_runs(small: World) -> None:
    """They are open next to each other until their last day; a run that is not sealed ends them as it ends others."""
    alice = small.alice
    campaign = opened(alice)

    def sealed(nonce: str) -> dict[str, Any]:
        body = {"client_nonce": nonce * 64, "host_sha256": "e" * 64, "is_sealed": True}
        found: dict[str, Any] = alice.post(f"/campaigns/{campaign}/tickets", json=body).json()
        return found

    first, second, third = sealed("1"), sealed("2"), sealed("3")
    small.time.advance(witnessing.TICKET_DAYS - 1)
    witnessing.expire(small.instance)
    assert states(alice, campaign) == ["issued"] * 3
    assert alice.post(f"/tickets/{second['id']}/end", json={"state": "finished"}).status_code == 200
    ticket(alice, campaign, "4")
    assert states(alice, campaign) == ["lost", "finished", "lost", "issued"]
    sealed("5")
    assert states(alice, campaign) == ["lost", "finished", "lost", "lost", "issued"]
    small.time.advance(witnessing.TICKET_DAYS)
    witnessing.expire(small.instance)
    assert states(alice, campaign)[-1] == "expired"
    assert first["is_sealed"]
    assert first["seed"] != third["seed"]


def test_what_was_tried_in_a_round_is_tried_once(small: World) -> None:
    """A closed campaign is not opened again; what differs is another, and is counted."""
    alice = small.alice
    first = opened(alice)
    ticket(alice, first)
    alice.post(f"/campaigns/{first}/close")
    again = alice.post("/campaigns", json=IDENTITY)
    assert again.status_code == 409
    assert "no others take their place" in again.json()["detail"]
    other = opened(alice, config_sha256="0" * 64)
    opened(alice, config_sha256="1" * 64)  # without a ticket
    opened(small.bob)
    ticket(alice, other)
    assert alice.post(f"/campaigns/{other}/close").json()["tried"] == 2


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"benchmark": "nothing"}, 422), ({"division": "nothing"}, 422), ({"num_runs": 4}, 422),
        ({"round": "nothing"}, 422), ({"system_sha256": "ab"}, 422), ({"more": 1}, 422),
    ],
    ids=str,
)  # fmt: skip
def test_a_campaign_for_nothing_is_refused(small: World, changes: dict[str, Any], status: int) -> None:
    """With the reason."""
    answer = small.alice.post("/campaigns", json={**IDENTITY, **changes})

    assert answer.status_code == status
    assert answer.json()["detail"]


def test_others_neither_see_nor_use_a_campaign(small: World) -> None:
    """Auditors and organisers see it; its team alone uses it; the secret is nobody's until it is closed."""
    alice, bob = small.alice, small.bob
    campaign = opened(alice)
    drawn = ticket(alice, campaign)["id"]
    asked = [
        bob.get(f"/campaigns/{campaign}"), bob.post(f"/campaigns/{campaign}/close"), head(bob, drawn),
        bob.post(f"/tickets/{drawn}/end", json={"state": "finished"}),
        bob.post(f"/campaigns/{campaign}/tickets", json={"client_nonce": "4" * 64, "host_sha256": "e" * 64}),
        small.olga.post(f"/campaigns/{campaign}/close"), bob.post(f"/tickets/{drawn}/void", json={"reason": "x"}),
        alice.get("/campaigns/nothing"),
    ]  # fmt: skip
    assert [answer.status_code for answer in asked] == [404] * 8
    assert small.client.get(f"/api/v1/campaigns/{campaign}").status_code == 401
    for member in (alice, small.carol, small.olga):
        text = member.get(f"/campaigns/{campaign}").text
        assert "secret" not in text
        assert drawn in text


def test_heads_come_in_order_and_ends_are_ends(small: World) -> None:
    """An older head, one after the end, and an end that there is not are refused."""
    alice = small.alice
    drawn = ticket(alice, opened(alice))["id"]
    assert head(alice, drawn, number=5).status_code == 200
    assert head(alice, drawn, number=4).status_code == 409
    assert alice.post(f"/tickets/{drawn}/end", json={"state": "won"}).status_code == 422
    assert alice.post(f"/tickets/{drawn}/end", json={"state": "finished"}).status_code == 200
    assert head(alice, drawn, number=6).status_code == 409
    assert alice.post(f"/tickets/{drawn}/end", json={"state": "missed"}).status_code == 409


def test_a_clock_that_is_set_back_shortens_no_run(small: World) -> None:
    """The times of a ticket's receipts never decrease."""
    alice = small.alice
    drawn = ticket(alice, opened(alice))["id"]
    first = head(alice, drawn).json()["at_ms"]
    small.time.now_ms -= 60_000

    assert head(alice, drawn, number=2).json()["at_ms"] >= first


def test_an_organiser_voids_one_ticket_whose_outcome_is_unknown(small_reviewed: World) -> None:
    """With a reason; of another organisation; not what is known to be good or bad; and not a second one."""
    world, alice, olga = small_reviewed, small_reviewed.alice, small_reviewed.olga
    campaign = opened(alice)
    names = [ticket(alice, campaign, str(number))["id"] for number in range(1, 5)]
    alice.post(f"/tickets/{names[3]}/end", json={"state": "missed", "log_sha256": "f" * 64})

    def void(member: Member, name: str, reason: str = "the power failed") -> int:
        return int(member.post(f"/tickets/{name}/void", json={"reason": reason}).status_code)

    assert void(olga, names[0], " ") == 422
    assert void(world.carol, names[0]) == 403
    assert void(olga, "nothing") == 404
    assert void(olga, names[3]) == 409
    assert void(olga, names[0]) == 200
    assert void(olga, names[1]) == 409
    assert states(alice, campaign) == ["void", "lost", "lost", "missed"]
    alice.post(f"/campaigns/{campaign}/close")
    assert void(olga, names[1]) == 409


def test_no_campaign_has_tickets_without_end(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grinding is bounded, and each of its tickets counts."""
    monkeypatch.setattr(witnessing, "MAX_TICKETS", 2)
    alice = small.alice
    campaign = opened(alice)
    ticket(alice, campaign, "1")
    ticket(alice, campaign, "2")
    answer = alice.post(f"/campaigns/{campaign}/tickets", json={"client_nonce": "3" * 64, "host_sha256": "e" * 64})

    assert answer.status_code == 409
    assert "no more are issued" in answer.json()["detail"]


def test_no_log_has_heads_without_end(small: World) -> None:
    """A program that sends them as fast as it can is refused; after a while the ticket goes on."""
    alice = small.alice
    drawn = ticket(alice, opened(alice))["id"]
    assert head(alice, drawn, number=witnessing.HEADS_AT_ONCE).status_code == 200
    refused = head(alice, drawn, number=witnessing.HEADS_AT_ONCE + witnessing.HEADS_PER_S + 1)
    assert (refused.status_code, "10 a second" in refused.json()["detail"]) == (409, True)

    small.time.now_ms += 2_000

    assert head(alice, drawn, number=witnessing.HEADS_AT_ONCE + witnessing.HEADS_PER_S + 1).status_code == 200


def test_no_team_has_campaigns_without_end(small: World) -> None:
    """The one that is open already is returned all the same, and another may be opened once it is closed."""
    alice = small.alice
    object.__setattr__(small.instance.settings.limits, "max_campaigns", 1)
    first = opened(alice)
    assert opened(alice) == first
    refused = alice.post("/campaigns", json={**IDENTITY, "code_sha256": "f" * 64})
    assert refused.status_code == 403
    assert refused.json()["detail"] == "open campaigns of acme: 1 of at most 1; close one that has its runs"

    alice.post(f"/campaigns/{first}/close")

    assert alice.post("/campaigns", json={**IDENTITY, "code_sha256": "f" * 64}).status_code == 201


def test_what_is_asked_at_once_is_done_once(unreviewed: World) -> None:
    """Two that open the same campaign have one; of two tickets that are voided, or a ticket that is ended and lost, one
    is."""
    world, alice = unreviewed, unreviewed.alice

    def at_once(*calls: Callable[[], Any]) -> list[int]:
        with ThreadPoolExecutor(len(calls)) as pool:
            return [answer.result().status_code for answer in [pool.submit(call) for call in calls]]

    def opening() -> Any:
        return alice.post("/campaigns", json=IDENTITY)

    def voiding(name: str) -> Any:
        return world.olga.post(f"/tickets/{name}/void", json={"reason": "the power failed"})

    assert at_once(*[opening] * 6) == [201] * 6
    campaign = opened(alice)
    names = [ticket(alice, campaign, f"{number:x}")["id"] for number in range(6)]
    assert sorted(at_once(*(lambda name=name: voiding(name) for name in names[:4]))) == [200, 409, 409, 409]
    ended = {"state": "missed", "log_sha256": "f" * 64}
    both = at_once(
        lambda: alice.post(f"/tickets/{names[5]}/end", json=ended), lambda: alice.post(f"/campaigns/{campaign}/close")
    )
    was_ended = both[0] == 200

    listed = alice.get(f"/campaigns/{campaign}").json()["tickets"]
    assert [item["state"] for item in listed].count("void") == 1
    assert listed[5]["state"] == ("missed" if was_ended else "lost")
    with world.instance.database.read() as connection:
        kinds = [item.event["kind"] for item in events.of_subject(connection, names[5])]
    assert kinds == ["ticket.issued", "ticket.ended"]


def test_a_ticket_that_was_altered_is_found(small: World) -> None:
    """In whatever its events say of it; and one that was removed."""
    alice, database = small.alice, small.instance.database
    campaign = opened(alice)
    first = ticket(alice, campaign, "1")
    head(alice, first["id"])
    second = ticket(alice, campaign, "2")
    head(alice, second["id"])
    third = ticket(alice, campaign, "3")
    assert list(verifying.faults(small.instance)) == []

    table = schema.ticket
    for name, values in (
        (first["id"], {"state": "finished"}), (second["id"], {"num_heads": 7}), (third["id"], {"seed": 1}),
    ):  # fmt: skip
        with database.write() as connection:
            connection.execute(table.update().where(table.c.id == name).values(**values))
        [(column, value)] = values.items()
        found = list(verifying.faults(small.instance))
        assert f"ticket {name}: its {column} is {value!r}, its events say" in "; ".join(found)
    with database.write() as connection:
        connection.execute(table.delete().where(table.c.id == third["id"]))
    assert f"ticket {third['id']}: is missing; an event says that it was added" in verifying.faults(small.instance)
