"""Real data that lie beside a checkout and are no part of it: found, or the test is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def shared(name: str) -> Path:
    """The file `name` of the shared folder beside the checkout, or of the folder that TTA_SHARED names."""
    place = os.environ.get("TTA_SHARED")
    path = (Path(place) if place else ROOT.parent / "shared") / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path
