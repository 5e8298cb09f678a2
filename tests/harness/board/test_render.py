"""The pages: well-formed, safe, self-contained, complete, and reproducible."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest

from harness.board.charts.lines import NUM_COLOURS
from harness.board.export import board_json
from harness.board.index import Board
from harness.board.pages.render import ROWS_FIRST, allowed_words, render_pages
from harness.board.pages.time_view import accelerator_facts, accelerators_of
from harness.board.site import MARKER_NAME, write_site
from harness.board.text import leaderboard_text
from harness.ruleset.model import Constraint, Waiver
from tests import fabricate
from tests.harness.board.test_index import (
    HOSTILE,
    LONG,
    SPEECH,
    TOY,
    abort,
    board_of,
    rich_tree,
    ruleset,
    submit,
)
from tests.harness.submission.test_receipts import witnessed
from tests.rules.box import Box, configure, put, recount

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A page's elements: refuses unbalanced tags, duplicate ids, inline scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take(tag, dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def _take(self, tag: str, attrs: dict[str, str | None]) -> None:
        assert not [name for name in attrs if name.startswith("on") or name == "style"], attrs
        assert tag not in ("style", "iframe", "object", "embed", "base", "form")
        if tag == "script":
            assert attrs.get("src")
        if identity := attrs.get("id"):
            assert identity not in self.ids, f"duplicate id {identity}"
            self.ids.add(identity)
        self.links += [value for name in ("href", "src") if (value := attrs.get(name)) is not None]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return board_of(rich_tree(tmp_path_factory.mktemp("rich") / "tree"))


@pytest.fixture(scope="module")
def site(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(board, folder / "site", folder / "elsewhere")
    return folder / "site"


def pages_of(site: Path) -> Iterator[tuple[PurePosixPath, Page]]:
    for path in sorted(site.rglob("*.html")):
        yield PurePosixPath(path.relative_to(site).as_posix()), Page(path.read_text())


def _page(site: Path, path: str) -> str:
    return " ".join(" ".join(Page((site / path).read_text()).text).split())


def _result(board: Board, place: str) -> str:
    return f"results/{board.entries[place].slug}.html"


def check_links(site: Path) -> int:
    """Each page is well-formed, each href and src a relative path to a file of the site, its fragment an id there."""
    found = dict(pages_of(site))
    for path, page in found.items():
        for link in page.links:
            place, _, fragment = link.partition("#")
            assert not re.match(r"[a-z]+:|//|/", place), f"{path}: {link} leaves the site"
            target = (site / path.parent / unquote(place)).resolve() if place else site / path
            assert target.is_file(), f"{path}: {link} leads nowhere"
            assert target.is_relative_to(site.resolve())
            if fragment:
                there = found[PurePosixPath(target.relative_to(site.resolve()).as_posix())]
                assert fragment in there.ids, f"{path}: {link}"
    return len(found)


def test_every_page_is_well_formed_and_every_link_has_a_target(site: Path) -> None:
    assert check_links(site) > 15


def test_every_page_forbids_foreign_content(site: Path) -> None:
    """Each page has the policy, and the style sheet loads nothing."""
    for path in site.rglob("*.html"):
        assert 'content="default-src &#39;none&#39;; style-src &#39;self&#39;' in path.read_text()
    style = (site / "static" / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_texts_stay_text(site: Path, board: Board) -> None:
    """A script in a name, a note or a document is shown, not run; control characters are made visible."""
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert "<script>" not in text
        assert "javascript:" not in " ".join(Page(text).links)
        assert "\u202e" not in text
        assert "\x1b" not in text
    page = _page(site, _result(board, "evil/results/+1+cmd/toy_mini"))
    assert HOSTILE in page
    assert "\\u202etxt.exe\\x1b[31m" in page
    assert HOSTILE in _page(site, "rules/tst001.html")


def test_the_index_has_every_result_and_names_what_is_missing(site: Path, board: Board) -> None:
    """Ranked, invalid and unreadable ones; not measured, estimated and no price in words."""
    page, links = _page(site, "index.html"), Page((site / "index.html").read_text()).links

    for place in board.entries:
        assert _result(board, place) in links
    for text in (
        "not measured",
        "estimated",
        "no price",
        "as measured",
        "Unranked results",
        "Unreadable results",
        "tiny-lab/results/laptop/unheard_of",
        "3 runs found; the rules require 5",
        "word_error_rate ≤ 0.12 (fraction, lower is better)",
        "top1_accuracy ≥ 0.9 (fraction, higher is better)",
        "nearest neighbour, best of 2 baselines",
        board.ruleset.digest,
        "5 warnings",
        "empty_mini",
    ):
        assert text in page, text
    assert "0 kJ" in page  # measured zero differs from not measured


def test_an_invalid_result_gives_its_reason_and_its_rule(site: Path, board: Board) -> None:
    """The code links to the page that explains it."""
    path = _result(board, "tiny-lab/results/laptop/toy_mini")

    assert "the run did not stop in success" in _page(site, path)
    assert "../rules/tst001.html" in Page((site / path).read_text()).links


def test_a_result_page_has_all_its_parts(site: Path, board: Board) -> None:
    """Runs with seeds, ledger, configuration against the rules, price, digests and commands."""
    page = _page(site, _result(board, "acme/results/box1/toy_mini"))

    entry = board.entries["acme/results/box1/toy_mini"]
    for text in (
        "First light.",
        "result_4.txt",
        "104",
        "opt_base_learning_rate",
        "from 0.01 to 1",
        "Execution options",
        "cudnn_conv_fp32",
        "Example 9000",
        "cloud/big-node/here/on_demand",
        "initialisation, before the clock",
        "tta check files/acme--box1--toy_mini --ruleset v1",
        "sha256sum --ignore-missing -c MANIFEST.sha256",
        *(item.sha256 for item in entry.downloads),
        "release 0.1.0",
    ):
        assert text in page, text
    assert "The code that ran is not that of a release" not in page
    assert len(entry.downloads) == 16  # five logs, as many of power, idle, two lists, claim, manifest, description


@pytest.mark.parametrize("is_said", [True, False])
def test_how_often_it_was_tried_is_with_the_facts_of_a_result(tmp_path: Path, is_said: bool) -> None:
    """On its page, in the text and in the data, with where it is from; nothing where the witness does not say."""
    box = Box(tmp_path)
    witnessed(box, campaign={"tried": 1_234} if is_said else {})
    board = board_of(tmp_path / "tree")
    [entry] = board.entries.values()
    page = dict(render_pages(board))[entry.page].decode()

    assert ("Campaigns tried" in page, "<dd>1,234<small>by this submitter" in page) == (is_said, is_said)
    assert ("witnessed (W2), 1,234 campaigns tried" in leaderboard_text(board.leaderboard)) is is_said
    [table] = json.loads(board_json(board))["tables"]
    assert table["rows"][0]["num_campaigns"] == (1_234 if is_said else None)


def test_a_result_page_says_how_its_score_is_made(site: Path, board: Board) -> None:
    """By the reference's samples, by its own, as measured for want of a reference, as measured in the open division."""
    score = board.entries["acme/results/box1/toy_mini"].row.score
    assert (score.fixed_s, score.pace_s, score.scored_samples, score.measured_seconds) != (None,) * 4
    assert score.seconds == pytest.approx((score.fixed_s or 0.0) + (score.pace_s or 0.0) * (score.scored_samples or 0))
    page = _page(site, _result(board, "acme/results/box1/toy_mini"))
    assert f"{score.fixed_s:.3f} s to open the data + {1000 * (score.pace_s or 0):.4f} ms per sample × 3,224" in page
    assert f"samples = {score.seconds:.3f} s" in page
    assert f"The measured time, {score.measured_seconds:.3f} s, is the mean without the fastest and the slowest" in page
    assert "reference at batch size 100: 3,224. These are significantly fewer, by luck or tuning" in page
    assert f"{score.seconds_of(score.runs[3]):.3f}" in page
    for place, text in {
        "tiny-lab/results/workstation.7/toy_mini": "so it is scored with its own",
        f"{LONG[0]}/results/{LONG[1]}/toy_mini": "No reference: batch size 200 is outside the reference's, 100 to 100",
        "acme/results/box1-speech/speech_standard": "because there is no reference to score it by",
        "acme/results/box9/toy_mini": "because in the open division convergence is part of the contest",
        "acme/results/box1-short/toy_mini": "There is no score",
    }.items():
        assert text in _page(site, _result(board, place)), place


