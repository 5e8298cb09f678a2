"""A claim on a leaderboard: its files, by the address of its page, each held to the digest that the board states.

A site of files has the lists of all results in its data. The service has none of these, and lists those of one result.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from harness.base import strict_json
from harness.base.download import SILENCE_S, download
from harness.base.values import is_whole, mapping_or_empty
from harness.errors import InputError, UsageError, printable
from harness.submission.result import MAX_RESULT_BYTES

BOARD_NAME = "leaderboard.json"
_PAGE = re.compile(r"(?P<root>/(?:.*/)?)(?P<page>results/[^/]+\.html)")
_MAX_BOARD_BYTES = 256 << 20
_MAX_FILES = 10_000


def fetch(address: str, folder: Path, say: Callable[[str], None]) -> Path:
    """Download the files of a result into `folder`; return it. What is there already is not downloaded again.

    address: of the result's page.

    Raises:
        UsageError: it is not that of a page of a result. InputError: the board has no such result.
        DataError: a file cannot be downloaded, or is not the one that the board states.
    """
    parts = urlsplit(address)
    match = _PAGE.fullmatch(parts.path)
    if match is None:
        raise UsageError(f"{printable(address)}: name the page of a result, …/results/NAME.html")
    root = urlunsplit((parts.scheme, parts.netloc, match["root"], "", ""))
    source, files = _listed(root, match["page"], address)
    if not isinstance(files, list) or not files or len(files) > _MAX_FILES:
        raise InputError(f"{printable(address)}: the board has no files of this result, so it cannot be made again")
    for number, item in enumerate(map(mapping_or_empty, files), 1):
        place, digest, num_bytes = item.get("path"), item.get("sha256"), item.get("bytes")
        target = _target(place)
        if target is None or not isinstance(digest, str) or not is_whole(num_bytes) or num_bytes > MAX_RESULT_BYTES:
            raise InputError(f"{source}: file {number} of {match['page']} has no path, digest or size")
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        download(root + quote(str(place)), path, digest, num_bytes, say)
    return folder


def _target(place: object) -> Path | None:
    """The path below files/NAME/; None for one that is elsewhere, or leads out."""
    if not isinstance(place, str) or "\\" in place or "\0" in place:
        return None
    parts = PurePosixPath(place).parts
    if len(parts) < 3 or parts[0] != "files" or ".." in parts:
        return None
    return Path(*parts[2:])


def _listed(root: str, page: str, address: str) -> tuple[str, object]:
    """Where the files of a result are listed, and the list, with paths below `root`."""
    source = root + BOARD_NAME
    board = _json(source)
    if board is not None:
        return source, _row(board, source, page, address).get("files")
    name = PurePosixPath(page).stem
    source = f"{root}api/v1/submissions/{name}/files"
    found = _json(source)
    if found is None:
        raise InputError(f"{printable(address)}: there is neither {BOARD_NAME} nor a submission {printable(name)}")
    files = found.get("files")
    items = list(map(mapping_or_empty, files)) if isinstance(files, list) else []
    return source, [{**item, "path": f"files/{name}/{item.get('path')}"} for item in items]


def _row(board: dict[str, Any], source: str, page: str, address: str) -> dict[str, Any]:
    tables = board.get("tables")
    for table in tables if isinstance(tables, list) else []:
        rows = mapping_or_empty(table).get("rows")
        for row in rows if isinstance(rows, list) else []:
            if mapping_or_empty(row).get("page") == page:
                return dict(row)
    raise InputError(f"{printable(address)}: {source} has no result with this page")


def _json(url: str) -> dict[str, Any] | None:
    """What is at an address; None if there is nothing."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "tta-harness"})  # noqa: S310  (http or https)
        with urllib.request.urlopen(request, timeout=SILENCE_S) as response:  # noqa: S310
            data = response.read(_MAX_BOARD_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == HTTPStatus.NOT_FOUND:
            return None
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise InputError(f"{url}: cannot be downloaded: {printable(reason)}") from None
    if len(data) > _MAX_BOARD_BYTES:
        raise InputError(f"{url}: has more than {_MAX_BOARD_BYTES:,} bytes; no leaderboard is as large")
    try:
        found = strict_json.loads(data)
    except ValueError as error:
        raise InputError(f"{url}: not JSON: {printable(error)}") from None
    return dict(mapping_or_empty(found))
