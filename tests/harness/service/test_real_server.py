"""The commands as a user types them, against a real server with a real result and the real rules."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from harness.reproduction.fetch import fetch
from harness.submission.result import find_results, read_result
from tests.harness.service.server import reference_result, serving

pytestmark = pytest.mark.slow


def test_a_real_result_is_submitted_checked_and_published(tmp_path: Path) -> None:
    """By `tta login`, `tta submit --to URL` and `tta status --watch`; a second time it is the same submission."""
    result = reference_result(tmp_path)
    with serving(tmp_path, "--no-review") as server:
        first = server.tta("submit", str(result), "--to", server.address)
        again = server.tta("submit", str(result), "--to", server.address)
        status = server.tta("status", str(result), "--watch", "--format", "json")
        listed = server.tta("status", "--to", server.address)

    assert first.returncode == 0, first.stderr
    assert "received as" in first.stdout
    assert again.stdout == first.stdout
    assert status.returncode == 0, status.stdout + status.stderr
    found = json.loads(status.stdout)
    assert found["state"] == "published"
    assert found["id"] in listed.stdout


def test_wrong_tokens_and_addresses_are_one_sentence(tmp_path: Path) -> None:
    """With status 2, and nothing is kept."""
    result = reference_result(tmp_path)
    with serving(tmp_path, "--no-review") as server:
        refused = server.tta("submit", str(result), "--to", server.address, token="tta_wrong")
        nobody = server.tta("submit", str(result), "--to", "http://127.0.0.1:9/")

    for done, why in ((refused, "unknown, revoked or expired"), (nobody, "Connection refused")):
        assert done.returncode == 2
        assert why in done.stderr
        assert "Traceback" not in done.stderr


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """What is submitted afterwards is checked all the same."""
    result = reference_result(tmp_path)
    with serving(tmp_path, "--no-review") as server:
        [worker] = psutil.Process(server.process.pid).children()
        worker.kill()
        sent = server.tta("submit", str(result), "--to", server.address)
        status = server.tta("status", str(result), "--watch", "--format", "json")

    assert sent.returncode == 0, sent.stderr
    assert json.loads(status.stdout)["state"] == "published"


def test_a_published_result_is_a_claim_by_the_address_of_its_page(tmp_path: Path) -> None:
    """`tta reproduce` gets from the service what was submitted: the same logs, with the system that made them."""
    result = reference_result(tmp_path)
    with serving(tmp_path, "--no-review") as server:
        server.tta("submit", str(result), "--to", server.address)
        status = server.tta("status", str(result), "--watch", "--format", "json")
        page = f"{server.address.rstrip('/')}/results/{json.loads(status.stdout)['id']}.html"
        folder = fetch(page, tmp_path / "claim", print)
        nobody = server.tta("reproduce", page.replace("/results/", "/results/x"))

    [found] = find_results(folder)
    assert read_result(found).runs_digest == read_result(result).runs_digest
    assert read_result(found).system == read_result(result).system
    assert nobody.returncode == 2
    assert "there is neither leaderboard.json nor a submission x" in nobody.stderr
