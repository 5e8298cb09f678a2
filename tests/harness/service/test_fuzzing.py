"""Requests that schemathesis makes from the service's own description of itself."""

from __future__ import annotations

import pytest

from tests.harness.service.world import World


@pytest.mark.slow
def test_no_request_is_answered_with_an_error_of_the_server(small_reviewed: World) -> None:
    """Two thousand, valid and not, by everybody; `scripts/fuzz_service.py` sends twenty thousand."""
    pytest.importorskip("schemathesis")
    from scripts.fuzz_service import fuzzed

    counts, faults = fuzzed(small_reviewed, 2000, 0)

    assert faults == []
    assert counts.total() > 1500
    assert {200, 401, 403, 404, 409, 422} <= set(counts)
