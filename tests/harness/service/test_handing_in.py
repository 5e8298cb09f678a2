"""The form by which people hand in a result: what it takes, what it leaves out, and what it refuses, in a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from harness.errors import UsageError
from harness.service import packing, submitting
from harness.service.packing import Choices
from tests import fabricate
from tests.harness.service.test_pages import HERE, browser
from tests.harness.service.world import START_MS, World, listing, send, write_submission

Files = list[tuple[str, bytes]]


def run_folder(folder: Path, system: str = "box1", organisation: str = "acme", **options: Any) -> Files:
    """A result as `tta run` leaves it, as a browser sends the folder."""
    described = {**fabricate.SYSTEM, "submitter": organisation, "system_name": system}
    fabricate.write_result(folder, system=described, **options)
    return picked(folder)


def picked(folder: Path) -> Files:
    return [
        (path.relative_to(folder.parent).as_posix(), path.read_bytes()) for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]  # fmt: skip


def hand_in(client: TestClient, files: Files, **fields: str) -> Any:
    sent = [("files", (name, data, "application/octet-stream")) for name, data in files]
    return client.post("/submit", files=sent or [("files", ("", b""))], data=fields, headers=HERE)


def id_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    found = re.search(r"/submissions/([0-9a-f]{32})$", str(answer.url))
    assert found is not None, answer.url
    return found[1]


def test_a_folder_that_tta_run_left_is_submitted(small: World, tmp_path: Path) -> None:
    """With what was chosen in its claim, and without what does not belong to a submission; published like any other."""
    files = run_folder(tmp_path / "my result")
    files += [("my result/.DS_Store", b"x"), ("my result/notes of mine.txt", b"x"), ("my result/checkpoints/a", b"x")]
    client = browser(small, small.alice)

    submission = id_of(hand_in(client, files, round="rolling", category="preview", notes="by hand"))

    assert small.state(submission) == "received"
    assert "this page refreshes" in client.get(f"/submissions/{submission}").text
    listed = [item["path"] for item in small.alice.get(f"/submissions/{submission}/files").json()["files"]]
    assert "acme/systems/box1.json" in listed
    assert "acme/results/box1/toy_mini/submission.yaml" in listed
    assert not [path for path in listed if "notes" in path or "checkpoints" in path or ".DS" in path]
    claim = small.alice.get(f"/submissions/{submission}/files/acme/results/box1/toy_mini/submission.yaml").text
    assert "category: preview" in claim
    assert "notes: by hand" in claim
    small.work()
    assert small.state(submission) == "published"
    assert not list((small.instance.folder / "work").iterdir())


@pytest.mark.parametrize("top", ["outbox/", ""])
def test_a_packed_folder_is_taken_as_it_is(small: World, top: str) -> None:
    """The same files by the form and by a program are one submission; picked with or without a folder around them."""
    tree = write_submission(small.alice)
    first = send(small.alice, tree, finalise=False)
    files = [(f"{top}{item['path']}", (tree / item["path"]).read_bytes()) for item in listing(tree)]

    again = id_of(hand_in(browser(small, small.alice), [*files, ("outbox/.git/config", b"x")]))

    assert again == first
    assert small.state(first) == "received"


def test_the_receipt_is_the_one_that_programs_get(small: World, tmp_path: Path) -> None:
    """To be saved; for the team alone."""
    submission = id_of(hand_in(browser(small, small.alice), run_folder(tmp_path / "r")))

    answer = browser(small, small.alice).get(f"/submissions/{submission}/receipt.json")

    assert "attachment" in answer.headers["content-disposition"]
    assert answer.json() == small.alice.get(f"/submissions/{submission}/receipt").json()
    assert browser(small, small.carol).get(f"/submissions/{submission}/receipt.json").status_code == 403
    assert small.client.get(f"/submissions/{submission}/receipt.json").status_code == 404


def test_what_cannot_be_submitted_is_a_sentence_in_the_form(small: World, tmp_path: Path) -> None:
    """With what was chosen still in it, and without a folder of this machine."""
    client = browser(small, small.alice)
    good = run_folder(tmp_path / "r")
    without = [item for item in good if not item[0].endswith("system.json")]
    other = run_folder(tmp_path / "other", organisation="bits")
    cases: list[tuple[Files, dict[str, str], str]] = [
        ([], {}, "pick the folder that `tta run` wrote"),
        ([("r/.hidden", b"x"), ("/".join("abcdefghijkl"), b"x")], {}, "pick the folder that `tta run` wrote"),
        ([("r/readme.txt", b"x")], {}, "there is no result"),
        ([(f"all/{name}", data) for name, data in [*good, *other]], {}, "2 results are in the folder"),
        (without, {}, "has no system.json; `tta run` writes one there"),
        (other, {}, "the result is bits"),
        (good, {"round": "never"}, "there is no round"),
        (good, {"category": "best"}, "unknown category"),
        (good, {"weights_at": "https://weights.example/"}, "has weights that are too large"),
        (good, {"supersedes": "0" * 32}, "there is no submission"),
        ([("r/a", b"x"), ("r/a", b"x")], {}, "is there twice"),
        ([("r/a", b"x"), ("r/a/b/c", b"x")], {}, "cannot be kept"),
    ]
    for files, fields, why in cases:
        answer = hand_in(client, files, notes="still here", **fields)
        assert answer.status_code == 422, why
        assert why in answer.text.replace("&#39;", "'")
        assert str(tmp_path) not in answer.text
        assert 'value="still here"' in answer.text
    assert small.alice.get("/submissions?mine=true").json()["submissions"] == []


def test_nobody_and_other_sites_hand_in_nothing(small: World, tmp_path: Path) -> None:
    """Without a session one is asked to sign in, and another site's form is refused, whoever is signed in."""
    files = run_folder(tmp_path / "r")
    sent = [("files", item) for item in files]

    assert str(hand_in(browser(small), files).url).endswith("/account")
    assert str(browser(small).get("/submit").url).endswith("/account")
    foreign = browser(small, small.alice).post("/submit", files=sent, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    assert small.alice.get("/submissions?mine=true").json()["submissions"] == []


def test_a_form_is_bounded_before_it_is_read(small: World, tmp_path: Path) -> None:
    """In bytes and in files; the page names the command that takes more."""
    limits = small.instance.settings.limits
    client = browser(small, small.alice)

    large = hand_in(client, [("r/a", b"x" * limits.max_form_bytes)])
    many = hand_in(client, [(f"r/{number}", b"") for number in range(limits.max_form_files + 1)])

    assert large.status_code == 413
    assert "`tta submit RESULT --to URL` sends larger results" in large.text
    assert many.status_code == 400
    assert "Too many files" in many.text


def test_the_form_says_what_it_takes(small_reviewed: World) -> None:
    """Rounds that are open, own results that can be improved, the limits; without an open round there is no form."""
    world = small_reviewed
    world.add_round("later", opens_ms=START_MS + 10**9)
    world.add_round("spring", closes_ms=START_MS + 86_400_000)
    first = world.submit(world.alice, round="rolling")
    world.work()
    client = browser(world, world.alice)

    page = client.get(f"/submit?supersedes={first}").text

    assert f'<option value="{first}" selected>' in page
    assert re.findall(r'<option value="(rolling|spring|later)"', page) == ["rolling", "spring"]
    assert "spring, closes 2025-11-23" in page
    assert "32.0 MiB and 200 files" in page
    from sqlalchemy import update

    from harness.service import schema

    with world.instance.database.write() as connection:
        connection.execute(update(schema.round).values(closes_ms=START_MS))
    world.time.advance(0.01)
    assert "No round is open" in client.get("/submit").text


def test_an_improved_result_takes_the_place_of_the_old_one(small: World, tmp_path: Path) -> None:
    """When it is published; the old page says so, and what improves what is named on both."""
    client = browser(small, small.alice)
    old = id_of(hand_in(client, run_folder(tmp_path / "old", eval_s=0.6)))
    small.work()
    assert "Submit a better one" in client.get(f"/submissions/{old}").text

    new = id_of(hand_in(client, run_folder(tmp_path / "new"), supersedes=old))
    small.time.advance(0.01)
    small.work()

    page = client.get(f"/submissions/{old}").text
    assert f'submissions/{new}">a newer result' in page
    assert "Submit a better one" not in page
    assert f'submissions/{old}">an earlier result' in client.get(f"/submissions/{new}").text


def test_a_draft_follows_what_its_team_names_next(small_reviewed: World) -> None:
    """Sent to the wrong round, or without the result that it improves, the same files go where they are sent now."""
    world = small_reviewed
    world.add_round("spring")
    old = world.submit(world.alice, round="spring")
    tree = write_submission(world.alice)
    first = send(world.alice, tree, round="rolling", finalise=False)
    world.alice.post(f"/submissions/{first}/withdraw")

    again = send(world.alice, tree, round="spring", finalise=False, supersedes=old)
    itself = world.alice.post("/submissions", json={"files": listing(tree), "supersedes": first})
    kept = world.alice.post("/submissions", json={"files": listing(tree), "supersedes": old}).json()

    assert again == first
    assert itself.status_code == 422
    assert "cannot improve itself" in itself.text
    assert (kept["state"], kept["supersedes"]) == ("draft", old)
    listed = world.alice.get("/submissions?round=spring").json()["submissions"]
    assert {item["id"] for item in listed} == {old, first}
    [*_, last] = world.alice.get(f"/submissions/{first}").json()["history"]
    assert last["kind"] == "submission.renew"
    assert last["body"]["supersedes"] == old


def test_packing_is_what_tta_submit_does(tmp_path: Path) -> None:
    """One result in a folder, or below it, becomes a tree; the process says why one does not."""
    fabricate.write_result(tmp_path / "in" / "r")
    (tmp_path / "out").mkdir()
    packing.pack_into(tmp_path / "out", tmp_path / "in", Choices("v1", "research"), START_MS)

    assert (tmp_path / "out" / "acme" / "results" / "box1" / "toy_mini" / "MANIFEST.sha256").is_file()
    assert (tmp_path / "out" / "acme" / "systems" / "box1.json").is_file()
    fabricate.write_result(tmp_path / "in" / "s")
    with pytest.raises(UsageError, match="2 results"):
        packing.pack_into(tmp_path / "out", tmp_path / "in", Choices("v1"), START_MS)


def test_the_process_that_packs_ends_with_a_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0, or 2 with the reason: that nothing is there, or that the time was too short."""
    fabricate.write_result(tmp_path / "r")
    asked = {"choices": {"ruleset": "v1"}, "limits": [60, 1 << 40], "at_ms": START_MS}

    for number, (folder, status) in enumerate([(tmp_path / "r", 0), (tmp_path / "none", 2)]):
        tree = tmp_path / f"out{number}"
        tree.mkdir()
        assert packing.main([str(folder), str(tree), json.dumps(asked)]) == status
    assert "there is no such file or folder" in capsys.readouterr().err


def test_a_submission_is_handed_in_by_the_team_alone(small: World, tmp_path: Path) -> None:
    """`hand_in` is the way of every door: what another team's files are named is refused."""
    tree = write_submission(small.alice)
    from harness.service import people

    with small.instance.database.read() as connection:
        bob = people.by_token(connection, small.bob.token, small.instance.now_ms())
    assert bob is not None
    with pytest.raises(UsageError, match="you submit for bits"):
        submitting.hand_in(small.instance, bob, tree, [path for path in tree.rglob("*") if path.is_file()])
