"""A check's docstring as sections, headings, paragraphs and code. Text in, text out: the caller escapes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADING = re.compile(r"(#{1,4}) +(.*?)(?: +#+)?")
_INLINE_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document. kind: "heading", "paragraph", "item" or "code".

    spans: the text in parts, each with whether it is code.
    """

    kind: str
    spans: tuple[tuple[str, bool], ...]


def section(document: str, title: str) -> str:
    """Return the text under the heading `title` of a check's document; empty if there is no such heading."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    return "" if match is None else match.group(1).strip()


def pieces(document: str) -> list[Piece]:
    """Return the document's pieces: `#` headings, fenced or indented code, `-` items, and paragraphs of the rest.

    Links, images and other markup are not part of this language and stay plain text.
    """
    found: list[Piece] = []
    lines: list[str] = []  # of the current piece
    kind = ""  # of the current piece: "paragraph", "item", "fence", "indented", or "" between pieces

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
    """Split `text` at its backticks: every second part is code."""
    parts = _INLINE_CODE.split(text)
    return tuple((part, number % 2 == 1) for number, part in enumerate(parts) if part)
