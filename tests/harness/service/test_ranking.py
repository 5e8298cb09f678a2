"""Ranks, records and what is derived: as the static board has them, and the same whenever they are made again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, update

from harness.base import stats
from harness.base.stats import Estimate
from harness.service import ranking, reindexing, schema, searching
from harness.service.api import boards
from harness.service.editions import Kept
from tests.harness.service.world import World

ERRORS = st.lists(st.tuples(st.floats(0, 0.1), st.integers(1, 30).map(float)), max_size=2).map(tuple)
ESTIMATES = st.lists(st.builds(Estimate, st.floats(0.5, 2.0), ERRORS), max_size=12)


@given(ESTIMATES)
def test_ranks_are_those_of_the_static_board(estimates: list[Estimate]) -> None:
    """Whatever the errors are: none, zero, of one or two sources."""
    assert ranking.rank_intervals(estimates) == stats.rank_intervals(estimates)


@pytest.mark.parametrize("most", [0, 100, 1 << 20])
def test_ranks_of_many_rows_are_those_of_the_static_board(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Beyond the size of a block, where most pairs differ, however few p-values are sorted."""
    monkeypatch.setattr(ranking, "_MAX_SORTED", most)
    monkeypatch.setattr(ranking, "_BLOCK", 1000)
    draw = random.Random(1)
    estimates = [Estimate(draw.lognormvariate(0, 1), ((draw.uniform(1e-4, 1e-2), 4.0),)) for _ in range(300)]

    assert ranking.rank_intervals(estimates) == stats.rank_intervals(estimates)


def fill(world: World, num: int = 4) -> list[str]:
    """Publish results of different speeds by two teams; return their ids."""
    found = []
    for number in range(num):
        member = world.alice if number % 2 else world.bob
        found.append(world.submit(member, eval_s=0.5 + 0.05 * number))
    world.work()
    world.time.advance(1)
    world.work()
    return found


def test_a_table_has_each_ranked_result_once_on_its_pages(unreviewed: World) -> None:
    """By every metric that the results have, in its order, page by page."""
    world = unreviewed
    submitted = fill(world)

    for metric in ("seconds", "measured"):
        seen: list[Any] = []
        after = ""
        while True:
            answer = world.client.get(f"/api/v1/boards/toy_mini?metric={metric}&limit=3{after}").json()
            seen += answer["rows"]
            if answer["next"] is None:
                break
            after = f"&after={answer['next']}"
        name = {"seconds": "seconds", "measured": "measured_seconds"}[metric]
        values = [row["score"][name] for row in seen]

        assert sorted(row["submission"] for row in seen) == sorted(submitted)
        assert values == sorted(values)
    assert all(row["ranks"][0] <= row["ranks"][1] for row in seen)
    for wrong in ("nan.x", "a.b", "1.0.-"):
        assert world.client.get(f"/api/v1/boards/toy_mini?after={wrong}").status_code == 422
    [table] = world.client.get("/api/v1/boards").json()["tables"]
    assert (table["results"], table["best_seconds"]) == (4, min(row["score"]["seconds"] for row in seen))


def test_records_are_what_was_the_best_when_it_was_published(unreviewed: World) -> None:
    """Each faster than the one before, and the last is the first of the table."""
    world = unreviewed
    fill(world)

    found = world.client.get("/api/v1/boards/toy_mini/records").json()["records"]
    [best, *_] = world.client.get("/api/v1/boards/toy_mini").json()["rows"]

    seconds = [item["seconds"] for item in found]
    assert seconds == sorted(seconds, reverse=True)
    assert found[-1]["submission"] == best["submission"]


def test_search_finds_by_the_beginnings_of_words(unreviewed: World) -> None:
    """Of organisation and system; signs of LIKE are letters."""
    world = unreviewed
    fill(world, 2)

    def names(words: str) -> set[str]:
        rows = world.client.get("/api/v1/search", params={"q": words}).json()["rows"]
        return {row["organisation"] for row in rows}

    assert names("AC") == {"acme"}
    assert names("box toy") == {"acme", "bits"}
    assert names("acme bits") == set()
    assert names("%") == names("_cme") == set()


