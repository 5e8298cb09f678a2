"""Results that repeat each other, as the service shows them: published, embargoed, retracted, in chains, at odds."""

from __future__ import annotations

import io
import re
import threading
from html import unescape
from typing import Any

import pytest
from pyarrow import parquet
from sqlalchemy import Connection, event, update

from harness.scoring.prospect import prospect
from harness.scoring.repetition import reference_of, scatter_of, tolerance_of
from harness.service import editions, reindexing, repetitions, results, schema, submissions, verifying
from harness.submission.layout import result_name
from harness.submission.result import read_result
from tests.fabricate import benchmark_rules
from tests.harness.board.reproduced import ABSENT, SLOW, repeats
from tests.harness.service.test_pages import browser
from tests.harness.service.test_review import WHY, act
from tests.harness.service.world import Member, World, send, write_submission

HERE = "No result on this board repeats this one."


@pytest.fixture(autouse=True, scope="module")
def known_power() -> None:
    """What takes a second is computed once: the processes that compare are forked from this one."""
    rules = benchmark_rules()
    scatter = scatter_of(reference_of(rules, "closed", 100))
    tolerance = tolerance_of(rules.reproduce_tolerance, scatter)
    assert scatter is not None
    assert tolerance is not None
    prospect(5, scatter, tolerance)


def submit(
    world: World, member: Member, digest: str | None = None, seed: int = 1000, **options: Any
) -> tuple[str, str]:
    """Send a result, which repeats the one with this digest; return its submission and its own digest."""
    more = {} if digest is None else {"change": repeats({"digest": digest}, seed)}
    tree = write_submission(member, **more, **options)
    [folder] = (path.parent for path in tree.rglob("result_0.txt"))
    folder = folder.rename(folder.with_name(result_name(folder.name, digest)))
    return send(member, tree), read_result(folder).runs_digest


def settle(world: World) -> None:
    """Do all that is due, also what is done a moment later."""
    world.work()
    world.time.advance(0.01)
    world.work()


def accept(world: World, *chosen: str) -> None:
    for submission in chosen:
        assert act(world.olga, submission, "accept") == 200
    settle(world)


