"""Kinds of values on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cli
from harness.commands._arguments import as_path


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of every verb."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from actions(below)
        yield action


def test_every_path_is_read_alike() -> None:
    """No verb takes a path that may be empty."""
    found = list(actions(cli.parser()))

    assert sum(action.type is as_path for action in found) >= 20
    assert [action.dest for action in found if action.type is Path] == []


def test_a_path_is_kept_as_it_is_typed() -> None:
    """So that messages name it; an empty one, as in `tta check "$UNSET"`, is not the current folder."""
    assert [str(as_path(text)) for text in (".", "a/b", "/a/b", "a..b")] == [".", "a/b", "/a/b", "a..b"]
    with pytest.raises(argparse.ArgumentTypeError, match=r"the path is empty; the current folder is called \."):
        as_path("")


def test_what_leads_upward_is_resolved_as_far_as_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system would: from where a link leads to; a link at the end stays one, which is refused later."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/log").symlink_to("b")
    (tmp_path / "link").symlink_to("a/b")
    monkeypatch.chdir(tmp_path / "a/b")

    assert as_path("..") == tmp_path / "a"
    assert as_path("../log") == tmp_path / "a/log"
    assert as_path("../../link/../log") == tmp_path / "a/log"
    assert as_path(f"{tmp_path}/a/../x/y") == tmp_path / "x/y"
