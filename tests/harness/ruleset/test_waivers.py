"""Waivers: at their place in the tree of submissions, for no other submitter, however the command was called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.checker import engine
from harness.errors import RulesError
from harness.findings import Finding, Severity
from harness.ruleset import load
from harness.ruleset import waivers as ruleset_waivers
from harness.ruleset.model import Waiver
from harness.ruleset.waivers import read_waivers
from tests import fabricate
from tests.rules.box import TODAY
from tests.rules_folder import write_ruleset

PLACE = "acme/results/box1/toy_mini"
LOG = f"{PLACE}/result_0.txt"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ruleset `v1` that the commands load."""
    import rules

    folder = write_ruleset(tmp_path / "shipped/v1")
    monkeypatch.setattr(rules, "__path__", [str(tmp_path / "shipped"), *rules.__path__])
    return folder


def content(path: str) -> dict[str, str]:
    """A waiver of RUN001 at `path`, as a ruleset states it."""
    return {"code": "RUN001", "path": path, "who": "J. Doe", "why": "agreed", "until": "2999-12-31"}


def waive(folder: Path, *paths: str) -> None:
    """Has the ruleset waive RUN001 at `paths`."""
    waivers = json.dumps([content(path) for path in paths])
    text = (folder / "ruleset.yaml").read_text()
    (folder / "ruleset.yaml").write_text(text.replace("waivers: []", f"waivers: {waivers}"))


def short(tree: Path, submitter: str = "acme") -> Path:
    """A submission of one run too few."""
    return fabricate.write_submission(tree, 4, system={**fabricate.SYSTEM, "submitter": submitter})


def check(capsys: pytest.CaptureFixture[str], path: str | Path) -> tuple[int, dict[str, Any]]:
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
    waive(shipped, "acme/results/box1/*")
    short(tmp_path / "tree")
    monkeypatch.chdir(tmp_path / folder)

    status, document = check(capsys, path.format(place=tmp_path))

    [result] = document["results"]
    assert [(item["code"], item["waived"]) for item in result["findings"]] == [
        ("RUN001", "agreed (J. Doe, until 2999-12-31)")
    ]
    assert (status, document["rulesets"][0]["waivers"][0]["num_findings"]) == (0, 1)


