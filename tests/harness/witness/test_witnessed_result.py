"""From a campaign to a published result: the client, the process that follows, and the service, in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.base.processes import python_environment
from harness.errors import InputError, UsageError
from harness.log import keys, run_log
from harness.submission.layout import CAMPAIGN_NAME, receipts_name
from harness.submission.receipts import parse_receipts
from harness.submission.result import read_result
from harness.witness import campaign as campaigns
from harness.witness.campaign import complete, is_complete, state_of
from tests import fabricate
from tests.fabricate import find
from tests.harness.service.server import serving
from tests.harness.service.world import send
from tests.harness.witness.setting import Setting


def test_a_result_that_was_streamed_is_published_as_such(setting: Setting) -> None:
    """And receipts that the service never gave out are found, whoever made them."""
    world = setting.world
    followed = [setting.run(index) for index in range(5)]
    assert all(item.is_done and not item.has_failed for item in followed)
    assert setting.said == []
    result = read_result(setting.place)
    assert not is_complete(result)
    complete(setting.client, result)
    assert is_complete(read_result(setting.place))
    fabricate.reseal(setting.place)

    submission = send(world.alice, world.alice.tree)
    world.work()

    found = world.client.get(f"/api/v1/submissions/{submission}").json()
    assert world.state(submission) == "published", found
    assert found["findings"] == []
    [row] = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    assert row["witness"] == "W2"
    assert "(W2)" in world.client.get(f"/results/{submission}.html").text

    path = setting.place / receipts_name("result_0")
    first = path.read_text().splitlines(keepends=True)[0]
    path.write_text(first.replace(first.partition('"salt":"')[2][:32], "0" * 32))
    fabricate.reseal(setting.place)
    forged = send(world.alice, world.alice.tree)
    world.work()
    findings = world.alice.get(f"/submissions/{forged}").json()["findings"]
    assert ("WIT006", 1) in {(item["code"], item["line"]) for item in findings}


def test_a_run_goes_on_when_nobody_answers(setting: Setting) -> None:
    """It is said once; what was missed is not sent later; heads go on when somebody answers again."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    followed = setting.follow(0)
    lines = setting.write(0, ticket)
    middle = next(place for place, line in enumerate(lines) if keys.EVAL_STOP in line)
    setting.client.is_down = True
    setting.stream(0, lines[:middle], followed)
    asked = setting.client.num_requests
    assert len(setting.said) == 1
    assert "the run goes on" in setting.said[0]
    setting.client.is_down = False
    setting.stream(0, lines[middle:], followed)
    setting.at(0, 60 * 10**9)
    followed.send()

    assert followed.is_done
    assert setting.heads(0) >= 1
    assert asked <= 8
    assert len(setting.said) == 1


def test_a_lost_answer_costs_no_head(setting: Setting) -> None:
    """The same number is sent again, and the same receipt comes."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    followed = setting.follow(0)
    lines = setting.write(0, ticket)
    setting.client.lost = 1
    setting.stream(0, lines, followed)
    setting.at(0, 60 * 10**9)
    followed.send()

    assert followed.is_done
    path = setting.place / receipts_name("result_0")
    numbers = [head.number for head in parse_receipts(path.read_bytes(), "file").heads]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_head_is_not_taken_for_one_whose_answer_was_lost(setting: Setting) -> None:
    """The receipt of the earlier one comes, and the present one is sent at once, with the next number."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    followed = setting.follow(0)
    lines = setting.write(0, ticket)
    stops = [place for place, line in enumerate(lines) if keys.EVAL_STOP in line]
    setting.stream(0, lines[: stops[0]], followed)
    setting.client.lost = 1
    setting.stream(0, lines[stops[0] : stops[0] + 1], followed)
    with (setting.place / "result_0.txt").open("a") as stream:
        stream.writelines(lines[stops[0] + 1 : stops[1] + 1])
    followed.read()
    setting.now_ns += 10**9
    followed.send()
    followed.send()

    heads = parse_receipts((setting.place / receipts_name("result_0")).read_bytes(), "file").heads
    assert [head.seq for head in heads[-2:]] == stops[:2]
    assert heads[-1].number == heads[-2].number + 1


