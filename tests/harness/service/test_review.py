"""Review: who may do what when, two pairs of eyes, the clock of a round, and what outsiders do not learn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.service import worker
from harness.service.states import TRANSITIONS, Role, State
from tests.harness.service.world import DAY_MS, Member, World, write_submission

WHY = {"reason": "because of the rules"}


def under_review(world: World, member: Member | None = None) -> str:
    """A submission that waits for its decision."""
    submission = world.submit(member or world.alice)
    world.work()
    assert world.state(submission) == "under_review"
    return submission


def act(member: Member, submission: str, action: str, reason: dict[str, str] | None = None) -> int:
    return member.post(
        f"/submissions/{submission}/actions/{action}", json=WHY if reason is None else reason
    ).status_code


def objected(world: World, submission: str, member: Member) -> str:
    answer = member.post(f"/submissions/{submission}/objections", json={"rule": "TIM001", "text": "too fast"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def published(world: World, member: Member | None = None) -> str:
    submission = under_review(world, member)
    assert act(world.olga, submission, "accept") == 200
    world.work()
    assert world.state(submission) == "published"
    return submission


def second_organiser(world: World) -> Member:
    return world.join("otto", "third", is_organiser=True)


def test_a_result_is_objected_to_answered_accepted_and_published(reviewed: World) -> None:
    """Not before every objection is decided; with reasons, in the history of the submission."""
    world = reviewed
    submission = under_review(world)
    objection = objected(world, submission, world.carol)
    assert world.state(submission) == "objected"

    said = world.alice.post(f"/submissions/{submission}/comments", json={"text": "see line 3", "objection": objection})
    early = act(world.olga, submission, "accept")
    decided = world.olga.post(
        f"/objections/{objection}/decision", json={"decision": "dismissed", "reason": "it is as the rules say"}
    )
    accepted = act(world.olga, submission, "accept")
    world.work()

    assert (said.status_code, early, decided.status_code, accepted) == (201, 409, 204, 200)
    assert world.state(submission) == "published"
    found = world.client.get(f"/api/v1/submissions/{submission}").json()
    assert [item["kind"] for item in found["history"]] == [
        "submission.announced", "submission.finalise", "submission.find_valid", "submission.open_review",
        "submission.object", "objection.decided", "submission.answer_all", "submission.accept", "submission.publish",
    ]  # fmt: skip
    assert found["objections"][0]["decision"] == "it is as the rules say"
    assert "comments" not in found
    assert len(world.alice.get(f"/submissions/{submission}").json()["comments"]) == 1


def test_a_rejection_needs_two(reviewed: World) -> None:
    """Two people: the same one twice is still one."""
    world = reviewed
    otto = second_organiser(world)
    submission = under_review(world)

    assert act(world.olga, submission, "reject") == 202
    assert act(world.olga, submission, "reject") == 409
    assert world.state(submission) == "under_review"
    assert act(otto, submission, "reject") == 200
    assert world.state(submission) == "rejected"


@pytest.mark.parametrize(
    ("action", "state"), [("uphold", "published"), ("move_to_open", "moved_to_open"), ("retract", "retracted")]
)
def test_a_dispute_is_settled_by_two(reviewed: World, action: str, state: str) -> None:
    """And what is retracted or moved is no longer in the table of its division."""
    world = reviewed
    otto = second_organiser(world)
    submission = published(world)
    world.time.advance(1)
    world.work()

    assert world.alice.post(f"/submissions/{submission}/dispute", json=WHY).status_code == 403
    assert world.bob.post(f"/submissions/{submission}/dispute", json=WHY).status_code == 200
    assert world.client.get("/api/v1/boards/toy_mini").json()["rows"] == []
    assert (act(world.olga, submission, action), act(otto, submission, action)) == (202, 200)
    world.work()

    assert world.state(submission) == state
    closed = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    assert len(closed) == (1 if action == "uphold" else 0)
    if action == "move_to_open":
        worker.work(world.instance, "test")


def test_what_was_moved_to_open_is_scored_as_open(reviewed: World) -> None:
    """By its measured time, in the table of the open division, and still checked by the rules it was made under."""
    world = reviewed
    otto = second_organiser(world)
    submission = published(world)
    world.bob.post(f"/submissions/{submission}/dispute", json=WHY)
    act(world.olga, submission, "move_to_open")
    act(otto, submission, "move_to_open")
    world.work()

    [row] = world.client.get("/api/v1/boards/toy_mini?division=open").json()["rows"]

    assert row["submission"] == submission
    assert row["score"]["basis"] == "measured"


def test_a_round_publishes_all_at_once_on_its_day(reviewed: World) -> None:
    """Closed first, then reviewed; what was accepted waits, whoever asks."""
    world = reviewed
    now_ms = world.time.now_ms
    world.add_round(
        "r1", closes_ms=now_ms + DAY_MS, objections_until_ms=now_ms + 2 * DAY_MS, publish_ms=now_ms + 3 * DAY_MS
    )
    submission = world.submit(world.alice, round="r1")
    world.work()
    assert world.state(submission) == "checked"

    world.time.advance(1)
    late = world.bob.post("/submissions", json={"files": listing_of(world.bob), "round": "r1"})
    sweep_and_work(world)
    assert late.status_code == 409
    assert world.state(submission) == "under_review"
    assert act(world.olga, submission, "accept") == 200
    sweep_and_work(world)
    assert world.state(submission) == "accepted"
    world.time.advance(1)
    assert world.carol.post(f"/submissions/{submission}/objections", json={"rule": "x", "text": "y"}).status_code == 409
    world.time.advance(1)
    sweep_and_work(world)
    assert world.state(submission) == "published"


def listing_of(member: Member) -> list[dict[str, Any]]:
    from tests.harness.service.world import listing

    return listing(write_submission(member))


def sweep_and_work(world: World) -> None:
    worker.sweep(world.instance)
    world.work()


def test_a_better_result_takes_the_place_of_an_own_one(reviewed: World) -> None:
    """When it is published, and not before; the old one keeps its page."""
    world = reviewed
    old = published(world)
    tree = write_submission(world.alice, eval_s=0.4)
    from tests.harness.service.world import send

    new = send(world.alice, tree, supersedes=old)
    world.work()
    assert world.client.get("/api/v1/boards/toy_mini").json()["rows"][0]["submission"] == old
    act(world.olga, new, "accept")
    world.work()

    rows = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    page = world.client.get(f"/api/v1/submissions/{old}").json()

    # Of another system: it is a result of its own.
    assert {row["submission"] for row in rows} == {new}
    assert page["superseded_by"] == new
    refused = world.bob.post("/submissions", json={"files": listing_of(world.bob), "supersedes": old})
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        {"rule": "", "text": "x"},
        {"rule": "TIM001", "text": "  "},
        {"rule": "TIM001", "text": "x" * 20_000},
        {"rule": "TIM001", "text": "x", "path": "acme/nowhere"},
        {"rule": "TIM001", "text": "x", "line": 3},
        {"rule": "TIM001"},
    ],
)
def test_an_objection_names_rule_place_and_reason(reviewed: World, body: dict[str, Any]) -> None:
    """Otherwise it is refused, and the submission stays as it is."""
    submission = under_review(reviewed)

    assert reviewed.carol.post(f"/submissions/{submission}/objections", json=body).status_code == 422
    assert reviewed.state(submission) == "under_review"


# Who does what to a submission in each state, over the interface. The members' roles are those of `states`.
ROLES = {
    "alice": {Role.OWNER},
    "bob": {Role.SIGNED_IN, Role.ENTRANT},
    "carol": {Role.SIGNED_IN, Role.AUDITOR},
    "olga": {Role.SIGNED_IN, Role.AUDITOR, Role.ORGANISER},
    "zoe": {Role.SIGNED_IN},
}
CALLS: dict[str, tuple[str, Any]] = {
    "finalise": ("/finalise", None),
    "withdraw": ("/withdraw", None),
    "check_again": ("/check_again", None),
    "object": ("/objections", {"rule": "TIM001", "text": "x"}),
    "dispute": ("/dispute", WHY),
    **{
        action: (f"/actions/{action}", WHY)
        for action in ("open_review", "accept", "reject", "uphold", "move_to_open", "retract")
    },
}
SEEN_BY_ENTRANTS = {"under_review", "objected", "accepted", "rejected"}
PUBLIC = {"published", "disputed", "moved_to_open", "retracted"}


def is_visible(name: str, state: str) -> bool:
    if state in PUBLIC or name == "alice":
        return True
    if name in ("carol", "olga"):
        return state != "draft"
    return name == "bob" and state in SEEN_BY_ENTRANTS


def set_state(world: World, submission: str, state: State) -> None:
    """Put a submission into a state without its events: only what the interface permits is asked."""
    from sqlalchemy import update

    from harness.service import schema

    table = schema.submission
    with world.instance.database.write() as connection:
        connection.execute(update(table).where(table.c.id == submission).values(state=state))
        connection.execute(schema.proposal.delete())
        connection.execute(schema.objection.delete())


@pytest.mark.parametrize("state", list(State))
def test_what_each_role_may_do_in_each_state(small_reviewed: World, state: State) -> None:
    """Exactly what the table of transitions says; what is not visible is not there."""
    world = small_reviewed
    world.join("zoe", "outside")
    world.submit(world.bob)  # takes part in the round
    world.work()
    submission = world.submit(world.alice)

    for (name, roles), (action, (path, body)) in itertools.product(ROLES.items(), CALLS.items()):
        set_state(world, submission, state)
        member = world.members[name]
        status = member.post(f"/submissions/{submission}{path}", **({"json": body} if body else {})).status_code
        transition = TRANSITIONS[action]
        may = bool(roles & set(transition.roles))
        if not is_visible(name, state):
            expected = {404}
        elif action == "finalise" and name == "alice" and state is not State.DRAFT:
            expected = {202}  # the receipt again
        elif not may:
            expected = {403}
        else:
            expected = {200, 201, 202} if state in transition.sources else {409}

        assert status in expected, f"{name} {action} {state}: {status}"


def test_a_token_is_for_its_scopes_only(reviewed: World) -> None:
    """One for reading submits nothing; none of another kind makes a stronger one."""
    world = reviewed
    made = world.alice.post("/tokens", json={"label": "reader", "scopes": ["read"]}).json()
    reader = {"authorization": f"Bearer {made['token']}"}

    files = listing_of(world.alice)
    assert world.client.get("/api/v1/me", headers=reader).json()["scopes"] == ["read"]
    assert world.client.post("/api/v1/submissions", json={"files": files}, headers=reader).status_code == 403
    stronger = {"label": "x", "scopes": ["admin"]}
    assert world.client.post("/api/v1/tokens", json=stronger, headers=reader).status_code == 403
    assert world.alice.client.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert world.client.get("/api/v1/me", headers=reader).status_code == 401
    assert world.alice.post("/tokens", json={"label": "x", "scopes": ["fly"]}).status_code in (403, 422)
    assert world.client.get("/api/v1/me").status_code == 401


def crawl(get: Callable[[str], Any], submission: str) -> str:
    """Everything that the interface answers to somebody, as one text."""
    paths = [
        "/submissions", "/submissions?mine=true", f"/submissions/{submission}", f"/submissions/{submission}/files",
        f"/submissions/{submission}/receipt", "/boards", "/boards/toy_mini", "/boards/toy_mini/records", "/rounds",
        "/rulesets", "/search?q=acme", "/search?q=box", "/key", "/openapi.json",
    ]  # fmt: skip
    return "\n".join(get(path).text.replace(submission, "ASKED") for path in paths)


def test_embargo_not_a_byte_of_a_result_to_an_outsider(reviewed: World) -> None:
    """Neither its numbers nor its team's, system's or files' names, nor that there is such a thing."""
    world = reviewed
    now_ms = world.time.now_ms
    world.add_round("r1", closes_ms=now_ms + DAY_MS, publish_ms=now_ms + 9 * DAY_MS)
    submission = world.submit(world.alice, round="r1")
    world.join("zoe", "outside")
    before = world.client.get(f"/api/v1/submissions/{'0' * 32}").json()["detail"]
    for _ in range(2):
        detail = world.alice.get(f"/submissions/{submission}").json()
        files = world.alice.get(f"/submissions/{submission}/files").json()["files"]
        secrets = [detail["system"], detail["manifest_sha256"], "acme", *(item["sha256"] for item in files)]
        for get in (lambda path: world.client.get(f"/api/v1{path}"), world.members["zoe"].get):
            text = crawl(get, submission)
            assert not [secret for secret in secrets if json.dumps(secret)[1:-1] in text]
        refused = world.client.get(f"/api/v1/submissions/{submission}").json()["detail"]
        assert refused == before.replace("0" * 32, submission)
        world.time.advance(2)
        sweep_and_work(world)
        act(world.olga, submission, "accept")
        sweep_and_work(world)
    assert world.state(submission) == "accepted"
    world.time.advance(9)
    sweep_and_work(world)
    assert "acme" in crawl(lambda path: world.client.get(f"/api/v1{path}"), submission)
