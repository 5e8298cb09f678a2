"""Results that repeat each other, on the board, in its data and in the tables of `tta score`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import rules
from harness.board.export import board_json, leaderboard_document
from harness.board.index import Board
from harness.board.leaderboard import Row
from harness.board.reproductions import Links, Tally, links, notes, tally
from harness.board.site import write_site
from harness.board.text import leaderboard_text
from harness.commands import derive
from harness.commands.board import tree as board_command
from harness.errors import ExitStatus
from harness.scoring.repetition import Repeatable
from tests.harness.board.reproduced import ABSENT, digest_of, reproduce, reproduced_tree
from tests.harness.board.test_index import HOSTILE, SPEECH, TODAY, TOY, board_of, submit
from tests.harness.board.test_render import Page
from tests.harness.scoring.test_repetition import AGAIN, CLAIM
from tests.rules_folder import write_ruleset

EVIL = HOSTILE.replace("/", "%2F")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reproduced_tree(tmp_path_factory.mktemp("reproduced") / "tree")


@pytest.fixture(scope="module")
def board(tree: Path) -> Board:
    return board_of(tree)


@pytest.fixture(scope="module")
def site(board: Board, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    write_site(board, folder, tree)
    return folder


def rows_of(board: Board) -> dict[str, Row]:
    """By system; the reproduction next to the original as box1-again."""
    rows = [row for table in board.leaderboard.tables for row in table.rows]
    return {row.system + ("-again" if "-again-" in row.path else ""): row for row in rows}


def own_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the board's data, without the reproduction next to the original."""
    rows = [row for table in document["tables"] for row in table["rows"]]
    return [row for row in rows if "-again-" not in row["place"]]


def said(row: Row) -> dict[str, str]:
    return {item.system: item.status for item in row.links.reproductions}


def page_of(site: Path, board: Board, system: str) -> str:
    entry = next(entry for entry in board.entries.values() if entry.row.system == system)
    page = Page((site / entry.page).read_text())
    return " ".join(" ".join(page.text).split())


def test_each_reproduction_is_next_to_what_it_repeats(board: Board) -> None:
    """Confirmed and refuted are both shown; what is unlike or does not pass the check has no verdict."""
    original = rows_of(board)["box1"]

    assert said(original) == {
        "box1": "reproduced",
        "+1+cmd": "reproduced",
        "box2": "reproduced",
        "node7": "reproduced",
        "slow": "not reproduced",
        "failing": "not valid",
        "big-batch": "not comparable",
        "same-seeds": "not comparable",
    }
    assert {item.system for item in original.links.reproductions if item.is_own} == {"box1", "box2"}
    assert [item.outcome.verdict is None for item in original.links.reproductions] == [
        item.status in ("not valid", "not comparable") for item in original.links.reproductions
    ]


def test_only_other_submitters_that_pass_the_check_count(board: Board) -> None:
    rows = rows_of(board)

    assert tally(rows["box1"].links.reproductions) == Tally(reproduced=2, not_reproduced=1, inconclusive=0, own=2)
    assert tally(rows["box1"].links.reproductions).words == ["by 2", "not by 1", "2 own"]
    assert tally(rows["slow"].links.reproductions).words == []


def test_chains_are_shown_link_by_link(board: Board) -> None:
    """A reproduction of a reproduction belongs to that one, not to the first."""
    rows = rows_of(board)

    assert said(rows["node7"]) == {"of-birch": "reproduced"}
    assert [(item.system, item.status) for item in rows["node7"].links.originals] == [("box1", "reproduced")]
    assert [item.system for item in rows["of-birch"].links.originals] == ["node7"]
    assert rows["box1"].links.originals == ()


def test_a_reproduction_is_ranked_by_its_first_runs(board: Board) -> None:
    row = rows_of(board)["of-birch"]

    assert (len(row.score.runs), row.score.num_beyond, row.is_ranked) == (20, 15, True)
    assert row.score.seconds == pytest.approx(rows_of(board)["box1"].score.seconds, rel=1e-6)