def test_score_and_measured_time_are_columns_to_sort_by(site: Path, board: Board) -> None:
    """Of the closed division; in the open division they are the same number."""
    text = (site / "benchmarks/toy_mini.html").read_text()
    closed, _, opened = text.partition("Open division</h2>")

    assert closed.count('data-sort="number">Measured time<small>seconds, not ranked') == 1
    assert closed.count('data-sort="number">Score<small>seconds, lower is better') == 1
    assert opened.count('data-sort="number">Measured time<small>seconds, lower is better') == 1
    assert "Score<small>" not in opened
    for entry in board.entries.values():
        score = entry.row.score
        if entry.row.is_ranked and score.benchmark == TOY.name and score.division == "closed":
            assert f'data-label="Score" data-value="{score.seconds}"' in closed
            assert f'data-label="Measured time" data-value="{score.measured_seconds}"' in closed


def test_the_data_of_the_open_division_has_its_number_of_runs(tmp_path: Path) -> None:
    """It may need more than the closed one."""
    rules = replace(TOY, open_runs=6)
    submit(tmp_path, rules=rules, division="open", num_runs=6)
    made = dict(render_pages(board_of(tmp_path, ruleset(benchmarks={rules.name: rules}))))
    [table] = json.loads(made["leaderboard.json"])["tables"]

    assert (table["division"], table["num_runs"], table["rows"][0]["valid"]) == ("open", 6, True)
    assert b"6 of 6 required" in made["results/acme--box1--toy_mini.html"]


