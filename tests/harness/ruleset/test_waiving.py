"""Where a waiver holds: at its place in the tree of submissions, of nobody else, however the command was called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.errors import RulesError
from harness.ruleset import load
from harness.ruleset import waivers as ruleset_waivers
from harness.ruleset.model import Waiver
from harness.ruleset.waivers import read_waivers
from tests import fabricate
from tests.rules_folder import write_ruleset

LOG = "acme/results/box1/toy_mini/result_0.txt"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ruleset `v1` that the commands load."""
    import rules

    folder = write_ruleset(tmp_path / "shipped/v1")
    monkeypatch.setattr(rules, "__path__", [str(tmp_path / "shipped"), *rules.__path__])
    return folder


def law(folder: Path, *paths: str) -> None:
    """Has the ruleset waive RUN001 at `paths`."""
    waivers = [
        {"code": "RUN001", "path": path, "who": "J. Doe", "why": "agreed", "until": "2999-12-31"} for path in paths
    ]
    text = (folder / "ruleset.yaml").read_text().replace("waivers: []", f"waivers: {json.dumps(waivers)}")
    (folder / "ruleset.yaml").write_text(text)


def short(tree: Path, submitter: str = "acme") -> Path:
    """A submission of one run too few."""
    return fabricate.write_submission(tree, 4, system={**fabricate.SYSTEM, "submitter": submitter})


def check(capsys: pytest.CaptureFixture[str], path: str | Path) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = cli.main(["check", str(path), "--ruleset", "v1", "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        (".", "tree"),
        ("tree", "."),
        ("tree", "acme"),
        ("tree/acme", "results"),
        ("tree/acme/results", "box1"),
        ("tree/acme/results/box1", "toy_mini"),
        ("tree/acme/results/box1/toy_mini", "."),
        ("tree/acme/results/box1/toy_mini", ".."),
        ("tree/acme/results/box1/toy_mini", "../../../../../tree"),
        ("tree/acme/systems", "../results/box1"),
        (".", "{place}/tree/acme/results/box1/toy_mini"),
    ],
)
def test_a_waiver_holds_from_wherever_the_result_is_named(
    tmp_path: Path,
    shipped: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: str,
    path: str,
) -> None:
    """The tree, a part of it, the result, from outside and from inside: one verdict, and the waiver is counted."""
    law(shipped, "acme/results/box1/*")
    short(tmp_path / "tree")
    monkeypatch.chdir(tmp_path / folder)

    status, document = check(capsys, path.format(place=tmp_path))

    [result] = document["results"]
    assert [(item["code"], item["waived"]) for item in result["findings"]] == [
        ("RUN001", "agreed (J. Doe, until 2999-12-31)")
    ]
    assert (status, document["waivers"][0]["num_findings"]) == (0, 1)


