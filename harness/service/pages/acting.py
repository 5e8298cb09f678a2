"""What forms do: what the interface for programs does, and back to the page, with an error if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from harness.errors import TtaError, UsageError, printable
from harness.service import hooks, people, review, schema, submissions
from harness.service.api.account import new_token
from harness.service.api.hooks import made
from harness.service.instance import Instance
from harness.service.pages.public import SCOPE_OF, html, shown_submission
from harness.service.pages.session import COOKIE, actor_of, first, form_of, instance_of, signed_in
from harness.service.people import SCOPES, Actor
from harness.service.review import Objection
from harness.service.submissions import ForbiddenError, NotThereError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
Form = Mapping[str, list[str]]
_SHOWN_DELIVERIES = 10


@router.post("/submissions/{submission}/{action}")
async def act(request: Request, submission: str, action: str) -> Response:
    """Do something to a submission."""
    form = await form_of(request)
    if action not in SCOPE_OF:
        raise NotThereError(f"nothing is called {printable(action)!r} here")
    return await run_in_threadpool(
        _done, request, submission, SCOPE_OF[action], lambda i, a: _act(i, a, submission, action, form)
    )


@router.post("/objections/{objection}/decision")
async def decide(request: Request, objection: str) -> Response:
    """Decide about an objection."""
    form, submission = await form_of(request), request.query_params.get("of", "")
    decision, reason = first(form, "decision"), first(form, "reason")
    return await run_in_threadpool(
        _done, request, submission, "review", lambda i, a: review.decide(i, a, objection, decision, reason)
    )


def _done(request: Request, submission: str, scope: str, work: Callable[[Instance, Actor], object]) -> Response:
    """Do it and go back to the page; or show the page with the reason why it was not done."""
    instance, actor = instance_of(request), actor_of(request)
    if not actor.is_known:
        return RedirectResponse("/account", 303)
    try:
        if scope not in actor.scopes:
            raise ForbiddenError(f"the token with which you signed in is not for {scope!r}")
        work(instance, actor)
    except NotThereError:
        raise
    except TtaError as error:
        status = 403 if isinstance(error, ForbiddenError) else 409
        return shown_submission(instance, actor, submission, request.url.path[1:], str(error), status)
    return RedirectResponse(f"/submissions/{submission}", 303)


def _act(instance: Instance, actor: Actor, submission: str, action: str, form: Form) -> None:
    if action == "object":
        line = first(form, "line").strip()
        if line and not (line.isascii() and line.isdigit() and len(line) < 10):
            raise UsageError(f"line {printable(line, 40)!r} is not a number")
        what = Objection(
            first(form, "rule"), first(form, "text"), first(form, "path") or None, int(line) if line else None
        )
        review.object_to(instance, actor, submission, what)
    elif action == "comment":
        review.comment(instance, actor, submission, first(form, "text"))
    elif action == "withdraw":
        with instance.database.write() as connection:
            found = submissions.locked(connection, submission, actor)
            submissions.change(connection, "withdraw", found, actor, instance.now_ms())
    else:
        review.act(instance, actor, submission, action, first(form, "reason"))


@router.get("/account")
def account(request: Request) -> Response:
    """Sign in; or one's tokens."""
    return account_page(request, actor_of(request))


def account_page(
    request: Request, actor: Actor, error: str = "", secret: str = "", status: int = 200, made_for: str = "token"
) -> HTMLResponse:
    """Return the page *Account*, also as the answer to one of its forms. error: why what was asked for was not done.

    secret: a new one, shown this once. made_for: "token" or "hook".
    """
    instance, table = instance_of(request), schema.token
    tokens: list[Any] = []
    kept: list[tuple[Any, Any]] = []
    if actor.is_known:
        with instance_of(request).database.read() as connection:
            query = table.select().where(table.c.person == actor.person).order_by(table.c.created_ms.desc()).limit(100)
            tokens = list(connection.execute(query))
            for hook in hooks.of_actor(connection, actor):
                kept.append((hook, hooks.deliveries(connection, hook["id"], _SHOWN_DELIVERIES)))
    return html(
        "service_account.html", "account", actor, status, at=request.url.path[1:], error=error, secret=secret,
        made_for=made_for, tokens=tokens, scopes=[scope for scope in SCOPES if scope in actor.scopes], hooks=kept,
        has_hooks=instance.settings.hooks.are_on, oidc=instance.settings.oidc,
    )  # fmt: skip


