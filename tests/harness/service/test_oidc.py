"""Signing in at an identity provider that signs real tokens."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from sqlalchemy import select

from harness.cli import main
from harness.errors import InputError, MissingDependencyError, RulesError
from harness.service import oidc, schema
from harness.service.settings import Oidc, read_settings
from harness.service.worker import sweep
from tests.harness.service.provider import CLIENT, SECRET, Provider, providing
from tests.harness.service.world import World


@pytest.fixture
def provider(unreviewed: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider by which the service's people sign in; it knows alice as `alice@idp`."""
    monkeypatch.setenv(oidc.SECRET_VARIABLE, SECRET)
    world = unreviewed
    with providing(world.time.now_ms // 1000) as found:
        settings = world.instance.settings.oidc
        for name, value in (("issuer", found.issuer), ("client_id", CLIENT), ("name", "Lab ID")):
            object.__setattr__(settings, name, value)
        assert main(["board", "person", "alice", "--subject", "alice@idp", *where(world)]) == 0
        yield found


def where(world: World) -> list[str]:
    database = world.instance.database.url.render_as_string(hide_password=False)
    return ["--data", str(world.instance.folder), "--database", database]


def browser(world: World) -> TestClient:
    return TestClient(world.client.app, follow_redirects=False)


def sent_away(client: TestClient) -> str:
    answer = client.get("/account/oidc")
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def sign_in(world: World, provider: Provider) -> tuple[TestClient, Any]:
    """Go there and back in a new browser; return it, and the answer."""
    client = browser(world)
    return client, client.get(provider.visit(sent_away(client)))


def refusal(world: World, provider: Provider, status: int = 403) -> str:
    """Why the sign-in fails, which begins no session."""
    client, answer = sign_in(world, provider)
    assert answer.status_code == status, answer.text
    assert "tta_session" not in client.cookies
    text: str = answer.text
    return text


def test_a_person_signs_in(unreviewed: World, provider: Provider) -> None:
    """As whom `--subject` says, with the session that a token begins; the provider learns no more than it must."""
    world = unreviewed
    assert "Sign in with Lab ID" in browser(world).get("/account").text

    client, answer = sign_in(world, provider)

    assert (answer.status_code, answer.headers["location"]) == (303, "/submissions")
    cookie = answer.headers["set-cookie"]
    assert "tta_session=" in cookie
    assert "HttpOnly" in cookie
    assert 'tta_sign_in=""' in cookie
    assert ">alice<" in client.get("/account").text
    [(sent, authorization)] = provider.exchanges
    assert sorted(sent) == ["client_id", "code", "code_verifier", "grant_type", "redirect_uri"]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"tta%20board:a%20secret%3A%25"
    assert sent["redirect_uri"] == "http://testserver/account/oidc/callback"


def test_sessions_of_the_provider_belong_to_one_token(unreviewed: World, provider: Provider) -> None:
    """Which is made once, is for what the person may do, and ends them all when it is revoked."""
    world = unreviewed
    clients = [sign_in(world, provider)[0] for _ in range(2)]
    with world.instance.database.read() as connection:
        label = schema.token.c.label == "signing in with Lab ID"
        [row] = connection.execute(schema.token.select().where(label)).all()

    assert row.expires_ms is None
    assert all(">alice<" in client.get("/account").text for client in clients)
    clients[0].post("/account/revoke", data={"token": row.id}, headers={"sec-fetch-site": "same-origin"})
    assert all("Sign in with Lab ID" in client.get("/account").text for client in clients)
    assert ">alice<" in sign_in(world, provider)[0].get("/account").text


def test_what_the_browser_is_sent_with(unreviewed: World, provider: Provider) -> None:
    """A state and a nonce of its own each time; a challenge, and not what it is of; a cookie that no page can read."""
    client = browser(unreviewed)
    first = client.get("/account/oidc")
    provider.visit(first.headers["location"])
    provider.visit(sent_away(client))

    one, other = provider.asked.values()
    assert (one["response_type"], one["scope"], one["client_id"]) == ("code", "openid", CLIENT)
    assert all(one[name] != other[name] for name in ("state", "nonce", "code_challenge"))
    cookie = first.headers["set-cookie"]
    assert f"tta_sign_in={one['state']}" in cookie
    assert all(part in cookie for part in ("HttpOnly", "Max-Age=600", "Path=/account/oidc", "SameSite=lax"))
    with unreviewed.instance.database.read() as connection:
        kept = connection.execute(select(schema.sign_in)).all()
    assert one["state"] not in str(kept)


def test_a_state_is_good_once(unreviewed: World, provider: Provider) -> None:
    """Brought again by the same browser, with another code: refused; neither code is asked for."""
    world, client = unreviewed, browser(unreviewed)
    back = provider.visit(sent_away(client))
    cookie = client.cookies["tta_sign_in"]
    assert client.get(back).status_code == 303
    client.cookies.delete("tta_session")
    client.cookies.set("tta_sign_in", cookie)

    answer = client.get(back.replace("code0", "code1"))

    assert answer.status_code == 403
    assert "over, or was used before" in answer.text
    assert len(provider.exchanges) == 1
    assert world.instance.settings.oidc.name == "Lab ID"


def test_a_state_is_good_in_its_browser_for_ten_minutes(unreviewed: World, provider: Provider) -> None:
    """Not in another one, not without one, not later; what is left of it is forgotten."""
    world, client = unreviewed, browser(unreviewed)
    back = provider.visit(sent_away(client))

    for other in (browser(world), client):
        answer = other.get(back if other is not client else back.replace("state=", "state=x"))
        assert answer.status_code == 403
        assert "not begun in this browser" in answer.text
    client = browser(world)
    sent_away(client)
    assert client.get("/account/oidc/callback").status_code == 403
    client = browser(world)
    back = provider.visit(sent_away(client))
    world.time.advance(601 / 86_400)
    assert "over, or was used before" in client.get(back).text
    assert provider.exchanges == []
    sweep(world.instance)
    with world.instance.database.read() as connection:
        assert connection.execute(select(schema.sign_in)).all() == []


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another"]}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example.com"}, "iss"),
        ({"exp": 0}, "expired"),
        ({"exp": None}, "exp"),
        ({"iat": 1 << 40}, "future"),
        ({"sub": None}, "sub"),
        ({"aud": [CLIENT, "b"], "azp": "b"}, "it is for"),
    ],
)
def test_a_token_for_another_is_refused(
    unreviewed: World, provider: Provider, claims: dict[str, Any], why: str
) -> None:
    """For another sign-in, service or provider, or out of its time."""
    provider.claims = claims

    text = refusal(unreviewed, provider)

    assert "the token of Lab ID is refused" in text
    assert why in text


