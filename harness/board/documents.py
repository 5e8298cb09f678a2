"""A check's docstring as headings, paragraphs and code. Text in, text out: the template escapes every piece."""

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


def pieces(document: str) -> list[Piece]:
    """The document's pieces: `#` headings, fenced or indented code, `-` items, and paragraphs of everything else.

    Links, images and markup are no part of this language: they stay the letters they are.
    """
    found: list[Piece] = []
    paragraph: list[str] = []
    code: list[str] | None = None  # lines of a fence that is open

    def end_paragraph() -> None:
        if paragraph:
            kind = "item" if paragraph[0].startswith("- ") else "paragraph"
            text = " ".join(paragraph)
            found.append(Piece(kind, _spans(text.removeprefix("- "))))
            paragraph.clear()

    for line in document.splitlines():
        stripped = line.strip()
        if code is not None:
            if stripped.startswith("```"):
                found.append(_code(code))
                code = None
            else:
                code.append(line)
        elif stripped.startswith("```"):
            end_paragraph()
            code = []
        elif heading := _HEADING.fullmatch(stripped):
            end_paragraph()
            found.append(Piece("heading", _spans(heading.group(2))))
        elif line.startswith("    ") and not paragraph:
            _indented(line, found)
        elif not stripped:
            end_paragraph()
        else:
            if stripped.startswith("- "):
                end_paragraph()
            paragraph.append(stripped)
    end_paragraph()
    if code is not None:
        found.append(_code(code))
    return found


def _indented(line: str, found: list[Piece]) -> None:
    """Adds a line of indented code, to the code just before it if there is some."""
    if found and found[-1].kind == "code":
        line = f"{found.pop().spans[0][0]}\n{line[4:]}"
        found.append(_code([line]))
    else:
        found.append(_code([line[4:]]))


def _code(lines: list[str]) -> Piece:
    return Piece("code", (("\n".join(lines), True),))


def _spans(text: str) -> tuple[tuple[str, bool], ...]:
    """`text` at its backticks: odd parts of the split are code."""
    parts = _INLINE_CODE.split(text)
    return tuple((part, number % 2 == 1) for number, part in enumerate(parts) if part)
