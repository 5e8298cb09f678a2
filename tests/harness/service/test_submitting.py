"""Submitting: what is accepted, what is refused and why, and that nothing is done twice or given to the wrong team."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from harness.base import ssh_signature
from harness.errors import OutputError
from harness.service import people, submissions, uploads
from harness.service.api import submissions as api
from harness.service.api.submissions import MAX_SPOOLED
from harness.service.states import State
from harness.transparency.receipt import NAMESPACE, parse_receipt
from tests.harness.service.world import Member, World, bundle, listing, send, write_submission


def announced(member: Member, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = member.post("/submissions", json={"files": files, **more})
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def test_the_same_files_are_one_submission(unreviewed: World) -> None:
    """Announced again, before and after the end, with one receipt."""
    world = unreviewed
    tree = write_submission(world.alice)
    first = announced(world.alice, listing(tree))

    again = world.alice.post("/submissions", json={"files": listing(tree)[::-1]})
    found = send(world.alice, tree)
    receipts = [world.alice.post(f"/submissions/{found}/finalise").json() for _ in range(2)]
    receipts.append(world.alice.get(f"/submissions/{found}/receipt").json())

    assert again.status_code == 200
    assert again.json()["id"] == first["id"] == found
    assert receipts[0] == receipts[1] == receipts[2]
    assert len(world.alice.get("/submissions?mine=true").json()["submissions"]) == 1


def test_a_receipt_is_signed_by_the_service_and_names_its_event(small: World) -> None:
    """ssh-keygen verifies it with the public key that everybody gets."""
    submission = small.submit(small.alice)
    receipt = parse_receipt(small.alice.get(f"/submissions/{submission}/receipt").json(), "here")
    key = small.client.get("/api/v1/key").json()["public_key"]

    signer = f"board {key}\n".encode()
    refusal = ssh_signature.refusal(receipt.text.encode(), receipt.signature.encode(), NAMESPACE, signer, "board")

    assert refusal is None
    assert receipt.opening.event["kind"] == "submission.finalise"
    assert small.bob.get(f"/submissions/{submission}/receipt").status_code == 404


def test_knowing_a_digest_gives_nobody_the_file(unreviewed: World) -> None:
    """Another team's file must be sent although the service has its bytes."""
    world = unreviewed
    tree = write_submission(world.alice)
    send(world.alice, tree)
    secret = next(item for item in listing(tree) if item["path"].endswith("result_0.txt"))
    own = write_submission(world.bob)
    files = [*listing(own), {**secret, "path": secret["path"].replace("acme", "bits").replace("box", "box9")}]
    place = next(item["path"] for item in listing(own) if item["path"].endswith("result_0.txt"))
    files[-1]["path"] = place.replace("result_0", "result_9")

    missing = announced(world.bob, files)["missing"]

    assert secret["sha256"] in {item["sha256"] for item in missing}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda files: [*files, files[0]], "is listed twice"),
        (lambda files: [{**files[0], "path": "acme/../x"}, *files[1:]], "not the path of a file"),
        (lambda files: [{**files[0], "path": "/etc/passwd"}, *files[1:]], "not the path of a file"),
        (lambda files: [{**files[0], "path": "acme/elsewhere/x"}, *files[1:]], "belongs to no result"),
        (
            lambda files: [{**item, "path": item["path"].replace("acme", "bits")} for item in files],
            "you submit for acme",
        ),
        (lambda files: [item for item in files if not item["path"].endswith(".yaml")], "has no submission.yaml"),
        (lambda files: [{**files[0], "bytes": 1 << 40}, *files[1:]], "a file has at most"),
        (lambda files: files[:1], "0 results|1 result|has no submission.yaml"),
        (lambda files: [{**files[0], "path": files[0]["path"].replace("acme", "bits", 1)}, *files[1:]], "belong"),
    ],
)
def test_a_list_that_is_no_submission_is_refused(small: World, change: Any, why: str) -> None:
    """In one sentence that names the path."""
    files = change(listing(write_submission(small.alice)))

    answer = small.alice.post("/submissions", json={"files": files})

    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    import re

    assert re.search(why, answer.json()["detail"]), answer.json()["detail"]


