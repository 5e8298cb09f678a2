"""The released code: the digests of its files by version, and whether a result was made with one of the versions.

`rules/releases/<version>.txt` has the list of a release, written by `scripts/release.py`. The lists are not part of the
code that they describe, so that a release does not change its own digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base.values import mapping_or_empty
from harness.errors import RulesError, SubmissionError, printable
from harness.log import keys
from harness.submission.layout import CODE_LIST
from harness.submission.provenance import digest_of_list, nearest, read_list
from harness.submission.result import Result

Releases = Mapping[str, Mapping[str, str]]


def read_releases(folder: Path) -> dict[str, dict[str, str]]:
    """Return the digests of the files of each release in `folder`, by version; none if there is no such folder.

    Raises:
        RulesError: a list cannot be read.
    """
    try:
        return {path.stem: read_list(path) for path in sorted(folder.glob("*.txt"))}
    except SubmissionError as error:
        raise RulesError(str(error)) from None


@dataclass(frozen=True, slots=True)
class CodeVerdict:
    """The code of a result, and what is known of it.

    state: "released", "unreleased", or "unrecorded" where the logs do not say what ran.
    release: the version, if it is released. difference: from the nearest release. num_log: which log names this code.
    """

    state: str
    release: str | None = None
    digest: str | None = None
    commit: str | None = None
    is_clean: bool | None = None
    difference: str = ""
    num_log: int | None = None

    @property
    def words(self) -> str:
        """A few words for a badge."""
        if self.state == "released":
            return f"release {self.release}"
        if self.state == "unrecorded":
            return "code not recorded"
        commit = "outside a checkout" if self.commit is None else f"commit {self.commit[:7]}"
        return f"unreleased code, {commit}{'' if self.is_clean is not False else ' with changes'}"

    @property
    def sentence(self) -> str:
        """The words and the difference."""
        return f"{self.words}: {self.difference}" if self.difference else self.words

    def record(self) -> dict[str, Any]:
        """Return what a program may want to know, as JSON."""
        names = ("state", "release", "digest", "commit", "is_clean")
        return {**{name: getattr(self, name) for name in names}, "difference": self.difference or None}


def code_verdict(result: Result, releases: Releases) -> CodeVerdict:
    """Return the verdict on the code of a result: of its first run with unreleased code, if there is one."""
    versions = {digest_of_list(files): version for version, files in releases.items()}
    found = [mapping_or_empty(log.value(keys.TTA_CODE)) for log in result.runs]
    if not found or not all(isinstance(code.get("digest"), str) for code in found):
        return CodeVerdict("unrecorded")
    num_log = next((place for place, code in enumerate(found) if code["digest"] not in versions), 0)
    code = found[num_log]
    commit, is_clean = code.get("commit"), code.get("is_clean")
    release = versions.get(code["digest"])
    return CodeVerdict(
        "unreleased" if release is None else "released",
        release,
        digest=printable(code["digest"], 64),
        commit=printable(commit, 64) if isinstance(commit, str) else None,
        is_clean=is_clean if isinstance(is_clean, bool) else None,
        difference="" if release is not None else _difference(result, code["digest"], releases),
        num_log=num_log,
    )


def _difference(result: Result, digest: str, releases: Releases) -> str:
    """Return how the code with this digest differs from the nearest release, or why that cannot be said."""
    entry = result.files.get(CODE_LIST)
    if entry is None or entry.sha256 != digest:
        return f"it cannot be compared with a release without its list, {CODE_LIST}"
    try:
        found = nearest(read_list(result.path / CODE_LIST), releases)
    except SubmissionError as error:
        return printable(error)
    return "there is no release to compare with" if found is None else str(found)
