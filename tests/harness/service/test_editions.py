"""What is shown from memory is what would be shown without it."""

from __future__ import annotations

import random
import threading

import pytest

from harness.service import editions
from harness.service.editions import ENTRY_BYTES, Kept
from tests.harness.service.test_pages import browser
from tests.harness.service.test_review import WHY, act, published
from tests.harness.service.world import World

PLACES = (
    "/", "/benchmarks/toy_mini.html", "/benchmarks/toy_mini.html?division=open", "/api/v1/boards",
    "/api/v1/boards/toy_mini", "/api/v1/boards/toy_mini/records", "/api/v1/boards/toy_mini?metric=measured&limit=1",
    "/benchmarks/toy_mini.html?after=0.1.a", "/search?q=box", "/search?q=toy", "/api/v1/search?q=box",
    "/api/v1/search?q=acme&limit=1", "/benchmarks/toy_mini.html?accelerator=none",
)  # fmt: skip


def shown(world: World) -> list[bytes]:
    """What everybody sees, which must be what a process sees that has just been started."""
    found = [world.client.get(place).content for place in PLACES]
    world.instance.kept = Kept()
    assert [world.client.get(place).content for place in PLACES] == found
    return found


def test_what_everybody_sees_changes_with_every_decision(reviewed: World) -> None:
    """At once: with each publication, dispute, its end, another round, and what is ranked anew."""
    world = reviewed
    otto = world.join("otto", "third", is_organiser=True)
    seen = [shown(world)]
    first, second = published(world), published(world, world.bob)
    seen.append(shown(world))
    world.time.advance(1)
    world.work()  # their ranks
    seen.append(shown(world))

    for submission, other, action in ((first, world.bob, "move_to_open"), (second, world.alice, "retract")):
        assert other.post(f"/submissions/{submission}/dispute", json=WHY).status_code == 200
        seen.append(shown(world))
        assert (act(world.olga, submission, action), act(otto, submission, action)) == (202, 200)
        world.work()
    world.time.advance(1)
    world.work()
    seen.append(shown(world))
    world.add_round("next", opens_ms=world.time.now_ms + 1)
    seen.append(shown(world))

    assert len({tuple(item) for item in seen[:-1]}) == len(seen) - 1


def test_what_nobody_sees_makes_no_edition(reviewed: World) -> None:
    """What is sent, checked, reviewed and rejected leaves what is kept as it is."""
    world = reviewed

    def number() -> int:
        with world.instance.database.read() as connection:
            return editions.newest(connection)

    published(world)
    world.time.advance(1)
    world.work()
    before = number()
    world.submit(world.alice)
    world.submit(world.bob, num_runs=2)
    world.work()

    assert number() == before


@pytest.mark.parametrize("place", ["/", "/benchmarks/toy_mini.html", "/search?q=toy", "/search"])
def test_a_page_is_of_who_looks_at_it(small: World, place: str) -> None:
    """The name of somebody who has signed in is on no page of another."""
    alice, nobody = browser(small, small.alice), browser(small)

    pages = [who.get(place).text for who in (alice, nobody, alice, nobody)]

    assert ["alice" in page for page in pages] == [True, False, True, False]


def test_something_is_made_once_in_an_edition() -> None:
    """By whoever asks first; all others wait for it, and an older edition never comes back."""
    kept, made = Kept(), []
    begun, may_end = threading.Event(), threading.Event()

    def make() -> bytes:
        begun.set()
        may_end.wait(10)
        made.append(len(made))
        return b"page %d" % made[-1]

    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(kept.get(1, "page", make))) for _ in range(4)]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join(10)

    assert found == [b"page 0"] * 4
    assert [kept.get(edition, "page", make) for edition in (1, 2, 1, 2)] == [b"page 0", *[b"page 1"] * 3]


def test_an_edition_that_begins_meanwhile_does_not_keep_what_was_begun() -> None:
    """Whoever waits for it gets it; the next one has it made again."""
    kept = Kept()

    def make() -> bytes:
        assert kept.get(2, "other", lambda: b"other") == b"other"
        return b"old"

    assert kept.get(1, "page", make) == b"old"
    assert kept.get(2, "page", lambda: b"new") == b"new"


def test_what_cannot_be_made_is_not_kept() -> None:
    """The next one tries again."""
    kept = Kept()

    def fail() -> bytes:
        raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            kept.get(1, "page", fail)
    assert kept.get(1, "page", lambda: b"page") == b"page"


def test_what_is_kept_is_bounded() -> None:
    """What was not asked for longest is made again; what is larger than all, also by its key, is never kept."""
    kept = Kept(max_bytes=4 * ENTRY_BYTES)
    made: list[str] = []

    def asked(key: str, num_bytes: int = 4) -> None:
        what = random.Random(key).randbytes(num_bytes)
        assert kept.get(1, key, lambda: (made.append(key), what)[1]) == what

    for key in ("a", "b", "a", "c", "a", "b"):
        asked(key)
    assert made == ["a", "b", "c", "b"]
    for key, num_bytes in (("large", 3 * ENTRY_BYTES), ("long" * ENTRY_BYTES, 4)):
        for _ in range(2):
            asked(key, num_bytes)
        assert made[-2:] == [key, key]


def test_what_was_asked_for_last_is_kept_as_it_is() -> None:
    """Everything else is compressed, and what comes of it is what was made."""
    kept = Kept(max_bytes=40 * ENTRY_BYTES)
    pages = {key: key * 4 * ENTRY_BYTES for key in (b"a", b"b", b"c", b"d")}
    made: list[bytes] = []

    def asked(key: bytes) -> bytes:
        return kept.get(1, key, lambda: (made.append(key), pages[key])[1])

    found = [asked(key) for key in (b"a", b"b", b"a", b"c", b"a", b"d", b"b")]

    assert found == [pages[key] for key in (b"a", b"b", b"a", b"c", b"a", b"d", b"b")]
    assert made == [b"a", b"b", b"c", b"d"]
    assert asked(b"b") is asked(b"b")
    first = asked(b"a")
    assert [asked(key) is first for key in (b"a", b"b", b"a", b"c", b"a")] == [True, False, True, False, True]
    asked(b"d")
    asked(b"c")
    assert asked(b"a") is not first
