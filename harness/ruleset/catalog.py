"""Finds rulesets by name: those in rules/, and folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError, unknown_name
from harness.mlperf.load import RULESET_FILE


def ruleset_folders() -> Iterator[tuple[str, Path]]:
    """Yield the name and folder of every ruleset that comes with the harness."""
    import rules

    root = Path(next(iter(rules.__path__)))
    for path in sorted(root.rglob(RULESET_FILE)):
        yield path.parent.relative_to(root).as_posix(), path.parent


def ruleset_folder(name: str) -> Path:
    """Return the folder of the ruleset `name`, or `name` itself if it is a folder with a ruleset.yaml.

    Raises:
        UsageError: there is no such ruleset.
    """
    folders = dict(ruleset_folders())
    if name in folders:
        return folders[name]
    if (Path(name) / RULESET_FILE).is_file():
        return Path(name)
    raise UsageError(unknown_name("ruleset", name, folders))
