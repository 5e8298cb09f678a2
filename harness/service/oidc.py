"""Signing in at an identity provider: OpenID Connect's authorization-code flow, with PKCE, state and nonce.

A sign-in that has begun is a row, which its end takes away: a state is good once, for ten minutes, in the browser that
has it as a cookie. The requests are ours, since they are three; joserfc verifies the token.

Sources: OpenID Connect Core 1.0, 3.1; RFC 7636.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sqlalchemy import delete, insert, select

from harness.base.http import HttpClient
from harness.base.ids import secret_digest
from harness.base.values import mapping_or_empty
from harness.errors import InputError, MissingDependencyError, printable
from harness.service import people, schema
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.settings import Oidc, is_secure
from harness.service.submissions import ForbiddenError

SECRET_VARIABLE = "TTA_BOARD_OIDC_SECRET"  # noqa: S105  (the name of the variable)
CALLBACK = "account/oidc/callback"
SIGN_IN_S = 600
TIMEOUT_S = 10.0
_LEEWAY_S = 60  # that two clocks may differ
# Not HS256, by which whoever knows the client's secret could sign; not none.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_sign_in, _tokens = schema.sign_in, schema.token


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun. url: where the browser goes. state: what it must bring back, and has as a cookie."""

    url: str
    state: str


def require_ready(settings: Oidc) -> None:
    """Raises:
    MissingDependencyError: a provider is set, and what verifies its tokens is not installed.
    InputError: the client's secret cannot be read.
    """
    if not settings.issuer:
        return
    if importlib.util.find_spec("joserfc") is None:
        raise MissingDependencyError(
            "`oidc` in board.yaml needs 'joserfc', which is not installed: pip install 'tta-harness[board,oidc]'"
        )
    _secret(settings)


def _secret(settings: Oidc) -> str | None:
    if given := os.environ.get(SECRET_VARIABLE):
        return given
    if not settings.secret_file:
        return None
    try:
        return Path(settings.secret_file).read_text().strip()
    except (OSError, ValueError) as error:
        raise InputError(f"oidc.secret_file: {settings.secret_file}: cannot be read: {printable(error)}") from None


def begin(instance: Instance) -> Begun:
    """Begin a sign-in.

    Raises:
        InputError: the provider cannot be reached, or does not say what it must.
    """
    settings = instance.settings.oidc
    place = _endpoint(_discovered(settings), "authorization_endpoint")
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    with instance.database.write() as connection:
        expires_ms = instance.now_ms() + SIGN_IN_S * 1000
        values = {"state_sha256": secret_digest(state), "nonce": nonce, "verifier": verifier, "expires_ms": expires_ms}
        connection.execute(insert(_sign_in).values(**values))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code", "client_id": settings.client_id, "redirect_uri": instance.settings.url + CALLBACK,
        "scope": " ".join(settings.scopes), "state": state, "nonce": nonce, "code_challenge": challenge,
        "code_challenge_method": "S256",
    }  # fmt: skip
    return Begun(f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}", state)