def test_pages_link_both_ways(site: Path, board: Board) -> None:
    """In words: by whom, on what, how the ratio is; and back."""
    original, again = page_of(site, board, "box1"), page_of(site, board, "node7")

    assert "Reproduced by 2, not by 1, 2 own" in original
    assert "birch node7 reproduced 1.00 [0.88, 1.13] 5 / 5 20 % 60 % at most 15.9 % worse than claimed" in original
    assert "cedar slow not reproduced 1.76 [1.55, 1.99]" in original
    assert "acme box2 same submitter reproduced" in original
    assert "elm failing not valid" in original
    assert f"{EVIL} +1+cmd reproduced" in original
    assert "fir big-batch not comparable" in original
    assert "This result repeats" in again
    page = (site / "results" / "acme--box1--toy_mini.html").read_text()
    assert 'href="../results/birch--node7--toy_mini.html#reproductions"' in page
    page = (site / "results" / "birch--node7--toy_mini.html").read_text()
    assert 'href="../results/acme--box1--toy_mini.html#reproductions"' in page


def test_what_is_repeated_but_not_here_is_said(site: Path, board: Board) -> None:
    """By its digest; what is none is said in words, and what repeats nothing has how to repeat it."""
    assert f"not on this board. The digest of its logs: {ABSENT}" in page_of(site, board, "elsewhere")
    malformed = page_of(site, board, "malformed")
    assert "result_0.txt repeats 'theirs', which is not the digest of a result" in malformed
    assert "scored by the first 5 of 20" in page_of(site, board, "of-birch")
    assert "tta reproduce files/ivy--elsewhere--toy_mini --ruleset v1" in page_of(site, board, "elsewhere")


def test_tables_have_a_column(site: Path) -> None:
    for name in ("index.html", "benchmarks/toy_mini.html"):
        text = (site / name).read_text()
        assert 'href="{}results/acme--box1--toy_mini.html#reproductions"'.format("../" * name.count("/")) in text
        assert "a reproduction</span>" in text
        assert "first 5 of 20 runs" in text


def test_data_have_the_verdicts(board: Board) -> None:
    """JSON of the board and of `tta score`, and CSV."""
    rows = {row["system"]: row for row in own_rows(json.loads(board_json(board)))}
    box1, node7 = rows["box1"], rows["node7"]
    found = next(item for item in box1["reproductions"] if item["system"] == "slow")

    assert box1["reproduced"] == {"reproduced": 2, "not_reproduced": 1, "inconclusive": 0, "own": 2}
    assert (found["status"], found["is_own"], found["num_new"], found["num_claimed"]) == ("not reproduced", False, 5, 5)
    assert (found["page"], found["place"]) == ("results/cedar--slow--toy_mini.html", "cedar/results/slow/toy_mini")
    assert found["ratio"] == pytest.approx(1.758, abs=1e-3)
    assert found["interval"][0] < found["ratio"] < found["interval"][1]
    assert (node7["repeats"], node7["originals"][0]["page"]) == (box1["digest"], box1["page"])
    assert (rows["elsewhere"]["repeats"], rows["elsewhere"]["originals"]) == (ABSENT, [])
    [table] = leaderboard_document(board.leaderboard)["tables"]
    scored = {row["path"]: row for row in json.loads(json.dumps(table, allow_nan=False))["rows"]}
    assert scored[box1["place"]]["reproductions"] == [
        {"path": item["place"], **{name: value for name, value in item.items() if name not in ("place", "page")}}
        for item in box1["reproductions"]
    ]


def test_csv_has_the_counts(site: Path, board: Board) -> None:
    lines = {
        line["system"]: line
        for line in csv.DictReader(io.StringIO((site / "leaderboard.csv").read_text()))
        if "-again-" not in line["place"]
    }
    names = ("reproduced_by", "not_reproduced_by", "inconclusive_by", "own_reproductions")

    assert [lines["box1"][name] for name in names] == ["2", "1", "0", "2"]
    assert lines["node7"]["repeats"] == lines["box1"]["digest"] != ""
    assert lines["box1"]["repeats"] == ""
    assert lines["malformed"]["repeats"] == ""