def test_bytes_that_are_not_as_announced_are_not_kept(small: World) -> None:
    """Other bytes, too few, too many, a digest that was not asked for."""
    tree = write_submission(small.alice)
    found = announced(small.alice, listing(tree))
    data = bundle(tree, found["missing"])
    head = json.dumps(["f" * 64]).encode()

    def status(content: bytes) -> int:
        return small.alice.post(f"/submissions/{found['id']}/files", content=content).status_code

    assert status(data[:-1] + bytes([data[-1] ^ 1])) == 422
    assert status(data[:-1]) == 422
    assert status(data + b"x") == 422
    assert status(data + b"x" * MAX_SPOOLED) == 422
    assert status(head + b"\n") == 422
    assert status(b"x" * 3_000_000) == 422
    assert status(b"[1]\n") == 422
    assert small.alice.post(f"/submissions/{found['id']}/finalise").status_code == 409
    assert status(data) == 204
    assert small.alice.post(f"/submissions/{found['id']}/finalise").status_code == 202


def test_two_submissions_of_a_team_may_bring_the_same_file(small: World) -> None:
    """Each was told that it is missing; who comes second is not refused for it."""
    places = []
    for _ in range(2):
        tree = write_submission(small.alice)
        found = announced(small.alice, listing(tree))
        places.append((found["id"], bundle(tree, found["missing"]), {item["sha256"] for item in found["missing"]}))
    assert places[0][2] & places[1][2], "the lists of the code are the same"

    for submission, data, _ in places:
        assert small.alice.post(f"/submissions/{submission}/files", content=data).status_code == 204
        assert small.alice.post(f"/submissions/{submission}/finalise").status_code == 202


