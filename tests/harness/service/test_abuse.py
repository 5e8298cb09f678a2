"""What somebody tries who means harm, or writes nonsense: each was possible once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from select import select as selecting
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text
from sqlalchemy.exc import OperationalError

from harness import cli
from harness.base import ssh_signature
from harness.service import checkpoints, confined, jobs, people, schema, serving, verifying, worker
from harness.service.api import exports
from harness.service.instance import Instance
from harness.transparency.checkpoint import COSIGN_NAMESPACE, SignedCheckpoint, parse_note
from tests import fabricate
from tests.harness.service.test_pages import HERE
from tests.harness.service.test_submitting import create_upload, patch
from tests.harness.service.test_witnessing import head, opened, ticket
from tests.harness.service.world import START_MS, Member, World, listing, send, write_submission
from tests.rules import signing


def forgiving(world: World, member: Member) -> TestClient:
    """A client of a member that gets an answer where the service fails."""
    headers = {"authorization": f"Bearer {member.token}"}
    return TestClient(world.client.app, headers=headers, raise_server_exceptions=False)


@pytest.mark.parametrize("name", ["extra", "EXTRA"])
def test_a_file_that_is_also_a_folder_is_refused(small: World, name: str) -> None:
    """It cannot be laid out, and ended each worker that tried."""
    tree = write_submission(small.alice)
    [claim] = tree.rglob("submission.yaml")
    (claim.parent / "extra").write_text("a file")
    files = listing(tree)
    [extra] = [item for item in files if item["path"].endswith("/extra")]
    below = {**extra, "path": extra["path"].replace("/extra", f"/{name}/more")}

    answer = small.alice.post("/submissions", json={"files": [*files, below]})

    assert answer.status_code == 422
    assert "as a folder of other files" in answer.json()["detail"]


def test_numbers_and_texts_that_no_column_holds_end_no_worker(unreviewed: World) -> None:
    """A system with ten thousand million accelerators, and a category of a page."""
    system = {
        **fabricate.SYSTEM, "submitter": "acme", "system_name": "big", "number_of_nodes": "99999",
        "accelerators_per_node": "99999",
    }  # fmt: skip
    tree = write_submission(unreviewed.alice, system=system, claim={"category": "x" * 300})

    submission = send(unreviewed.alice, tree)
    unreviewed.work()

    assert unreviewed.state(submission) == "invalid"


def test_a_statement_that_the_database_refuses_fails_the_job(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, and not the worker; one that cannot be reached is waited for."""

    def refused(instance: Instance, lease: jobs.Lease, beat: worker.Beat) -> None:
        with instance.database.write() as connection:
            connection.execute(text("INSERT INTO round (id) VALUES ('x')"))

    def unreachable(instance: Instance, lease: jobs.Lease, beat: worker.Beat) -> None:
        with instance.database.read() as connection:
            connection.execute(text("SELECT 1 FROM nowhere"))

    small.submit(small.alice)
    monkeypatch.setitem(worker.HANDLERS, jobs.CHECK, refused)
    assert worker.work(small.instance, "test")
    with small.instance.database.read() as connection:
        [job] = connection.execute(schema.job.select().where(schema.job.c.kind == jobs.CHECK)).all()
    assert job.state == "ready"
    assert "the database refused a statement" in job.error

    small.time.advance(1)
    monkeypatch.setitem(worker.HANDLERS, jobs.CHECK, unreachable)
    with pytest.raises(OperationalError):
        worker.work(small.instance, "test")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/submissions?round=%00", None), ("GET", "/boards/%00", None), ("GET", "/search?q=%00", None),
        ("DELETE", "/tokens/%00", None), ("POST", "/campaigns/%00/close", None),
        ("POST", "/submissions/{submission}/comments", {"text": "a\0b"}),
    ],
)  # fmt: skip
def test_a_character_that_the_database_does_not_keep_is_no_error_of_the_server(
    unreviewed: World, method: str, path: str, body: Any
) -> None:
    """PostgreSQL has no NUL in a text, in whatever place of a request it is."""
    submission = unreviewed.submit(unreviewed.alice, finalise=False)
    asked: dict[str, Any] = {} if body is None else {"json": body}

    address = f"/api/v1{path.format(submission=submission)}"
    answer = forgiving(unreviewed, unreviewed.alice).request(method, address, **asked)

    assert answer.status_code < 500
    if not unreviewed.instance.database.is_sqlite:
        assert answer.status_code == 422
        assert "cannot be kept" in answer.json()["detail"]


