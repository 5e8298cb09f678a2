"""Events are equal by the content of their lines, whatever else a reader keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.log.events import Event


def seed(**changes: Any) -> Event:
    """A line of a log, with these fields changed."""
    return msgspec.structs.replace(Event(5, "POINT_IN_TIME", "seed", 7, {"samples_count": 3}, 2), **changes)


class WiderLine(Event, frozen=True, gc=False, eq=False):
    """An event of a reader that keeps a field more."""

    namespace: str = "x"


def test_event_is_equal_to_the_same_line_of_another_reader() -> None:
    """Both ways and in both senses: two readers of a log are compared by this."""
    plain, wider = seed(), WiderLine(5, "POINT_IN_TIME", "seed", 7, {"samples_count": 3}, 2)

    assert plain == wider
    assert wider == plain
    assert not plain != wider  # noqa: SIM202  (msgspec's own `!=` would go by the class)
    assert not wider != plain  # noqa: SIM202


@pytest.mark.parametrize(
    "other",
    [
        *(seed(time_ms=6), seed(event_type=""), seed(key="x"), seed(value=8), seed(metadata={}), seed(lineno=3)),
        *(None, "seed", (5, "POINT_IN_TIME", "seed", 7, {"samples_count": 3}, 2)),
    ],
)
def test_event_differs_by_any_field_and_from_anything_else(other: object) -> None:
    """A change to a log would otherwise go unnoticed; something that is not an event is not an error."""
    assert seed() != other
    assert not seed() == other  # noqa: SIM201


@pytest.mark.parametrize("value", [None, True, "3", 3.0, [3]])
def test_position_is_a_whole_number(value: Any) -> None:
    """A truth value is neither a count of samples nor a time."""
    event = seed(metadata={"samples_count": value, "elapsed_ns": value})

    assert (event.samples_count, event.elapsed_ns) == (None, None)