def test_files_larger_than_the_memory_for_them_arrive(small: World) -> None:
    """Through the disk, and nothing of them is left where they arrived."""
    tree = write_submission(small.alice)
    [result] = tree.rglob("result_0.txt")
    (result.parent / "notes.bin").write_bytes(bytes(range(256)) * (MAX_SPOOLED // 100))
    found = announced(small.alice, listing(tree))

    answer = small.alice.post(f"/submissions/{found['id']}/files", content=bundle(tree, found["missing"]))

    assert answer.status_code == 204, answer.text
    assert small.alice.get(f"/submissions/{found['id']}/missing").json() == {"missing": []}
    assert list(small.instance.blobs.incoming.iterdir()) == []


def test_a_full_disk_is_said() -> None:
    """As the reason why files were not taken."""

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutputError, match="No space left"):
        api._write(Full(), b"x")


def test_a_claim_that_contradicts_its_place_is_refused_at_the_end(small: World) -> None:
    """Its system or its ruleset is another than that of paths and round."""
    for claim, why in (({"system": "other"}, "the system is"), ({"ruleset": "v0"}, "the ruleset is")):
        tree = write_submission(small.alice, claim=claim)
        found = send(small.alice, tree, finalise=False)

        answer = small.alice.post(f"/submissions/{found}/finalise")

        assert answer.status_code == 422
        assert why in answer.json()["detail"]


def test_a_result_is_withdrawn_by_its_own_team_and_may_come_again(reviewed: World) -> None:
    """Before it is published; announced again with the same files it goes on as a draft."""
    world = reviewed
    tree = write_submission(world.alice)
    submission = send(world.alice, tree)

    assert world.bob.post(f"/submissions/{submission}/withdraw").status_code == 404
    assert world.olga.post(f"/submissions/{submission}/withdraw").status_code == 403
    assert world.alice.post(f"/submissions/{submission}/withdraw").json()["state"] == "withdrawn"
    assert world.alice.post(f"/submissions/{submission}/withdraw").status_code == 409
    assert send(world.alice, tree) == submission
    assert world.state(submission) == "received"


def test_quotas_are_a_teams_own(small: World) -> None:
    """A team whose drafts or bytes are used up is told so; others are not touched."""
    limits = small.instance.settings.limits
    object.__setattr__(limits, "max_drafts", 1)
    small.submit(small.alice, finalise=False)

    refused = small.alice.post("/submissions", json={"files": listing(write_submission(small.alice))})

    assert refused.status_code == 403
    assert "wait for their files" in refused.json()["detail"]
    assert small.submit(small.bob, finalise=False)


def test_pages_of_submissions_have_each_once(small: World) -> None:
    """With a cursor that survives what changes meanwhile."""
    expected = [small.submit(small.alice, finalise=False) for _ in range(5)]

    seen, after = [], ""
    while True:
        answer = small.alice.get(f"/submissions?mine=true&limit=2{after}").json()
        seen += [item["id"] for item in answer["submissions"]]
        if answer["next"] is None:
            break
        after = f"&after={answer['next']}"

    assert seen == expected[::-1]
    assert small.alice.get("/submissions?after=nonsense").status_code == 422
    assert small.bob.get("/submissions").json()["submissions"] == []


def test_files_are_given_to_whoever_sees_the_submission(small: World) -> None:
    """With their digest, and as something to save and not to show."""
    submission = small.submit(small.alice)
    [path] = [item["path"] for item in small.alice.get(f"/submissions/{submission}/files").json()["files"]
              if item["path"].endswith("result_0.txt")]  # fmt: skip

    answer = small.alice.get(f"/submissions/{submission}/files/{path}")

    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
    assert answer.headers["content-disposition"].startswith("attachment")
    assert small.alice.get(f"/submissions/{submission}/files/{path}x").status_code == 404
    assert small.bob.get(f"/submissions/{submission}/files/{path}").status_code == 404


def test_an_upload_goes_on_where_it_was_cut_off(small: World) -> None:
    """Its size is what is on the disk; a wrong checksum takes the piece back; the right bytes make a blob."""
    data = bytes(range(256)) * 100
    digest = hashlib.sha256(data).hexdigest()
    place = create_upload(small.alice, digest, len(data))

    assert patch(small.alice, place, 0, data[:10_000]) == 204
    assert patch(small.alice, place, 0, data) == 409
    assert patch(small.alice, place, 10_000, data[10_000:20_000], b"\0" * 32) == 460
    assert small.alice.client.head(place).headers["upload-offset"] == "10000"
    assert small.bob.client.head(place).status_code == 404
    assert patch(small.alice, place, 10_000, data[10_000:] + b"x") == 422
    assert patch(small.alice, place, 10_000, data[10_000:]) == 204
    assert small.alice.client.head(place).status_code == 404
    assert small.instance.blobs.path(digest).read_bytes() == data


def test_what_came_of_a_piece_that_broke_off_is_kept(small: World) -> None:
    """Though it has not the digest of the whole piece: over a bad link no piece may ever come whole."""
    data = bytes(range(256)) * 100
    place = create_upload(small.alice, hashlib.sha256(data).hexdigest(), len(data))
    with small.instance.database.read() as connection:
        alice = people.by_token(connection, small.alice.token, small.instance.now_ms())
    assert alice is not None
    found = uploads.find(small.instance, alice, place.rpartition("/")[2])

    def broken() -> None:
        with uploads.appending(small.instance, found, 0, b"\0" * 32) as piece:
            piece.write(data[:10_000])
            raise ClientDisconnect

    with pytest.raises(ClientDisconnect):
        broken()

    assert small.alice.client.head(place).headers["upload-offset"] == "10000"
    assert patch(small.alice, place, 10_000, data[10_000:], hashlib.sha256(data[10_000:]).digest()) == 204


def test_an_upload_with_another_digest_is_not_kept(small: World) -> None:
    """It is said at its end, and there is nothing left of it."""
    place = create_upload(small.alice, "a" * 64, 3)

    assert patch(small.alice, place, 0, b"abc") == 422
    assert small.alice.client.head(place).status_code == 404
    assert list(small.instance.uploads.iterdir()) == []


def create_upload(member: Member, digest: str, num_bytes: int) -> str:
    import base64

    metadata = f"sha256 {base64.b64encode(digest.encode()).decode()}"
    headers = {"tus-resumable": "1.0.0", "upload-length": str(num_bytes), "upload-metadata": metadata}
    answer = member.post("/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def patch(member: Member, place: str, offset: int, data: bytes, checksum: bytes | None = None) -> int:
    import base64

    headers = {"tus-resumable": "1.0.0", "upload-offset": str(offset)}
    headers["content-type"] = "application/offset+octet-stream"
    if checksum is not None:
        headers["upload-checksum"] = f"sha256 {base64.b64encode(checksum).decode()}"
    return member.client.patch(place, headers=headers, content=data).status_code


def test_a_submission_seen_by_the_service_has_every_state_as_a_word(small: World) -> None:
    """The table of states and the rows agree."""
    submission = small.submit(small.alice)
    with small.instance.database.read() as connection:
        assert submissions.find(connection, submission, None).state is State.RECEIVED
