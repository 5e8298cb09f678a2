"""A check's docstring by sections, headings, paragraphs and code. Text in, text out; who shows it escapes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADING = re.compile(r"(#{1,4}) +(.*?)(?: +#+)?")
_INLINE_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a document. kind: "heading", "paragraph", "item" or "code".

    spans: the text in parts, each with whether it is inline code.
    """

    kind: str
    spans: tuple[tuple[str, bool], ...]


def section(document: str, title: str) -> str:
    """What stands under the heading `title` of a check's document; empty where there is no such heading."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    return "" if match is None else match.group(1).strip()


def pieces(document: str) -> list[Piece]:
    """The document's pieces: `#` headings, fenced or indented code, `-` items, and paragraphs of everything else.

    Links, images and markup are no part of this language: they stay the letters they are.
    """
    found: list[Piece] = []
    lines: list[str] = []  # of the piece that is being read
    kind = ""  # of that piece: "paragraph", "item", "fence", "indented", or "" between pieces

    def end() -> None:
        nonlocal kind
        if kind in ("fence", "indented"):
            found.append(Piece("code", (("\n".join(lines), True),)))
        elif kind:
            found.append(Piece(kind, _spans(" ".join(lines))))
        lines.clear()
        kind = ""

    for line in document.splitlines():
        text = line.strip()
        if kind == "fence":
            if text.startswith("```"):
                end()
            else:
                lines.append(line)
        elif text.startswith("```"):
            end()
            kind = "fence"
        elif heading := _HEADING.fullmatch(text):
            end()
            found.append(Piece("heading", _spans(heading.group(2))))
        elif line.startswith("    ") and kind in ("", "indented"):
            lines.append(line[4:])
            kind = "indented"
        elif not text or text.startswith("- ") or kind == "indented":
            end()
            if text:
                kind = "item" if text.startswith("- ") else "paragraph"
                lines.append(text.removeprefix("- "))
        else:
            kind = kind or "paragraph"
            lines.append(text)
    end()
    return found


def _spans(text: str) -> tuple[tuple[str, bool], ...]:
    """`text` at its backticks: odd parts of the split are code."""
    parts = _INLINE_CODE.split(text)
    return tuple((part, number % 2 == 1) for number, part in enumerate(parts) if part)