def test_an_end_whose_answer_was_lost_is_sent_again(setting: Setting) -> None:
    """As soon as somebody answers: the process that sends it has little time left."""
    setting.at(0, 0)
    followed = setting.follow(0)
    ticket = setting.campaign.draw(0)
    *lines, last = setting.write(0, ticket)
    setting.stream(0, lines, followed)
    asked = setting.client.num_requests
    with (setting.place / "result_0.txt").open("a") as stream:
        stream.write(last)
    followed.read()
    setting.client.lost_after = 1  # the head arrives, and the answer to the end does not
    followed.send()
    assert (followed.is_done, setting.client.num_requests - asked) == (False, 2)
    setting.now_ns += 10**9
    followed.send()

    assert followed.is_done
    receipts = parse_receipts((setting.place / receipts_name("result_0")).read_bytes(), "file")
    assert receipts.is_ended


def test_a_silent_log_sends_a_head_every_ten_seconds(setting: Setting) -> None:
    """Of what is there."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    followed = setting.follow(0)
    lines = setting.write(0, ticket)
    clock = next(place for place, line in enumerate(lines) if keys.TTA_CLOCK in line)
    setting.stream(0, lines[: clock + 1], followed)
    before = setting.heads(0)
    for second in range(1, 61):
        setting.at(0, second * 10**9)
        followed.read()
        followed.send()

    assert setting.heads(0) - before == 5  # the first was sent with the clock's start


def test_a_process_that_comes_later_goes_on(setting: Setting) -> None:
    """With the next number; what has ended is left alone."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    lines = setting.write(0, ticket)
    middle = next(place for place, line in enumerate(lines) if keys.EVAL_STOP in line)
    setting.stream(0, lines[:middle], setting.follow(0))
    sent = setting.heads(0)
    second = setting.follow(0)
    setting.stream(0, lines[middle:], second)
    assert second.is_done
    assert setting.heads(0) > sent
    third = setting.follow(0)
    asked = setting.client.num_requests
    third.read()
    third.send()
    assert third.is_done
    assert setting.client.num_requests == asked


def test_a_refusal_ends_the_stream_and_not_the_run(setting: Setting) -> None:
    """As of a ticket that another has followed."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    setting.campaign.draw(1)
    followed = setting.follow(0)
    setting.stream(0, setting.write(0, ticket), followed)

    assert followed.is_done
    assert followed.has_failed
    assert len(setting.said) == 1
    assert "is not streamed to its witness any more" in setting.said[0]


def test_missing_receipts_and_bad_tickets_end_the_stream(setting: Setting) -> None:
    """Each in one sentence."""
    setting.at(0, 0)
    ticket = setting.campaign.draw(0)
    lines = setting.write(0, ticket)
    (setting.place / receipts_name("result_0")).unlink()
    without = setting.follow(0)
    setting.stream(0, lines, without)
    other = setting.write(1, setting.campaign.draw(1), lambda steps: find(steps, keys.TTA_TICKET).value.clear())
    damaged = setting.follow(1)
    setting.stream(1, other, damaged)

    assert [item.has_failed for item in (without, damaged)] == [True, True]
    assert len(setting.said) == 2


def test_a_campaign_is_closed_when_its_runs_are_there(setting: Setting) -> None:
    """Ends that were not heard are said then; with fewer runs nothing is closed."""
    for index in range(3):
        setting.run(index)
    for index in (3, 4):
        (setting.place / f"result_{index}.txt").unlink()
    with pytest.raises(UsageError, match="3 of the campaign's 5 runs are there"):
        complete(setting.client, read_result(setting.place))
    setting.at(3, 0)
    lines = setting.write(3, setting.campaign.draw(3))
    (setting.place / "result_3.txt").write_text("".join(lines))
    setting.run(4)  # whereby the fourth, which nobody has followed, is lost
    complete(setting.client, read_result(setting.place))
    complete(setting.client, read_result(setting.place))

    states = [item["state"] for item in setting.world.alice.get(f"/campaigns/{setting.campaign.id}").json()["tickets"]]
    assert states == ["finished", "finished", "finished", "lost", "finished"]
    (setting.place / CAMPAIGN_NAME).unlink()
    (setting.place / receipts_name("result_3")).unlink()
    with pytest.raises(InputError, match="the receipts of the ticket are not there"):
        complete(setting.client, read_result(setting.place))


def test_the_last_end_is_said_at_last(setting: Setting) -> None:
    """Of a run whose end could not be sent."""
    for index in range(4):
        setting.run(index)
    setting.at(4, 0)
    (setting.place / "result_4.txt").write_text("".join(setting.write(4, setting.campaign.draw(4))))
    complete(setting.client, read_result(setting.place))

    tickets = setting.world.alice.get(f"/campaigns/{setting.campaign.id}").json()["tickets"]
    assert [item["state"] for item in tickets] == ["finished"] * 5


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [("success", "target", "finished"), ("aborted", "budget", "missed"), ("aborted", "interrupted", "aborted"),
     ("unfinished", "interrupted", "aborted")],
)  # fmt: skip
def test_ends_are_said_as_the_log_says(tmp_path: Path, status: str, reason: str, state: str) -> None:
    """In the words of a ticket; a log without an end is that of an aborted run."""
    steps = fabricate.events(status=status, reason=reason)
    assert state_of(run_log.read(fabricate.write_log(tmp_path / "log.txt", steps))) == state
    steps = [step for step in steps if step.key != keys.RUN_STOP]
    assert state_of(run_log.read(fabricate.write_log(tmp_path / "log.txt", steps))) == "aborted"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 7}, "the service chose it"), ({"number": "1"}, "not a ticket"),
        ({"client_nonce": "0" * 64}, "the service chose it"), ({"kind": "ticket.head"}, "not the receipt of a ticket"),
        (None, "not a receipt"),
    ],
    ids=str,
)  # fmt: skip
def test_a_service_that_chooses_the_seed_is_refused(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any] | None, said: str
) -> None:
    """So is one whose answer is none; no run begins."""
    post = setting.client.post

    def changed(path: str, body: Any = None, **more: str) -> dict[str, Any]:
        answer = post(path, body, **more)
        if change is None:
            return {**answer, "receipt": None}
        opening = answer["receipt"]["opening"]
        event = json.loads(opening["event"])
        event["kind"] = change.get("kind", event["kind"])
        event["body"] |= {name: value for name, value in change.items() if name != "kind"}
        return {**answer, "receipt": {**answer["receipt"], "opening": {**opening, "event": json.dumps(event)}}}

    monkeypatch.setattr(setting.client, "post", changed)
    with pytest.raises(InputError, match=said):
        setting.campaign.draw(0)
    assert not (setting.place / receipts_name("result_0")).exists()


def test_an_answer_about_another_ticket_is_refused(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a service, or something in front of it, that repeats an old answer."""
    post = setting.client.post
    old = post(f"api/v1/campaigns/{setting.campaign.id}/tickets", {"client_nonce": "1" * 64, "host_sha256": "e" * 64})
    monkeypatch.setattr(setting.client, "post", lambda path, body=None, **more: old)
    with pytest.raises(InputError, match="another ticket than the one that was asked for"):
        setting.campaign.draw(0)


