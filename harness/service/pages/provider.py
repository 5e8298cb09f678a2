"""Signing in at an identity provider: there, and back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from harness.errors import InputError, printable
from harness.service import oidc
from harness.service.instance import Instance
from harness.service.pages.acting import account_page
from harness.service.pages.session import instance_of, signed_in
from harness.service.people import NOBODY
from harness.service.submissions import ForbiddenError, NotThereError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
COOKIE, PATH = "tta_sign_in", "/account/oidc"
_Text = Annotated[str, Query(max_length=4000)]


def _service(request: Request) -> Instance:
    instance = instance_of(request)
    if not instance.settings.oidc.issuer:
        raise NotThereError("this board has no identity provider")
    return instance


@router.get("/account/oidc")
def begin(request: Request) -> Response:
    """Go to the provider."""
    instance = _service(request)
    try:
        found = oidc.begin(instance)
    except InputError as error:
        return account_page(request, NOBODY, str(error), status=502)
    answer = RedirectResponse(found.url, 303)
    is_secure = instance.settings.url.startswith("https:")
    answer.set_cookie(
        COOKIE, found.state, max_age=oidc.SIGN_IN_S, httponly=True, secure=is_secure, samesite="lax", path=PATH
    )
    return answer


@router.get("/account/oidc/callback")
def finish(
    request: Request, state: _Text = "", code: _Text = "", error: _Text = "", error_description: _Text = ""
) -> Response:
    """Come back from the provider."""
    instance = _service(request)
    if error:
        said = printable(f"{instance.settings.oidc.name}: {error} {error_description}".strip(), 500)
        answer: Response = account_page(request, NOBODY, said, status=403)
    else:
        try:
            actor = oidc.finish(instance, request.cookies.get(COOKIE, ""), state, code)
            answer = signed_in(request, actor, "/submissions")
        except (ForbiddenError, InputError) as refusal:
            status = 403 if isinstance(refusal, ForbiddenError) else 502
            answer = account_page(request, NOBODY, str(refusal), status=status)
    answer.delete_cookie(COOKIE, path=PATH)
    return answer
