"""The site of MLPerf rounds: whole, safe, small, and with the numbers of the results."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from array import array
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from markupsafe import Markup

from harness.board.pages.round_render import COLUMNS, compare_path, render_round_pages
from harness.board.pages.round_view import row_view
from harness.board.pages.time_view import swatches
from harness.board.rounds import Note, RoundBoard
from harness.board.site import MARKER_NAME, publish
from harness.findings import Severity
from tests import mlperflog
from tests.harness.board.test_render import Page, check_links
from tests.mlperflog import Entry
from tests.rounds import dated_earlier, rounds_of, submit

HOSTILE = "<script>alert(1)</script>"


def _hostile(number: int, log: list[Entry]) -> None:
    """Texts that would do something if they were not escaped, in every place that a page shows."""
    mlperflog.find(log, "opt_name").value = HOSTILE
    mlperflog.find(log, "gradient_accumulation_steps").value = {"\u202etxt.exe\x1b[31m": HOSTILE}
    mlperflog.find(log, "run_stop").metadata["status"] = HOSTILE


def _of_bert(number: int, log: list[Entry]) -> None:
    """A benchmark that the next round does not have."""
    dated_earlier(number, log)
    mlperflog.find(log, "submission_benchmark").value = "bert"


def _unfinished(number: int, log: list[Entry]) -> None:
    """The first run stopped without reaching the target."""
    if number == 0:
        mlperflog.find(log, "eval_accuracy", 4).value = 0.3
        mlperflog.find(log, "run_stop").metadata["status"] = "aborted"


def _silent(number: int, log: list[Entry]) -> None:
    """Neither a start nor an evaluation with a number."""
    mlperflog.drop(log, "run_start")
    for entry in log:
        if entry.key == "eval_accuracy":
            entry.value = "high"


def two_rounds(folder: Path) -> tuple[Path, Path]:
    """Two rounds: metered, open, preview, with a failed run, invalid, hostile, and without evaluations."""
    old, new = folder / "training_v5.0", folder / "training_v5.1"
    submit(old, change=dated_earlier)
    submit(old, "Toymaker", "toybox64", change=dated_earlier, faster=4.0, number_of_nodes="8")
    submit(old, "Polyglot", change=_of_bert)
    submit(new, "Toymaker", "toybox", faster=1.3, accelerator_model_name="Toy-X1", power=True)
    submit(new, "Toymaker", "toybox-b", faster=1.2)
    submit(new, "Fast", faster=8.0, number_of_nodes="64", change=_unfinished)
    submit(new, "Early", faster=0.9, status="Preview")
    submit(new, "Free", faster=0.8, division="open", accelerators_per_node="0", accelerator_model_name="")
    submit(new, "Silent", change=_silent, accelerators_per_node="", accelerator_model_name="")
    submit(new, "Short", num_runs=2, accelerator_model_name="")
    submit(new, f"+1+{HOSTILE.replace('/', '-')}", change=_hostile, hw_notes=HOSTILE, status=HOSTILE)
    box = submit(new, "Wrong", change=lambda number, log: mlperflog.drop(log, "eval_samples"))
    with box.log(4).open("wb") as stream:
        stream.truncate(200 << 20)
    submit(new, "Other", change=lambda _, log: setattr(mlperflog.find(log, "submission_benchmark"), "value", HOSTILE))
    return old, new


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> RoundBoard:
    return rounds_of(*two_rounds(tmp_path_factory.mktemp("rounds")))


def of_two_axes(board: RoundBoard) -> RoundBoard:
    """The second ranked result of the first table is over epochs; the third has no evaluation."""
    part = board.rounds[0]
    table = part.tables[0]
    first, second, third, *others = table.rows
    silent = replace(third, runs=tuple(replace(run, points=array("d")) for run in third.runs))
    rows = (first, replace(second, position="epochs"), silent, *others)
    changed = replace(part, tables=(replace(table, rows=rows), *part.tables[1:]))
    return replace(board, rounds=(changed, *board.rounds[1:]))


@pytest.fixture(scope="module")
def site(board: RoundBoard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert publish(render_round_pages(board), (), folder / "site", [folder / "elsewhere"]) > 20
    return folder / "site"


def _text(site: Path, path: str) -> str:
    return " ".join(" ".join(Page((site / path).read_text()).text).split())


def _result(board: RoundBoard, submitter: str, name: str = "5.1", system: str = "toybox") -> str:
    [part] = [part for part in board.rounds if part.name == name]
    [slug] = [entry.slug for entry in part.entries if (entry.submitter, entry.system) == (submitter, system)]
    return f"results/{slug}.html"


def test_every_link_of_the_site_has_a_target(site: Path) -> None:
    assert check_links(site) > 20


def test_hostile_texts_stay_text(site: Path, board: RoundBoard) -> None:
    """Names of folders, logs and descriptions are shown, not run; control characters are made visible."""
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert "<script>" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    [entry] = [entry for entry in board.entries if entry.submitter.startswith("+1+")]
    page = _text(site, f"results/{entry.slug}.html")
    assert page.count(HOSTILE) >= 3
    assert "\\u202etxt.exe\\x1b[31m" in page
    assert re.fullmatch(r"[a-z0-9._-]+", entry.slug)
    assert "'+1+" in (site / "rounds" / "5.1.csv").read_text()


def test_pages_are_small_and_carry_no_logs(site: Path) -> None:
    """A result's page with ten runs is some tens of kB."""
    assert max(path.stat().st_size for path in site.rglob("*.html")) < 100_000
    assert not list(site.rglob("*.txt"))