def test_a_token_of_another_key_is_refused(unreviewed: World, provider: Provider) -> None:
    """Of one that the provider does not publish, also under its name; of none; of one that is no secret."""
    world = unreviewed
    provider.published = ECKey.generate_key("P-256", {"kid": provider.key.kid or ""})
    assert "bad_signature" in refusal(world, provider)
    provider.published = ECKey.generate_key("P-256", auto_kid=True)
    assert "No key for kid" in refusal(world, provider)
    provider.published = provider.key
    claims = {"iss": provider.issuer, "sub": "alice@idp"}
    secret = OctKey.import_key(SECRET * 4)
    for token in ("", "a.b.c", jwt.encode({"alg": "HS256"}, claims, secret)):
        provider.token = {"id_token": token}
        assert "the token of Lab ID is refused" in refusal(world, provider)
    provider.token = None
    provider.claims = {"aud": [CLIENT, "b"], "azp": CLIENT}
    assert sign_in(world, provider)[1].status_code == 303


def test_who_is_not_known_here_is_told_how_they_are_added(unreviewed: World, provider: Provider) -> None:
    """With the command; disabled people are not known; the name may be another claim, an address only if verified."""
    world = unreviewed
    provider.subject = "eve@idp"
    assert "tta board person NAME --organisation TEAM --subject" in refusal(world, provider)
    provider.subject = "alice@idp"
    assert main(["board", "person", "alice", "--disable", *where(world)]) == 0
    assert "nobody&#39;s name for signing in here" in refusal(world, provider)
    object.__setattr__(world.instance.settings.oidc, "claim", "email")
    assert main(["board", "person", "bob", "--roles", "auditor", "--subject", "bob@bits", *where(world)]) == 0
    assert "has no &#39;email&#39;" in refusal(world, provider)
    provider.claims = {"email": "bob@bits"}
    assert "has not verified the address" in refusal(world, provider)
    provider.claims["email_verified"] = True
    client, _ = sign_in(world, provider)
    assert '<span class="chip">auditor' in client.get("/account").text


