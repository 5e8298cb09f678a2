"""Identifiers and secrets."""

from __future__ import annotations

from uuid import UUID

from harness.base import ids


def test_ids_are_of_version_7_and_sort_by_time() -> None:
    """As RFC 9562 has them."""
    found = [ids.new_id(1_700_000_000_000 + step) for step in range(100)]

    assert found == sorted(found)
    assert len({ids.new_id(0) for _ in range(1000)}) == 1000
    for item in found:
        assert ids.ID_PATTERN.fullmatch(item)
        assert UUID(item).version == 7
        assert UUID(item).variant == "specified in RFC 4122"
        assert int(item[:12], 16) in range(1_700_000_000_000, 1_700_000_000_100)


def test_a_secret_is_kept_as_its_digest() -> None:
    """Each is new, has a prefix that scanners know, and 256 bits."""
    secrets = {ids.new_secret() for _ in range(100)}

    assert len(secrets) == 100
    for secret in secrets:
        assert secret.startswith("tta_")
        assert len(secret) == 4 + 43
        assert ids.secret_digest(secret) != secret
        assert len(ids.secret_digest(secret)) == 64
