"""Numbers, names and untrusted texts as a reader sees them. Pure; a missing value is a word, never 0."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import printable

_CLEAN = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_MAX_SLUG_PART = 40
TO = "\N{NO-BREAK SPACE}–\N{WORD JOINER}\N{NO-BREAK SPACE}"  # between the ends of an interval, on one line


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of the numbers in a column; `size` base units make one."""

    symbol: str
    size: float
    name: str


SECONDS = (Unit("s", 1.0, "seconds"), Unit("min", 60.0, "minutes"), Unit("h", 3600.0, "hours"))
JOULES = (
    Unit("J", 1.0, "joules"),
    Unit("kJ", 1e3, "kilojoules"),
    Unit("MJ", 1e6, "megajoules"),
    Unit("GJ", 1e9, "gigajoules"),
)


def unit_for(values: Iterable[float | None], units: Sequence[Unit]) -> Unit:
    """One unit for a column: the largest of `units` in which the smallest positive value is at least 2."""
    positive = [value for value in values if value is not None and value > 0]
    return next((unit for unit in reversed(units) if positive and min(positive) >= 2 * unit.size), units[0])


def significant(value: float, digits: int = 4) -> str:
    """`value` with about `digits` significant digits, never in powers of ten below 10^15: `8.514`, `1,234`, `0.0123`.

    Digits before the point are never rounded away.
    """
    if value == 0:
        return "0"
    if not 1e-6 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def in_unit(value: float, unit: Unit, digits: int = 4) -> str:
    """`value` in `unit`, without the symbol."""
    return significant(value / unit.size, digits)


def plain(value: float) -> str:
    """A number as written in the rules: `600`, `0.9`, `10,000`."""
    return f"{value:,.10g}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 run`, `5 runs`, `2,000 entries`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def resumed_words(num_resumed: int, away_s: float) -> str:
    """`interrupted, resumed once, 15.0 s away`."""
    times = "once" if num_resumed == 1 else f"{num_resumed:,} times"
    return f"interrupted, resumed {times}, {away_s:,.1f} s away"


def rank_words(ranks: tuple[int, int]) -> str:
    """The ranks that a row may have: `1`, `2–4`."""
    first, last = ranks
    return f"{first}" if first == last else f"{first}–{last}"


def num_bytes(count: int) -> str:
    """A file's size: `812 bytes`, `12.3 KiB`, `1.2 MiB`."""
    for size, symbol in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{significant(count / size, 3)} {symbol}"
    return plural(count, "byte")


def shown(text: object, limit: int = 200) -> str:
    """An untrusted text for one line: control and bidirectional characters made visible, truncated at `limit`."""
    return printable(text, limit)


_SETTINGS = {
    "full_curve": "trained past the target",
    "module": "own module",
    "num_devices": "devices",
}


def setting_words(name: str) -> str:
    """The name of a run's setting as a reader knows it; hyperparameters keep the name by which they are set."""
    return _SETTINGS.get(name, name)


def value_words(value: object) -> str:
    """A value of a log or a description: `yes`, `none`, `0.1`, `1, 2`, `name: fast.py, parts: build_model`."""
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name}: {value_words(item)}" for name, item in sorted(value.items())) or "none"
        case list() | tuple():
            return ", ".join(value_words(item) for item in value) or "none"
        case None:
            return "none"
    return json.dumps(value)


def shown_lines(text: object, limit: int = 4000) -> list[str]:
    """An untrusted text for several lines."""
    return [printable(line, 1000) for line in str(text)[:limit].splitlines()]


def slug(parts: Iterable[str]) -> str:
    """A file name made of `parts`, from a-z, 0-9, dot, hyphen and underscore.

    Names made of these characters are kept unchanged. If one has to be changed or truncated, ten digits of the SHA-256
    of the names are appended, so that different names have different slugs and a slug never depends on other names.
    """
    listed = list(parts)
    cleaned = [_part(part) for part in listed]
    text = "--".join(cleaned)
    if cleaned == listed:
        return text
    return f"{text}--{hashlib.sha256(chr(0).join(listed).encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def _part(name: str) -> str:
    if len(name) <= _MAX_SLUG_PART and _CLEAN.fullmatch(name):
        return name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()[: 4 * _MAX_SLUG_PART]).strip("-")[:_MAX_SLUG_PART].strip("-") or "x"


def spreadsheet_cell(value: object) -> object:
    """`value` for a CSV cell: a text that a spreadsheet would read as a formula is prefixed with an apostrophe."""
    if isinstance(value, str) and value.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return "'" + value
    return value
