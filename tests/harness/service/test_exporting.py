"""Exports: what the tables show, for whoever may see it, in forms that other programs read."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

from pyarrow import parquet

from harness.transparency.event import Opening
from tests.harness.service.world import World


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_results_as_csv_are_those_of_the_table(unreviewed: World) -> None:
    """In its order, with its ranks and scores."""
    world = unreviewed
    for number in range(3):
        world.submit(world.alice, eval_s=0.5 + 0.1 * number)
    world.work()
    world.time.advance(1)
    world.work()

    found = rows(world.client.get("/api/v1/export/results.csv").text)
    typed = parquet.read_table(io.BytesIO(world.client.get("/api/v1/export/results.parquet").content)).to_pylist()
    table = world.client.get("/api/v1/boards/toy_mini").json()["rows"]

    assert [row["submission"] for row in found] == [row["submission"] for row in table]
    assert [row["seconds"] for row in typed] == [float(row["seconds"]) for row in found]
    assert list(typed[0]) == list(found[0])
    assert [float(row["seconds"]) for row in found] == [row["score"]["seconds"] for row in table]
    assert [[int(row["rank_first"]), int(row["rank_last"])] for row in found] == [row["ranks"] for row in table]


def test_events_as_csv_are_the_public_ones_and_can_be_verified(unreviewed: World) -> None:
    """Each with what opens its leaf; nothing of a submission that is not published."""
    world = unreviewed
    submission = world.submit(world.alice)
    hidden = world.submit(world.bob, num_runs=2)
    world.work()

    text = world.client.get("/api/v1/export/events.csv").text
    by_interface = world.client.get("/api/v1/log/events?limit=1000").json()["events"]

    found = rows(text)
    assert [int(row["seq"]) for row in found] == [item["seq"] for item in by_interface]
    assert submission in {row["subject"] for row in found}
    assert hidden not in text
    assert "bits" not in text
    last = by_interface[-1]
    assert Opening(last["seq"], last["salt"], last["event"]).event["prev"] == found[-1]["prev"]


def test_the_feed_has_what_was_published(unreviewed: World) -> None:
    """The newest first, with links to the pages; well-formed and empty at the beginning."""
    world = unreviewed
    atom = "{http://www.w3.org/2005/Atom}"
    assert ElementTree.fromstring(world.client.get("/feed.xml").content).findall(f"{atom}entry") == []
    submission = world.submit(world.alice)
    world.submit(world.bob, num_runs=2)
    world.work()

    [entry] = ElementTree.fromstring(world.client.get("/feed.xml").content).findall(f"{atom}entry")

    link = entry.find(f"{atom}link")
    assert link is not None
    assert link.attrib["href"] == f"http://testserver/results/{submission}.html"
    assert "acme" in (entry.findtext(f"{atom}title") or "")


def test_health_is_for_all_and_metrics_for_the_organiser(unreviewed: World) -> None:
    """A database of another version is not ready."""
    world = unreviewed
    world.submit(world.alice)

    assert world.client.get("/healthz").text == "ok\n"
    assert world.client.get("/readyz").status_code == 200
    assert world.client.get("/api/v1/metrics").status_code == 401
    text = world.olga.get("/metrics").text
    assert 'tta_jobs{state="ready"} 1' in text
    assert 'tta_submissions{state="received"} 1' in text
    with world.instance.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert world.client.get("/readyz").status_code == 503