def test_the_same_board_gives_the_same_pages(board: RoundBoard) -> None:
    """Byte for byte."""
    assert dict(render_round_pages(board)) == dict(render_round_pages(board))


def test_the_first_page_has_the_best_of_each_round_and_what_is_in_no_table(site: Path) -> None:
    """Newest round first."""
    page = _text(site, "index.html")

    best = json.loads((site / "rounds" / "5.1.json").read_text())["results"][0]
    assert best["submitter"] == "Fast"
    assert f"retinanet {best['minutes']:.3f} Fast" in page
    assert "In no table training_v5.1/Other/results/toybox/retinanet" not in page  # a head is between
    assert "training_v5.1/Other/results/toybox/retinanet" in page
    assert page.index("5.1 2025-11-12") < page.index("5.0 2025-06-04")


def test_the_history_of_a_benchmark_compares_like_sizes(site: Path, board: RoundBoard) -> None:
    """The best of all sizes, of a node, of up to 64 accelerators; how much faster, only where the size is limited."""
    text = (site / "benchmarks" / "retinanet.html").read_text()
    closed, _, opened = text.partition("The best of each round, open division")

    assert closed.count("<polyline") == 3
    assert closed.count("Speedup over the previous round") == 2
    rows = {entry.slug: entry for entry in board.entries}
    old, new = (rows[PurePosixPath(_result(board, "Toymaker", name)).stem] for name in ("5.0", "5.1"))
    assert f">{(old.seconds or 0) / (new.seconds or 1):.2f}<" in closed
    assert "8 × Toy-X1" in closed
    assert "512 × Toy X1" in closed
    assert "<polyline" not in opened.split("</table>")[0]  # one round has it


def test_a_table_has_the_rows_of_its_division_and_category(site: Path) -> None:
    """Ranked ones with minutes, interval and convergence; the others with the reason; facts to filter by."""
    path = "benchmarks/retinanet--5.1.html"
    text, page = (site / path).read_text(), _text(site, path)

    heads = re.findall(r"<h2>(.*?)</h2>", text)
    assert heads[:-1] == [
        "Closed division, available",
        "Closed division, preview",
        "Closed division, category not stated",
        "Open division, available",
    ]
    assert "No ranked results." not in page.partition("Closed division, preview")[0]
    assert 'data-category="preview"' in text
    assert 'data-count="512"' in text
    assert 'data-accelerator="none" data-count="0"' in text
    assert "not compared" in page
    assert "no accelerator" in page
    assert "accelerators not stated" in page
    assert "8 accelerators" in page
    assert "Energy drawn, per run, not ranked" in page
    assert "not measured" in page
    assert "Quality of the typical run" in page
    assert "A result has only 3 to 10 runs" in page


