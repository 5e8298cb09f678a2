"""What a submitter might leave out, or take from elsewhere: the service compares receipts with its own log."""

from __future__ import annotations

from harness.service import people, schema
from harness.submission.layout import CAMPAIGN_NAME, receipts_name
from harness.submission.result import read_result
from harness.witness.campaign import complete
from tests import fabricate
from tests.harness.service.world import send
from tests.harness.witness.setting import Setting


def finished(setting: Setting) -> None:
    """Five runs; the answer to the last head of the last run is lost."""
    for index in range(4):
        setting.run(index)
    setting.at(4, 0)
    ticket, followed = setting.campaign.draw(4), setting.follow(4)
    lines = setting.write(4, ticket)
    setting.stream(4, lines[:-1], followed)
    setting.client.lost = 1
    setting.stream(4, lines[-1:], followed)
    assert not followed.is_done
    complete(setting.client, read_result(setting.place))
    fabricate.reseal(setting.place)


def faults(setting: Setting, round_name: str | None = None) -> list[tuple[str, str]]:
    """Code and name of the file of each error in what is there."""
    world = setting.world
    submission = send(world.alice, world.alice.tree, round=round_name)
    world.work()
    found = world.alice.get(f"/submissions/{submission}").json()["findings"]
    return [(item["code"], item["path"].rpartition("/")[2]) for item in found if item["severity"] == "error"]


def test_a_head_that_was_received_is_not_left_out(setting: Setting) -> None:
    """A receipt whose answer was lost is fetched at the end; those that are withheld are found, all or some."""
    finished(setting)
    assert faults(setting) == []
    path = setting.place / receipts_name("result_1")
    lines = path.read_text().splitlines(keepends=True)

    path.write_text("".join([lines[0], *lines[2:]]))
    fabricate.reseal(setting.place)
    assert faults(setting) == [("WIT006", "result_1.txt")]
    path.unlink()
    fabricate.reseal(setting.place)
    assert faults(setting) == [("WIT006", "result_1.txt")]
    (setting.place / CAMPAIGN_NAME).unlink()  # then it is of class W0, and claims nothing
    fabricate.reseal(setting.place)
    assert faults(setting) == []


def test_a_campaign_is_of_one_round_and_organisation(setting: Setting) -> None:
    """In another round, or by a friend, the same could be tried again, and the better one submitted."""
    finished(setting)
    setting.world.add_round("second")
    assert faults(setting, "second") == [("WIT006", CAMPAIGN_NAME)]

    table = schema.campaign
    with setting.world.instance.database.write() as connection:
        friend = people.organisation_named(connection, "bits")
        connection.execute(table.update().values(organisation=friend))
    (setting.place / "provenance").mkdir(exist_ok=True)
    (setting.place / "provenance" / "note.txt").write_text("other files: another submission\n")
    fabricate.reseal(setting.place)
    assert ("WIT006", CAMPAIGN_NAME) in faults(setting, "rolling")