def test_a_provider_that_fails_is_named(unreviewed: World, provider: Provider) -> None:
    """Away, under another name, without what it must say; refused by it, with what it says."""
    world, client = unreviewed, browser(unreviewed)
    provider.is_down = True
    assert client.get("/account/oidc").status_code == 502
    provider.is_down = False
    provider.document = {"issuer": "https://other.example.com"}
    assert "calls itself &#39;https://other.example.com&#39;" in client.get("/account/oidc").text
    for name in ("http://idp.example.com/x", None):
        provider.document = {"authorization_endpoint": name}
        assert "it must be https" in client.get("/account/oidc").text
    provider.document = {"authorization_endpoint": f"{provider.issuer}/sign-in?tenant=1"}
    assert "/sign-in?tenant=1&response_type=code" in sent_away(client)
    provider.document = {}
    provider.keys = {}
    assert "has no keys" in refusal(world, provider, 502)
    for keys in ([{}], [{"kty": "EC", "crv": "P-256", "x": "?", "y": 1}], [1]):
        provider.keys = {"keys": keys}
        assert "the token of Lab ID is refused" in refusal(world, provider)
    provider.token = {}
    assert "has no id_token" in refusal(world, provider, 502)
    back = provider.visit(sent_away(client)).replace("code=code", "code=other")
    assert client.get(back).status_code == 502
    refused = client.get("/account/oidc/callback?error=access_denied&error_description=not+today")
    assert (refused.status_code, "Lab ID: access_denied not today" in refused.text) == (403, True)


def test_how_the_client_says_who_it_is(
    unreviewed: World, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the body, where the provider wants that; by a file; not at all, as a public client."""
    world = unreviewed
    provider.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    sign_in(world, provider)
    monkeypatch.delenv(oidc.SECRET_VARIABLE)
    sign_in(world, provider)
    (tmp_path / "secret").write_text("by file\n")
    object.__setattr__(world.instance.settings.oidc, "secret_file", str(tmp_path / "secret"))
    sign_in(world, provider)

    assert [sent.get("client_secret") for sent, _ in provider.exchanges] == [SECRET, None, "by file"]
    assert {authorization for _, authorization in provider.exchanges} == {""}


def test_without_a_provider_there_is_nothing_to_sign_in_at(small: World) -> None:
    """No link, and no page."""
    assert "oidc" not in small.client.get("/account").text
    for path in ("/account/oidc", "/account/oidc/callback"):
        assert small.client.get(path).status_code == 404


def test_a_provider_that_cannot_be_used_is_said_before_the_service_starts(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the library, or without the secret: one sentence, status 2."""
    settings = small.instance.folder / "board.yaml"
    secret = tmp_path / "none"
    more = f"oidc: {{issuer: 'https://id.example.com', client_id: a, secret_file: '{secret}'}}\n"
    settings.write_text(settings.read_text() + more)
    web = ["board", "web", "--data", str(small.instance.folder), "--port", "0"]

    assert main(web) == 2
    assert f"oidc.secret_file: {secret}: cannot be read" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "joserfc", None)
    assert main(web) == 2
    assert "pip install 'tta-harness[board,oidc]'" in capsys.readouterr().err
    with pytest.raises(MissingDependencyError):
        oidc.require_ready(Oidc("https://id.example.com", "a"))
    oidc.require_ready(Oidc())
    monkeypatch.undo()
    oidc.require_ready(Oidc("https://id.example.com", "a"))
    secret.write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot be read"):
        oidc.require_ready(read_settings(settings).oidc)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{issuer: 'http://id.example.com', client_id: a}", "oidc.issuer"),
        ("{issuer: 'https://[', client_id: a}", "oidc.issuer"),
        ("{client_id: a}", "oidc.issuer"),
        ("{issuer: 'https://id.example.com'}", "oidc.client_id: must not be empty"),
        ("{issuer: 'https://id.example.com', client_id: a, claim: ''}", "oidc.claim: must not be empty"),
        ("{issuer: 'https://id.example.com', client_id: a, scopes: [email]}", "must have 'openid' among them"),
    ],
)
def test_settings_of_a_provider_are_read(tmp_path: Path, text: str, why: str) -> None:
    """What cannot be is named by its key."""
    path = tmp_path / "board.yaml"
    path.write_text(f"origin: a\nurl: http://x/\noidc: {text}\n")
    with pytest.raises(RulesError, match=why):
        read_settings(path)


def test_two_people_cannot_sign_in_as_one(unreviewed: World, provider: Provider) -> None:
    """Whom the provider calls so is one person."""
    assert main(["board", "person", "bob", "--subject", "alice@idp", *where(unreviewed)]) == 2