def test_a_waiver_is_nobody_elses(tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither of a submitter whose name ends alike, nor of what lies below folders of these names."""
    law(shipped, "acme/results/box1/*")
    tree = tmp_path / "acme/results/box1/tree"
    for submitter in ("acme", "evilacme", "globex"):
        short(tree, submitter)

    status, document = check(capsys, tree)

    waived = {item["path"].removeprefix(f"{tree}/").split("/")[0]: item["findings"] for item in document["results"]}
    assert {name: [item["waived"] is not None for item in found] for name, found in waived.items()} == {
        "acme": [True],
        "evilacme": [False],
        "globex": [False],
    }
    assert status == 1


def test_no_waiver_holds_in_a_tree_within_anothers_results(
    tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has a folder in the tree could lay out one of acme's in it."""
    law(shipped, "acme", "*")
    nested = short(tmp_path / "tree/evil/results")
    (tmp_path / "tree/evil/systems").mkdir()
    (tmp_path / "systems").mkdir()  # says nothing of a tree that is called otherwise than results

    status, document = check(capsys, nested)

    assert (status, [item["waived"] for item in document["results"][0]["findings"]]) == (1, [None])
    (tmp_path / "tree/evil/systems").rmdir()  # without systems it is nobody's folder, and a tree may be called so
    assert check(capsys, nested)[0] == 0


def test_what_nobody_submitted_is_not_waived(tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that `tta run` left; and a waiver that excuses nothing there is not told (RUL001)."""
    law(shipped, "*")
    fabricate.write_result(tmp_path / "run", 4)

    status, document = check(capsys, tmp_path / "run")

    assert (status, [(item["code"], item["waived"]) for item in document["results"][0]["findings"]]) == (
        1,
        [("RUN001", None)],
    )


@pytest.mark.parametrize(
    ("pattern", "path", "speaks"),
    [
        ("acme/results/box1/toy_mini/result_0.txt", LOG, True),
        ("acme/results/box1/toy_mini/result_0.txt/more", LOG, False),
        ("acme/results/box1/toy_mini", LOG, True),
        ("acme/results/box1/toy_min", LOG, False),
        ("acme/results/box1/*", LOG, True),
        ("acme/results/*/toy_mini", LOG, True),
        ("acme/results/*/result_0.txt", LOG, False),
        ("acme/*/result_0.txt", LOG, False),
        ("acme/results/box1/toy_*/result_[0-3].txt", LOG, True),
        ("acme/results/box1/toy_*/result_[1-3].txt", LOG, False),
        ("acme", LOG, True),
        ("*", LOG, True),
        ("Acme", LOG, False),
        ("acme/systems/box1.json", "acme/systems/box1.json", True),
        ("acme/results", "acme/systems/box1.json", False),
        ("x", "../acme/systems/box1.json", False),
        ("acme", "acme", True),
        ("*", ".", False),
        ("*", "/acme/results/box1", False),
    ],
)
def test_a_waiver_speaks_of_places_name_by_name(tmp_path: Path, pattern: str, path: str, speaks: bool) -> None:
    """A pattern ends with the name it stands in; where the names end, all that lies below is meant."""
    waiver = Waiver("RUN001", pattern, "J. Doe", "agreed", "2999-12-31")

    assert ruleset_waivers.covers(waiver, tmp_path, str(tmp_path / path)) is speaks
    assert ruleset_waivers.fits(waiver, tmp_path, "RUN001", str(tmp_path / path)) is speaks
    assert not ruleset_waivers.fits(waiver, tmp_path, "RUN002", str(tmp_path / path))


@pytest.mark.parametrize(
    ("result", "tree"),
    [
        ("/tree/acme/results/box1/toy_mini", "/tree"),
        ("/tree/acme/results/box1/toy_mini/result_0.txt", "/tree"),
        ("/acme/results/box1/toy_mini", "/"),
        ("/results/box1/toy_mini", None),
        ("/tree/acme/results/box1", None),
        ("/tree/acme/results/box1/toy_mini/power/node_0.txt", None),
        ("/tree/acme/result/box1/toy_mini", None),
    ],
)
def test_a_tree_is_told_from_the_place_of_a_result(result: str, tree: str | None) -> None:
    """<submitter>/results/<system>/<benchmark>, or a log directly in it."""
    assert ruleset_waivers.tree_of(Path(result)) == (None if tree is None else Path(tree))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("*acme/results/box1/*", "begin with the full name of a submitter, or with * for all of them"),
        ("ac?e", "begin with the full name"),
        ("[a]cme", "begin with the full name"),
        ("**", "begin with the full name"),
        ("/srv/tree/acme", "names separated by single slashes"),
        ("acme//results", "names separated by single slashes"),
        ("acme/results/", "names separated by single slashes"),
        ("acme/../globex", "names separated by single slashes"),
        ("./acme", "names separated by single slashes"),
        ("acme/results/ box1", "names separated by single slashes"),
        ("*/toy_mini/*", "the submitter must be followed by one of results, systems, benchmarks, *"),
        ("tree/acme/results", "the submitter must be followed by one of"),
    ],
)
def test_a_path_that_could_mean_somebody_else_is_refused(path: str, why: str) -> None:
    """In one sentence that shows the form; where the rules are loaded, before anybody is judged."""
    waiver = {"code": "RUN001", "path": path, "who": "J. Doe", "why": "agreed", "until": "2999-12-31"}

    with pytest.raises(RulesError, match=r"^law: waivers: RUN001: path is ") as caught:
        read_waivers([waiver], ["RUN001"], "law: waivers")

    assert why in str(caught.value)
    assert str(caught.value).endswith("as in <submitter>/results/<system>/<benchmark>")


@pytest.mark.parametrize(
    "path", ["acme", "*", "acme/*", "*/results", "acme/systems/box1.json", "Big Co. (EU)/results/x*"]
)
def test_a_path_that_means_what_it_says_is_read(path: str) -> None:
    """Also names that are no folder's in our own trees: MLPerf's have such."""
    waiver = {"code": "RUN001", "path": path, "who": "J. Doe", "why": "agreed", "until": "2999-12-31"}

    assert [item.path for item in read_waivers([waiver], ["RUN001"], "law: waivers")] == [path]


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    """The example of docs/reference/report-formats.md."""
    page = (Path(__file__).parents[3] / "docs/reference/report-formats.md").read_text()
    example = page.partition("```yaml\nwaivers:\n")[2].partition("```")[0]
    folder = write_ruleset(tmp_path / "law")
    rules = folder / "ruleset.yaml"
    rules.write_text(rules.read_text().replace("waivers: []", f"waivers:\n{example}"))

    [waiver] = load.load_ruleset(folder, "law").waivers

    assert (waiver.code, waiver.path.split("/")[0]) == ("LOG017", "acme")
