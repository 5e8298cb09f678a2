"""The rulebook in the documentation is what the checks say of themselves; every check and signal is worth reading."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.checker.rulebook import FAMILIES, SCOPES, in_force, rulebook
from harness.findings import Rule
from harness.ruleset import catalog, load
from tests.fabricate import ruleset

ROOT = Path(__file__).parents[2]
DOCUMENTED: dict[str, Rule] = {
    **catalog.checks(),
    **{code: signal.as_rule for code, signal in catalog.signals().items()},
}


def test_the_page_is_up_to_date() -> None:
    """`python scripts/make_rulebook.py` writes it."""
    done = subprocess.run(
        [sys.executable, "scripts/make_rulebook.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("code", DOCUMENTED)
def test_a_document_has_its_five_headings_each_with_something_to_say(code: str) -> None:
    """A title of one line, then what, why, an example, what to do, and where it comes from."""
    rule = DOCUMENTED[code]
    sections = re.split(r"^## (.*)$", rule.document, flags=re.MULTILINE)

    assert sections[1::2] == ["What it does", "Why it matters", "Example", "Instead", "Source"]
    assert all(len(text.strip()) > 10 for text in sections[2::2])
    assert len(sections[0].strip().splitlines()) == 1
    assert rule.why
    assert rule.instead
    assert rule.code[:3] in FAMILIES
    assert rule.scope in SCOPES


def test_no_two_checks_say_the_same() -> None:
    """Titles tell them apart."""
    assert len({rule.title for rule in DOCUMENTED.values()}) == len(DOCUMENTED)


def test_every_check_is_in_force_somewhere() -> None:
    """A check that no ruleset of the harness has in force checks nothing."""
    in_some = {code for name, folder in catalog.ruleset_folders() for code in load.load_ruleset(folder, name).codes}

    assert sorted(set(catalog.checks()) - in_some) == []


def test_rulesets_that_agree_are_named_as_a_span() -> None:
    """Severity first; where a severity changes, a new span begins."""
    rule = catalog.checks()["LOG001"]
    severities = {"v1": "error", "r/1": None, "r/2": "note", "r/3": "note", "r/4": "error"}
    rulesets = [
        ruleset({} if severity is None else {"LOG001": severity}, version=name) for name, severity in severities.items()
    ]

    assert in_force(rule, rulesets) == "Error in v1; note in r/2 to 3; error in r/4."
    assert in_force(rule, rulesets[1:2]) == "In force in no ruleset that comes with the harness."


def test_the_rulebook_links_to_each_document() -> None:
    """As the Markdown of code hosts makes anchors of headings."""
    text = rulebook([catalog.checks()["LOG001"], catalog.checks()["TIM001"]], [ruleset({"LOG001": "error"})])

    for anchor in re.findall(r"\]\(#(.*?)\)", text):
        code, _, name = anchor.partition("-")
        assert f"### {code.upper()} {name}" in text
