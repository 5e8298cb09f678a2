"""A claim by the address of its page: on a site of files, on a service, and on neither."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from harness.board.site import write_site
from harness.errors import DataError, InputError, UsageError
from harness.reproduction import fetch as subject
from harness.reproduction.claim import read_claim
from harness.reproduction.fetch import fetch
from harness.submission.result import find_results, read_result
from tests import fabricate
from tests.harness.board.test_index import board_of, submit
from tests.webserver import serving

RULESET = fabricate.ruleset({}, fabricate.benchmark_rules())
PAGE = "results/acme--box1--toy_mini.html"


def said(line: str) -> None:
    """Nothing is checked of it."""


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[str]:
    """A board with these files, one folder below its address; anything else is not there."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = files.get(unquote(request.path).removeprefix("/board/"))
        if body is None:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    with serving(answer) as url:
        yield f"{url}/board/"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with one result, as it is submitted."""
    tree = tmp_path_factory.mktemp("board") / "tree"
    submit(tree, "acme", "box1")
    return tree


@pytest.fixture(scope="module")
def site(tree: Path) -> dict[str, bytes]:
    folder = tree.parent / "site"
    write_site(board_of(tree), folder, tree)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def of_service(tree: Path) -> dict[str, bytes]:
    """What a service with the result has: no data of a site, but a list of the files, and these."""
    paths = {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    listed = [
        {"path": name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in paths.items()
    ]
    files = {f"files/7f3a/{name}": content for name, content in paths.items()}
    return {"api/v1/submissions/7f3a/files": json.dumps({"files": listed}).encode(), **files}


def test_claim_on_a_site_is_the_result_that_was_submitted(site: dict[str, bytes], tree: Path, tmp_path: Path) -> None:
    """Its logs have the same digest, its system is known, and a second call asks for no file again."""
    [original] = find_results(tree)
    with served(site) as address:
        folder = fetch(f"{address}{PAGE}", tmp_path, said)
    claim = read_claim(folder, RULESET)

    assert claim.digest == read_result(original).runs_digest
    assert claim.result.system == read_result(original).system != None  # noqa: E711  (both, and not nothing)
    with served({"leaderboard.json": site["leaderboard.json"]}) as address:
        assert fetch(f"{address}{PAGE}", tmp_path, said) == folder


def test_claim_on_a_service_is_the_result_that_was_submitted(tree: Path, tmp_path: Path) -> None:
    """A service has no data of all its results: it lists the files of one."""
    [original] = find_results(tree)
    with served(of_service(tree)) as address:
        claim = read_claim(fetch(f"{address}results/7f3a.html", tmp_path, said), RULESET)

    assert claim.digest == read_result(original).runs_digest
    assert claim.result.system == read_result(original).system


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "there is neither leaderboard.json nor a submission 7f3a"),
        ({"leaderboard.json": b"<html>"}, "leaderboard.json: not JSON"),
        ({"leaderboard.json": b"[]"}, "leaderboard.json has no result with this page"),
        ({"leaderboard.json": b'{"tables": [{"rows": [7]}, 7]}'}, "leaderboard.json has no result with this page"),
        (
            {"leaderboard.json": b'{"tables": [{"rows": [{"page": "results/7f3a.html"}]}]}'},
            "the board has no files of this result",
        ),
        ({"api/v1/submissions/7f3a/files": b"{}"}, "the board has no files of this result"),
        ({"api/v1/submissions/7f3a/files": b'{"files": [7]}'}, "7f3a/files: file 1 of .* has no path, digest or size"),
    ],
)
def test_board_without_the_claim_is_one_sentence(files: dict[str, bytes], why: str, tmp_path: Path) -> None:
    with served(files) as address, pytest.raises(InputError, match=why):
        fetch(f"{address}results/7f3a.html", tmp_path, said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "item",
    [
        {"path": "../../.bashrc"},
        {"path": "a\\b"},
        {"path": "a\0b"},
        {"sha256": None},
        {"bytes": 1 << 60},
        {"bytes": True},
    ],
)
def test_file_that_leads_out_or_has_no_size_is_refused(item: dict[str, Any], tmp_path: Path) -> None:
    """Nothing is written, not even the folder that it names."""
    files = [{"path": "acme/results/box1/toy_mini/result_0.txt", "sha256": "0" * 64, "bytes": 1, **item}]
    content = {"api/v1/submissions/7f3a/files": json.dumps({"files": files}).encode()}

    with served(content) as address, pytest.raises(InputError, match=r"file 1 of .* has no path, digest or size"):
        fetch(f"{address}results/7f3a.html", tmp_path / "claim", said)
    assert not (tmp_path / "claim").exists()


def test_file_that_is_not_the_one_that_the_board_states_is_refused(tree: Path, tmp_path: Path) -> None:
    """One letter of a log differs."""
    files = of_service(tree)
    log = next(name for name in files if name.endswith("result_0.txt"))
    files[log] = files[log].replace(b"A", b"B", 1)

    with served(files) as address, pytest.raises(DataError, match=r"result_0\.txt"):
        fetch(f"{address}results/7f3a.html", tmp_path, said)


def test_data_beyond_all_bounds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_MAX_BOARD_BYTES", 10)

    with served({"leaderboard.json": bytes(11)}) as address, pytest.raises(InputError, match="more than 10 bytes"):
        fetch(f"{address}{PAGE}", tmp_path, said)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/", "http://127.0.0.1:9/results/", "http://127.0.0.1:9/a.html"])
def test_address_of_no_page_of_a_result_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name the page of a result, …/results/NAME\.html"):
        fetch(address, tmp_path, said)


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"leaderboard\.json: cannot be downloaded: .*refused"):
        fetch("http://127.0.0.1:9/results/a.html", tmp_path, said)
