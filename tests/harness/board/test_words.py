"""Numbers, names and texts as a reader sees them; documents as pieces."""

from __future__ import annotations

from decimal import Decimal

import pytest

from harness.base.docstrings import Piece, pieces
from harness.board.pages.time_view import cost_words, energy_words
from harness.board.pages.words import (
    JOULES,
    SECONDS,
    num_bytes,
    plain,
    plural,
    rank_words,
    setting_words,
    shown,
    shown_lines,
    significant,
    slug,
    spreadsheet_cell,
    unit_for,
    value_words,
)
from harness.board.text import rank_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (8.51432, "8.514"),
        (1234.56, "1,235"),
        (123456.7, "123,457"),
        (0.012345, "0.01235"),
        (9.99996, "10.00"),
        (-2.5, "-2.500"),
        (1e-9, "1.000e-09"),
    ],
)
def test_significant_digits(value: float, text: str) -> None:
    """Four, and never fewer than there are before the point."""
    assert significant(value) == text


@pytest.mark.parametrize(
    ("values", "symbol"),
    [([], "s"), ([None], "s"), ([119.9], "s"), ([120.0, 9000.0], "min"), ([7200.0], "h"), ([7199.0, 1e6], "min")],
)
def test_a_column_has_one_unit(values: list[float | None], symbol: str) -> None:
    """The largest in which its smallest value is still 2 or more."""
    assert unit_for(values, SECONDS).symbol == symbol


def test_missing_is_a_word_and_zero_is_a_number() -> None:
    """Not measured, no price and 0 are three things."""
    assert energy_words(None, JOULES[0]) == "not measured"
    assert energy_words(0.0, JOULES[0]) == "0 J"
    assert energy_words(4200.0, JOULES[1]) == "4.20 kJ"
    assert cost_words(None) == "no price"
    assert cost_words(Decimal("0")) == "$ 0.00"
    assert cost_words(Decimal("0.0123")) == "$ 0.012"
    assert cost_words(Decimal("1234.5")) == "$ 1,234.50"


def test_counts_sizes_and_rule_numbers() -> None:
    """One run, two runs; bytes in powers of 1,024; 600 as 600."""
    assert (plural(1, "run"), plural(2, "run")) == ("1 run", "2 runs")
    assert plural(2000, "entry", "entries") == "2,000 entries"
    sizes = [num_bytes(size) for size in (1, 1023, 1536, 5 << 20)]
    assert sizes == ["1 byte", "1,023 bytes", "1.50 KiB", "5.00 MiB"]
    assert (plain(600.0), plain(0.9), plain(10_000)) == ("600", "0.9", "10,000")


def test_ranks_are_a_number_or_an_interval() -> None:
    """With an en dash; a terminal gets a hyphen."""
    assert (rank_words((3, 3)), rank_words((2, 4)), rank_text((2, 4))) == ("3", "2–4", "2-4")


def test_untrusted_texts_cannot_turn_or_hide() -> None:
    """Control characters, direction changes and lone surrogates become visible; long texts are truncated."""
    assert shown("a\x1b[31m\u202eb\ud800") == "a\\x1b[31m\\u202eb\\ud800"
    assert len(shown("x" * 1000, 50)) == 50
    assert shown_lines("one\ntwo\x00") == ["one", "two\\x00"]


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "Acme", "a--b", "", ".", "..", "é", "a" * 41, "con:", "<b>", "a b", "-a", "a\x00b", "\ud800"],
)
def test_a_slug_is_a_safe_name(name: str) -> None:
    """Made of a-z, 0-9, dot, hyphen and underscore, starting with a letter or digit, and short."""
    made = slug([name])

    assert made[0].isalnum()
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert ".." not in made
    assert len(made) < 64


def test_different_names_have_different_slugs() -> None:
    """Even if only in characters that a slug cannot keep, or in how the parts are split; a safe name is its own."""
    names = [
        ["a", "b"],
        ["a b"],
        ["A", "b"],
        ["a-b"],
        ["a--b"],
        ["ä", "b"],
        ["", "b"],
        ["a", "b", ""],
        ["a.b"],
        ["a_b"],
    ]

    assert len({slug(parts) for parts in names}) == len(names)
    assert slug(["acme", "box1", "toy_mini"]) == "acme--box1--toy_mini"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx", " =1"])
def test_a_cell_cannot_be_a_formula(text: str) -> None:
    """A spreadsheet shows it as text; other cells, negative numbers included, stay as they are."""
    assert spreadsheet_cell(text) == "'" + text
    assert [spreadsheet_cell(value) for value in ("acme", -1.5, None, "")] == ["acme", -1.5, None, ""]


def test_a_document_is_split_into_pieces() -> None:
    """Headings, paragraphs, items, fenced and indented code, and code between backticks; all markup stays text."""
    document = (
        "First `x` line\nsecond line\n\n## What it does\n\n```\n## no heading\n```\n\n"
        "    indented\n    more\n\n- one\n  more\n- two"
    )

    assert pieces(document) == [
        Piece("paragraph", (("First ", False), ("x", True), (" line second line", False))),
        Piece("heading", (("What it does", False),)),
        Piece("code", (("## no heading", True),)),
        Piece("code", (("indented\nmore", True),)),
        Piece("item", (("one more", False),)),
        Piece("item", (("two", False),)),
    ]
    assert pieces("```\nnot closed") == [Piece("code", (("not closed", True),))]
    assert pieces("") == []
    markup = '<script>alert(1)</script> [a](javascript:alert(1)) <img src="x">'
    assert pieces(markup) == [Piece("paragraph", ((markup, False),))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("fp32", "fp32"),
        (True, "yes"),
        (False, "no"),
        (0.1, "0.1"),
        (1e-05, "1e-05"),
        (None, "none"),
        ([1, "a"], "1, a"),
        ([], "none"),
        ({"b": 1, "a": [None]}, "a: none, b: 1"),
        ({}, "none"),
    ],
)
def test_values_are_words_of_a_reader(value: object, text: str) -> None:
    """Not as Python or JSON writes them."""
    assert value_words(value) == text


def test_settings_have_names_of_a_reader() -> None:
    """A hyperparameter keeps the name by which it is set."""
    assert setting_words("num_devices") == "devices"
    assert setting_words("opt_base_learning_rate") == "opt_base_learning_rate"
