"""What a log says about isolation, compared with all that there can be."""

from __future__ import annotations

from harness.log.isolation import FULL, gaps


def test_full_isolation_has_no_gaps_and_more_is_no_gap() -> None:
    """What else the log says does not matter."""
    assert list(gaps({**FULL, "means": "bubblewrap", "reasons": {}})) == []


def test_each_gap_is_named_with_what_there_is() -> None:
    """A missing field is a gap, as is a value that is no mapping at all."""
    assert list(gaps({**FULL, "network": "open", "referee_dumpable": True})) == [
        "network open",
        "referee_dumpable True",
    ]
    assert list(gaps(None)) == [f"{name} None" for name in FULL]
