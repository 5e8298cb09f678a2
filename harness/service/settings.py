"""What an organiser may choose: `board.yaml` in the service's folder; and the limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from harness.base.typed_yaml import build, load_yaml
from harness.errors import RulesError, UsageError, printable
from harness.ruleset import catalog
from harness.transparency.checkpoint import is_origin

NAME = "board.yaml"
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
    for name, value in vars(settings.limits).items():
        if value <= 0:
            raise RulesError(f"{path}: limits.{name}: {value} is not above 0")
    return settings