def test_a_chart_has_one_axis(board: RoundBoard) -> None:
    """That of the fastest result; a result over another is not in it, and the page says so."""
    made, mixed = (
        dict(render_round_pages(each))["benchmarks/retinanet--5.1.html"].decode().partition("</section>")[0]
        for each in (board, of_two_axes(board))
    )

    number = len(board.rounds[0].tables[0].ranked)
    for page, num_picked, words in (
        (made, number, "the ranked results"),
        (mixed, number - 1, f"the first {number - 1} of {number} ranked results"),
    ):
        assert page.count('<td role="cell" class="pick"') == number
        assert page.count('<span class="hidden">yes</span>') == num_picked
        assert f"of {words}, over seconds since run_start<" in page
        assert ("those whose evaluations are over something else are left out" in page) == (page is mixed)


def test_every_result_with_a_score_can_be_compared(site: Path, board: RoundBoard) -> None:
    """Its page and its data are there; one of another round is not among those of a benchmark."""
    for entry in board.entries:
        assert (site / "data" / f"{entry.slug}.js").is_file() == (entry.seconds is not None)
    for part in board.rounds:
        for name in {entry.benchmark for entry in part.entries}:
            page = (site / compare_path(part, name)).read_text()
            own = {entry.slug for entry in part.entries if entry.benchmark == name and entry.seconds is not None}
            assert set(re.findall(r'data-key="([^"]+)"', page)) == own


def test_a_result_page_has_all_its_parts(site: Path, board: RoundBoard) -> None:
    """Minutes before and after normalisation, runs with digests, energies, history, settings, commands."""
    path = _result(board, "Toymaker")
    page = _text(site, path)
    [entry] = [entry for entry in board.entries if path == f"results/{entry.slug}.html"]

    for text in (
        f"{(entry.seconds or 0) / 60:.3f}",
        f"× {entry.factor:.6f}",
        "published: MLCommons' program of May 2024",
        "By MLCommons' program:",
        "The same machine over the rounds",
        "this one",
        "5.0 toybox",
        "opt_base_learning_rate",
        "accelerators per node",
        "tta score training_v5.1/Toymaker/results/toybox/retinanet --ruleset mlperf_training/5.1.0",
        *(run.sha256 for run in entry.runs),
    ):
        assert text in page, text


def test_results_that_do_not_count_say_why(site: Path, board: RoundBoard) -> None:
    """The first error with its rule, or why there is no score; what could not be read, and what cannot be drawn."""
    wrong = _result(board, "Wrong")

    assert "Not ranked:" in _text(site, wrong)
    assert "Unreadable: Wrong/results/toybox/retinanet/result_4.txt" in _text(site, wrong)
    assert "../rules/mlp003.html" in Page((site / wrong).read_text()).links
    silent = _text(site, _result(board, "Silent"))
    assert "The logs have no evaluation that can be drawn." in silent
    assert "without a time that counts" in (site / _result(board, "Silent")).read_text()
    assert "2 of 5 required" in _text(site, _result(board, "Short"))


def test_a_result_may_be_without_a_score_and_without_an_error(board: RoundBoard) -> None:
    """As under a ruleset of one's own that excuses it."""
    [wrong] = [entry for entry in board.entries if entry.submitter == "Wrong"]
    excused = replace(wrong, findings=(), num_errors=0, why_not=None)

    view = row_view(excused, Markup(), None, "")

    assert (view.kind, view.verdict, view.reason) == ("unscored", "no score", "it has no score")


def test_the_legend_of_many_runs_does_not_name_them() -> None:
    """There are twelve colours; more runs have one together. Without a target, it has none."""
    assert [text for _, text in swatches(["run"] * 12, 0.34)] == ["target 0.34", *["run"] * 12]
    assert [text for _, text in swatches(["run"] * 13, None)] == ["13 runs, each a line"]


def test_a_submitter_has_the_history_of_each_machine(site: Path) -> None:
    """A column for each of its rounds; another result of the same machine is counted."""
    page = _text(site, "submitters/toymaker.html")

    assert "Benchmark Division Accelerators 5.0 5.1 Speedup last over first" in page
    assert "and 1 more" in page
    assert re.search(r"retinanet closed 8 \d+\.\d+ \d+\.\d+ and 1 more 1\.\d\d", page)
    assert "not valid" in _text(site, "submitters/wrong.html")
    assert re.search(r"retinanet open 0 \d", _text(site, "submitters/free.html"))


