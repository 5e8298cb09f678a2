"""The waivers of a ruleset: where, who, why, and until when; each of a check that is in force."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from harness.errors import RulesError, printable, unknown_name
from harness.loader.typed import list_of
from harness.ruleset import Waiver


def read_waivers(content: object, codes: Collection[str], place: str) -> tuple[Waiver, ...]:
    """The waivers in a list; without one, none. codes: the checks in force.

    Raises:
        RulesError: one is of no check in force, leaves something empty, or its last day is no date.
    """
    waivers = list_of(Waiver, _dates_as_texts(content), place)
    for waiver in waivers:
        if waiver.code not in codes:
            raise RulesError(f"{place}: {unknown_name('check in force', waiver.code, codes)}")
        for name in ("path", "who", "why"):
            if not getattr(waiver, name).strip():
                raise RulesError(f"{place}: {waiver.code}: {name} is empty; a waiver says who and why")
        try:
            is_date = date.fromisoformat(waiver.until).isoformat() == waiver.until  # 20261231 is ISO, too
        except ValueError:
            is_date = False
        if not is_date:
            raise RulesError(f"{place}: until is {printable(waiver.until)!r}; it must be YYYY-MM-DD")
    return waivers


def _dates_as_texts(content: object) -> object:
    """A YAML reader may have made a date of an unquoted one."""
    if isinstance(content, list):
        return [_dates_as_texts(item) for item in content]
    if isinstance(content, dict):
        return {name: value.isoformat() if isinstance(value, date) else value for name, value in content.items()}
    return content