def own_token(member: Member, *scopes: str, **more: Any) -> str:
    """A new token of a member, for some scopes."""
    answer = member.post("/tokens", json={"label": "one", "scopes": list(scopes), **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def signed_in(world: World, token: str) -> TestClient:
    """A browser in which a token was shown."""
    client = TestClient(world.client.app)
    assert client.post("/account/sign-in", data={"token": token}, headers=HERE).status_code == 200
    return client


def test_a_session_is_for_no_more_than_its_token(small_reviewed: World) -> None:
    """Whoever finds an organiser's token for submitting neither decides with it, nor makes a stronger one of it."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    objection = _objected(world, submission)
    client = signed_in(world, own_token(world.olga, "read", "submit"))

    page = client.get(f"/submissions/{submission}").text
    accepted = client.post(f"/submissions/{submission}/accept", data={"reason": "x"}, headers=HERE)
    decided = client.post(
        f"/objections/{objection}/decision?of={submission}", data={"decision": "upheld", "reason": "x"}, headers=HERE
    )
    made = client.post("/account/token", data={"label": "x", "scopes": ["admin"]}, headers=HERE)

    assert (accepted.status_code, decided.status_code, made.status_code) == (403, 403, 403)
    assert "Accept" not in page
    assert "Dismiss" not in page
    assert world.state(submission) == "objected"
    assert 'value="admin"' not in client.get("/account").text
    assert "Dismiss" in signed_in(world, world.olga.token).get(f"/submissions/{submission}").text


def _objected(world: World, submission: str) -> str:
    answer = world.carol.post(f"/submissions/{submission}/objections", json={"rule": "TIM001", "text": "too fast"})
    return str(answer.json()["id"])


def test_a_session_ends_with_its_token(small: World) -> None:
    """Revoked, it is worth nothing in a browser either."""
    token = own_token(small.alice, "read", "submit")
    client = signed_in(small, token)
    assert "Sign out" in client.get("/account").text
    [known, *_] = small.alice.get("/tokens").json()["tokens"]

    client.post("/account/revoke", data={"token": known["id"]}, headers=HERE)

    assert "Sign out" not in client.get("/account").text


def test_a_token_makes_none_that_outlives_it(small: World) -> None:
    """Otherwise its end would be none; one that ends earlier does."""
    short = small.know("short", "acme", own_token(small.alice, "read", days=2))
    children = [small.know(f"child{days}", "acme", own_token(short, "read", **days)) for days in ({}, {"days": 30})]
    early = small.know("early", "acme", own_token(short, "read", days=1))

    small.time.advance(1)
    assert [item.get("/me").status_code for item in (short, *children, early)] == [200, 200, 200, 401]
    small.time.advance(1)
    assert [item.get("/me").status_code for item in (short, *children)] == [401, 401, 401]


def test_the_address_of_a_request_is_that_of_its_connection(small: World) -> None:
    """Whoever reaches the server from the machine itself cannot say that the trusted proxy did."""
    _trust_proxy(small, "10.0.0.5")
    config = serving.configuration(small.instance)
    config.load()
    client = TestClient(config.loaded_app, client=("127.0.0.1", 5000))
    headers = {"x-remote-user": "alice@acme", "x-forwarded-for": "10.0.0.5"}

    assert "Sign out" not in client.get("/account", headers=headers).text


def test_a_proxy_that_adds_its_header_to_the_clients_is_not_believed(small: World) -> None:
    """Which of the two names is the proxy's is not known."""
    _trust_proxy(small, "testclient")
    pairs = [("x-remote-user", "alice@acme"), ("x-remote-user", "mallory")]

    assert "Sign out" in small.client.get("/account", headers=pairs[:1]).text
    assert "Sign out" not in small.client.get("/account", headers=pairs).text


def _trust_proxy(world: World, address: str) -> None:
    table = schema.person
    with world.instance.database.write() as connection:
        connection.execute(table.update().where(table.c.name == "alice").values(subject="alice@acme"))
    object.__setattr__(world.instance.settings.proxy, "header", "X-Remote-User")
    object.__setattr__(world.instance.settings.proxy, "addresses", [address])


def test_the_age_of_a_file_says_nothing_of_other_teams(small: World) -> None:
    """When another team sends the same bytes, under embargo, the blob is written again."""
    submission = small.submit(small.alice)
    small.work()
    [*_, listed] = small.client.get(f"/api/v1/submissions/{submission}/files").json()["files"]
    places = [f"/api/v1/submissions/{submission}/files/{listed['path']}", f"/files/{submission}/{listed['path']}"]
    before = [small.client.get(place).headers["last-modified"] for place in places]

    os.utime(small.instance.blobs.path(listed["sha256"]), (0, 0))

    assert [small.client.get(place).headers["last-modified"] for place in places] == before
    assert before == [formatdate(START_MS / 1000, usegmt=True)] * 2


def test_metrics_are_for_organisers(small: World) -> None:
    """A token may be of the scope admin and its owner no organiser; how many results wait is under embargo."""
    assert small.alice.get("/metrics").status_code == 403
    assert small.olga.get("/metrics").status_code == 200


def test_nobody_fills_a_checkpoint_with_signatures(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each team signs with one key, of a bounded size; together they stay a note that readers take."""
    note = parse_note(small.client.get("/api/v1/log/checkpoint").content, "x")

    def status(member: Member, key: str) -> int:
        text = note.checkpoint.text.encode()
        signature = ssh_signature.sign(text, signing.key(key), COSIGN_NAMESPACE, "--key").decode()
        data = SignedCheckpoint(note.checkpoint, (*note.signatures, signature)).note.encode()
        return member.post("/log/cosignatures", content=data).status_code

    assert (status(small.bob, "bits"), status(small.bob, "bits"), status(small.bob, "other")) == (204, 204, 409)
    monkeypatch.setattr(checkpoints, "MAX_BYTES", 700)
    assert status(small.alice, "acme") == 409
    monkeypatch.setattr(checkpoints, "MAX_BYTES", 1 << 16)
    monkeypatch.setattr(checkpoints, "MAX_COSIGNATURE_BYTES", 100)
    assert status(small.alice, "acme") == 422
    monkeypatch.setattr(checkpoints, "MAX_COSIGNATURE_BYTES", 2048)
    assert status(small.alice, "acme") == 204


def test_what_was_uploaded_counts_in_the_quota(small: World) -> None:
    """Also what no submission has, and by the team's own quota."""
    table = schema.organisation
    with small.instance.database.write() as connection:
        connection.execute(table.update().where(table.c.name == "acme").values(quota_bytes=100))
    assert patch(small.alice, create_upload(small.alice, sha256(b"a" * 60).hexdigest(), 60), 0, b"a" * 60) == 204
    headers = {
        "tus-resumable": "1.0.0",
        "upload-length": "60",
        "upload-metadata": f"sha256 {b64encode(b'b' * 64).decode()}",
    }

    refused = small.alice.post("/uploads", headers=headers)

    assert refused.status_code == 403
    assert "120 of acme's 100" in refused.json()["detail"]
    assert small.bob.post("/uploads", headers=headers).status_code == 201


def _organisation(world: World, name: str) -> str:
    with world.instance.database.read() as connection:
        found = people.organisation_named(connection, name)
    assert found is not None
    return found


def test_who_takes_part_has_a_valid_submission(small_reviewed: World) -> None:
    """Nonsense that was received, or found not valid, opens nobody the results of the others."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    tree = write_submission(world.bob)
    for path in tree.rglob("result_*.txt"):
        path.write_text("nonsense\n")
    own = send(world.bob, tree)
    objection = {"rule": "TIM001", "text": "too fast"}

    seen = [world.bob.get(f"/submissions/{submission}").status_code]
    world.work()
    assert world.state(own) == "invalid"
    seen.append(world.bob.get(f"/submissions/{submission}").status_code)
    assert world.bob.post(f"/submissions/{submission}/objections", json=objection).status_code == 404
    world.submit(world.bob)
    world.work()
    seen.append(world.bob.get(f"/submissions/{submission}").status_code)

    assert seen == [404, 404, 200]


def test_the_same_files_are_in_one_round(small: World) -> None:
    """Whoever names another is not given the receipt of the first; withdrawn, they may be submitted to another."""
    world = small
    world.add_round("second")
    tree = write_submission(world.alice)
    submission = send(world.alice, tree, round="rolling")
    body = {"files": listing(tree), "round": "second"}

    refused = world.alice.post("/submissions", json=body)
    assert refused.status_code == 409
    assert "in the round rolling" in refused.json()["detail"]
    world.alice.post(f"/submissions/{submission}/withdraw")
    assert world.alice.post("/submissions", json={**body, "round": "nowhere"}).status_code == 422
    assert world.alice.post("/submissions", json=body).status_code == 200
    send(world.alice, tree, round="second")
    found = world.alice.get("/submissions?round=second").json()["submissions"]
    assert [item["id"] for item in found] == [submission]
    assert list(verifying.faults(world.instance, with_files=False)) == []


@pytest.mark.parametrize("change", [{"is_organiser": False}, {"disabled_ms": 1}, {"organisation": None}], ids=str)
def test_a_proposal_counts_while_its_proposer_may_decide(small_reviewed: World, change: dict[str, Any]) -> None:
    """Two pairs of eyes are two who may see: not one who has left, or has gone to the submitter's organisation."""
    world = small_reviewed
    otto, oona = (world.join(name, f"of-{name}", is_organiser=True) for name in ("otto", "oona"))
    submission = world.submit(world.alice)
    world.work()

    def rejected(member: Member) -> int:
        body = {"reason": "it is too fast"}
        return member.post(f"/submissions/{submission}/actions/reject", json=body).status_code

    assert rejected(otto) == 202
    values = {"organisation": _organisation(world, "acme")} if "organisation" in change else change
    table = schema.person
    with world.instance.database.write() as connection:
        connection.execute(table.update().where(table.c.name == "otto").values(**values))

    assert (rejected(world.olga), world.state(submission)) == (202, "under_review")
    assert (rejected(oona), world.state(submission)) == (200, "rejected")


def test_an_objection_under_embargo_is_not_there(small_reviewed: World) -> None:
    """For whoever does not see the submission, as one that was never made."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    objection = _objected(world, submission)

    details = [world.bob.post(f"/objections/{name}/withdraw").json()["detail"] for name in (objection, "0" * 32)]

    assert details[0].replace(objection, "0" * 32) == details[1]


def confined_error(work: Callable[[], object]) -> str:
    """Why some work in a confined child fails."""
    with pytest.raises(confined.ChildError) as caught:
        confined.run(work, 5, 1 << 40, lambda: True)
    return str(caught.value)


def test_a_checking_child_writes_no_large_file_and_leaves_no_process(tmp_path: Path) -> None:
    """Were a parser to have a hole, the disk would not fill up, and nothing would go on afterwards."""

    def fills_the_disk() -> object:
        return (tmp_path / "large").write_bytes(b"x" * (2 << 20))

    def leaves_a_process() -> object:
        return subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, close_fds=True).pid

    assert "File too large" in confined_error(fills_the_disk)
    pid = confined.run(leaves_a_process, 5, 1 << 40, lambda: True)
    assert ended(pid)


def ended(pid: int) -> bool:
    """Whether a process has ended, or does within ten seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(handle) as stream:
        return bool(selecting([stream], [], [], 10)[0])


def test_the_end_of_a_checking_child_is_said_as_it_was() -> None:
    """One that the kernel killed has not computed too long."""
    assert confined_error(lambda: os.kill(os.getpid(), signal.SIGKILL)) == "the check was ended by SIGKILL"
    assert confined_error(lambda: os.kill(os.getpid(), signal.SIGXCPU)).endswith("SIGXCPU after 5 s of computing")


def busy(world: World) -> None:
    """Rows in every table that events speak of."""
    submission = world.submit(world.alice)
    world.work()
    objection = _objected(world, submission)
    decision = {"decision": "dismissed", "reason": "it is as the rules say"}
    assert world.olga.post(f"/objections/{objection}/decision", json=decision).status_code == 204
    _objected(world, submission)
    [withdrawn] = [
        item for item in world.carol.get(f"/submissions/{submission}").json()["objections"] if item["state"] == "open"
    ]
    assert world.carol.post(f"/objections/{withdrawn['id']}/withdraw").status_code == 204
    assert world.olga.post(f"/submissions/{submission}/actions/accept", json={"reason": "x"}).status_code == 200
    world.work()
    new = send(world.alice, write_submission(world.alice), supersedes=submission)
    world.work()
    world.olga.post(f"/submissions/{new}/actions/accept", json={"reason": "x"})
    world.work()
    assert world.state(new) == "published"
    gone = world.submit(world.alice, finalise=False)
    world.alice.post(f"/submissions/{gone}/withdraw")
    send(world.alice, world.alice.tree)
    campaign = opened(world.alice)
    drawn = ticket(world.alice, campaign)["id"]
    head(world.alice, drawn)
    world.alice.post(f"/tickets/{drawn}/end", json={"state": "missed"})
    world.alice.post(f"/campaigns/{campaign}/close")
    with world.instance.database.write() as connection:
        person = people.person_named(connection, "carol")
        assert person is not None
        people.change_roles(connection, person, None, world.time(), is_auditor=False, is_organiser=True)
        people.disable(connection, person, None, world.time())


COLUMNS = {
    "person": ("organisation", "is_auditor", "is_organiser", "disabled_ms"),
    "round": ("name", "ruleset_digest", "is_reviewed", "closes_ms", "publish_ms"),
    "submission": ("round", "manifest_sha256", "num_bytes", "received_ms", "published_ms", "superseded_by"),
    "objection": ("rule", "text", "state", "decision", "opened_ms"),
    "campaign": ("round", "secret", "num_runs", "expires_ms", "closed_ms"),
    "ticket": ("number", "seed", "client_nonce", "state", "num_heads", "ended_ms"),
    "submission_file": ("path", "num_bytes"),
}


def altered(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"z{value[1:]}" if isinstance(value, str) else 7


def test_a_row_that_its_events_contradict_is_found(small_reviewed: World) -> None:
    """Each column that an event speaks of, and rows that are no more, or that no event has added."""
    world = small_reviewed
    busy(world)
    assert list(verifying.faults(world.instance, with_files=False)) == []

    def is_found() -> bool:
        return bool(list(verifying.faults(world.instance, with_files=False)))

    engine = world.instance.database.engine.raw_connection
    unseen = []
    for name, columns in COLUMNS.items():
        table = schema.metadata.tables[name]
        for column in columns:
            with world.instance.database.read() as connection:
                row = connection.execute(select(text("rowid"), table.c[column]).select_from(table).limit(1)).one()
            raw = engine()
            raw.execute("PRAGMA foreign_keys = OFF")
            change = f"UPDATE {name} SET {column} = ? WHERE rowid = ?"
            raw.execute(change, (altered(row[1]), row[0]))
            unseen += [] if is_found() else [(name, column)]
            raw.execute(change, (row[1], row[0]))
            raw.close()
    assert unseen == []
    assert not is_found()
    with world.instance.database.write() as connection:
        connection.execute(schema.objection.delete())
    assert is_found()
    with world.instance.database.write() as connection:
        people.add_organisation(connection, "new", 1)
        values = {"id": "1" * 32, "organisation": _organisation(world, "acme"), "name": "nobody added me"}
        flags = {"is_auditor": True, "is_organiser": True, "created_ms": 1}
        connection.execute(schema.person.insert().values(**values, **flags))
    assert any("no event says" in item for item in verifying.faults(world.instance, with_files=False))


def test_a_log_that_was_cut_off_contradicts_a_checkpoint_that_was_kept(
    small: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever removes the last events together with the service's own checkpoints makes everything agree but that."""
    small.submit(small.alice)
    kept = tmp_path / "kept"
    kept.write_bytes(small.client.get("/api/v1/log/checkpoint").content)
    arguments = ["board", "verify", "--quick", "--data", str(small.instance.folder), "--checkpoint", str(kept)]
    assert cli.main(arguments) == 0

    with small.instance.database.write() as connection:
        connection.execute(schema.checkpoint.delete())
        seq = connection.execute(select(func.max(schema.event.c.seq))).scalar_one()
        before = connection.execute(select(schema.event.c.leaf).where(schema.event.c.seq == seq - 1)).scalar_one()
        connection.execute(schema.event.delete().where(schema.event.c.seq == seq))
        connection.execute(schema.log_head.update().values(size=seq, leaf=before))
        connection.execute(schema.submission.update().values(state="draft", seq=0, received_ms=None))

    assert list(verifying.faults(small.instance, with_files=False)) == []
    capsys.readouterr()
    assert cli.main(arguments) == 1
    assert "is of more events than there are" in capsys.readouterr().out


def test_a_slow_reader_of_an_export_has_no_connection_of_the_database(small: World) -> None:
    """Forty of them had all there are, and everyone else waited."""

    async def begin() -> bytes:
        async for piece in exports.public_events(small.instance).body_iterator:
            return bytes(piece)  # type: ignore[arg-type]
        return b""

    assert asyncio.run(begin()).startswith(b"seq,at_ms,kind")
    assert small.instance.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