def test_a_waiver_covers_no_other_submitter(tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither one whose name ends in the same way, nor a tree below folders of these names."""
    waive(shipped, "acme/results/box1/*")
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


def test_a_waiver_does_not_cover_a_tree_within_the_results_of_another(
    tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submitter could lay out another's folders in its own."""
    waive(shipped, "acme", "*")
    nested = short(tmp_path / "tree/evil/results")
    (tmp_path / "tree/evil/systems").mkdir()
    (tmp_path / "systems").mkdir()  # says nothing about a tree that is not called results

    status, document = check(capsys, nested)

    assert (status, [item["waived"] for item in document["results"][0]["findings"]]) == (1, [None])
    (tmp_path / "tree/evil/systems").rmdir()  # then results is the name of a tree
    assert check(capsys, nested)[0] == 0


def test_a_result_that_was_not_submitted_is_not_waived(
    tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that `tta run` left; a waiver that excuses nothing there is not a finding (RUL001)."""
    waive(shipped, "*")
    fabricate.write_result(tmp_path / "run", 4)

    status, document = check(capsys, tmp_path / "run")

    found = [(item["code"], item["waived"]) for item in document["results"][0]["findings"]]
    assert (status, found) == (1, [("RUN001", None)])


@pytest.mark.parametrize(
    ("pattern", "path", "is_covered"),
    [
        (LOG, LOG, True),
        (f"{LOG}/more", LOG, False),
        (PLACE, LOG, True),
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
def test_a_path_is_matched_name_by_name(tmp_path: Path, pattern: str, path: str, is_covered: bool) -> None:
    """A pattern ends with its name; the waiver covers everything below its last name."""
    waiver = Waiver(**content(pattern))

    assert ruleset_waivers.covers(waiver, tmp_path, str(tmp_path / path)) is is_covered
    assert ruleset_waivers.fits(waiver, tmp_path, "RUN001", str(tmp_path / path)) is is_covered
    assert not ruleset_waivers.fits(waiver, tmp_path, "RUN002", str(tmp_path / path))


@pytest.mark.parametrize(
    ("result", "tree"),
    [
        (f"/tree/{PLACE}", "/tree"),
        (f"/tree/{LOG}", "/tree"),
        (f"/{PLACE}", "/"),
        ("/results/box1/toy_mini", None),
        ("/tree/acme/results/box1", None),
        (f"/tree/{PLACE}/power/node_0.txt", None),
        ("/tree/acme/result/box1/toy_mini", None),
    ],
)
def test_the_tree_follows_from_the_place_of_a_result(result: str, tree: str | None) -> None:
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
def test_a_path_that_could_match_another_submitter_is_refused(path: str, why: str) -> None:
    """In one sentence that shows the form, when the rules are loaded."""
    with pytest.raises(RulesError, match=r"^law: waivers: RUN001: path is ") as caught:
        read_waivers([content(path)], ["RUN001"], "law: waivers")

    assert why in str(caught.value)
    assert str(caught.value).endswith("as in <submitter>/results/<system>/<benchmark>")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"code": "RUN01"}, "unknown check in force 'RUN01'; did you mean 'RUN001'?"),
        ({"path": ""}, "path is empty"),
        ({"who": " "}, "who is empty"),
        ({"why": ""}, "why is empty"),
        ({"until": "never"}, "it must be YYYY-MM-DD"),
        ({"until": "20261231"}, "it must be YYYY-MM-DD"),
        ({"until": "2026-02-30"}, "it must be YYYY-MM-DD"),
    ],
)
def test_a_malformed_waiver_is_refused(change: dict[str, str], why: str) -> None:
    """A check that is not in force, an empty field, or a last day that is not a date."""
    with pytest.raises(RulesError) as caught:
        read_waivers([{**content("acme"), **change}], ["RUN001"], "law: waivers")

    assert why in str(caught.value)


@pytest.mark.parametrize(
    "path", ["acme", "*", "acme/*", "*/results", "acme/systems/box1.json", "Big Co. (EU)/results/x*"]
)
def test_an_unambiguous_path_is_read(path: str) -> None:
    """Names that `tta` would not give to a folder, too: MLPerf's submissions have such."""
    assert [item.path for item in read_waivers([content(path)], ["RUN001"], "law: waivers")] == [path]


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    """The example of docs/reference/report-formats.md."""
    page = (Path(__file__).parents[3] / "docs/reference/report-formats.md").read_text()
    example = page.partition("```yaml\nwaivers:\n")[2].partition("```")[0]
    folder = write_ruleset(tmp_path / "law")
    rules = folder / "ruleset.yaml"
    rules.write_text(rules.read_text().replace("waivers: []", f"waivers:\n{example}"))

    [waiver] = load.load_ruleset(folder, "law").waivers

    assert (waiver.code, waiver.path.split("/")[0]) == ("LOG017", "acme")


def test_each_waiver_is_accounted_for() -> None:
    """The findings that it fits are counted, by code and by path; an expired one counts but excuses nothing."""
    waivers = (
        Waiver("LOG001", "acme", "J. Doe", "why", TODAY.isoformat()),
        Waiver("LOG001", "*/results", "J. Doe", "why", "2025-11-30"),
        Waiver("LOG002", "*", "J. Doe", "why", "2026-01-01"),
    )
    places = [f"t/{PLACE}", f"t/{PLACE.replace('acme', 'globex')}"]
    judged = [
        (place, [Finding("LOG001", "fault", Severity.ERROR, f"{place}/result_0.txt", 1, "wrong")]) for place in places
    ]
    uses = engine.waiver_uses(fabricate.ruleset({"LOG001": "error"}, waivers=waivers), judged, TODAY)

    assert [(use.num_findings, use.is_expired) for use in uses] == [(1, False), (2, True), (0, False)]