def test_a_machine_has_one_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also one that has no id."""
    assert campaigns.host_digest() == campaigns.host_digest()
    own = campaigns.host_digest()
    monkeypatch.setattr(campaigns, "_MACHINE_ID", tmp_path / "none")
    monkeypatch.setattr(campaigns, "boot_id", lambda: (_ for _ in ()).throw(OSError()))
    assert campaigns.host_digest() != own


def test_the_process_ends_with_its_orders(tmp_path: Path) -> None:
    """Nothing was to be sent, and so nothing is missing."""
    command = [sys.executable, "-m", "harness.witness", str(tmp_path / "none"), "--address=http://127.0.0.1:9/"]
    process = subprocess.Popen(
        [*command, "--parent-pid=1"], stdin=subprocess.PIPE, env=python_environment(), stderr=subprocess.PIPE
    )
    _, said = process.communicate(b"done 5\n", timeout=60)

    assert (process.returncode, said) == (0, b"")


@pytest.mark.slow
def test_a_real_run_is_witnessed_by_a_real_service(tmp_path: Path) -> None:
    """From `tta run` to the table, each program by itself."""
    with serving(tmp_path, "--no-review", organisation="acme") as server:
        described, result = tmp_path / "system.json", tmp_path / "result"
        doctor = server.tta("doctor", "--submitter", "acme", "--system-name", "box1", "--out", str(described))
        assert doctor.returncode == 0, doctor.stderr
        run = server.tta(
            "run", "reinforcement_learning", "--suite", "mini", "--system", str(described), "--out", str(result),
            "--witness", server.address, "--no-mlflow", "--quiet", timeout_s=900,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        sent = server.tta("submit", str(result), "--to", server.address)
        assert sent.returncode == 0, sent.stdout + sent.stderr
        status = server.tta("status", str(result), "--watch")
        assert status.returncode == 0, status.stdout
        verified = server.tta("witness", "verify", str(result), "--from", server.address)

    assert (verified.returncode, verified.stdout.splitlines()[0].split(":")[1][:4]) == (0, " W2,"), verified.stdout
    assert "repeat with: tta reproduce" in verified.stdout
