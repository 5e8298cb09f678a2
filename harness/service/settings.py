"""What an organiser may choose: `board.yaml` in the service's folder; and the limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from harness.base.typed_yaml import build, load_yaml
from harness.errors import RulesError, UsageError, printable
from harness.ruleset import catalog
from harness.transparency.checkpoint import is_origin

NAME = "board.yaml"
LOOPBACK = "127.0.0.1"
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """Of what is accepted. A check reads at most 4 GiB of one result."""

    max_file_bytes: int = 4 * GIB
    max_result_bytes: int = 4 * GIB
    max_files: int = 2_000
    max_bundle_bytes: int = 64 * MIB  # of files sent in one request
    max_form_bytes: int = 32 * MIB  # of a folder sent from a browser: nothing of it is kept if the connection breaks
    max_form_files: int = 200  # each is open while the form is read
    quota_bytes: int = 64 * GIB  # an organisation
    max_drafts: int = 100  # an organisation
    max_submissions_per_hour: int = 60_000  # an organisation
    max_uploads: int = 100  # an organisation, at once
    max_campaigns: int = 1_000  # an organisation, open at once
    max_hooks: int = 10  # an organisation
    upload_days: float = 7.0
    draft_days: float = 7.0
    session_hours: float = 12.0
    max_text: int = 10_000  # characters of an objection, a comment, a reason
    check_cpu_s: int = 600
    check_memory_bytes: int = 4 * GIB


@dataclass(frozen=True)
class Proxy:
    """A proxy in front that has signed people in. header: has the name of the person; addresses: of the proxy."""

    header: str = ""
    addresses: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """Where hooks may send to; with neither hosts nor networks there are none.

    hosts: names, of which the public addresses are called; `.example.com` is every name below it. networks: addresses
    that may be called, whatever the name: those of an internal network are private ones. ca: a file with the
    certificates of the authorities that sign the receivers'; empty: the system's.
    """

    hosts: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    ca: str = ""

    @property
    def are_on(self) -> bool:
        return bool(self.hosts or self.networks)


@dataclass(frozen=True)
class Oidc:
    """An identity provider that signs people in. claim: of its tokens, which has a person's `--subject`.

    secret_file: has the client's secret, unless TTA_BOARD_OIDC_SECRET does; with neither, the client is a public one.
    name: for people.
    """

    issuer: str = ""
    client_id: str = ""
    secret_file: str = ""
    claim: str = "sub"
    scopes: list[str] = field(default_factory=lambda: ["openid"])
    name: str = "single sign-on"


@dataclass(frozen=True)
class Settings:
    """origin: the name of the log, which every checkpoint has. url: where people and machines reach the service.

    rulesets: that rounds may have. export: the folder that `tta board export` writes whenever something is published;
    empty: none.
    """

    origin: str
    url: str = "http://127.0.0.1:8765/"
    database: str = ""
    rulesets: list[str] = field(default_factory=lambda: ["v1"])
    export: str = ""
    proxy: Proxy = field(default_factory=Proxy)
    oidc: Oidc = field(default_factory=Oidc)
    hooks: Hooks = field(default_factory=Hooks)
    limits: Limits = field(default_factory=Limits)


def read_settings(path: Path) -> Settings:
    """Return the settings in a file.

    Raises:
        RulesError: it cannot be read, has an unknown key, or a value that is not permitted.
    """
    settings = build(Settings, load_yaml(path), str(path))
    if not is_origin(settings.origin):
        raise RulesError(f"{path}: origin: {printable(settings.origin, 60)!r} has a blank or a +, or is too long")
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not settings.url.endswith("/"):
        raise RulesError(f"{path}: url: {printable(settings.url, 100)!r} must be http(s)://HOST/ and end with a slash")
    for name in settings.rulesets:
        try:
            catalog.ruleset_folder(name)
        except UsageError as error:
            raise RulesError(f"{path}: rulesets: {error}") from None
    for text in settings.hooks.networks:
        try:
            ip_network(text)
        except ValueError as error:
            raise RulesError(f"{path}: hooks.networks: {printable(error)}; write 10.20.0.0/16") from None
    _require_provider(settings.oidc, path)
    for name, value in vars(settings.limits).items():
        if value <= 0:
            raise RulesError(f"{path}: limits.{name}: {value} is not above 0")
    return settings


def is_secure(url: str) -> bool:
    """Whether nobody between here and there can read what is sent: by https, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname == LOOPBACK))


def _require_provider(oidc: Oidc, path: Path) -> None:
    if not oidc.issuer and oidc == Oidc():
        return
    if not is_secure(oidc.issuer):
        raise RulesError(f"{path}: oidc.issuer: {printable(oidc.issuer, 100)!r} must be https://HOST…")
    if not oidc.client_id or not oidc.claim:
        raise RulesError(f"{path}: oidc.{'claim' if oidc.client_id else 'client_id'}: must not be empty")
    if "openid" not in oidc.scopes:
        raise RulesError(f"{path}: oidc.scopes: {', '.join(oidc.scopes)}: must have 'openid' among them")
