"""The ruleset's `allowed_signers`: the SSH keys that may sign for each submitter, in ssh-keygen's own format.

ssh-keygen reports a key on a line that it cannot read as not listed, which would blame a submitter for the organiser's
mistake. So every line is checked when the rules are loaded.

Source: ssh-keygen(1), "ALLOWED SIGNERS"; RFC 4253, section 6.6; OpenSSH, PROTOCOL.certkeys.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from pathlib import Path

from harness.errors import RulesError, printable, unknown_name

_FLAG, _TEXT, _AFTER, _BEFORE = "cert-authority", "namespaces", "valid-after", "valid-before"
_CERTIFICATE = "-cert-v01@openssh.com"  # some of its fields are numbers
_FIELDS = {"ssh-ed25519": 2, "ssh-rsa": 3}  # of the common types; a key that was pasted twice has more
_WHO = re.compile(r'(?:"([^"]+)"|([^ \t"]+))[ \t]+')
_OPTIONS = re.compile(r'((?:"(?:\\"|[^"])*"|[^ \t"])+)[ \t]+')
_OPTION = re.compile(r'([^=,"]*)(?:="((?:\\"|[^"])*)")?(?:,(?=.)|$)')
_TIMES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_FORM = "a line has the name of a submitter, options if any, the type of a key, and the key"


def read_signers(path: Path) -> bytes | None:
    """Return the bytes of the file, every line of which ssh-keygen can read; None if there is no file.

    Raises:
        RulesError: the file cannot be read, or ssh-keygen could not read a line of it.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RulesError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.decode("utf-8", "replace").strip(" \t\r")
        if text and not text.startswith("#"):
            try:
                _read(text)
            except ValueError as error:
                raise RulesError(f"{path}:{number}: {error}") from None
    return data


def _read(line: str) -> None:
    """Raise ValueError, with a sentence, if ssh-keygen could not read the line."""
    who = _WHO.match(line)
    if who is None or not (who[1] or who[2]).isprintable():
        raise ValueError(f"no submitter and key can be read from {printable(line, 60)!r}; {_FORM}")
    rest = line[who.end() :]
    if _is_key(rest):
        return
    options = _OPTIONS.match(rest)
    if options is None or not _is_key(rest[options.end() :]):
        raise ValueError(f"no key can be read from {printable(rest, 60)!r}; {_FORM}")
    _read_options(options[1])


def _is_key(text: str) -> bool:
    """Whether this begins with the type of a key and a complete key that names the same type."""
    words = re.split(r"[ \t]+", text)
    try:
        left = base64.b64decode(words[1], validate=True)
    except (IndexError, ValueError):
        return False
    fields = []
    while len(left) >= (end := 4 + int.from_bytes(left[:4], "big")):
        fields.append(left[4:end])
        left = left[end:]
    if fields[:1] != [words[0].encode()]:
        return False
    return words[0].endswith(_CERTIFICATE) or (not left and len(fields) == _FIELDS.get(words[0], max(len(fields), 2)))


def _read_options(text: str) -> None:
    """Raise ValueError, with a sentence, if they are not options of an allowed signer."""
    seen: dict[str, str] = {}
    end = 0
    while end < len(text):
        option = _OPTION.match(text, end)
        if option is None:
            raise ValueError(f'the options {printable(text, 60)!r} are not NAME or NAME="VALUE", separated by commas')
        name, value, end = option[1].lower(), option[2], option.end()
        if name not in (_FLAG, _TEXT, _AFTER, _BEFORE):
            raise ValueError(unknown_name("option", option[1], (_FLAG, _TEXT, _AFTER, _BEFORE)))
        if (value is None) is not (name == _FLAG):
            raise ValueError(f"the option {name} {'has no value' if name == _FLAG else 'needs a value in quotes'}")
        if name in seen:
            raise ValueError(f"the option {name} occurs twice")
        seen[name] = value or ""
    times = {name: _time(name, seen[name]) for name in (_AFTER, _BEFORE) if name in seen}
    if len(times) == 2 and times[_BEFORE] <= times[_AFTER]:
        raise ValueError(f"{_BEFORE} is {seen[_BEFORE]}, which is not after {_AFTER}, {seen[_AFTER]}")


def _time(name: str, value: str) -> datetime:
    digits = value.removesuffix("Z")
    try:
        if not re.fullmatch("[0-9]+", digits):
            raise ValueError
        return datetime.strptime(digits, _TIMES[len(digits)])
    except (KeyError, ValueError):
        raise ValueError(f"{name} is {printable(value, 40)!r}; it must be YYYYMMDD[HHMM[SS]][Z]") from None
