"""A small identity provider on this machine, which signs real tokens; for tests."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet

from tests.webserver import serving

CLIENT, SECRET = "tta board", "a secret:%"


@dataclass
class Provider:
    """now_s: its clock. claims, document: what it says otherwise. key: signs. published: what it says it signs with."""

    now_s: int
    issuer: str = ""
    subject: str = "alice@idp"
    claims: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    token: dict[str, Any] | None = None  # in the place of the answer to a code
    keys: dict[str, Any] | None = None  # in the place of its keys
    is_down: bool = False

    def __post_init__(self) -> None:
        self.key: Key = ECKey.generate_key("P-256", auto_kid=True)
        self.published: Key = self.key
        self.asked: dict[str, dict[str, str]] = {}  # by code: what the browser asked for
        self.exchanges: list[tuple[dict[str, str], str]] = []

    def visit(self, url: str) -> str:
        """Sign in as a person does, who was sent here; return where the browser goes then."""
        asked = dict(parse_qsl(urlsplit(url).query, strict_parsing=True))
        code = f"code{len(self.asked)}"
        self.asked[code] = asked
        return f"{asked['redirect_uri']}?state={asked['state']}&code={code}"

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        if self.is_down:
            status, answer = 503, {}
        elif path == "/idp/.well-known/openid-configuration":
            status, answer = 200, {
                "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/sign-in",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys", **self.document,
            }  # fmt: skip
        elif path == "/idp/keys":
            status, answer = 200, KeySet([self.published]).as_dict() if self.keys is None else self.keys
        else:
            assert path == "/idp/token"
            status, answer = self._exchanged(request)
        request.send_response(status)
        request.end_headers()
        request.wfile.write(json.dumps(answer).encode())

    def _exchanged(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, Any]]:
        body = request.rfile.read(int(request.headers["content-length"])).decode()
        sent = {name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}
        self.exchanges.append((sent, request.headers.get("authorization", "")))
        asked = self.asked.pop(sent["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=")
        if asked is None or asked["code_challenge"] != challenge.decode() or asked["code_challenge_method"] != "S256":
            return 400, {"error": "invalid_grant"}
        if self.token is not None:
            return 200, self.token
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": self.subject, "nonce": asked["nonce"], "iat": self.now_s,
            "exp": self.now_s + 300, **self.claims,
        }  # fmt: skip
        kept = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "ES256", "kid": self.key.kid, **self.header}
        return 200, {"id_token": jwt.encode(header, kept, self.key), "access_token": "x", "token_type": "Bearer"}


@contextmanager
def providing(now_s: int) -> Iterator[Provider]:
    """A provider that answers."""
    found = Provider(now_s)
    with serving(found) as url:
        found.issuer = f"{url}/idp"
        yield found
