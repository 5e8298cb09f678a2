"""What waits for whom: each of the people with whom a submission has to do something, and nobody else."""

from __future__ import annotations

from typing import Any

from harness.service import desk, people
from tests.harness.service.test_pages import browser
from tests.harness.service.world import START_MS, Member, World

DAY_MS = 86_400_000


def tasks(world: World, *members: Member) -> list[list[str]]:
    """What waits for each, in words, with how long."""
    found = []
    for member in members:
        with world.instance.database.read() as connection:
            actor = people.by_token(connection, member.token, world.instance.now_ms())
            assert actor is not None
            waiting = desk.waiting(connection, actor, world.instance.now_ms())
        found.append([f"{item.task}{'' if item.until_ms is None else ' Until.'}" for item in waiting])
    return found


def act(member: Member, submission: str, action: str) -> None:
    answer = member.post(f"/submissions/{submission}/actions/{action}", json={"reason": "so"})
    assert answer.status_code in (200, 202), answer.text


def test_each_is_told_what_waits_for_them(small_reviewed: World) -> None:
    """From a draft to a dispute: its team, others of the round, auditors, organisers; never somebody of no part."""
    world = small_reviewed
    world.join("oscar", "host", is_auditor=True, is_organiser=True)
    world.join("dora", "delta")
    people_ = [world.members[name] for name in ("alice", "bob", "carol", "olga", "dora")]
    look, decide = "Look it over: you may object.", "Accept or reject it."

    submission = world.submit(world.alice, finalise=False)
    assert tasks(world, *people_) == [["Files are missing: send them, or withdraw it."], [], [], [], []]
    world.alice.post(f"/submissions/{submission}/withdraw")
    submission = world.submit(world.alice, num_runs=2)
    world.work()
    invalid = "Not valid: read the findings, then send a better one or withdraw it."
    assert tasks(world, *people_) == [[invalid], [], [], [], []]
    world.alice.post(f"/submissions/{submission}/withdraw")

    submission = world.submit(world.alice)
    world.work()
    assert tasks(world, *people_) == [[], [], [look], [decide], []], "bits has nothing in the round"
    own = world.submit(world.bob, finalise=True)
    assert tasks(world, world.bob) == [[]], "what has not been checked lets nobody in"
    world.work()
    assert tasks(world, world.bob) == [[look]]
    world.bob.post(f"/submissions/{own}/withdraw")
    world.carol.post(f"/submissions/{submission}/objections", json={"rule": "TIM001", "text": "why"})
    assert tasks(world, *people_) == [["Answer the objection."], [], [], ["Decide about the objection."], []]
    [objection] = world.alice.get(f"/submissions/{submission}").json()["objections"]
    sent = {"decision": "dismissed", "reason": "no"}
    assert world.olga.post(f"/objections/{objection['id']}/decision", json=sent).status_code == 204

    act(world.olga, submission, "reject")
    second = "Another organiser wants to reject it: say whether you do, too."
    assert tasks(world, world.olga, world.oscar) == [[], [second]]
    act(world.olga, submission, "accept")
    world.work()
    world.dora.post(f"/submissions/{submission}/dispute", json={"reason": "so"})
    settle = "Settle the dispute."
    assert tasks(world, *people_, world.oscar) == [[], [], [], [settle], [], [settle]]
    act(world.olga, submission, "move_to_open")
    second = "Another organiser wants to move it to the open division: say whether you do, too."
    assert tasks(world, world.oscar, world.olga) == [[second], []]
    page = browser(world, world.oscar).get(f"/submissions/{submission}").text
    assert "Proposed by host" in page
    assert "proposes: <b>reject" not in page


