"""The waivers of a ruleset: how they are read, and which findings they fit.

A waiver is for one check that is in force, at a place in the tree of submissions, which begins with the submitter:
<submitter>/results/<system>/<benchmark>/result_0.txt, wherever the tree is and whatever it is called. The waiver's path
is matched name by name; each name is a shell pattern that does not cross a slash, and the waiver covers everything
below its last name.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from harness.base.typed_yaml import list_of
from harness.errors import RulesError, printable, unknown_name
from harness.ruleset.model import Waiver
from harness.submission.layout import RESULTS, SYSTEMS, is_result_place

_BELOW = (RESULTS, SYSTEMS, "benchmarks", "*")  # a submitter's folders in the tree
_FORM = "as in <submitter>/results/<system>/<benchmark>"


def read_waivers(content: object, codes: Collection[str], place: str) -> tuple[Waiver, ...]:
    """Return the waivers in a list; None is an empty one. codes: the checks in force.

    Raises:
        RulesError: a waiver is for no check in force, has an empty field, a path that could match a submitter by
            accident, or a last day that is not a date.
    """
    waivers = list_of(Waiver, _with_dates_as_text(content), place)
    for waiver in waivers:
        if waiver.code not in codes:
            raise RulesError(f"{place}: {unknown_name('check in force', waiver.code, codes)}")
        for name in ("path", "who", "why"):
            if not getattr(waiver, name).strip():
                raise RulesError(f"{place}: {waiver.code}: {name} is empty; a waiver names a path, who and why")
        if why := _path_error(waiver.path):
            raise RulesError(f"{place}: {waiver.code}: path is {printable(waiver.path)!r}; {why}")
        try:
            is_date = date.fromisoformat(waiver.until).isoformat() == waiver.until  # 20261231 is ISO 8601, too
        except ValueError:
            is_date = False
        if not is_date:
            raise RulesError(f"{place}: until is {printable(waiver.until)!r}; it must be YYYY-MM-DD")
    return waivers


def _path_error(path: str) -> str | None:
    """Return why a waiver cannot have this path; None if it can."""
    submitter, *below = path.split("/")
    if any(name in ("", ".", "..") or name != name.strip() for name in (submitter, *below)):
        return f"it must be names separated by single slashes, {_FORM}"
    if submitter != "*" and any(sign in submitter for sign in "*?["):  # *acme matches evilacme, too
        return f"it must begin with the full name of a submitter, or with * for all of them, {_FORM}"
    if below and below[0] not in _BELOW:
        return f"the submitter must be followed by one of {', '.join(_BELOW)}, {_FORM}"
    return None


def _with_dates_as_text(content: object) -> object:
    """Return the content with dates as text; YAML readers turn unquoted ones into dates."""
    if isinstance(content, list):
        return [_with_dates_as_text(item) for item in content]
    if isinstance(content, dict):
        return {name: value.isoformat() if isinstance(value, date) else value for name, value in content.items()}
    return content


def tree_of(result: Path) -> Path | None:
    """Return the tree in which `result`, a folder or a log in it, is at <submitter>/results/<system>/<benchmark>.

    None if it is elsewhere: then it was not submitted, and no waiver covers it. The same holds for a tree inside a
    submitter's results, where the submitter could use another's name to obtain their waivers.
    """
    place = result.absolute()
    folder = next((folder for folder in (place, place.parent) if is_result_place(folder)), None)
    if folder is None or not folder.parents[2].name:
        return None
    tree = folder.parents[3]
    for above in (tree, *tree.parents):
        if above.name == RESULTS and (above.parent / SYSTEMS).is_dir():
            return None
    return tree


def covers(waiver: Waiver, tree: Path | None, path: str) -> bool:
    """Whether `path` is where the waiver says in the tree, or below."""
    place = Path(path).absolute()
    if tree is None or not place.is_relative_to(tree):
        return False
    names, patterns = place.relative_to(tree).parts, waiver.path.split("/")
    return len(names) >= len(patterns) and all(map(fnmatchcase, names, patterns))


def fits(waiver: Waiver, tree: Path | None, code: str, path: str) -> bool:
    """Whether the waiver is for a finding of this code at `path`; it may have expired."""
    return waiver.code == code and covers(waiver, tree, path)
