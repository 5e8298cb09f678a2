"""A service on SQLite, and a team with a campaign."""

import pytest

from tests.harness.service.conftest import small, toy
from tests.harness.service.world import World
from tests.harness.witness.setting import Setting

__all__ = ["small", "toy"]


@pytest.fixture
def setting(small: World) -> Setting:
    return Setting(small)
