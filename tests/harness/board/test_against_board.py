"""`tta derive --against`: a published board is compared with what follows from the logs, numbers and words."""

from __future__ import annotations

import functools
import json
import operator
from pathlib import Path
from typing import Any

import pytest

from harness.board.derive.stated import against_board
from harness.commands import board as board_command
from harness.errors import ExitStatus
from tests.harness.board.test_derive import derived, folder, rules
from tests.harness.board.test_stated import DERIVED, ROW, TABLE, subject_of
from tests.rules.box import TODAY

__all__ = ["folder", "rules"]
Document = dict[str, Any]
RUNS = {"board.runs[0].reason": ("a", "a", True), "board.runs[1]": ("b", "c", False)}


ROW_PATH: tuple[str | int, ...] = ("tables", 0, "rows", 0)
CHANGES: list[tuple[tuple[str | int, ...], object, str]] = [
    ((*ROW_PATH, "valid"), False, "board.valid"),
    ((*ROW_PATH, "valid"), ..., "board.valid"),
    (("ruleset_digest",), "0" * 64, "board.ruleset_digest"),
    (("ruleset",), "v9", "board.ruleset"),
    (("prices_digest",), None, "board.prices_digest"),
    ((*ROW_PATH, "runs", 1, "status"), "aborted", "board.runs[1].status"),
    ((*ROW_PATH, "why_not"), "too few runs", "board.why_not"),
    ((*ROW_PATH, "files", 0, "sha256"), "0" * 64, "board.files[0].sha256"),
    ((*ROW_PATH, "runs", 2, "seconds"), 1.0, "board.runs[2].seconds"),
    (("tables",), [], "the row of this result"),
]


def test_any_change_to_a_published_board_is_found(
    folder: Path, rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validity, rules, files, numbers, the row itself; before the change, the two agree on everything."""
    tree, published = tmp_path / "tree", tmp_path / "site" / "leaderboard.json"
    board_command.build(tree, tmp_path / "site", rules, TODAY)
    text = published.read_text()
    capsys.readouterr()

    for options in ({}, {"tree": tree}):
        unchanged = derived(capsys, folder, rules=rules, against=published, **options)
        assert [item for item in unchanged["typed"] if item["agrees"] is False] == []
    for (*path, last), value, name in CHANGES:
        document = json.loads(text)
        part = functools.reduce(operator.getitem, path, document)
        if value is ...:
            del part[last]
        else:
            part[last] = value
        published.write_text(json.dumps(document))
        changed = derived(capsys, folder, rules=rules, against=published)
        assert [item["name"] for item in changed["typed"] if item["agrees"] is False] == [name]
        assert changed["status"] is ExitStatus.FINDINGS


def found(place: Path, row: Document, board: Document, **document: Any) -> dict[str, tuple[Any, Any, bool | None]]:
    """For a board with this row: what is stated, what is derived, whether they agree."""
    data = json.dumps({"tables": [{**TABLE, "rows": [{**ROW, **row}]}], **document}).encode()
    typed = against_board(data, Path("b.json"), subject_of(place), {**DERIVED, **board}, is_tree_given=True)
    return {item.name: (item.stated, item.derived, item.agrees) for item in typed if isinstance(item.stated, str)}


@pytest.mark.parametrize(
    ("row", "board", "expected"),
    [
        ({"valid": True}, {"valid": True}, {"board.valid": ("true", "true", True)}),
        ({"valid": True}, {"valid": False}, {"board.valid": ("true", "false", False)}),
        ({"why_not": None}, {"why_not": None}, {}),
        ({"why_not": None}, {}, {}),
        ({}, {"why_not": None}, {}),
        ({"why_not": "x"}, {"why_not": None}, {"board.why_not": ("x", "nothing", False)}),
        ({"why_not": None}, {"why_not": "x"}, {"board.why_not": ("nothing", "x", False)}),
        ({}, {"why_not": "x"}, {"board.why_not": ("nothing", "x", False)}),
        ({"is_valid": False}, {}, {"board.is_valid": ("false", None, None)}),
        ({"runs": [{"reason": "a"}, "b"]}, {"runs": [{"reason": "a"}, "c"]}, RUNS),
        ({"place": "a/b", "page": "x", "files": [{"path": "y"}]}, {"place": ".", "page": "z"}, {}),
    ],
)
def test_words_are_compared_by_name(row: Document, board: Document, expected: Document, tmp_path: Path) -> None:
    """Null states nothing; the place of a result depends on the tree; amounts of money are numbers."""
    assert found(tmp_path, row, board) == expected


def test_the_rules_of_a_board_are_compared_with_those_given(tmp_path: Path) -> None:
    """They are next to the tables."""
    rules = {"ruleset": "v1", "ruleset_digest": "ab", "prices_digest": None}

    assert found(tmp_path, {}, rules, **{**rules, "ruleset_digest": "cd"}) == {
        "board.ruleset": ("v1", "v1", True),
        "board.ruleset_digest": ("cd", "ab", False),
    }
