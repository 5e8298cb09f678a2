"""Turns: few large bodies are taken at a time, and who waits for a turn costs next to nothing.

Of a body whose turn has not come no more is read than its first pieces: the rest stays with its client, and fills no
memory and takes no time here. Clients of one address have no more than half of the turns, so that others have theirs.
"""

from __future__ import annotations

import asyncio
from collections import Counter


class Turns:
    """Whose turn it is, by address. The first who waits, of those whose address may have one more, is next.

    num: of turns at a time. most_waiting: beyond which the address that has most of those who wait loses its first one,
    as a client that was cut off meanwhile still waits.
    """

    def __init__(self, num: int, most_waiting: int) -> None:
        self._num = num
        self._most_waiting = most_waiting
        self._taken: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[bool], str] = {}

    async def take(self, address: str, wait_s: float) -> bool:
        """Wait for a turn, which is then given back; False: there was none for so long, or too many wait."""
        if self._is_free(address):
            self._taken[address] += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = address
        if len(self._waiting) > self._most_waiting:
            [(busiest, _)] = Counter(self._waiting.values()).most_common(1)
            first = next(other for other, at in self._waiting.items() if at == busiest)
            del self._waiting[first]
            first.set_result(False)
        try:
            await asyncio.wait([turn], timeout=wait_s)
        finally:
            self._waiting.pop(turn, None)
        return turn.done() and turn.result()

    def give_back(self, address: str) -> None:
        """End a turn; the next one begins."""
        self._taken[address] -= 1
        self._taken += Counter()  # forgets who has none
        for turn, at in self._waiting.items():
            if self._is_free(at):
                del self._waiting[turn]
                self._taken[at] += 1
                turn.set_result(True)
                return

    def _is_free(self, address: str) -> bool:
        return self._taken.total() < self._num and self._taken[address] < self._num // 2
