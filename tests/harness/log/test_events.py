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
    "change", [{"time_ms": 6}, {"event_type": ""}, {"key": "x"}, {"value": 8}, {"metadata": {}}, {"lineno": 3}]
)
def test_event_differs_by_any_field(change: dict[str, Any]) -> None:
    """Or it would not be seen that a log was changed there."""
    assert seed() != seed(**change)
    assert not seed() == seed(**change)  # noqa: SIM201


@pytest.mark.parametrize("thing", [None, 5, "seed", {"key": "seed"}, (5, "POINT_IN_TIME", "seed", 7, {}, 2)])
def test_event_is_nothing_else(thing: object) -> None:
    """Anything else is unequal to every event, without an error."""
    assert seed() != thing
    assert thing not in [seed()]


@pytest.mark.parametrize("value", [None, True, "3", 3.0, [3]])
def test_position_of_another_kind_is_no_position(value: Any) -> None:
    """A truth value is neither a count of samples nor a time."""
    event = seed(metadata={"samples_count": value, "elapsed_ns": value})

    assert (event.samples_count, event.elapsed_ns) == (None, None)