@router.post("/account/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session, with a token."""
    token = first(await form_of(request), "token").strip()
    return await run_in_threadpool(_sign_in, request, token)


def _sign_in(request: Request, token: str) -> Response:
    instance = instance_of(request)
    with instance.database.read() as connection:
        actor = people.by_token(connection, token, instance.now_ms())
    if actor is None:
        return account_page(request, people.NOBODY, "This token is unknown, revoked or expired.", status=403)
    if not actor.scopes.issuperset({"read", "submit"}):
        return account_page(
            request, people.NOBODY, "This token is not for reading and submitting; use another.", status=403
        )
    return signed_in(request, actor, "/submissions")


@router.post("/account/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await form_of(request)
    await run_in_threadpool(_end, request)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _end(request: Request) -> None:
    with instance_of(request).database.write() as connection:
        people.end_session(connection, request.cookies.get(COOKIE, ""))


@router.post("/account/token")
async def make_token(request: Request) -> Response:
    """Make a token, and show it once."""
    form = await form_of(request)
    return await run_in_threadpool(_make_token, request, first(form, "label"), form.get("scopes", []))


def _make_token(request: Request, label: str, scopes: list[str]) -> Response:
    instance, actor = instance_of(request), actor_of(request)
    if not actor.is_known:
        return RedirectResponse("/account", 303)
    try:
        if not label.strip():
            raise UsageError("say what the token is for")
        _, secret = new_token(instance, actor, label, scopes)
    except (UsageError, ForbiddenError) as error:
        return account_page(request, actor, str(error), status=403 if isinstance(error, ForbiddenError) else 422)
    return account_page(request, actor, secret=secret)


@router.post("/account/revoke")
async def revoke(request: Request) -> Response:
    """Make a token worthless."""
    token = first(await form_of(request), "token")
    return await run_in_threadpool(_revoke, request, token)


def _revoke(request: Request, token: str) -> Response:
    instance, actor = instance_of(request), actor_of(request)
    if actor.person is not None:
        with instance.database.write() as connection:
            people.revoke_token(connection, token, actor.person, instance.now_ms())
    return RedirectResponse("/account", 303)


@router.post("/account/hooks/{action}")
async def keep_hook(request: Request, action: str) -> Response:
    """Make a hook, delete one, give it a new secret, or have it tested."""
    form = await form_of(request)
    return await run_in_threadpool(_keep_hook, request, action, form)


def _keep_hook(request: Request, action: str, form: Form) -> Response:
    instance, actor = instance_of(request), actor_of(request)
    if not actor.is_known:
        return RedirectResponse("/account", 303)
    secret = ""
    try:
        if action == "make":
            is_public = first(form, "of") == "public"
            _, secret = made(instance, actor, first(form, "url").strip(), is_public=is_public)
        else:
            secret = _change_hook(instance, actor, action, first(form, "hook"))
    except NotThereError:
        raise
    except TtaError as error:
        return account_page(request, actor, str(error), status=403 if isinstance(error, ForbiddenError) else 409)
    return account_page(request, actor, secret=secret, made_for="hook") if secret else RedirectResponse("/account", 303)


def _change_hook(instance: Instance, actor: Actor, action: str, named: str) -> str:
    """Return the new secret, if there is one."""
    with instance.database.write() as connection:
        hook = hooks.find(connection, actor, named)
        if action == "rotate":
            return hooks.rotate(connection, hook, instance.now_ms())
        if action == "delete":
            hooks.remove(connection, hook)
        elif action == "test":
            hooks.add_test(connection, hook, instance.now_ms())
        else:
            raise NotThereError(f"nothing is called {printable(action)!r} here")
    return ""