def test_a_page_says_how_the_code_differs_from_a_release(tmp_path: Path) -> None:
    """The JSON next to it has the same; a result whose logs do not say what ran has no badge."""

    def silent(_: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        return [step for step in steps if step.key != "tta_code"]

    submit(tmp_path)
    submit(tmp_path, system="box2", change=silent)
    other = {"0.2.0": {**fabricate.CODE, "harness/run/referee.py": "9" * 64}}
    made = dict(render_pages(board_of(tmp_path, ruleset(releases=other))))
    [table] = json.loads(made["leaderboard.json"])["tables"]
    records = {row["system"]: row["code"] for row in table["rows"]}
    texts = {box: " ".join(Page(made[f"results/acme--{box}--toy_mini.html"].decode()).text) for box in records}

    difference = "differs from release 0.2.0: changed: harness/run/referee.py"
    assert records["box1"]["state"] == "unreleased"
    assert records["box1"]["difference"] == difference
    assert "unreleased code, commit c0ffee0" in texts["box1"]
    assert f"The code that ran is not that of a release: {difference}." in texts["box1"]
    assert records["box2"]["state"] == "unrecorded"
    assert "code not recorded" not in texts["box2"]


def test_downloads_are_the_submitted_bytes_in_a_tree(site: Path, board: Board, tmp_path: Path) -> None:
    """A copy of a result's folder can be read as a tree, system description included; the marker lists every file."""
    entry = board.entries["acme/results/box1/toy_mini"]

    copied = board_of(shutil.copytree(site / entry.folder, tmp_path / "copy"))
    assert copied.entries["acme/results/box1/toy_mini"].row.score.seconds == entry.row.score.seconds
    assert copied.entries["acme/results/box1/toy_mini"].system == entry.system
    for item in entry.downloads:
        assert (site / item.target).read_bytes() == item.source.read_bytes()
    there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert set(json.loads((site / MARKER_NAME).read_text())["files"]) == there - {MARKER_NAME}


def test_charts_and_their_tables_agree(site: Path) -> None:
    """The benchmark's page has one curve and one table row per run; missing prices are mentioned."""
    toy, speech = ((site / f"benchmarks/{name}.html").read_text() for name in ("toy_mini", "speech_standard"))

    assert toy.count('<polyline class="line') == 5 * 6  # five ranked results in closed, one in open
    assert toy.count("<td>result_") == 5 * 6
    assert "No result has a price" in _page(site, "benchmarks/speech_standard--cost.html")
    assert 'class="front"' in (site / "benchmarks/toy_mini--cost.html").read_text()
    assert speech.count('<polyline class="line') == 5 * 2


def test_the_rulebook_is_included(site: Path) -> None:
    """Codes with severity, numbers of a benchmark, a check's document without its own markup."""
    assert "TST002" in _page(site, "rules/index.html")
    numbers = _page(site, "rules/benchmark-toy_mini.html")
    assert "from 0.01 to 1" in numbers
    assert TOY.terms_digest in numbers
    assert "Made by" in numbers
    assert "the organiser" in numbers
    resumption = "an interrupted run may go on from its last checkpoint"
    assert f"{resumption} no" in numbers
    speech = _page(site, "rules/benchmark-speech_standard.html")
    assert f"{resumption} yes, its clock does not stop in between" in speech
    document = (site / "rules/tst001.html").read_text()
    assert "<h2>What it does</h2>" in document
    assert '<pre tabindex="0"><code>run_stop  status: aborted</code></pre>' in document
    assert "<code>status</code>" in document


def test_the_json_has_every_row(site: Path, board: Board) -> None:
    """With runs and findings; missing values are null; a benchmark's file has only that benchmark."""
    whole = json.loads((site / "leaderboard.json").read_text())
    one = json.loads((site / "benchmarks/speech_standard.json").read_text())

    rows = {row["place"]: row for table in whole["tables"] for row in table["rows"]}
    assert set(rows) == set(board.entries)
    assert rows["acme/results/box9/toy_mini"]["energy_j"] is None
    assert rows["acme/results/box9/toy_mini"]["basis"] == "measured"
    assert rows["acme/results/box1/toy_mini"]["ranks"] == [2, 3]
    box = rows["acme/results/box1/toy_mini"]
    assert box["seconds"] == pytest.approx(box["fixed_s"] + box["pace_s"] * box["scored_samples"])
    assert box["measured_interval"][0] < box["measured_seconds"] < box["measured_interval"][1]
    assert box["runs"][0]["crossing_samples"] < box["runs"][0]["samples"]
    assert rows["tiny-lab/results/workstation.7/toy_mini"]["energy_j"] == 0.0
    assert rows["tiny-lab/results/laptop/toy_mini"]["findings"][0]["code"] == "TST001"
    assert all(
        sum(item["count"] for item in row["findings"]) == len(board.entries[place].row.findings)
        for place, row in rows.items()
    )
    assert len(rows["acme/results/box1/toy_mini"]["runs"]) == 5
    assert [table["benchmark"] for table in one["tables"]] == [SPEECH.name]
    assert one["tables"][0]["metric"]["direction"] == "min"


def test_the_csv_has_a_line_per_row_and_no_formulas(site: Path, board: Board) -> None:
    """The hostile system's name and date begin with an apostrophe; missing values are empty cells."""
    rows = list(csv.DictReader(io.StringIO((site / "leaderboard.csv").read_bytes().decode())))

    assert {row["place"] for row in rows} == set(board.entries)
    evil = next(row for row in rows if row["place"].startswith("evil/"))
    assert evil["system"] == "'+1+cmd"
    assert evil["submitted"] == "'=1+1"
    assert evil["energy_j"] == ""
    box = next(row for row in rows if row["system"] == "box1" and row["benchmark"] == TOY.name)
    assert (box["rank_first"], box["rank_last"], box["basis"]) == ("2", "3", "pace")
    assert float(box["measured_low"]) < float(box["measured_seconds"]) < float(box["measured_high"])
    assert float(box["seconds_low"]) < float(box["seconds"]) < float(box["seconds_high"])
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]


