"""Real data next to a checkout and not part of it: found, or the test is skipped."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def shared(name: str) -> Path:
    """The file `name` of the shared folder next to the checkout, or of the folder that TTA_SHARED names."""
    place = os.environ.get("TTA_SHARED")
    path = (Path(place) if place else ROOT.parent / "shared") / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def unpack(archive: Path, folder: Path) -> None:
    """Extracts the files of a tar archive into `folder`, and nothing outside it."""
    with tarfile.open(archive) as stream:
        for member in stream:
            target = (folder / member.name).resolve()
            assert target.is_relative_to(folder.resolve()), f"{member.name!r} leads out of the folder"
            content = stream.extractfile(member) if member.isfile() else None
            if content is not None:  # TarFile.extract has its filter from Python 3.11.4 on only
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
