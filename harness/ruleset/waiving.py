"""Which findings a waiver fits: those of its code, at its place in the tree of submissions.

A place is told from the submitter on, <submitter>/results/<system>/<benchmark>/result_0.txt, wherever the tree lies and
however it was named. A waiver's path is held against it name by name, each a shell pattern that never reaches beyond
one name; where it ends, it speaks of all that lies below.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from harness.ruleset.model import Waiver
from harness.submission import layout


def tree_of(result: Path) -> Path | None:
    """The tree in which `result`, a folder or a log in it, lies at <submitter>/results/<system>/<benchmark>.

    None where it lies elsewhere: nobody has submitted it, and no waiver speaks of it. So it is with a tree within the
    results of a submitter, who could put results under the name of another there, to come by their waivers.
    """
    place = result.absolute()
    folder = next((folder for folder in (place, place.parent) if layout.is_place(folder)), None)
    if folder is None or not folder.parents[2].name:
        return None
    tree = folder.parents[3]
    for above in (tree, *tree.parents):
        if above.name == layout.RESULTS and (above.parent / layout.SYSTEMS).is_dir():
            return None
    return tree


def speaks_of(waiver: Waiver, tree: Path | None, path: str) -> bool:
    """Whether what is found at `path` lies in the tree where the waiver says, or below."""
    place = Path(path).absolute()
    if tree is None or not place.is_relative_to(tree):
        return False
    names, patterns = place.relative_to(tree).parts, waiver.path.split("/")
    return len(names) >= len(patterns) and all(map(fnmatchcase, names, patterns))


def fits(waiver: Waiver, tree: Path | None, code: str, path: str) -> bool:
    """Whether the waiver is for a finding of this code at `path`; its last day may be past."""
    return waiver.code == code and speaks_of(waiver, tree, path)