def test_text_has_a_column_and_notes(board: Board) -> None:
    text = leaderboard_text(board.leaderboard)

    assert "by 2, not by 1, 2 own" in text
    assert (
        "acme/results/box1/toy_mini: repeated by birch, on node7: reproduced, ratio 1.00 [0.88, 1.13], 5 runs, "
        "tolerance 20 %, power 60 %\n"
    ) in text
    assert "repeated by acme, on box2 (the same submitter): reproduced" in text
    assert "repeated by elm, on failing: not valid: it does not pass the check: 2 errors\n" in text
    assert "birch/results/node7/toy_mini: repeats the result of acme, on box1: reproduced, ratio 1.00" in text
    assert f"repeats the result with the digest {ABSENT}, which is not among these" in text
    assert "hazel/results/of-birch/toy_mini: a reproduction: scored by the first 5 of its 20 runs" in text


def test_runs_that_miss_refuse_the_claim(tmp_path: Path) -> None:
    """Such a reproduction has no score, and a verdict."""
    original = submit(tmp_path, "acme", "box1")
    reproduce(tmp_path, original, "birch", "node7", 1000, curve=(0.5, 0.7, 0.8))

    row = rows_of(board_of(tmp_path))["node7"]

    assert (row.is_ranked, row.num_errors) == (False, 0)
    [link] = row.links.originals
    assert (link.status, link.ratio) == ("not reproduced", "")
    assert notes(row, row.links) == [
        "repeats the result of acme, on box1: not reproduced, 5 runs, 5 missed the target, tolerance 20 %, power 60 %"
    ]


def test_other_benchmarks_and_divisions_are_unlike(tmp_path: Path) -> None:
    """A digest may be of a result in any table; the reproduction stays in its own."""
    original = submit(tmp_path, "acme", "box1")
    curve = (0.41, 0.22, 0.15, 0.11)
    reproduce(tmp_path, original, "birch", "speech", 1000, rules=SPEECH, curve=curve, block_s=31.0)
    reproduce(tmp_path, original, "cedar", "open", 2000, division="open")

    found = board_of(tmp_path)
    why = {item.system: item.outcome.why for item in rows_of(found)["box1"].links.reproductions}

    assert len(found.leaderboard.tables) == 3
    assert why == {
        "speech": "its benchmark is speech_standard, not toy_mini",
        "open": "its division is open, not closed",
    }


def test_copies_of_an_original_are_all_repeated(tmp_path: Path) -> None:
    """Two results with the same logs cannot be told apart by their digest."""
    submit(tmp_path, "acme", "box1", folder="copy")
    original = submit(tmp_path, "acme", "box1")
    reproduce(tmp_path, original, "birch", "node7", 1000)
    found = board_of(tmp_path)

    [again] = [entry.row for entry in found.entries.values() if entry.row.system == "node7"]
    assert sorted(item.path for item in again.links.originals) == [
        "acme/results/box1/toy_mini",
        "copy/results/box1/toy_mini",
    ]
    assert digest_of(original) == digest_of(tmp_path / "copy" / "results" / "box1" / "toy_mini")


@dataclass(frozen=True)
class Item:
    """A row as far as `links` reads it."""

    path: str
    repeatable: Repeatable | None
    submitter: str = "acme"
    system: str = "box"
    num_errors: int = 0


