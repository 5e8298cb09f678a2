"""Walks a folder that somebody sent: links are not followed, and neither depth nor number can exhaust anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SubmissionError

MAX_FOLDERS = 100_000  # 30 submitters with 100 results each have some 10,000


@dataclass(frozen=True, slots=True)
class Level:
    """One folder. `folders` may be shortened by who walks, before the next level: what is taken out is not entered.

    names: everything in it that is no folder, links to folders among it; sorted. why: it could not be listed, and why.
    """

    path: Path
    folders: list[str]
    names: list[str]
    why: str | None = None


def walk(top: Path, max_names: int, what: str) -> Iterator[Level]:
    """Every folder from `top` downwards, sorted.

    os.walk calls itself, and a thousand folders in each other end it; it passes over what it may not list, too.

    Raises:
        SubmissionError: there are more than `max_names` names, or 100,000 folders; `what` has no so many.
    """
    waiting, num_names, num_folders = [top], 0, 1
    while waiting:
        path = waiting.pop()
        folders: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    (folders if is_folder else names).append(entry.name)
                    num_names += not is_folder
                    num_folders += is_folder
                    if num_names > max_names:
                        raise SubmissionError(f"{top}: more than {max_names:,} files; no {what} has as many")
                    if num_folders > MAX_FOLDERS:
                        raise SubmissionError(f"{top}: more than {MAX_FOLDERS:,} folders; no {what} has as many")
        except OSError as error:
            yield Level(path, [], [], error.strerror or type(error).__name__)
            continue
        level = Level(path, sorted(folders), sorted(names))
        yield level
        waiting += [path / name for name in reversed(level.folders)]