def test_the_site_does_not_depend_on_the_place_of_the_tree(board: Board, tmp_path: Path) -> None:
    """The same submissions in another place give the same bytes, and no page names a path on this machine."""
    other = board_of(rich_tree(tmp_path / "somewhere" / "else"))

    first, second = dict(render_pages(board)), dict(render_pages(other))
    assert first == second
    assert not [path for path, content in first.items() if b"/tmp" in content or str(tmp_path).encode() in content]


def test_rows_of_the_same_name_have_their_own_pages(tmp_path: Path) -> None:
    """Names with the same slug are distinguished, and adding one does not move another's page."""
    submit(tmp_path, "acme", "Box1", folder="acme")
    alone = board_of(tmp_path).entries["acme/results/Box1/toy_mini"].slug
    submit(tmp_path, "acme", "box1", folder="acme")
    submit(tmp_path, "acme", "bOx1", folder="acme")

    slugs = [entry.slug for entry in board_of(tmp_path).entries.values()]
    assert len({slug.lower() for slug in slugs}) == 3
    assert alone in slugs


def test_of_many_rows_the_chart_and_the_first_page_have_eight(tmp_path: Path) -> None:
    """The benchmark's page has every row, each with what it is filtered by; the chart has eight, each in a colour."""
    for number in range(ROWS_FIRST + 2):
        submit(tmp_path, system=f"box{number}", block_s=2.0 + 0.1 * number)
        submit(tmp_path, system=f"short{number}", num_runs=3)
    made = {path: content.decode() for path, content in render_pages(board_of(tmp_path)) if path.endswith(".html")}
    index, page = made["index.html"], made["benchmarks/toy_mini.html"]

    assert page.count('<tr role="row" data-submitter="acme"') == 2 * (ROWS_FIRST + 2)
    assert index.count('<tr role="row" data-submitter="acme"') == 2 * ROWS_FIRST
    assert "All 10 ranked results" in index
    assert "All 10 unranked results" in index
    assert page.count('<polyline class="line') == 5 * ROWS_FIRST
    assert [page.count(f'<line class="line s{number}"') for number in range(9)] == [2] * 8 + [0]
    assert "the first 8 of 10 ranked results" in " ".join(page.split())
    assert 'data-accelerator="none" data-count="0" data-division="closed" data-date="2026-11-20"' in page