def words(page: str) -> str:
    """The text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.replace("&shy;", ""))).split())


def page_of(world: World, submission: str, member: Member | None = None) -> str:
    answer = browser(world, member).get(f"/results/{submission}.html")
    assert answer.status_code == 200
    return words(answer.text)


def column(world: World, path: str = "/benchmarks/toy_mini.html") -> dict[str, str]:
    """What a table says of the reproductions of each row, by submission."""
    found = world.client.get(path).text
    rows = re.findall(r'<tr role="row">.*?</tr>', found[: found.rfind('id="records"')], re.DOTALL)
    return {
        named[1]: words(re.findall(r'data-label="Reproduced">(.*?)</td>', row, re.DOTALL)[0])
        for row in rows
        if (named := re.search(r"results/([0-9a-f]{32})\.html", row))
    }


def test_a_result_and_its_reproduction_name_each_other(unreviewed: World) -> None:
    """With the words of the static board, on both pages and in the tables; the interface has the counts."""
    world = unreviewed
    first, digest = submit(world, world.alice)
    other, _ = submit(world, world.bob)
    settle(world)
    assert HERE in page_of(world, first)
    assert "Reproduced not yet" in page_of(world, first)
    assert set(column(world).values()) == {"–"}

    again, _ = submit(world, world.bob, digest)
    settle(world)

    page = page_of(world, first)
    assert "Rank by score" not in page, "its own rank alone is that of a table of one"
    ratio = r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]"
    assert re.search(rf"Repeated by .* bits box\d+ reproduced {ratio} 5 / 5 20 % 48 % at most", page)
    assert "Reproduced by 1 " in page
    assert HERE not in page
    back = page_of(world, again)
    assert re.search(rf"This result repeats .* acme box\d+ reproduced {ratio}", back)
    assert f'href="../results/{again}.html#reproductions"' in world.client.get(f"/results/{first}.html").text
    assert f'href="../results/{first}.html#reproductions"' in world.client.get(f"/results/{again}.html").text
    for path in ("/", "/benchmarks/toy_mini.html", "/search?q=toy"):
        assert column(world, path) == {first: "by 1", other: "–", again: "–"}
        assert world.client.get(path).text.count("a reproduction</span>") == 1
    for path in ("/boards/toy_mini", "/search?q=toy"):
        rows = {row["submission"]: row for row in world.client.get(f"/api/v1{path}").json()["rows"]}
        assert rows[first]["reproduced"] == {"reproduced": 1, "not_reproduced": 0, "inconclusive": 0, "own": 0}
        assert rows[first]["digest"] == rows[again]["repeats"] == digest
        assert rows[first]["repeats"] is None
    typed = parquet.read_table(io.BytesIO(world.client.get("/api/v1/export/results.parquet").content)).to_pylist()
    exported = {row["submission"]: row for row in typed}
    assert exported[first]["digest"] == exported[again]["repeats"] == digest
    assert [exported[name]["reproduced_by"] for name in (first, other, again)] == [1, 0, 0]
    names = ("not_reproduced_by", "inconclusive_by", "own_reproductions")
    assert [row[name] for row in typed for name in names] == [0] * 9
    assert list(verifying.faults(world.instance)) == []


def test_what_is_under_embargo_is_on_no_page_of_others(reviewed: World) -> None:
    """Neither in words nor in counts, until it is published; its team sees on its own page what it says."""
    world = reviewed
    first, digest = submit(world, world.alice)
    settle(world)
    accept(world, first)
    places = (
        "/", "/benchmarks/toy_mini.html", "/search?q=toy", f"/results/{first}.html", "/api/v1/boards/toy_mini",
        "/api/v1/search?q=toy", f"/api/v1/submissions/{first}", "/api/v1/log/events", "/feed.xml",
    )  # fmt: skip

    def seen() -> list[tuple[int, bytes]]:
        answers = (world.client.get(place) for place in places)
        return [(answer.status_code, answer.content) for answer in answers]

    before, number = seen(), edition(world)
    again, _ = submit(world, world.bob, digest)
    settle(world)

    assert world.state(again) == "under_review"
    assert seen() == before
    assert edition(world) == number
    for member in (None, world.alice, world.bob, world.olga):
        assert HERE in page_of(world, first, member)
    assert world.client.get(f"/results/{again}.html").status_code == 404
    assert "This result repeats Original Verdict" in page_of(world, again, world.bob)
    accept(world, again)
    assert "Reproduced by 1 " in page_of(world, first)
    assert column(world)[first] == "by 1"


def test_what_repeats_a_result_under_embargo_does_not_name_it(reviewed: World) -> None:
    """The digest, which the submitter of the reproduction knows, is all that there is."""
    world = reviewed
    first, digest = submit(world, world.alice)
    again, _ = submit(world, world.bob, digest)
    settle(world)
    accept(world, again)

    page = page_of(world, again)
    assert f"which is not on this board. The digest of its logs: {digest}" in page
    assert "acme" not in page
    accept(world, first)
    assert "This result repeats Original" in page_of(world, again)


def test_what_is_retracted_says_nothing_any_more(reviewed: World) -> None:
    """Nor while it is disputed; upheld, it says it again. At once, in pages that are kept, too."""
    world = reviewed
    otto = world.join("otto", "third", is_organiser=True)
    first, digest = submit(world, world.alice)
    settle(world)
    again, _ = submit(world, world.bob, digest)
    settle(world)
    accept(world, first, again)
    assert column(world)[first] == "by 1"

    def decide(action: str) -> None:
        assert (act(world.olga, again, action), act(otto, again, action)) == (202, 200)

    dispute = f"/submissions/{again}/dispute"
    assert world.alice.post(dispute, json=WHY).status_code == 200
    assert column(world)[first] == "–"
    assert HERE in page_of(world, first)
    decide("uphold")
    assert column(world)[first] == "by 1"
    assert world.alice.post(dispute, json=WHY).status_code == 200
    decide("retract")
    settle(world)

    assert column(world)[first] == "–"
    for member in (None, world.alice, world.bob):
        assert HERE in page_of(world, first, member)
    assert "This result repeats Original" in page_of(world, again), "its own page stays"


def test_a_retracted_original_keeps_what_was_said_of_it(reviewed: World) -> None:
    """The result that refuted it is on its page, and the other way round."""
    world = reviewed
    otto = world.join("otto", "third", is_organiser=True)
    first, digest = submit(world, world.alice)
    settle(world)
    again, _ = submit(world, world.bob, digest, qualities=SLOW)
    settle(world)
    accept(world, first, again)
    assert world.bob.post(f"/submissions/{first}/dispute", json=WHY).status_code == 200
    assert (act(world.olga, first, "retract"), act(otto, first, "retract")) == (202, 200)
    settle(world)

    assert "Reproduced not by 1" in page_of(world, first)
    assert re.search(r"This result repeats .* acme box\d+ not reproduced", page_of(world, again))


def test_reproductions_that_disagree_are_both_shown(unreviewed: World) -> None:
    """Nothing is averaged; one submitter counts once for each verdict, and the own ones confirm nothing."""
    world = unreviewed
    dora = world.join("dora", "dell")
    first, digest = submit(world, world.alice)
    settle(world)
    for seed, member in ((1000, world.bob), (2000, world.bob), (3000, world.alice), (103, dora)):
        submit(world, member, digest, seed)
    submit(world, dora, digest, 4000, qualities=SLOW)
    settle(world)

    assert column(world)[first] == "by 1, not by 1, 1 own"
    page = page_of(world, first)
    assert len(re.findall(r"bits box\d+ reproduced", page)) == 2
    assert re.search(r"dell box\d+ not reproduced 1\.", page)
    assert re.search(r"dell box\d+ not comparable – – – – its runs are not independent of the original's", page)
    assert re.search(r"acme box\d+ same submitter reproduced", page)
    assert page.index("acme box") < page.index("bits box") < page.index("dell box")


def test_chains_are_shown_link_by_link(unreviewed: World) -> None:
    """What repeats a reproduction is of that one, in whichever order they come; what is not here has its digest."""
    world = unreviewed
    dora = world.join("dora", "dell")
    tree = write_submission(world.alice)
    [folder] = (path.parent for path in tree.rglob("result_0.txt"))
    digest = read_result(folder).runs_digest
    second, digest_2 = submit(world, world.bob, digest)
    third, _ = submit(world, dora, digest_2, 2000)
    absent, _ = submit(world, dora, ABSENT, 3000)
    settle(world)
    assert f"which is not on this board. The digest of its logs: {digest}" in page_of(world, second)
    first = send(world.alice, tree)
    settle(world)

    assert column(world) == {first: "by 1", second: "by 1", third: "–", absent: "–"}
    page = page_of(world, second)
    assert re.search(r"This result repeats .* acme box\d+ reproduced .* Repeated by .* dell box", page)
    assert "acme" not in page_of(world, third)
    assert f"which is not on this board. The digest of its logs: {ABSENT}" in page_of(world, absent)


def test_what_is_not_valid_says_nothing(small: World) -> None:
    """Its team sees why; nobody else sees anything."""
    world = small
    first, digest = submit(world, world.alice)
    again, _ = submit(world, world.bob, digest, num_runs=3)
    settle(world)

    assert world.state(again) == "invalid"
    assert HERE in page_of(world, first)
    page = page_of(world, again, world.bob)
    assert re.search(r"acme box\d+ not valid – – – – it does not pass the check: \d error", page)


def test_what_is_said_is_made_again_after_a_new_check(unreviewed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the verdicts that count then; those of before are forgotten."""
    world = unreviewed
    first, digest = submit(world, world.alice)
    again, _ = submit(world, world.bob, digest)
    settle(world)
    before = pairs(world)
    monkeypatch.setattr(reindexing, "__version__", "9.9")
    monkeypatch.setattr("harness.service.judging.__version__", "9.9")
    assert reindexing.judge_again(world.instance) == 2
    settle(world)

    assert column(world) == {first: "by 1", again: "–"}
    assert len(pairs(world)) == 1
    assert pairs(world).keys().isdisjoint(before)
    assert list(pairs(world).values()) == list(before.values())
    assert list(reindexing.differences(world.instance, is_mended=False)) == []


