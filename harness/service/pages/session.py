"""Who looks at a page: by a session's cookie, or as a trusted proxy says; and forms, which only own pages may send."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from fastapi import HTTPException, Request
from starlette.responses import RedirectResponse, Response

from harness.errors import UsageError
from harness.service import people
from harness.service.instance import Instance
from harness.service.people import NOBODY, Actor

COOKIE = "tta_session"
MAX_FORM_BYTES = 1 << 17
_MAX_FIELDS = 50


def instance_of(request: Request) -> Instance:
    """Return the service."""
    found: Instance = request.app.state.instance
    return found


def actor_of(request: Request) -> Actor:
    """Return who looks. Somebody without a session, or with one that is over, is nobody."""
    instance = instance_of(request)
    proxy = instance.settings.proxy
    if proxy.header and request.client is not None and request.client.host in proxy.addresses:
        subjects = request.headers.getlist(proxy.header)
        if len(subjects) > 1:  # the client has sent one, too, and the proxy has added its own to it
            return NOBODY
        if subjects and subjects[0]:
            with instance.database.read() as connection:
                return people.by_subject(connection, subjects[0]) or NOBODY
    secret = request.cookies.get(COOKIE)
    if not secret:
        return NOBODY
    with instance.database.read() as connection:
        return people.by_session(connection, secret, instance.now_ms()) or NOBODY


async def form_of(request: Request) -> Mapping[str, list[str]]:
    """Return the fields of a form that one of the service's own pages sent.

    Raises:
        HTTPException: another site sent it, or it is none. UsageError: it is too large.
    """
    require_same_site(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form must be application/x-www-form-urlencoded")
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_FORM_BYTES:
            raise UsageError(f"a form has at most {MAX_FORM_BYTES:,} bytes")
    try:
        pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise UsageError("the form cannot be read") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return found


def require_same_site(request: Request) -> None:
    """Refuse what another site's page made a browser send: a session's cookie would go with it.

    Raises:
        HTTPException: it did.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = {request.headers.get("host", ""), urlsplit(instance_of(request).settings.url).netloc}
    # A browser says where a request is from in the first, and with no-referrer nothing in the second.
    is_own = site == "same-origin" if site is not None else origin is not None and urlsplit(origin).netloc in own
    if not is_own:
        raise HTTPException(403, "this form was not sent from a page of this service")


def first(form: Mapping[str, list[str]], name: str) -> str:
    """Return the first value of a field; empty where there is none."""
    return form.get(name, [""])[0]


def signed_in(request: Request, actor: Actor, target: str) -> Response:
    """Begin a session with the token that somebody has shown, and go to a page."""
    instance = instance_of(request)
    hours = instance.settings.limits.session_hours
    assert actor.token is not None
    with instance.database.write() as connection:
        secret = people.add_session(connection, actor.token, instance.now_ms(), hours)
    answer = RedirectResponse(target, 303)
    is_secure = instance.settings.url.startswith("https:")
    answer.set_cookie(
        COOKIE, secret, max_age=int(hours * 3600), httponly=True, secure=is_secure, samesite="lax", path="/"
    )
    return answer
