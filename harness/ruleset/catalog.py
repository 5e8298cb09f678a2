"""Names to things: a workload by its folder, a check by its code. Nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError, unknown_name

if TYPE_CHECKING:
    pass


def ruleset_folders() -> Iterator[tuple[str, Path]]:
    """Name and folder of every ruleset that comes with the harness."""
    import rules

    root = Path(next(iter(rules.__path__)))
    for path in sorted(root.rglob("ruleset.yaml")):
        yield path.parent.relative_to(root).as_posix(), path.parent


def ruleset_folder(name: str) -> Path:
    """The folder of the ruleset `name`, or `name` itself if it is a folder with a ruleset.yaml.

    Raises:
        UsageError: there is none.
    """
    folders = dict(ruleset_folders())
    if name in folders:
        return folders[name]
    if (Path(name) / "ruleset.yaml").is_file():
        return Path(name)
    raise UsageError(unknown_name("ruleset", name, folders))
