"""Paths in a manifest, as the checks of this family take them."""

from __future__ import annotations

from pathlib import PurePosixPath


def leaves_folder(name: str) -> bool:
    """Whether a listed path is absolute or goes up, and so may be outside the submission's folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