@pytest.mark.parametrize(
    ("system", "facts"),
    [
        ({"accelerator_model_name": "X1", "accelerators_per_node": "8", "number_of_nodes": 4}, ("X1", "32")),
        ({"accelerator_model_name": "X1", "accelerators_per_node": "eight", "number_of_nodes": 4}, ("X1", "")),
        ({"accelerator_model_name": "N/A", "accelerators_per_node": 0}, ("none", "0")),
        ({"accelerator_model_name": ["X1"]}, ("", "")),
        ({}, ("", "")),
    ],
)
def test_rows_are_filtered_by_what_the_system_description_says(
    system: dict[str, object], facts: tuple[str, str]
) -> None:
    """The accelerators of all nodes; nothing is guessed."""
    assert tuple(accelerator_facts(*accelerators_of(system)).values()) == facts


def test_a_changed_hyperparameter_is_marked_and_first(tmp_path: Path) -> None:
    """And how many differ from the reference; values are a reader's words, not null, true or None."""
    rules = replace(TOY, hyperparameters={**TOY.hyperparameters, "data_flip": Constraint(default=False, fixed=True)})
    submit(tmp_path, rules=rules, batch_size=200)
    made = dict(render_pages(board_of(tmp_path, ruleset(benchmarks={rules.name: rules}))))
    page = made["results/acme--box1--toy_mini.html"].decode()
    rows = re.findall(r'<tr( class="changed")?><th scope="row" class="any">([a-z_]+)', page)

    assert rows == [
        (' class="changed"', "global_batch_size"),
        ("", "data_flip"),
        ("", "opt_base_learning_rate"),
        ("", "opt_name"),
    ]
    text = " ".join(" ".join(Page(page).text).split())
    assert "1 of 4 hyperparameters changed from the reference" in text
    assert "global_batch_size changed 200" in text
    assert "data_flip no no fixed at no" in text
    assert "own module none" in text
    assert "trained past the target no" in text
    assert not re.search(r"\b(null|true|false|None|True|False)\b", text)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint(default=True, fixed=True), "fixed at yes"),
        (Constraint(default=True), "yes or no"),
        (Constraint(default=0.1), "any number"),
        (Constraint(default=1), "any whole number"),
        (Constraint(default="sgd"), "any text"),
        (Constraint(default=0.1, range=(0.01, 1.0)), "from 0.01 to 1"),
    ],
)
def test_what_is_permitted_is_said_in_words(constraint: Constraint, text: str) -> None:
    """Without the names of types."""
    assert allowed_words(constraint) == text


