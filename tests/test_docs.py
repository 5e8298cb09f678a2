"""The pages of docs/ know each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def test_the_index_names_every_page() -> None:
    """No page that nobody finds."""
    linked = set(re.findall(r"\]\(([a-z0-9-]+\.md)\)", (DOCS / "README.md").read_text()))

    assert linked == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files that are there; to headings, in the rulebook."""
    text = page.read_text()
    anchors = {re.sub(r"[^a-z0-9_ -]", "", line.lower()).strip().replace(" ", "-") for line in text.splitlines()}

    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), target