def test_what_was_altered_is_found_and_mended(unreviewed: World) -> None:
    world = unreviewed
    first, digest = submit(world, world.alice)
    submit(world, world.bob, digest)
    settle(world)
    before, table = pairs(world), schema.repetition
    with world.instance.database.write() as connection:
        connection.execute(update(table).values(document=table.c.document + " "))
    assert [item.partition(" ")[0] for item in reindexing.differences(world.instance, is_mended=True)] == ["what"]
    assert pairs(world) == before
    with world.instance.database.write() as connection:
        connection.execute(table.delete())
        connection.execute(update(schema.repeatable).values(document="{}"))

    found = list(reindexing.differences(world.instance, is_mended=True))

    assert sum("is compared by: is not what the logs make of it" in item for item in found) == 2
    assert sum(" says of verdict " in item for item in found) == 1
    assert pairs(world) == before
    assert list(reindexing.differences(world.instance, is_mended=False)) == []
    assert column(world)[first] == "by 1"


def test_a_pair_that_changes_while_it_is_compared_is_compared_again(unreviewed: World) -> None:
    """What was compared then is not written."""
    world = unreviewed
    first, digest = submit(world, world.alice)
    submit(world, world.bob, digest)
    settle(world)
    with world.instance.database.read() as connection:
        [pair] = repetitions.pairs(connection, first)
    with world.instance.database.write() as connection:
        connection.execute(schema.repetition.delete())
        connection.execute(update(schema.verdict).where(schema.verdict.c.id == pair.again).values(num_errors=1))

        assert not repetitions.write(connection, first, [pair], repetitions.compared([pair]))

    assert pairs(world) == {}


