"""Tickets that are fetched beforehand, for runs without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InputError, OutputError, UsageError
from harness.submission.layout import receipts_name
from harness.submission.result import read_result
from harness.witness.campaign import Campaign, complete
from harness.witness.sealed import SealedCampaign, fetch, wanted
from tests import fabricate
from tests.harness.service.world import send
from tests.harness.witness.setting import Setting


@pytest.fixture
def request_file(setting: Setting, tmp_path: Path) -> Path:
    path = tmp_path / "campaign.json"
    path.write_text(json.dumps(wanted(setting.identity)))
    return path


def states(setting: Setting) -> list[str]:
    found = setting.world.alice.get(f"/campaigns/{setting.campaign.id}").json()["tickets"]
    return [item["state"] for item in found]


def test_a_result_without_a_network_is_registered(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """Five tickets, five runs with their seeds, ends that are said afterwards: published as W1, without a finding."""
    path = tmp_path / "tickets.json"
    fetch(setting.client, request_file, path, None)
    setting.client.is_down = True
    campaign = SealedCampaign(path, setting.identity, setting.place)
    assert campaign.follow() is None
    drawn = []
    for index in range(5):
        drawn.append(campaign.draw(index))
        (setting.place / f"result_{index}.txt").write_text("".join(setting.write(index, drawn[-1])))
    assert [ticket.number for ticket in drawn] == [1, 2, 3, 4, 5]
    setting.client.is_down = False
    complete(setting.client, read_result(setting.place))
    fabricate.reseal(setting.place)

    submission = send(setting.world.alice, setting.world.alice.tree)
    setting.world.work()

    found = setting.world.client.get(f"/api/v1/submissions/{submission}").json()
    assert found["state"] == "published"
    assert {item["code"] for item in found["findings"]} == {"WIT001"}  # a warning: registered only
    [row] = setting.world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    assert row["witness"] == "W1"


def test_a_ticket_is_used_once(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """An attempt that was put aside has used its ticket; when all are used, the sentence says what to do."""
    path = tmp_path / "tickets.json"
    fetch(setting.client, request_file, path, 2)
    campaign = SealedCampaign(path, setting.identity, setting.place)
    assert campaign.draw(0).number == 1
    aside = setting.place / "unfinished"
    aside.mkdir()
    shutil.move(setting.place / receipts_name("result_0"), aside / "receipts_0.17.jsonl")
    assert campaign.draw(0).number == 2
    with pytest.raises(UsageError, match=r"each of its 2 tickets has had its run; .* --count 3"):
        campaign.draw(1)
    (setting.place / receipts_name("result_0")).write_text("damaged")
    with pytest.raises(OutputError, match="exists already"):
        campaign.draw(0)


def test_fetching_goes_on_where_it_was_interrupted(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """A ticket whose answer was lost is fetched, and no other is issued in its place."""
    path = tmp_path / "tickets.json"
    fetch(setting.client, request_file, path, 2)
    setting.client.lost = 2  # that of the campaign, which is tried again below, is one of them
    for _ in range(2):
        with pytest.raises(InputError, match="timed out"):
            fetch(setting.client, request_file, path, 4)
    found = fetch(setting.client, request_file, path, 4)

    assert len(found.receipts) == 4
    assert states(setting) == ["issued"] * 4
    assert len(fetch(setting.client, path, path, 4).receipts) == 4  # the file is a request, too
    assert states(setting) == ["issued"] * 4
    with pytest.raises(UsageError, match="has 4 tickets already, which count; --count 3 is less"):
        fetch(setting.client, request_file, path, 3)


def test_a_lost_ticket_is_the_same_ticket(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """Its nonce is in the file before it is asked for."""
    path = tmp_path / "tickets.json"
    post = setting.client.post

    def failing(path: str, body: Any = None, **more: str) -> dict[str, Any]:
        answer = post(path, body, **more)
        if path.endswith("/tickets"):
            raise InputError("timed out")
        return answer

    setting.client.post = failing  # type: ignore[method-assign]
    with pytest.raises(InputError, match="timed out"):
        fetch(setting.client, request_file, path, 3)
    assert states(setting) == ["issued"]
    setting.client.post = post  # type: ignore[method-assign]
    fetch(setting.client, request_file, path, 3)
    assert states(setting) == ["issued"] * 3


def test_tickets_are_for_the_runs_that_they_were_fetched_for(
    setting: Setting, request_file: Path, tmp_path: Path
) -> None:
    """What differs is named, when they are used and when more are fetched."""
    path = tmp_path / "tickets.json"
    fetch(setting.client, request_file, path, 1)
    other = json.loads(request_file.read_text())
    other["campaign"]["code_sha256"] = "0" * 64
    request_file.write_text(json.dumps(other))
    with pytest.raises(UsageError, match="has tickets of another code_sha256"):
        fetch(setting.client, request_file, path, 1)
    held = json.loads(path.read_text())
    held["campaign"]["division"] = "open"
    path.write_text(json.dumps(held))
    with pytest.raises(UsageError, match="its tickets are for division open; these runs have closed"):
        SealedCampaign(path, setting.identity, setting.place)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda item: "[]", "is not a file that `tta witness fetch` wrote"),
        (lambda item: "{", "not JSON"),
        (lambda item: json.dumps({**item, "host_sha256": "x"}), "`host_sha256` is missing or wrong"),
        (lambda item: json.dumps({**item, "campaign": {**item["campaign"], "num_runs": "5"}}), "a field of `campaign`"),
        (lambda item: json.dumps({**item, "campaign": {}}), "a field of `campaign`"),
        (lambda item: json.dumps({**item, "nonces": []}), "the nonces are wrong, or too few"),
        (lambda item: json.dumps({**item, "nonces": [7]}), "the nonces are wrong, or too few"),
        (lambda item: json.dumps({**item, "receipts": [7]}), "receipt 1: not a receipt of a witness"),
    ],
)
def test_a_damaged_file_of_tickets_is_refused(
    setting: Setting, request_file: Path, tmp_path: Path, change: Any, said: str
) -> None:
    """Each fault in one sentence that names the file."""
    path = tmp_path / "tickets.json"
    fetch(setting.client, request_file, path, 1)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(InputError, match=said) as caught:
        SealedCampaign(path, setting.identity, setting.place)
    assert str(path) in str(caught.value)


def test_a_round_can_be_named(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """Where several are open, it must be; tickets of another round are of another campaign."""
    setting.world.add_round("second")
    with pytest.raises(InputError, match="round"):
        fetch(setting.client, request_file, tmp_path / "tickets.json", 1)
    found = fetch(setting.client, request_file, tmp_path / "tickets.json", 1, "second")
    campaign = Campaign(setting.client, setting.identity, setting.place, "second")

    assert campaign.id == found.receipts[0].opening.event["body"]["campaign"]
    assert campaign.id != setting.campaign.id


def test_places_that_cannot_be_used_are_named(setting: Setting, request_file: Path, tmp_path: Path) -> None:
    """A request that is not there, and a folder that is none."""
    with pytest.raises(InputError, match=r"none\.json"):
        fetch(setting.client, tmp_path / "none.json", tmp_path / "tickets.json", None)
    with pytest.raises(OutputError, match="cannot be written"):
        fetch(setting.client, request_file, tmp_path / "none" / "tickets.json", None)