def test_circles_end() -> None:
    """No digest can be in the logs that it is of; if it were, each would repeat the other, and one itself."""
    first = Item("a", replace(CLAIM, digest="1" * 64, repeats="2" * 64))
    second = Item("b", replace(AGAIN, digest="2" * 64, repeats="1" * 64), "birch")
    itself = Item("c", replace(CLAIM, digest="3" * 64, repeats="3" * 64), "cedar")
    plain, unknown = Item("d", replace(CLAIM, digest="4" * 64)), Item("e", None)

    found = links([first, second, itself, plain, unknown])

    assert [[item.path for item in each.reproductions] for each in found] == [["b"], ["a"], ["c"], [], []]
    assert [[item.path for item in each.originals] for each in found] == [["b"], ["a"], ["c"], [], []]
    [link] = found[2].reproductions
    assert (link.status, link.outcome.why) == ("not comparable", "it says that it repeats itself")
    assert tally([link]).words == []
    assert notes(unknown, Links()) == []


@pytest.mark.parametrize(
    ("submitters", "expected"),
    [
        (["birch", "Birch", "cedar"], {"reproduced": 2}),
        (["ACME", "acme"], {"own": 2}),
        ([], {}),
    ],
)
def test_a_submitter_counts_once(submitters: list[str], expected: Mapping[str, Any]) -> None:
    """However often they repeat a result; names that differ in case only are one submitter."""
    rows = [Item("original", CLAIM)]
    rows += [
        Item(str(number), replace(AGAIN, digest=f"{number:064x}", seeds=frozenset({number})), submitter)
        for number, submitter in enumerate(submitters, 16)
    ]

    assert tally(links(rows)[0].reproductions) == Tally(**expected)


def test_copies_of_a_reproduction_count_once() -> None:
    """Under another name, with a line changed; one that says otherwise cannot take the place of the one it copies."""
    copied = replace(AGAIN, digest="5" * 64, seeds=frozenset({9, 10}))
    forged = replace(AGAIN, digest="6" * 64, samples=tuple(2 * (samples or 0.0) for samples in AGAIN.samples))
    rows = [Item("a", CLAIM), Item("b", AGAIN, "birch"), Item("c", copied, "cedar"), Item("d", forged, "abel")]

    assert tally(links(rows)[0].reproductions) == Tally(reproduced=1, not_reproduced=1)


def test_an_unclear_reproduction_is_inconclusive() -> None:
    slow = replace(AGAIN, samples=tuple(1.06 * (samples or 0.0) for samples in AGAIN.samples))
    found = links([Item("a", CLAIM), Item("b", slow, "birch")])[0]

    assert tally(found.reproductions).words == ["1 inconclusive"]
    assert found.reproductions[0].sentence.startswith("inconclusive, ratio 1.06 [")


def test_numbers_are_derived_and_agree_with_the_published(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tree, those of reproductions too; of two results on one system each is compared with its own row."""
    (tmp_path / "shipped").mkdir()
    write_ruleset(tmp_path / "shipped" / "v1", TOY)
    monkeypatch.setattr(rules, "__path__", [str(tmp_path / "shipped"), *rules.__path__])
    board_command.build(tree, tmp_path / "site", "v1", TODAY)
    published = tmp_path / "site" / "leaderboard.json"
    original = tree / "acme" / "results" / "box1" / "toy_mini"
    again = next(original.parent.glob("toy_mini-again-*"))

    for place, name in ((original, "reproductions[1]"), (again, "originals[0]")):
        capsys.readouterr()
        status = derive.run([place], "v1", "json", tree, published, TODAY)
        [found] = json.loads(capsys.readouterr().out)["results"]
        numbers = {item["name"]: item for item in found["numbers"]}
        assert status == ExitStatus.OK
        assert numbers[f"board.{name}.ratio"]["formula"]
        assert numbers[f"{name}.ratio"]["value"] == numbers[f"board.{name}.ratio"]["value"]
    changed = published.read_text().replace('"status": "not reproduced"', '"status": "reproduced"')
    (tmp_path / "changed.json").write_text(changed)
    assert derive.run([original], "v1", "json", tree, tmp_path / "changed.json", TODAY) == ExitStatus.FINDINGS
    assert derive.run([original], "v1", "json", None, tmp_path / "changed.json", TODAY) == ExitStatus.OK
