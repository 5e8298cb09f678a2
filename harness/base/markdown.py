"""Text, code and tables as Markdown. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")
_LITERAL = {ord(letter): f"&#{ord(letter)};" for letter in "|*_`[]\\"}


def text(plain: str) -> str:
    """`plain` with its Markdown escaped, except that what is between backticks becomes code."""
    parts = re.split(r"`([^`]+)`", plain)
    return "".join(code(part) if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


def code(plain: str) -> str:
    """`plain` as inline code, safe inside a table."""
    return f"<code>{html.escape(plain, quote=False).translate(_LITERAL)}</code>"


def table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.split()) for cell in line)} |" for line in lines)