@pytest.mark.parametrize("few", [0, 1, 1000])
def test_search_finds_frequent_and_rare_words_alike(
    unreviewed: World, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Looked up or met among the newest, page after page; those that were announced last first, each once."""
    monkeypatch.setattr(searching, "_FEW", few)
    world = unreviewed
    submitted = fill(world, 5)
    hidden = world.submit(world.alice, num_runs=2)
    world.work()

    def found(words: str, limit: int) -> list[str]:
        answer = world.client.get("/api/v1/search", params={"q": words, "limit": limit})
        return [row["submission"] for row in answer.json()["rows"]]

    newest = submitted[::-1]
    assert hidden not in found("acme", 50)
    for limit in (1, 2, 50):
        assert found("BOX toy", limit) == newest[:limit]
        assert found("bits", limit) == newest[::2][:limit]
        assert found("acme bits", limit) == []
        assert found(" ", limit) == newest[:limit]


def test_what_is_not_ranked_shortens_no_page(unreviewed: World) -> None:
    """However many of a table are not, before and between those that are."""
    world = unreviewed
    submitted = fill(world, 6)
    rows = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    ranked = [row["submission"] for row in rows]
    assert sorted(ranked) == sorted(submitted)
    hidden = {*ranked[:3], ranked[4]}
    with world.instance.database.write() as connection:
        table = schema.submission
        connection.execute(update(table).where(table.c.id.in_(hidden)).values(state="retracted"))
    world.instance.kept = Kept()

    for limit in (1, 2, 3):
        seen, after = [], ""
        while after is not None:
            answer = world.client.get(f"/api/v1/boards/toy_mini?limit={limit}{after}").json()
            assert len(answer["rows"]) in (limit, 2 - len(seen))
            seen += [row["submission"] for row in answer["rows"]]
            after = None if answer["next"] is None else f"&after={answer['next']}"
        assert seen == [ranked[3], ranked[5]]


def test_a_table_is_read_by_its_index(small: World) -> None:
    """A page costs what its rows cost, however many results there are."""
    asked: list[tuple[str, Any]] = []
    engine = small.instance.database.engine
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
    boards.rows(small.instance, "toy_mini", "closed", None, "seconds", None, "1.0.a", 50)
    plan = []
    with small.instance.database.read() as connection:
        for statement, values in [item for item in asked if "board_row" in item[0]]:
            plan += [step.detail for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]

    assert any("ix_board_row_ranked" in step for step in plan)
    assert not [step for step in plan if "SCAN" in step and step != "SCAN place"]


def test_others_write_while_a_table_is_ranked(unreviewed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they change is ranked by another job."""
    world = unreviewed
    fill(world, 2)
    late: list[str] = []
    ranked = ranking.positions

    def meanwhile(scores: ranking.Scores) -> list[dict[str, object]]:
        if not late:
            late.append(world.submit(world.alice, eval_s=0.4))
            world.work()
        return ranked(scores)

    monkeypatch.setattr(ranking, "positions", meanwhile)
    world.submit(world.bob, eval_s=0.45)
    world.work()
    for _ in range(3):
        world.time.advance(1)
        world.work()

    rows = world.client.get("/api/v1/boards/toy_mini").json()["rows"]
    assert late
    assert len(rows) == 4
    assert [row["ranks"][0] <= place + 1 <= row["ranks"][1] for place, row in enumerate(rows)] == [True] * 4
    assert list(reindexing.differences(world.instance, is_mended=False)) == []


def test_all_rulesets_of_verdicts_are_named(unreviewed: World) -> None:
    """Also those that this service no longer has."""
    world = unreviewed
    fill(world, 3)
    with world.instance.database.write() as connection:
        for number, row in enumerate(connection.execute(schema.verdict.select()).all()[:2]):
            changed = {"ruleset": f"v0.{number}", "ruleset_digest": f"{number}" * 64}
            connection.execute(update(schema.verdict).where(schema.verdict.c.id == row.id).values(**changed))

    found = world.client.get("/api/v1/rulesets").json()["rulesets"]

    assert [(item["name"], item["is_current"]) for item in found] == [("v0.0", False), ("v0.1", False), ("v1", True)]


def test_what_is_derived_is_made_again_as_it_was(unreviewed: World) -> None:
    """And what was altered in the database is found, and mended."""
    world = unreviewed
    fill(world, 3)
    assert list(reindexing.differences(world.instance, is_mended=False)) == []
    with world.instance.database.write() as connection:
        connection.execute(update(schema.board_row).values(seconds=schema.board_row.c.seconds * 0.9))
        connection.execute(update(schema.position).values(first=1))
        connection.execute(schema.word.delete().where(schema.word.c.word == "toy_mini"))

    found = list(reindexing.differences(world.instance, is_mended=True))

    assert sum("seconds is not what the logs make of it" in item for item in found) == 3
    assert any(item.startswith("ranks of verdict") for item in found)
    assert sum(item.startswith("words of submission") for item in found) == 3
    assert list(reindexing.differences(world.instance, is_mended=False)) == []


def test_new_rules_make_new_verdicts_beside_the_old_ones(unreviewed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is never empty: the old verdict counts until the new one is there."""
    world = unreviewed
    [submission] = fill(world, 1)
    before = world.client.get("/api/v1/boards").json()["tables"]
    monkeypatch.setattr(reindexing, "__version__", "9.9")
    monkeypatch.setattr("harness.service.judging.__version__", "9.9")

    assert reindexing.judge_again(world.instance) == 1
    assert world.client.get("/api/v1/boards").json()["tables"] == before
    fill(world, 0)

    with world.instance.database.read() as connection:
        verdicts = connection.execute(schema.verdict.select()).all()
        positions = connection.execute(schema.position.select()).all()
    assert {row.checker for row in verdicts} == {"0.1.0", "9.9"} or len(verdicts) == 2
    assert len(positions) == 1
    assert world.client.get("/api/v1/boards").json()["tables"] == before
    kinds = [item["kind"] for item in world.alice.get(f"/submissions/{submission}").json()["history"]]
    assert kinds[-1] == "submission.judged"
    assert json.dumps(world.alice.get(f"/submissions/{submission}").json()["is_valid"]) == "true"


def test_a_search_finds_what_was_mended(unreviewed: World) -> None:
    """At once, although what it found before is kept."""
    world = unreviewed
    submitted = fill(world, 2)

    def found() -> list[str]:
        return [row["submission"] for row in world.client.get("/api/v1/search?q=toy").json()["rows"]]

    with world.instance.database.write() as connection:
        connection.execute(schema.word.delete().where(schema.word.c.word == "toy_mini"))
    assert found() == []
    assert len(list(reindexing.differences(world.instance, is_mended=True))) == 2

    assert found() == submitted[::-1]
