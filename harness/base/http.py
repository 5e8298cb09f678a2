"""A client for interfaces that speak JSON: what went wrong is one sentence, and what may be tried again is."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import urlsplit

from harness.base import strict_json
from harness.base.values import mapping_or_empty
from harness.errors import InputError, UsageError, printable

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 64 << 20
RETRIES = 4
_UNAVAILABLE = (502, 503, 504)


def is_address(text: str) -> bool:
    """Whether what was named is reached over HTTP, and not in the file system."""
    return text.partition("://")[0].lower() in ("http", "https") and "://" in text


class UnreachableError(InputError):
    """Nobody answered, or nobody who can; another time it may be otherwise."""


class RefusedError(InputError):
    """The other side understood, and refused. status: HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. headers: by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, place: str) -> dict[str, Any]:
        """Return the object that it is.

        Raises:
            InputError: it is none.
        """
        try:
            found = strict_json.loads(self.body)
        except ValueError as error:
            raise InputError(f"{place}: the answer is not JSON: {printable(error)}") from None
        if not isinstance(found, dict):
            raise InputError(f"{place}: the answer is not a JSON object")
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not be carried to another place."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


@dataclass
class HttpClient:
    """Requests to one address. root: ends with a slash. token: sent as a bearer's.

    sleep: waits between attempts; tests have their own.
    """

    root: str
    token: str | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S
    retries: int = RETRIES
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.root)
        if parts.scheme not in ("http", "https") or not parts.hostname or not self.root.endswith("/"):
            raise UsageError(f"{printable(self.root)}: must be http(s)://HOST/")
        self._opener = urllib.request.build_opener(_NoRedirect())

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at `path`, relative to the root.

        Raises:
            UnreachableError, RefusedError: see `request`. InputError: the answer is not JSON.
        """
        return self.request("GET", path).json(self.root + path)

    def post(self, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Send a JSON object; return the one that answers. Only where doing it twice is doing it once."""
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, data, {"content-type": "application/json", **named}).json(self.root + path)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | Callable[[], Iterable[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        retries: int | None = None,
    ) -> Answer:
        """Return the response to a request, which is sent again if nobody answers.

        body: bytes, or a function that returns the pieces anew for each attempt (with a `content-length`).

        Raises:
            UnreachableError: nobody answered. RefusedError: with another status than 2xx.
        """
        num_left, pause_s = self.retries if retries is None else retries, 0.5
        while True:
            try:
                return self._once(method, path, body() if callable(body) else body, headers or {})
            except UnreachableError:
                if num_left == 0:
                    raise
                self.sleep(pause_s)
                num_left, pause_s = num_left - 1, min(8.0, 2 * pause_s)

    def _once(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        url = self.root + path
        request = urllib.request.Request(url, body, method=method)  # noqa: S310  (the scheme was checked)
        request.add_header("User-Agent", "tta-harness")
        request.add_header("Accept", "application/json, application/problem+json, */*")
        for name, value in headers.items():
            request.add_header(name, value)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=self.timeout_s) as response:
                return Answer(response.status, _names(response.headers), _bounded(response, url))
        except urllib.error.HTTPError as error:
            with error:
                said = _problem(error, url)
                if error.code in _UNAVAILABLE:
                    raise UnreachableError(f"{url}: {said}") from None
                raise RefusedError(f"{url}: {said}", error.code) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise UnreachableError(f"{url}: {printable(reason)}") from None


def _names(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _bounded(response: http.client.HTTPResponse, url: str) -> bytes:
    data = response.read(MAX_ANSWER_BYTES + 1)
    if len(data) > MAX_ANSWER_BYTES:
        raise InputError(f"{url}: the answer has more than {MAX_ANSWER_BYTES:,} bytes")
    if response.length:  # unlike `read()`, `read(n)` does not say that the connection ended before the answer
        raise UnreachableError(f"{url}: the answer broke off; {response.length:,} bytes of it are missing")
    return data


def _problem(error: urllib.error.HTTPError, url: str) -> str:
    """Return what a refusal says: its detail, where it is one of RFC 9457."""
    try:
        detail = mapping_or_empty(strict_json.loads(error.read(1 << 16))).get("detail")
    except (ValueError, OSError, http.client.HTTPException):
        detail = None
    said = f"{error.code} {printable(error.reason or '', 60)}".strip()
    return said if not isinstance(detail, str) or not detail else f"{printable(detail, 1500)} ({said})"
