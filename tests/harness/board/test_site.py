"""The site's folder: published atomically, replaced by a newer site, never written over anything else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.board import site as site_module
from harness.board.index import Board
from harness.board.site import MARKER_NAME, refuse_foreign, write_site
from harness.errors import InputError, OutputError
from tests.harness.board.test_index import board_of, submit


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    submit(tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def board(tree: Path) -> Board:
    return board_of(tree)


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_board_gives_the_same_site(board: Board, tree: Path, tmp_path: Path) -> None:
    """Byte for byte, the marker included; an empty folder is filled, and parents are created."""
    (tmp_path / "empty").mkdir()
    assert write_site(board, tmp_path / "empty", tree) > 10
    write_site(board_of(tree), tmp_path / "a" / "b" / "site", tree)

    assert _content(tmp_path / "empty") == _content(tmp_path / "a" / "b" / "site")


def test_a_site_is_replaced_by_a_new_one(board: Board, tree: Path, tmp_path: Path) -> None:
    """Old pages are gone, new ones exist, and nothing else is left in the parent folder."""
    site = tmp_path / "site"
    write_site(board, site, tree)
    old = set(_content(site))
    (tree / "acme").rename(tree / "other")
    write_site(board_of(tree), site, tree)

    new = set(_content(site))
    assert "results/acme--box1--toy_mini.html" in old - new
    assert "results/other--box1--toy_mini.html" in new
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "tree"]


@pytest.mark.parametrize("name", ["thesis.txt", "sub/thesis.txt", ".git/HEAD"])
def test_other_folders_are_left_alone(board: Board, tree: Path, tmp_path: Path, name: str) -> None:
    """Without a marker nothing is touched; with one, no file that it does not list."""
    mine = tmp_path / "site" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    with pytest.raises(OutputError, match="is not a site"):
        write_site(board, tmp_path / "site", tree)
    write_site(board, tmp_path / "other", tree)
    for path in (tmp_path / "other").iterdir():
        path.rename(tmp_path / "site" / path.name)

    with pytest.raises(OutputError, match="not part of the site and would be lost"):
        write_site(board, tmp_path / "site", tree)
    assert mine.read_text() == "years of work"


@pytest.mark.parametrize(
    "marker", ["", "[]", "{}", '{"format": 2, "files": {}}', '{"format": 1, "files": []}', "[" * 100_000]
)
def test_a_marker_must_be_valid(board: Board, tree: Path, tmp_path: Path, marker: str) -> None:
    """A file with the marker's name is not enough."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / MARKER_NAME).write_text(marker)

    with pytest.raises(OutputError, match="is not a site"):
        write_site(board, tmp_path / "site", tree)


def test_a_site_cannot_replace_a_file_or_a_link(board: Board, tree: Path, tmp_path: Path) -> None:
    """A link is neither followed nor replaced; a folder cannot be made in a file."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(OutputError, match="not a folder"):
        write_site(board, tmp_path / "file", tree)
    with pytest.raises(OutputError, match="symbolic link"):
        write_site(board, tmp_path / "link", tree)
    with pytest.raises(OutputError, match="cannot be written"):
        write_site(board, tmp_path / "file" / "site", tree)


def test_site_and_tree_must_not_contain_each_other(tree: Path, tmp_path: Path) -> None:
    """Inside the tree, it would be read as results; a site that contains the tree would replace it."""
    for place in (tree, tree / "site", tmp_path):
        with pytest.raises(OutputError, match="choose a folder outside"):
            refuse_foreign(place, tree)
    refuse_foreign(tmp_path / "site", tree)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_build_leaves_the_old_site(
    board: Board, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A partial site is never visible, and nothing else is left in the parent folder."""
    site = tmp_path / "site"
    write_site(board, site, tree)
    before = _content(site)

    def some_pages(board: Board) -> Iterator[tuple[str, bytes]]:
        yield "index.html", b"half"
        raise error

    monkeypatch.setattr(site_module, "render_pages", some_pages)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        write_site(board, site, tree)

    assert _content(site) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "tree"]


def test_a_log_that_changed_is_not_published(board: Board, tree: Path, tmp_path: Path) -> None:
    """The copy is what was judged; a link in its place cannot publish a file from elsewhere."""
    log = tree / "acme" / "results" / "box1" / "toy_mini" / "result_0.txt"
    (tmp_path / "secret").write_text("secret")

    log.write_text(log.read_text() + "one line more\n")
    with pytest.raises(InputError, match=r"result_0\.txt: changed while"):
        write_site(board, tmp_path / "site", tree)
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="can no longer be read"):
        write_site(board, tmp_path / "site", tree)
    assert not (tmp_path / "site").exists()


def test_links_in_a_tree_are_never_published(tree: Path, tmp_path: Path) -> None:
    """A log or a system description that is a link is not a download."""
    (tmp_path / "secret.json").write_text('{"secret": "word"}')
    home = tree / "acme"
    (home / "systems" / "box1.json").unlink()
    (home / "systems" / "box1.json").symlink_to(tmp_path / "secret.json")
    (home / "results" / "box1" / "toy_mini" / "result_4.txt").unlink()
    (home / "results" / "box1" / "toy_mini" / "result_4.txt").symlink_to(tmp_path / "secret.json")
    write_site(board_of(tree), tmp_path / "site", tree)

    assert not [path for path, content in _content(tmp_path / "site").items() if b'"word"' in content]


def test_modes_follow_the_umask(board: Board, tree: Path, tmp_path: Path) -> None:
    """Another user's web server can read the site."""
    old = os.umask(0o022)
    try:
        write_site(board, tmp_path / "site", tree)
    finally:
        os.umask(old)

    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "site" / "index.html").stat().st_mode & 0o777 == 0o644