def test_more_runs_than_colours_share_one(tmp_path: Path) -> None:
    """And the legend says so once."""
    rules = replace(TOY, open_runs=NUM_COLOURS + 1)
    submit(tmp_path, rules=rules, division="open", num_runs=NUM_COLOURS + 1)
    page = dict(render_pages(board_of(tmp_path, ruleset(benchmarks={rules.name: rules}))))[
        "results/acme--box1--toy_mini.html"
    ]

    assert page.count(b'<polyline class="line same"') == NUM_COLOURS + 1
    assert b"13 runs, each a line" in page


def test_an_empty_tree_has_a_page_that_says_so(tmp_path: Path) -> None:
    """No results, no tables, no broken links."""
    empty = board_of(tmp_path)

    made = dict(render_pages(empty))
    assert b"No results yet" in made["index.html"]
    assert json.loads(made["leaderboard.json"])["tables"] == []
    assert made["leaderboard.csv"].count(b"\r\n") == 1


def test_a_result_without_claim_is_shown(tmp_path: Path) -> None:
    """A folder written by `tta run` has the submitter from its logs and the day of its last run."""
    fabricate.write_result(tmp_path / "mine")
    board = board_of(tmp_path, ruleset(codes={}), rules={})

    [entry] = board.entries.values()
    assert entry.row.submitter == "acme"
    assert entry.date == "2025-11-21"
    assert entry.slug == "mine"
    for path, content in render_pages(board):
        if path.endswith(".html"):
            Page(content.decode())


def test_a_result_of_another_ruleset_is_not_placed(tmp_path: Path) -> None:
    """Its benchmark is named in the list of results that are in no table."""
    submit(tmp_path)

    board = board_of(tmp_path, ruleset(benchmarks={}))
    assert board.entries == {}
    assert "ruleset v1 has no benchmark 'toy_mini'" in board.not_placed[0].reasons[0]


def test_findings_of_one_code_are_grouped(tmp_path: Path) -> None:
    """Five warnings with one code: one heading, three shown, two folded."""
    submit(tmp_path, batch_size=200)

    page = dict(render_pages(board_of(tmp_path)))["results/acme--box1--toy_mini.html"].decode()
    assert page.count('<div class="finding warning">') == 1
    assert "large batch, 5 times" in page
    assert "<summary>2 more</summary>" in page
    assert page.count("a person should look at it") == 5


def test_a_waived_finding_is_shown_with_the_reason(tmp_path: Path) -> None:
    """The result is ranked, and the page shows why."""
    waiver = Waiver("TST001", "*", "the organiser", "a power cut in the hall", "2026-12-31")
    submit(tmp_path, change=lambda index, steps: abort(index, steps) if index == 1 else steps)
    board = board_of(tmp_path, ruleset(waivers=(waiver,)))

    made = dict(render_pages(board))
    assert board.entries["acme/results/box1/toy_mini"].row.is_ranked
    page = made["results/acme--box1--toy_mini.html"].decode()
    assert "Waived: a power cut in the hall (the organiser, until 2026-12-31)" in page
    assert "a power cut in the hall" in made["rules/index.html"].decode()


