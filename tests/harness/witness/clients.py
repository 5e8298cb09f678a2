"""An HTTP client whose other side is a service in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from harness.base.http import Answer, HttpClient, RefusedError, UnreachableError
from tests.harness.service.world import Member


class InProcess(HttpClient):
    """Requests of a member. is_down: nobody answers. lost: how many of the next answers do not arrive.

    lost_after: how many answers arrive before one does not; None: all of them.
    """

    def __init__(self, member: Member) -> None:
        super().__init__("http://board.example/", "token", retries=0, sleep=lambda seconds: None)
        self.member = member
        self.is_down = False
        self.lost = 0
        self.lost_after: int | None = None
        self.num_requests = 0

    def request(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | Callable[[], Iterable[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        retries: int | None = None,
    ) -> Answer:
        self.num_requests += 1
        if self.is_down:
            raise UnreachableError(f"{self.root}{path}: refused")
        content: Any = body
        answer = self.member.client.request(method, f"/{path}", content=content, headers=dict(headers or {}))
        if self.lost_after is not None:
            self.lost, self.lost_after = (1, None) if self.lost_after == 0 else (0, self.lost_after - 1)
        if self.lost:
            self.lost -= 1
            raise UnreachableError(f"{self.root}{path}: timed out")
        if answer.status_code >= 400:
            raise RefusedError(f"{self.root}{path}: {answer.json().get('detail')}", answer.status_code)
        return Answer(answer.status_code, dict(answer.headers), answer.content)