def test_of_two_rows_that_are_written_at_once_the_later_sees_the_other(unreviewed: World) -> None:
    """It waits for the earlier one, so that a job is added for one of them at least."""
    world = unreviewed
    first, digest = submit(world, world.alice)
    again, _ = submit(world, world.bob, digest)
    settle(world)
    row, database = schema.board_row, world.instance.database
    is_again = row.c.submission == again
    with database.write() as connection:
        verdicts = {item.submission: item.verdict for item in connection.execute(row.select())}
        connection.execute(schema.repetition.delete())
        connection.execute(update(row).where(is_again).values(repeats=None))
    found: list[bool] = []
    is_begun = threading.Event()

    def write_the_original() -> None:
        is_begun.set()
        with database.write() as connection:
            found.append(repetitions.is_in_pair(connection, first, verdicts[first]))

    later = threading.Thread(target=write_the_original)
    with database.write() as connection:
        connection.execute(update(row).where(is_again).values(repeats=digest))
        repetitions.is_in_pair(connection, again, verdicts[again])
        later.start()
        assert is_begun.wait(10)
        later.join(0.2)
        assert found == []
    later.join(10)

    assert found == [True]


def test_a_page_of_rows_asks_once(small: World) -> None:
    """However many rows it has, and by an index: what it costs is not what there is."""
    world = small
    digest = ""
    asked: list[str] = []

    @event.listens_for(world.instance.database.engine, "before_cursor_execute")
    def count(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    numbers = []
    for _ in range(3):
        _, digest = submit(world, world.alice)
        submit(world, world.bob, digest, 1000 * (len(numbers) + 1))
        settle(world)
        del asked[:]
        assert set(column(world).values()) == {"by 1", "–"}
        numbers.append(len(asked))
    assert len(set(numbers)) == 1
    [query] = [statement for statement in asked if "repetition" in statement]

    with world.instance.database.read() as connection:
        parameters = ["x"] * query.count("?")
        plan = [step.detail for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", tuple(parameters))]
        one = repetitions.pairs(connection, "x")
    assert one == []
    assert any("repetition" in step and "SEARCH" in step for step in plan), plan
    assert not [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step], plan


def test_a_result_page_is_read_by_indices(small: World) -> None:
    """So are the pairs of a result that is checked."""
    world = small
    first, digest = submit(world, world.alice)
    submit(world, world.bob, digest)
    settle(world)
    asked: list[tuple[str, Any]] = []

    @event.listens_for(world.instance.database.engine, "before_cursor_execute")
    def note(connection: Connection, cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    with world.instance.database.write() as connection:
        verdict = submissions.find(connection, first, None).verdict
        assert verdict is not None
        repetitions.links(connection, verdict, "acme")
        repetitions.pairs(connection, first)
        assert repetitions.is_in_pair(connection, first, verdict)
        repetitions.stored(connection, first)
    with world.instance.database.read() as connection:
        for statement, parameters in list(asked):
            if "repetition" in statement or "repeats" in statement:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                steps = [step.detail for step in plan]
                assert not [step for step in steps if "SCAN" in step], (statement, steps)


def test_a_page_that_was_stored_before_is_shown_as_it_is(small: World) -> None:
    """It has no place for what changes; a new check makes one."""
    world = small
    first, digest = submit(world, world.alice)
    settle(world)
    with world.instance.database.write() as connection:
        connection.execute(update(schema.page).values(html=results.page_bytes("<h1>as it was</h1>")))
    submit(world, world.bob, digest)
    settle(world)

    assert "as it was" in page_of(world, first)
    found = list(reindexing.differences(world.instance, is_mended=True))
    assert [item for item in found if item.startswith("page of verdict")] == found
    assert "Reproduced by 1" in page_of(world, first)


def edition(world: World) -> int:
    with world.instance.database.read() as connection:
        return editions.newest(connection)


def pairs(world: World) -> dict[tuple[str, str], str]:
    with world.instance.database.read() as connection:
        return {(row.original, row.again): row.document for row in connection.execute(schema.repetition.select())}
