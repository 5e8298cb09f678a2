"""Exports: what the tables show, for whoever may see it, in forms that other programs read."""

from __future__ import annotations

import csv
import html
import io
import random
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from pyarrow import parquet
from sqlalchemy import Connection, select, update

from harness.service import editions, schema
from harness.service.pages import public
from harness.service.states import State
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


def test_pages_interface_and_exports_agree_for_every_row(unreviewed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever states, scores and energies there are: each row once, in the same order, with the same numbers."""
    monkeypatch.setattr(public, "PAGE_ROWS", 3)
    world, source = unreviewed, random.Random(0)
    for number in range(9):
        world.submit(world.alice if number % 2 else world.bob, eval_s=0.5 + 0.1 * number)
    world.work()

    for _ in range(8):
        with world.instance.database.write() as connection:
            for submission in connection.execute(select(schema.submission.c.id)).scalars().all():
                change(connection, submission, source)
            editions.begin(connection)

        exported = rows(world.client.get("/api/v1/export/results.csv").text)
        typed = parquet.read_table(io.BytesIO(world.client.get("/api/v1/export/results.parquet").content)).to_pylist()
        assert [(item["submission"], repr(item["seconds"])) for item in typed] == [
            (item["submission"], item["seconds"]) for item in exported
        ]
        for division in ("closed", "open"):
            for metric, column in (("seconds", "seconds"), ("energy", "joules")):
                wanted = [item for item in exported if item["division"] == division and item[column]]
                wanted.sort(key=lambda item: float(item[column]))
                names = [item["submission"] for item in wanted]
                shown = on_pages(world, division, metric)
                assert sorted(names) == sorted(interface(world, division, metric)) == sorted(shown)
                values = {item["submission"]: float(item[column]) for item in wanted}
                assert [values[name] for name in shown] == sorted(values.values())
                assert shown == interface(world, division, metric)
        ranked = {table["division"]: table["results"] for table in world.client.get("/api/v1/boards").json()["tables"]}
        assert ranked == Counter(item["division"] for item in exported)


def change(connection: Connection, submission: str, source: random.Random) -> None:
    """Give a submission another state, another score, with ties, and an energy or none."""
    state = source.choice([State.PUBLISHED, State.PUBLISHED, State.MOVED_TO_OPEN, State.DISPUTED, State.CHECKED])
    values = {"state": state, "superseded_by": source.choice([None, None, None, submission])}
    connection.execute(update(schema.submission).where(schema.submission.c.id == submission).values(**values))
    row = schema.board_row
    found = {
        "division": source.choice(["closed", "closed", "open"]), "seconds": source.choice([None, 7.0, 8.25, 9.1, 0.1]),
        "joules": source.choice([None, 0.0, 5.5, 1e6]),
    }  # fmt: skip
    connection.execute(update(row).where(row.c.submission == submission).values(**found))


def interface(world: World, division: str, metric: str) -> list[str]:
    """The submissions of a table, page by page, as programs read it."""
    found: list[str] = []
    after = ""
    while True:
        query = f"division={division}&metric={metric}&limit=2{after}"
        answer = world.client.get(f"/api/v1/boards/toy_mini?{query}").json()
        found += [item["submission"] for item in answer["rows"]]
        if answer["next"] is None:
            return found
        after = f"&after={answer['next']}"


def on_pages(world: World, division: str, metric: str) -> list[str]:
    """The submissions of a table, page by page, as people see it."""
    found: list[str] = []
    query = f"?division={division}&metric={metric}"
    while True:
        page = world.client.get(f"/benchmarks/toy_mini.html{query}").text
        table = page.partition('id="table"')[2].partition("</section>")[0]
        found += re.findall(r"results/([0-9a-f]{32})\.html", table)
        following = re.search(r'href="([^"]+)" rel="next"', table)
        if following is None:
            return found
        query = html.unescape(following[1])


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
