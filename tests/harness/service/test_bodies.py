"""Bodies that stop before their end leave room and time for others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from harness.service import web
from harness.service.bodies import Turns

LARGE = 1 << 17


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads a body to its end."""
    while (await receive())["more_body"]:
        pass


@dataclass
class Request:
    """A request whose body has begun and ends when it is told to. begun: whether something of it was read."""

    app: web.BoundedBodies
    address: str = "10.0.0.1"
    num_bytes: int = LARGE
    is_chunked: bool = False
    begun: bool = False
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> int:
        """Return the status with which it is refused; 200: it was taken."""
        length = (b"transfer-encoding", b"chunked") if self.is_chunked else (b"content-length", b"%d" % self.num_bytes)

        async def receive() -> Message:
            if not self.begun:
                self.begun = True
                return {"type": "http.request", "body": b"x" * self.num_bytes, "more_body": True}
            await self.end.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "path": "/", "headers": [length], "client": (self.address, 1)}
        try:
            await self.app(scope, receive, send)
        except HTTPException as refused:
            return refused.status_code
        return 200


async def begun(*requests: Request) -> list[asyncio.Task[int]]:
    """Start requests, one after the other, and let them come as far as they can."""
    tasks = []
    for request in requests:
        tasks.append(asyncio.create_task(request()))
        await settled()
    return tasks


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_large_bodies_take_turns() -> None:
    """Half of all turns are one address's; nothing is read of a body before its turn, and small ones need none."""

    async def asked() -> None:
        app = web.BoundedBodies(read_all, 1 << 20)
        own = [Request(app, is_chunked=number % 2 == 1) for number in range(web.NUM_TURNS // 2 + 2)]
        other, small = Request(app, "10.0.0.2"), Request(app, num_bytes=1000)
        tasks = await begun(*own, other, small)

        assert [item.begun for item in own] == [*[True] * (web.NUM_TURNS // 2), False, False]
        assert other.begun
        assert small.begun
        own[0].end.set()
        await settled()
        assert [item.begun for item in own[-2:]] == [True, False]
        for item in (*own, other, small):
            item.end.set()
        assert set(await asyncio.gather(*tasks)) == {200}

    run(asked())


def test_all_turns_together_are_bounded() -> None:
    """However many addresses there are; whoever has waited longest is next."""

    async def asked() -> None:
        app = web.BoundedBodies(read_all, 1 << 20)
        requests = [Request(app, f"10.0.0.{number}") for number in range(web.NUM_TURNS + 2)]
        tasks = await begun(*requests)

        assert sum(item.begun for item in requests) == web.NUM_TURNS
        requests[3].end.set()
        await settled()
        assert [item.begun for item in requests[-2:]] == [True, False]
        for item in requests:
            item.end.set()
        assert set(await asyncio.gather(*tasks)) == {200}

    run(asked())


def test_a_turn_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the end of a body; and a turn that was not had is not given back."""
    monkeypatch.setattr(web, "WAIT_S", 0.01)

    async def asked() -> None:
        app = web.BoundedBodies(read_all, 1 << 20)
        requests = [Request(app) for _ in range(web.NUM_TURNS // 2 + 1)]
        tasks = await begun(*requests)

        assert await tasks[-1] == 503
        assert not requests[-1].begun
        assert await Request(app)() == 503
        for item in requests:
            item.end.set()
        assert await asyncio.gather(*tasks[:-1]) == [200] * (web.NUM_TURNS // 2)
        monkeypatch.setattr(web, "BODY_S", 0.01)
        assert await Request(app)() == 408

    run(asked())


def test_too_many_do_not_wait() -> None:
    """The address that has most of them loses its first one: of a client that was cut off, nobody says so."""

    async def asked() -> None:
        turns = Turns(2, most_waiting=3)
        assert await turns.take("a", 10)
        waiting = [asyncio.create_task(turns.take(address, 10)) for address in ("b", "a", "a", "a", "a")]
        await settled()

        assert [task.done() for task in waiting] == [True, True, False, False, False]
        assert await asyncio.gather(*waiting[:2]) == [True, False]
        turns.give_back("a")
        assert await waiting[2]
        waiting[3].cancel()
        await settled()
        turns.give_back("a")
        assert await waiting[4]

    run(asked())


def test_who_waits_keeps_no_other_address_waiting() -> None:
    """Whoever is first, but has half of the turns already, is passed over."""

    async def asked() -> None:
        turns = Turns(4, most_waiting=3)
        for address in "aabb":
            assert await turns.take(address, 10)
        first, second = (asyncio.create_task(turns.take(address, 10)) for address in "ac")
        await settled()
        turns.give_back("b")
        await settled()

        assert (first.done(), second.done()) == (False, True)
        turns.give_back("a")
        assert await first

    run(asked())


def test_a_body_is_at_most_as_long_as_it_may_be() -> None:
    """Whatever it says of its length."""

    async def asked() -> None:
        app = web.BoundedBodies(read_all, 1 << 20)
        assert await Request(app, num_bytes=web.MAX_BODY_BYTES + 1, is_chunked=True)() == 413

    run(asked())