def test_an_objection_of_ones_own_waits_for_another(small_reviewed: World) -> None:
    """An organiser who objected decides nothing about it."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    world.olga.post(f"/submissions/{submission}/objections", json={"rule": "TIM001", "text": "why"})

    assert tasks(world, world.olga, world.carol) == [[], []], "carol is of the organisation that objected"


def test_looking_ends_with_the_time_for_objections(small_reviewed: World) -> None:
    """Until then it is said how long; afterwards only the decision waits."""
    world = small_reviewed
    world.add_round("spring", objections_until_ms=START_MS + DAY_MS)
    world.submit(world.alice, round="spring")
    world.work()

    assert tasks(world, world.carol, world.olga) == [
        ["Look it over: you may object. Until."], ["Accept or reject it. Until."],
    ]  # fmt: skip
    world.time.advance(1)
    assert tasks(world, world.carol, world.olga) == [[], ["Accept or reject it."]]


def test_a_check_that_failed_waits_for_both(small_reviewed: World) -> None:
    """The team and an organiser may have it made again."""
    from sqlalchemy import update

    from harness.service import schema

    world = small_reviewed
    submission = world.submit(world.alice)
    table = schema.submission
    with world.instance.database.write() as connection:
        connection.execute(update(table).where(table.c.id == submission).values(state="check_failed"))

    assert tasks(world, world.alice, world.olga) == [["The check itself failed: have it made again."]] * 2


def test_pages_begin_with_what_waits(small_reviewed: World) -> None:
    """The list of submissions in full, the first page with how many; for a stranger neither."""
    world = small_reviewed
    world.submit(world.alice)
    world.work()
    olga, stranger = browser(world, world.olga), browser(world)

    assert "Accept or reject it." in olga.get("/submissions").text
    assert "1 submission waits for you" in " ".join(olga.get("/").text.split())
    assert "Waiting for you" not in olga.get("/submissions?state=under_review").text
    assert "Under review" in olga.get("/submissions?state=under_review").text
    for path in ("/", "/submissions"):
        assert "aiting for you" not in stranger.get(path).text
        assert "waits for you" not in stranger.get(path).text


def test_what_happens_next_is_said_with_its_time(small_reviewed: World) -> None:
    """In each state: what, by whom, and when where it is known."""
    world = small_reviewed
    day = START_MS + DAY_MS
    world.add_round("spring", closes_ms=day, objections_until_ms=day + DAY_MS, publish_ms=day + 2 * DAY_MS)

    def said(submission: str) -> str:
        text = browser(world, world.alice).get(f"/submissions/{submission}").text
        words = text.partition("What happens next:</b>")[2].partition("</p>")[0]
        return " ".join(words.split())

    draft = world.submit(world.alice, round="spring", finalise=False)
    assert "its team sends the files that are missing; otherwise it is withdrawn" in said(draft)
    assert "2025-11-29" in said(draft)
    submission = world.submit(world.alice, round="spring")
    assert "a worker checks it" in said(submission)
    world.work()
    assert "its review opens when the round closes, <time" in said(submission)
    world.time.advance(1.1)
    from harness.service import rounds

    with world.instance.database.write() as connection:
        rounds.tick_all(connection, world.instance)
    world.work()
    assert "other teams may object until <time" in said(submission)
    assert "What is accepted is published <time" in said(submission)
    world.carol.post(f"/submissions/{submission}/objections", json={"rule": "TIM001", "text": "why"})
    assert "decides about 1 objection." in said(submission)
    [objection] = world.alice.get(f"/submissions/{submission}").json()["objections"]
    world.olga.post(f"/objections/{objection['id']}/decision", json={"decision": "upheld", "reason": "no"})
    act(world.olga, submission, "accept")
    assert "it is published <time" in said(submission)
    world.alice.post(f"/submissions/{submission}/withdraw")
    assert said(submission) == "nothing, unless its team sends the same files again."


def test_who_did_what_is_said_by_organisation(small_reviewed: World) -> None:
    """To reviewers of everything; to others not whose an objection was that was never decided. No names of people."""
    world = small_reviewed
    world.submit(world.bob)
    submission = world.submit(world.alice)
    world.work()
    sent = {"rule": "TIM001", "text": "why"}
    ids = [world.bob.post(f"/submissions/{submission}/objections", json=sent).json()["id"] for _ in range(2)]
    world.bob.post(f"/objections/{ids[0]}/withdraw")
    world.olga.post(f"/objections/{ids[1]}/decision", json={"decision": "dismissed", "reason": "no"})
    act(world.olga, submission, "accept")
    world.work()

    told = world.alice.get(f"/submissions/{submission}").json()
    public = world.client.get(f"/api/v1/submissions/{submission}").json()

    def who(record: dict[str, Any]) -> list[tuple[str, str | None]]:
        return [(item["kind"].partition(".")[2], item["organisation"]) for item in record["history"]]

    assert who(told) == [
        ("announced", "acme"), ("finalise", "acme"), ("find_valid", None), ("open_review", None), ("object", "bits"),
        ("object", "bits"), ("withdrawn", "bits"), ("decided", "host"), ("answer_all", None), ("accept", "host"),
        ("publish", None),
    ]  # fmt: skip
    assert [item for item in who(public) if item[0] in ("object", "withdrawn")] == [
        ("object", None), ("object", None), ("withdrawn", None),
    ]  # fmt: skip
    [decided] = public["objections"]
    assert (decided["organisation"], decided["decided_by"]) == ("bits", "host")
    page = browser(world).get(f"/submissions/{submission}").text
    assert "Objection dismissed" in page
    for name in ("alice", "bob", "olga"):
        assert name not in page
