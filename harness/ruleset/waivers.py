"""The waivers of a ruleset: where, who, why, and until when; each of a check that is in force."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from harness.base.typed_yaml import list_of
from harness.errors import RulesError, printable, unknown_name
from harness.ruleset.model import Waiver

_BELOW = ("results", "systems", "benchmarks", "*")  # what a submitter has in the tree
_FORM = "as in <submitter>/results/<system>/<benchmark>"


def read_waivers(content: object, codes: Collection[str], place: str) -> tuple[Waiver, ...]:
    """The waivers in a list; without one, none. codes: the checks in force.

    Raises:
        RulesError: one is of no check in force, leaves something empty, its path could be of somebody that nobody
        meant, or its last day is no date.
    """
    waivers = list_of(Waiver, _dates_as_texts(content), place)
    for waiver in waivers:
        if waiver.code not in codes:
            raise RulesError(f"{place}: {unknown_name('check in force', waiver.code, codes)}")
        for name in ("path", "who", "why"):
            if not getattr(waiver, name).strip():
                raise RulesError(f"{place}: {waiver.code}: {name} is empty; a waiver says who and why")
        if why := _faulty(waiver.path):
            raise RulesError(f"{place}: {waiver.code}: path is {printable(waiver.path)!r}; {why}")
        try:
            is_date = date.fromisoformat(waiver.until).isoformat() == waiver.until  # 20261231 is ISO, too
        except ValueError:
            is_date = False
        if not is_date:
            raise RulesError(f"{place}: until is {printable(waiver.until)!r}; it must be YYYY-MM-DD")
    return waivers


def _faulty(path: str) -> str | None:
    """Why no waiver may have this path; None where it may."""
    submitter, *below = path.split("/")
    if any(name in ("", ".", "..") or name != name.strip() for name in (submitter, *below)):
        return f"it consists of names with one / between them, {_FORM}"
    if submitter != "*" and any(sign in submitter for sign in "*?["):  # *acme is evilacme, too
        return f"it begins with the whole name of a submitter, or with * for all of them, {_FORM}"
    if below and below[0] not in _BELOW:
        return f"after the submitter comes one of {', '.join(_BELOW)}, {_FORM}"
    return None


def _dates_as_texts(content: object) -> object:
    """A YAML reader may have made a date of an unquoted one."""
    if isinstance(content, list):
        return [_dates_as_texts(item) for item in content]
    if isinstance(content, dict):
        return {name: value.isoformat() if isinstance(value, date) else value for name, value in content.items()}
    return content