def finish(instance: Instance, kept: str, state: str, code: str) -> Actor:
    """Return who has signed in. kept: the state that the browser has as a cookie.

    Raises:
        ForbiddenError: the sign-in was not begun in this browser, is over, or was ended before; the token is not this
            provider's for this service and this sign-in; nobody here is called so.
        InputError: the provider cannot be reached, or does not say what it must.
    """
    settings, now_ms = instance.settings.oidc, instance.now_ms()
    if not state or not secrets.compare_digest(kept.encode(), state.encode()):
        raise ForbiddenError("this sign-in was not begun in this browser; begin again")
    is_it = (_sign_in.c.state_sha256 == secret_digest(state)) & (_sign_in.c.expires_ms > now_ms)
    with instance.database.write() as connection:
        row = connection.execute(
            delete(_sign_in).where(is_it).returning(_sign_in.c.nonce, _sign_in.c.verifier)
        ).one_or_none()
    if row is None:
        raise ForbiddenError("this sign-in is over, or was used before; begin again")
    document = _discovered(settings)
    token = _token(instance, document, code, row.verifier)
    claims = _verified(settings, token, _keys(document), row.nonce, now_ms // 1000)
    subject = _subject(settings, claims)
    with instance.database.read() as connection:
        actor = people.by_subject(connection, subject)
    if actor is None:
        raise ForbiddenError(
            f"{settings.name} knows you as {printable(subject)!r}, which is nobody's name for signing in here; an "
            f"organiser adds you: tta board person NAME --organisation TEAM --subject {printable(subject)!r}"
        )
    return replace(actor, token=_kept_token(instance, actor, f"signing in with {settings.name}"))


def _kept_token(instance: Instance, actor: Actor, label: str) -> str:
    """Return the id of the token that this person's sessions by the provider belong to, made with the first of them.

    Nobody knows the token itself. On the page *Account* it can be revoked, which ends the sessions.
    """
    assert actor.person is not None
    label = printable(label, 200)
    is_it = (_tokens.c.person == actor.person) & (_tokens.c.label == label) & _tokens.c.revoked_ms.is_(None)
    with instance.database.write() as connection:
        found = connection.execute(select(_tokens.c.id).where(is_it, _tokens.c.expires_ms.is_(None)).limit(1)).scalar()
        return found or people.add_token(connection, actor.person, label, actor.scopes, instance.now_ms())[0]


def end_expired(instance: Instance) -> None:
    """Forget the sign-ins that were begun and not ended."""
    with instance.database.write() as connection:
        connection.execute(delete(_sign_in).where(_sign_in.c.expires_ms <= instance.now_ms()))


def _fetched(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}/"
    path = url.removeprefix(root)
    client = HttpClient(root, timeout_s=TIMEOUT_S)
    return client.request("GET" if body is None else "POST", path, body, headers, retries=0).json(url)


def _discovered(settings: Oidc) -> dict[str, Any]:
    """Return what the provider says of itself."""
    document = _fetched(f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != settings.issuer:
        raise InputError(f"{settings.issuer}: calls itself {printable(document.get('issuer'))!r}; set oidc.issuer so")
    return document


def _endpoint(document: dict[str, Any], name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str) or not is_secure(found):
        raise InputError(f"{document['issuer']}: its {name} is {printable(found)!r}; it must be https://HOST/…")
    return found


def _token(instance: Instance, document: dict[str, Any], code: str, verifier: str) -> str:
    """Return the token that a code is good for."""
    settings, url = instance.settings.oidc, _endpoint(document, "token_endpoint")
    asked = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": instance.settings.url + CALLBACK,
        "client_id": settings.client_id, "code_verifier": verifier,
    }  # fmt: skip
    headers, secret = {"content-type": "application/x-www-form-urlencoded"}, _secret(settings)
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if secret is not None and "client_secret_basic" in methods:
        pair = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"  # RFC 6749, 2.3.1
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif secret is not None:
        asked["client_secret"] = secret
    found = _fetched(url, urlencode(asked).encode(), headers).get("id_token")
    if not isinstance(found, str):
        raise InputError(f"{url}: the answer has no id_token")
    return found


def _keys(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the keys with which the provider signs."""
    url = _endpoint(document, "jwks_uri")
    found = _fetched(url).get("keys")
    if not isinstance(found, list):
        raise InputError(f"{url}: has no keys")
    return [mapping_or_empty(item) for item in found]


def _verified(settings: Oidc, token: str, keys: list[dict[str, Any]], nonce: str, now_s: int) -> dict[str, Any]:
    """Return the claims of a token that the provider signed for this service and this sign-in."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    expected = {
        "iss": {"essential": True, "value": settings.issuer}, "aud": {"essential": True, "value": settings.client_id},
        "nonce": {"essential": True, "value": nonce}, "exp": {"essential": True}, "iat": {"essential": True},
        "sub": {"essential": True},
    }  # fmt: skip
    try:
        claims = jwt.decode(token, KeySet.import_key_set({"keys": keys}), algorithms=_ALGORITHMS).claims
        jwt.JWTClaimsRegistry(now_s, _LEEWAY_S, **expected).validate(claims)  # type: ignore[arg-type]
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ForbiddenError(f"the token of {settings.name} is refused: {printable(error, 300)}") from None
    if claims.get("azp", settings.client_id) != settings.client_id:
        raise ForbiddenError(f"the token of {settings.name} is refused: it is for {printable(claims['azp'])!r}")
    return dict(claims)


def _subject(settings: Oidc, claims: dict[str, Any]) -> str:
    found = claims.get(settings.claim)
    if not isinstance(found, str) or not found:
        raise ForbiddenError(f"the token of {settings.name} has no {settings.claim!r}, by which people are known here")
    # Whoever may write any address into their profile would be whom they like.
    if settings.claim == "email" and claims.get("email_verified") is not True:
        raise ForbiddenError(f"{settings.name} has not verified the address {printable(found)!r}")
    return found