def test_a_code_without_a_check_has_no_link(tmp_path: Path) -> None:
    """A finding of a check that is not installed names its code and links nowhere."""
    submit(tmp_path, batch_size=200)
    board = board_of(tmp_path)
    bare = Board(board.ruleset, {}, None, board.leaderboard, board.entries, ())

    made = dict(render_pages(bare))
    assert "rules/tst002.html" not in made
    assert b"TST002" in made["results/acme--box1--toy_mini.html"]
    assert b"tst002.html" not in made["results/acme--box1--toy_mini.html"]


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(site: Path, scheme: str) -> None:
    """WCAG 2.2 AA: text at least 4.5 : 1 on its background, marks in charts 3 : 1."""
    style = (site / "static" / "style.css").read_text()
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", light))
    if scheme == "dark":
        colours |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", dark.split("* {")[0]))

    texts = [
        *((ink, ground) for ink in ("ink", "soft", "accent") for ground in ("card", "ground", "faint")),
        *((name, f"{name}-ground") for name in ("good", "bad", "warn", "accent")),
        ("target", "card"),
        ("bad", "card"),
    ]
    marks = [f"s{number}" for number in range(NUM_COLOURS)]
    marks += [f"p-{phase}" for phase in ("train", "eval", "checkpoint", "other")]
    for ink, ground in texts:
        assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for mark in marks:
        assert _contrast(colours[mark], colours["card"]) >= 3, mark
    assert len({colours[name] for name in (*marks[:NUM_COLOURS], "target", "bad")}) == NUM_COLOURS + 2


def test_a_reimplementation_shows_on_pages_in_data_and_in_text(tmp_path: Path) -> None:
    """With what was measured of it; a result without one says nothing."""

    def reimplement(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        configure(steps, module=fabricate.module_record(fabricate.MODULE))
        record = fabricate.equivalence_record(fabricate.MODULE, index)
        put(steps, fabricate.Step(0.0, "tta_equivalent", record), "cache_clear")
        recount(steps)
        return steps

    submit(tmp_path / "tree", change=reimplement)
    code = tmp_path / "tree" / "acme" / "benchmarks" / "toy_mini"
    code.mkdir(parents=True)
    (code / fabricate.MODULE_NAME).write_text(fabricate.MODULE)
    submit(tmp_path / "tree", submitter="other")
    board = board_of(tmp_path / "tree")
    made = dict(render_pages(board))
    [table] = json.loads(made["leaderboard.json"])["tables"]
    words = "reimplemented, equivalent over 100 steps"

    assert {row["submitter"]: row["reimplementation"] for row in table["rows"]} == {"acme": words, "other": None}
    texts = {
        name: " ".join(Page(made[f"results/{name}--box1--toy_mini.html"].decode()).text) for name in ("acme", "other")
    }
    assert words in texts["acme"]
    assert "reimplemented" not in texts["other"]
    assert made["benchmarks/toy_mini.html"].decode().count(words) == 1
    assert leaderboard_text(board.leaderboard).count(words) == 1


def test_a_resumed_run_shows_on_pages_in_data_and_in_text(tmp_path: Path) -> None:
    """Which run it is, how long it was away, and what that makes of its ledger; other results have no such phase."""

    def resume(index: int, steps: list[fabricate.Step]) -> list[fabricate.Step]:
        if index == 1:
            fabricate.interrupt(steps)
        return steps

    submit(tmp_path / "tree", change=resume)
    submit(tmp_path / "tree", submitter="other")
    board = board_of(tmp_path / "tree")
    write_site(board, tmp_path / "site", tmp_path / "elsewhere")

    resumed, plain = (
        _page(tmp_path / "site", _result(board, f"{name}/results/box1/toy_mini")) for name in ("acme", "other")
    )

    assert "interrupted, resumed once, 15.0 s away" in resumed
    assert "lost by an interruption, and the time away" in resumed
    assert "16.000" in resumed
    assert "interrupt" not in plain
    assert any("1 resumed after an interruption" in path.read_text() for path in (tmp_path / "site").rglob("*.html"))
    assert "result_1.txt: interrupted, resumed once, 15.0 s away" in leaderboard_text(board.leaderboard)
