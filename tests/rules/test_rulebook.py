"""The rulebook: every check and signal is documented, and the pages link to each other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.checker import registry
from harness.checker.rulebook import SCOPES, in_force, rulebook_pages, title
from harness.commands import explain
from harness.ruleset import catalog, load
from tests.fabricate import ruleset
from tests.mlperflog import round_of

DOCUMENTED = registry.checks_and_signals()


@pytest.mark.parametrize("code", DOCUMENTED)
def test_a_document_has_its_headings_each_with_something_to_say(code: str) -> None:
    """A title of one line, then what, why, an example, what to do, and where it comes from; a signal's alarm rate."""
    rule = DOCUMENTED[code]
    sections = re.split(r"^## (.*)$", rule.document, flags=re.MULTILINE)

    more = ["Alarm rate"] if code.startswith("AUD") else []
    assert sections[1::2] == ["What it does", "Why it matters", "Example", "Instead", "Source", *more]
    assert all(len(text.strip()) > 10 for text in sections[2::2])
    assert len(sections[0].strip().splitlines()) == 1
    assert rule.why
    assert rule.instead
    assert rule.scope in SCOPES


def test_no_two_checks_say_the_same() -> None:
    """Titles tell them apart."""
    assert len({rule.title for rule in DOCUMENTED.values()}) == len(DOCUMENTED)


def test_every_check_is_in_force_somewhere() -> None:
    """A check that no ruleset of the harness has in force checks nothing."""
    in_some = {code for name, folder in catalog.ruleset_folders() for code in load.load_ruleset(folder, name).codes}

    assert sorted(set(registry.checks()) - in_some) == []


def test_rulesets_that_agree_are_named_as_a_span() -> None:
    """Severity first; where a severity changes, a new span begins."""
    rule = registry.checks()["LOG001"]
    severities = {"v1": "error", "r/1": None, "r/2": "note", "r/3": "note", "r/4": "error"}
    rulesets = [
        ruleset({} if severity is None else {"LOG001": severity}, version=name) for name, severity in severities.items()
    ]

    assert in_force(rule, rulesets) == "Error in v1; note in r/2 to 3; error in r/4."
    assert in_force(rule, rulesets[1:2]) == "In force in no ruleset that comes with the harness."


def test_severity_of_a_benchmark_is_named_after_that_of_its_round() -> None:
    """In the rulebook, and at the head of what `tta explain` prints."""
    rule = registry.checks()["MLP003"]
    plain, round_ = ruleset({"MLP003": "error"}, version="r/1", round=round_of()), round_of()
    own = {name: replace(round_.benchmarks[name], codes={"MLP003": "note"}) for name in ("flux1", "rgat")}
    other = replace(plain, version="r/2", round=replace(round_, benchmarks={**round_.benchmarks, **own}))

    assert in_force(rule, [plain, other]) == "Error in r/1; error, but note for flux1, note for rgat, in r/2."
    assert "(error, but note for flux1, note for rgat, in ruleset r/2; " in explain._head(rule, other)


def test_every_link_between_the_pages_leads_to_a_check() -> None:
    """As MkDocs makes anchors of `{ #name }`; a code that is only mentioned is linked, too."""
    pages = rulebook_pages(DOCUMENTED.values(), [ruleset({"LOG001": "error"})], registry.families())
    anchors = {f"{name}#{anchor}" for name, text in pages.items() for anchor in re.findall(r"{ #(\w+) }", text)}

    for name, text in pages.items():
        for page, anchor in re.findall(r"\]\((\w+\.md)?#(\w+)\)", text):
            assert f"{page or name}#{anchor}" in anchors


def test_code_in_a_document_is_a_block_of_its_page() -> None:
    """A fence keeps its lines as they are."""
    rule = replace(registry.checks()["LOG001"], document="Odd.\n\n## Example\n```\n:::MLLOG {}\n```\n")

    assert "```text\n:::MLLOG {}\n```" in rulebook_pages([rule], [], {"LOG": "Logs: lines."})["log.md"]


def test_every_family_says_what_it_looks_for() -> None:
    """Its package's docstring, a sentence with a title up to the colon; a page of its own."""
    families = registry.families()

    assert set(families) == {code[:3] for code in DOCUMENTED}
    assert all(sentence.endswith(".") for sentence in families.values())
    assert title("Time: clocks.") == "Time"
    assert title("Signatures.") == "Signatures"