def test_a_machine_is_an_accelerator_and_how_many_of_them(site: Path) -> None:
    """Toymaker has two of one accelerator: with 8 and with 64; columns: rounds, machines, results, ranked."""
    assert "Toymaker 2 2 4 4 " in _text(site, "submitters/index.html")


def test_a_round_sums_up_its_findings_and_its_audit(site: Path, board: RoundBoard) -> None:
    """Codes with the number of results, the most suspicious things, the state of the logs."""
    page = _text(site, "rounds/5.1.html")

    assert board.rounds[0].state in page
    assert re.search(r"MLP003 \S.* 2 ", page)
    assert "The most suspicious of each signal" in page
    assert "suspicions for a person to look at" in page.lower()


def test_codes_of_as_many_results_have_an_order(board: RoundBoard) -> None:
    """That of the result's findings, whatever the hashes of the codes are."""
    part = board.rounds[0]
    row = part.tables[0].rows[0]
    codes = list(part.ruleset.codes)[:12]
    notes = tuple(Note(code, "fault", Severity.WARNING, (("It is odd.", "a place"),), 1) for code in codes)
    table = replace(part.tables[0], rows=(replace(row, findings=notes),))

    made = dict(render_round_pages(replace(board, rounds=(replace(part, tables=(table,)),))))

    found = made["rounds/5.1.html"].decode().partition("Warnings and notes</h3>")[2].partition("</table>")[0]
    assert re.findall(r"<code>(\w+)</code>", found) == codes


def test_data_files_have_every_result(site: Path, board: RoundBoard) -> None:
    """With full precision, and the same numbers in both."""
    document = json.loads((site / "rounds" / "5.1.json").read_text())
    lines = list(csv.DictReader(io.StringIO((site / "rounds" / "5.1.csv").read_text())))

    part = board.rounds[0]
    assert tuple(lines[0]) == COLUMNS
    assert [item["page"] for item in document["results"]] == [line["page"] for line in lines]
    assert [item["minutes"] for item in document["results"]] == [
        float(line["minutes"]) if line["minutes"] else None for line in lines
    ]
    assert len(lines) == len(part.entries)
    assert document["state"] == part.state
    [invalid] = [item for item in document["results"] if item["submitter"] == "Wrong"]
    assert invalid["ranks"] is None
    [note] = [note for note in invalid["findings"] if note["code"] == "MLP003"]
    assert (note["severity"], note["count"]) == ("error", 4)


def test_a_round_that_is_not_published_has_no_day(tmp_path: Path) -> None:
    """Neither on a page nor in the data; it is the newest. Digits of a digest are no year."""

    def of_flux(number: int, log: list[Entry]) -> None:
        mlperflog.find(log, "submission_benchmark").value = "flux1"

    submit(tmp_path / "training_v6.1", change=of_flux)
    submit(tmp_path / "training_v5.1")
    board = rounds_of(tmp_path / "training_v5.1", tmp_path / "training_v6.1")
    publish(render_round_pages(board), (), tmp_path / "site", [tmp_path / "training_v6.1"])

    assert [(part.name, part.round.published) for part in board.rounds] == [("6.1", ""), ("5.1", "2025-11-12")]
    shown = (".html", ".json", ".csv")
    texts = {path: path.read_text() for path in (tmp_path / "site").rglob("*") if path.suffix in shown}
    assert len(texts) > 10
    assert {path.name for path, text in texts.items() if re.search(r"\b9999\b", text)} == set()
    assert json.loads((tmp_path / "site" / "rounds" / "6.1.json").read_text())["published"] == ""
    assert "Published –" in _text(tmp_path / "site", "rounds/6.1.html")


def test_a_board_without_results_is_a_site(tmp_path: Path) -> None:
    """Of an empty folder."""
    (tmp_path / "empty").mkdir()

    made = dict(render_round_pages(rounds_of(tmp_path / "empty")))

    assert b"judged again from its logs" in made["index.html"]


def test_the_site_replaces_its_former_state(board: RoundBoard, site: Path, tmp_path: Path) -> None:
    """As that of `tta`'s own results does."""
    shutil.copytree(site, tmp_path / "site")

    publish(render_round_pages(board), (), tmp_path / "site", [tmp_path / "tree"])

    assert (tmp_path / "site" / MARKER_NAME).read_bytes() == (site / MARKER_NAME).read_bytes()
