"""How each number that is shown is derived: its unit, its formula in words, and where in the files it comes from.

Numbers are named by their place in a result's row of `tta score --format json` (`score.runs[0].ledger.train`), with the
prefix `summary.` in that of `tta summary`, and with `board.` in that of the board's data. Every number of those
documents has a formula in `formulas.toml`; a test goes through them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Formula:
    """The formula of one or more kinds of number. names: patterns; `[*]` is any index, `.*` any one name.

    unit: empty for a number without one. places: how its lines are found, a name in `harness.board.derive.numbers`.
    """

    names: tuple[str, ...]
    unit: str
    places: str
    words: str


def _formulas() -> Iterator[Formula]:
    """The formulas of `formulas.toml`."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for entry in content["formula"]:
        yield Formula(tuple(entry["names"]), entry["unit"], entry["places"], entry["words"])


FORMULAS = tuple(_formulas())


@cache
def _compiled() -> list[tuple[re.Pattern[str], Formula]]:
    return [
        (
            re.compile(re.escape(name).replace(r"\[\*\]", r"\[[0-9]+\]").replace(r"\.\*", r"\.[^.\[\]]+")),
            formula,
        )
        for formula in FORMULAS
        for name in formula.names
    ]


@cache
def _by_kind(kind: str) -> Formula | None:
    name = kind.replace("[*]", "[0]")
    return next((formula for pattern, formula in _compiled() if pattern.fullmatch(name)), None)


def kind_of(name: str) -> str:
    """The name without its indices: `score.runs[*].seconds` for `score.runs[3].seconds`."""
    return re.sub(r"\[[0-9]+\]", "[*]", name)


def formula_of(name: str) -> Formula | None:
    """The formula of a number; None where there is none, which is a bug in `tta`."""
    return _by_kind(kind_of(name))
