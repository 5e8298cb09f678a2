"""Who may do what: the table in the documents is what the service does."""

from __future__ import annotations

import pytest

from tests.harness.service import permissions
from tests.harness.service.world import World


def test_every_route_is_in_the_table(small: World) -> None:
    """Once for each state of a submission that it is about."""
    lines = permissions.PAGE.read_text().splitlines()
    for method, path in permissions.routes(small):
        rows = [line for line in lines if line.startswith(f"| `{method} {path}` |")]
        assert len(rows) == (len(permissions.STATES) if "{submission}" in path else 1), (method, path)


@pytest.mark.slow
def test_the_table_is_what_the_service_does(small_reviewed: World) -> None:
    """No route answers anybody otherwise than the table says, which people have read."""
    assert permissions.page(small_reviewed) == permissions.PAGE.read_text()
