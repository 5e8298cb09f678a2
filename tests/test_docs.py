"""The documents build, every page is in the navigation, and everything that they name exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:harness|workloads|rules|tests|scripts|docs)/[\w./-]+\.(?:py|md|yaml|sh|ini))`")
_MODULE = re.compile(r"python -m (tests[\w.]*)")
_VERB = re.compile(r"(?:^ *|`|\$ )tta ([a-z]+)\b", re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The module that generates the reference pages."""
    spec = importlib.util.spec_from_file_location("reference", DOCS / "_hooks" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def names(hook: ModuleType) -> set[str]:
    """Every page of the site, including the generated ones."""
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    return written | set(hook.rulebook_pages()) | {hook.CHANGES}


def navigation(entries: object) -> Iterator[str]:
    """The pages that mkdocs.yml lists."""
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            for item in entry.values():
                yield from navigation(item)
        else:
            yield str(entry)


def test_the_navigation_lists_every_page(hook: ModuleType, names: set[str]) -> None:
    """Each page once; the rulebook is one entry."""
    listed = list(navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))

    assert sorted(listed) == sorted({name for name in names if not name.startswith(f"{hook.RULES}/")} | {hook.RULES})


@every_page
def test_links_lead_somewhere(page: Path, names: set[str]) -> None:
    """To a page of the site, or outside of it."""
    for target in _LINK.findall(page.read_text()):
        path = target.partition("#")[0]
        if path and "://" not in path:
            place = (page.parent / path).resolve()
            assert place.exists() or place.relative_to(DOCS).as_posix() in names, target


@every_page
def test_files_and_programs_that_a_page_names_exist(page: Path) -> None:
    """A page that names a file that was moved is out of date."""
    text = page.read_text()
    modules = [name.replace(".", "/") for name in _MODULE.findall(text)]

    assert [name for name in _PATH.findall(text) if not (ROOT / name).is_file()] == []
    assert [m for m in modules if not (ROOT / f"{m}.py").is_file() and not (ROOT / m / "__main__.py").is_file()] == []


@every_page
def test_verbs_that_a_page_names_exist(page: Path, hook: ModuleType) -> None:
    """The parser of the command line has them."""
    known = {name.split()[1] for name, _ in hook._verbs(hook.command_line_parser())}

    assert set(_VERB.findall(page.read_text())) - known == set()


def test_every_mark_has_a_generator_and_every_generator_a_mark(hook: ModuleType) -> None:
    """No generated text is left out."""
    marks = [mark for page in DOCS.rglob("*.md") for mark in hook._MARK.findall(page.read_text())]

    assert sorted(marks) == sorted(hook.GENERATORS)


def test_the_rulebook_has_every_check_once(hook: ModuleType) -> None:
    """On the page of its family, with its document, and in the index."""
    pages = hook.rulebook_pages()
    known = {**hook.checks(), **hook.signals()}
    index = pages[f"{hook.RULES}/index.md"]

    for code in known:
        page = pages[f"{hook.RULES}/{code[:3].lower()}.md"]
        assert page.count(f"{{ #{code.lower()} }}") == 1
        assert index.count(f"#{code.lower()})") == 1
    assert sum(page.count("#### Why it matters") for page in pages.values()) == len(known)


def test_every_field_of_a_verb_and_every_key_of_a_log_is_explained(hook: ModuleType) -> None:
    """No cell of these tables is empty."""
    for text in (hook.exit_codes(), hook.log_keys(), hook.power_log_keys()):
        assert "|  |" not in text


class _Fetched(HTMLParser):
    """The addresses that a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe"):
            self.found.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "icon"):
            self.found.append(values.get("href") or "")


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    """MkDocs warns of no missing page, dead link or dead anchor, and the pages work offline."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        reader = _Fetched()
        reader.feed(page.read_text())
        assert [address for address in reader.found if "//" in address] == [], page
