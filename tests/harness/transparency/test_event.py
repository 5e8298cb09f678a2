"""Events: a leaf commits to one, and says nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InputError
from harness.transparency.event import Opening, event_text, parse_opening

SALT = "0123456789abcdef" * 2
TEXT = event_text(3, 1_700_000_000_000, None, "round.added", "r", {"b": 1, "a": [2]}, "0" * 64)


def test_an_opening_is_read_as_it_was_written() -> None:
    """With the event in it."""
    opening = Opening(3, SALT, TEXT)

    assert parse_opening(opening.record(), "here") == opening
    assert opening.event["body"] == {"a": [2], "b": 1}


def test_another_salt_or_event_is_another_leaf() -> None:
    """So that nobody can guess an event, or open a leaf as another one."""
    leaves = {
        Opening(3, SALT, TEXT).leaf,
        Opening(3, SALT[::-1], TEXT).leaf,
        Opening(3, SALT, TEXT.replace("added", "ended")).leaf,
    }

    assert len(leaves) == 3


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (None, "are missing or wrong"),
        ({"seq": "3", "salt": SALT, "event": TEXT}, "are missing or wrong"),
        ({"seq": 3, "salt": "xyz", "event": TEXT}, "are missing or wrong"),
        ({"seq": 3, "salt": SALT, "event": "{"}, "not JSON"),
        ({"seq": 3, "salt": SALT, "event": "[]"}, "other fields"),
        ({"seq": 4, "salt": SALT, "event": TEXT}, "another number"),
        ({"seq": 3, "salt": SALT, "event": TEXT.replace('"body":{"a":[2],"b":1}', '"body":1')}, "other fields"),
    ],
)
def test_what_is_no_opening_is_refused(record: Any, why: str) -> None:
    """In one sentence that names the place."""
    with pytest.raises(InputError, match=f"^here: .*{why}"):
        parse_opening(record, "here")
